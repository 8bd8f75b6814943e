"""A check of somebody's own: one question to a host, and the rule that judges its answer."""

from maint.checks.check import WARN, Check, Verdict, good, warned
from maint.checks.facts import HostFacts

QUESTIONS = {"greeting_motd": "head -c 200 /etc/motd 2>/dev/null; true"}


@Check(
    id="greeting.motd", profiles="", severity=WARN, asks=("greeting_motd",), source="site",
    expected="/etc/motd greets", why="people who log in are to know where they are",
    remedy="echo hello > /etc/motd",
).host_rule  # fmt: skip
def motd(host: HostFacts) -> Verdict:
    """Judge greeting.motd."""
    said = host.text("greeting_motd").strip()
    return good(said) if "hello" in said else warned("/etc/motd greets nobody")
