"""`printf` and the escapes of `echo`."""

import re

from maint.lab.hosts.shell.arithmetic import BadArithmetic, number
from maint.lab.hosts.shell.call import Call, Failed
from maint.lab.hosts.shell.streams import decode, encode

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", "e": "\x1b"}
_DIRECTIVE = re.compile(r"%([-+ 0#]*)(\*|\d+)?(?:\.(\*|\d+)?)?([%a-zA-Z])")
_ESCAPE = re.compile(r"\\(0[0-7]{0,3}|[1-7][0-7]{0,2}|x[0-9a-fA-F]{1,2}|[abfnrtve\\\"'c])", re.DOTALL)


def unescaped(text: str, *, zero: bool) -> tuple[str, bool]:
    """Return a text with its escapes carried out, and whether `\\c` ended it.

    Args:
        zero: whether octal escapes begin with a zero (`echo`, `%b`) or not (formats).
    """
    done, at = "", 0
    for found in _ESCAPE.finditer(text):
        if found.start() < at:
            continue
        done += text[at : found.start()]
        code = found[1]
        at = found.end()
        if code == "c":
            return done, True
        done += _escaped(code, zero)
    return done + text[at:], False


def _escaped(code: str, zero: bool) -> str:
    if code[0] == "x":
        return "\\" + code
    if code[0].isdigit():
        digits = code[1:] if zero and code[0] == "0" else code[:3]
        rest = "" if zero and code[0] == "0" else code[3:]
        return decode(bytes([int(digits or "0", 8) & 255])) + rest
    return _SIMPLE.get(code, code if code in "\"'" and not zero else "\\" + code)


def echo(call: Call) -> int:
    """`echo` as sh has it: -n, and escapes."""
    args = call.args
    newline = args[:1] != ["-n"]
    text, cut = unescaped(" ".join(args if newline else args[1:]), zero=True)
    call.out(text + ("\n" if newline and not cut else ""))
    return 0


def printf(call: Call) -> int:
    """`printf FORMAT [ARGUMENT…]`."""
    args = call.args[1:] if call.args[:1] == ["--"] else call.args
    if not args:
        raise Failed("usage: printf format [arg ...]", 2)
    work = _Printf(call, list(args[1:]))
    while not work.round(args[0]) and work.arguments and work.used:
        work.used = False
    return work.status


class _Printf:
    def __init__(self, call: Call, arguments: list[str]) -> None:
        self._call, self.arguments = call, arguments
        self.used, self.status = False, 0

    def round(self, text: str) -> bool:
        """Print the format once; return whether `\\c` ended all output."""
        done, at = "", 0
        for found in _DIRECTIVE.finditer(text):
            done += unescaped(text[at : found.start()], zero=False)[0]
            at = found.end()
            piece, over = self._directive(found)
            done += piece
            if over:
                self._call.out(done)
                return True
        rest, over = unescaped(text[at:], zero=False)
        self._call.out(done + rest)
        return over

    def _next(self) -> str | None:
        self.used = True
        return self.arguments.pop(0) if self.arguments else None

    def _directive(self, found: "re.Match[str]") -> tuple[str, bool]:
        flags, width, precision, kind = found[1], found[2] or "", found[3], found[4]
        if kind == "%":
            return "%", False
        width = self._next() or "0" if width == "*" else width
        precision = self._next() or "0" if precision == "*" else precision
        dot = "." + (precision or "0") if "." in found[0] else ""
        if kind in "sbc":
            value, over = self._text(kind)
            return f"%{flags.replace('0', '')}{width}{dot}s" % value, over
        if kind in "diouxX":
            return f"%{flags}{width}{dot}{'d' if kind == 'u' else kind}" % self._integer(), False
        if kind in "feEgG":
            return f"%{flags}{width}{dot}{kind}" % float(self._next() or 0), False
        raise Failed(f"%{kind}: invalid directive", 2)

    def _text(self, kind: str) -> tuple[str, bool]:
        value = self._next() or ""
        if kind == "b":
            return unescaped(value, zero=True)
        return (value[:1] if kind == "c" else value), False

    def _integer(self) -> int:
        text = self._next() or "0"
        if text[0] in "\"'":
            return ord(text[1:2] or "\0") if len(encode(text[1:2])) == 1 else encode(text[1:2])[0]
        try:
            return number(text)
        except BadArithmetic:
            self._call.say(f"{text}: expected numeric value")
            self.status = 1
            start = re.match(r"\s*[-+]?\d+", text)
            return int(start[0]) if start else 0
