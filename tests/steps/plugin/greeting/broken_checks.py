"""Checks that go wrong in every way, chosen by what the host says."""

from collections.abc import Mapping
from typing import Any

from maint.checks.check import WARN, Check, Verdict, good
from maint.checks.facts import HostFacts, SiteFacts

QUESTIONS = {"greeting_motd": "cat /etc/motd; true"}
ABOUT: dict[str, Any] = {
    "profiles": "", "severity": WARN, "asks": ("greeting_motd",), "source": "site", "expected": "X", "why": "Y",
    "remedy": "true",
}  # fmt: skip


@Check(id="greeting.host", **ABOUT).host_rule
def host(host: HostFacts) -> Verdict:
    """Judge greeting.host."""
    return go_wrong(host.text("greeting_motd").strip())


@Check(id="greeting.all", **ABOUT).cross_rule
def all_(site: SiteFacts) -> Mapping[str, Verdict]:
    """Judge greeting.all."""
    return {host.name: go_wrong(host.text("greeting_motd").strip()) for host in site.hosts}


def go_wrong(how: str) -> Verdict:
    """Go wrong as it is said."""
    match how:
        case "raise":
            raise RuntimeError("hunter2")
        case "read":
            raise ValueError("hunter2")
        case "leave":
            raise SystemExit(3)
        case "nothing":
            return None  # type: ignore[return-value]
        case _:
            return good(how)
