"""All questions to a host in one shell script, and its framed answer."""

import re
from collections.abc import Iterable, Mapping

import msgspec

from maint.checks.facts import Answered
from maint.render import from_file

FORMAT = 1
_VALUES = ("domain", "peers", "endpoints", "authorities", "folders", "repository", "ou", "ldap")  # `$maint_NAME`
_LIMIT = 20  # seconds that a question may take which is known to hang at times
_MOST = 1_000_000  # characters of one answer
_WORDS = 300  # characters of what a command says on its error output


class Framed(msgspec.Struct, frozen=True):
    """What a host's answer held."""

    answers: Mapping[str, Answered]  # by question, those that came whole
    reason: str  # why not all came, "" where they did
    before: str  # printed before the answer began, such as a login banner


def script(questions: Mapping[str, str], values: Mapping[str, str], token: str) -> bytes:
    """Return the script that asks questions; a random token marks answers: no output is taken for a mark."""
    filled = {name: values.get(name, "") for name in _VALUES}
    text = from_file(
        "host-facts.sh.j2",
        {"questions": questions, "values": filled, "token": token, "format": FORMAT, "limit": _LIMIT},
    )
    return text.encode()


def parse(out: bytes, token: str, asked: Iterable[str]) -> Framed:
    """Return the answers that a host's output holds, whatever stands around them."""
    text = out.decode("utf-8", "replace").replace("\r\n", "\n")
    before, begun, rest = text.partition(f"{token} begin ")
    if not begun:
        words = " ".join(text.split())[:120]
        return Framed({}, f"no answer began; it printed {words!r}" if words else "no answer began", words)
    version, _, rest = rest.partition("\n")
    if version.strip() != str(FORMAT):
        return Framed({}, f"the answer has format {version[:20]!r}, not {FORMAT}", before.strip())
    answers = dict(_frames(rest, token))
    missing = [name for name in asked if name not in answers]
    whole = re.search(rf"^{re.escape(token)} done \d+$", rest, re.MULTILINE)
    reason = (
        "" if whole and not missing else f"the answer broke off after {len(answers)} of {len(answers) + len(missing)}"
    )
    return Framed(answers, reason, " ".join(before.split()))


def _frames(text: str, token: str) -> Iterable[tuple[str, Answered]]:
    for block in text.split(f"{token} ask ")[1:]:
        name, _, rest = block.partition("\n")
        shown, ended, status = rest.partition(f"\n{token} end ")
        word = status.partition("\n")[0]
        if ended and "\n" in status and word.isdigit():
            out, _, words = f"\n{shown}".partition(f"\n{token} said ")
            yield name, Answered(int(word), out[1:][:_MOST], " ".join(words.split())[-_WORDS:])
