"""sed: the commands s, p and d, each for a line, a range of lines or all."""

import re
from collections.abc import Callable

import msgspec

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, lines_of
from maint.lab.hosts.shell.commands.search import compiled
from maint.lab.hosts.shell.state import encode

_LAST = 1 << 62
_ADDRESS = re.compile(r"(?:(\d+|\$)(?:,(\d+|\$))?)?[ \t]*([^\s;])")


class _Step(msgspec.Struct, frozen=True):
    """A command for lines from `first` to `last`; `change` returns a text and whether it changed."""

    first: int
    last: int
    name: str
    change: Callable[[str], tuple[str, bool]] | None = None
    printing: bool = False


def sed(call: Call) -> int:
    """`sed [-n] [-i] [-e SCRIPT]… [SCRIPT] [FILE…]`."""
    options = call.options("nie:")
    operands = list(options.operands)
    scripts = options.all("e") or ([operands.pop(0)] if operands else [])
    if not scripts:
        raise Failed("no script specified")
    steps, quiet = _parsed("\n".join(scripts)), "n" in options
    if "i" not in options:
        content, failed = call.content(operands)
        call.stdout.write(_edited(steps, content, quiet))
        return 2 if failed else 0
    return call.each(
        operands,
        lambda operand: call.files.write(
            call.path(operand), _edited(steps, call.files.read(call.path(operand)), quiet)
        ),
    )


def _parsed(script: str) -> list[_Step]:
    found, at = list[_Step](), 0
    while at < len(script):
        if script[at] in " \t\n;":
            at += 1
            continue
        head = _ADDRESS.match(script, at)
        if not head or head[3] not in "spd":
            raise NotSimulated(f"command {script[at:]!r}")
        first = _number(head[1]) if head[1] else 1
        last = _number(head[2]) if head[2] else first if head[1] else _LAST
        at = head.end()
        if head[3] == "s":
            at, change, printing = _substitution(script, at)
            found.append(_Step(first, last, "s", change, printing))
        else:
            found.append(_Step(first, last, head[3]))
    return found


def _number(text: str) -> int:
    return _LAST if text == "$" else int(text)


def _substitution(script: str, at: int) -> tuple[int, Callable[[str], tuple[str, bool]], bool]:
    mark = re.escape(script[at : at + 1])
    part = rf"((?:\\.|(?!{mark}).)*){mark}"
    found = re.compile(rf"{mark}{part}{part}([gp]*)", re.DOTALL).match(script, at) if mark else None
    if not found:
        raise Failed("unterminated `s' command")
    regex, replacement, every = compiled(found[1].replace("\\" + script[at], script[at])), found[2], "g" in found[3]

    def filled(match: "re.Match[str]") -> str:
        return re.sub(
            r"\\.|&",
            lambda piece: match[0] if piece[0] == "&" else match[int(c)] or "" if (c := piece[0][1]).isdigit() else c,
            replacement,
        )

    def change(text: str) -> tuple[str, bool]:
        changed, count = regex.subn(filled, text, 0 if every else 1)
        return changed, count > 0

    return found.end(), change, "p" in found[3]


def _edited(steps: list[_Step], data: bytes, quiet: bool) -> bytes:
    lines, out = lines_of(data), list[str]()
    for number, line in enumerate(lines, 1):
        text, deleted = line, False
        for step in steps:
            # `$` is the last line; as the end of a range it is beyond all others
            here = len(lines) if step.first == _LAST else step.first
            if not here <= number <= max(step.last, here):
                continue
            if step.name == "d":
                deleted = True
                break
            changed = True
            if step.change:
                text, changed = step.change(text)
            if changed and (step.printing or step.name == "p"):
                out.append(text)
        if not deleted and not quiet:
            out.append(text)
    joined = "".join(line + "\n" for line in out)
    return encode(joined if data.endswith(b"\n") or not data else joined.removesuffix("\n"))
