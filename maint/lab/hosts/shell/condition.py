"""The expressions of `test` and `[`."""

import stat
from collections.abc import Callable

from maint.lab.hosts.shell.access import may
from maint.lab.hosts.shell.call import Call, Failed
from maint.lab.hosts.shell.tree import Entry

_KINDS = {
    "f": stat.S_IFREG,
    "d": stat.S_IFDIR,
    "b": stat.S_IFBLK,
    "c": stat.S_IFCHR,
    "p": stat.S_IFIFO,
    "S": stat.S_IFSOCK,
}
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda a, b: a == b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
}
_FILES = ("-nt", "-ot", "-ef")
_UNARY = frozenset("-" + letter for letter in "bcdefghkLnprsStuwxzO")


def condition(call: Call) -> int:
    """Carry out `test` or `[`."""
    args = list(call.args)
    if call.name == "[" and (not args or args.pop() != "]"):
        raise Failed("missing ]", 2)
    return 0 if _Condition(call, args).holds() else 1


class _Condition:
    def __init__(self, call: Call, args: list[str]) -> None:
        self._call, self._args = call, args

    def holds(self) -> bool:
        args = self._args
        if len(args) <= 3 and (short := self._short(args)) is not None:
            return short
        result = self._either()
        if self._args:
            raise Failed(f"{self._args[0]}: unexpected operator", 2)
        return result

    def _short(self, args: list[str]) -> bool | None:
        """Answer by the number of arguments, as POSIX wants it."""
        if len(args) <= 1:
            return bool(args and args[0])
        if len(args) == 3 and self._is_binary(args[1]):
            return self._binary(*args)
        if args[0] == "!" and len(args) in (2, 3):
            inner = self._short(args[1:])
            return None if inner is None else not inner
        if len(args) == 2 and args[0] in _UNARY:
            return self._unary(args[0], args[1])
        return None

    @staticmethod
    def _is_binary(word: str) -> bool:
        return word in _NUMBERS or word in _TEXTS or word in _FILES

    def _either(self) -> bool:
        result = self._both()
        while self._args[:1] == ["-o"]:
            self._args.pop(0)
            result = self._both() or result
        return result

    def _both(self) -> bool:
        result = self._negation()
        while self._args[:1] == ["-a"]:
            self._args.pop(0)
            result = self._negation() and result
        return result

    def _negation(self) -> bool:
        args = self._args
        if not args:
            raise Failed("argument expected", 2)
        if args[0] == "!" and len(args) > 1:
            args.pop(0)
            return not self._negation()
        if args[0] == "(":
            args.pop(0)
            result = self._either()
            if args[:1] != [")"]:
                raise Failed("closing paren expected", 2)
            args.pop(0)
            return result
        if len(args) >= 3 and self._is_binary(args[1]):
            return self._binary(args.pop(0), args.pop(0), args.pop(0))
        if args[0] in _UNARY and len(args) > 1:
            return self._unary(args.pop(0), args.pop(0))
        return bool(args.pop(0))

    def _binary(self, left: str, operator: str, right: str) -> bool:
        if operator in _NUMBERS:
            return _NUMBERS[operator](_integer(left), _integer(right))
        if operator in _TEXTS:
            return _TEXTS[operator](left, right)
        one, other = self._entry(left), self._entry(right)
        if operator == "-ef":
            return one is not None and other is not None and one.path == other.path
        if operator == "-ot":
            one, other = other, one
        return one is not None and (other is None or one.mtime > other.mtime)

    def _entry(self, path: str, *, follow: bool = True) -> Entry | None:
        try:
            return self._call.files.entry(self._call.path(path), follow=follow) if path else None
        except OSError:
            return None

    def _unary(self, operator: str, operand: str) -> bool:
        letter = operator[1]
        if letter in "nz":
            return bool(operand) == (letter == "n")
        if letter == "t":
            return False
        entry = self._entry(operand, follow=letter not in "hL")
        if entry is None:
            return False
        if letter in _KINDS:
            return entry.kind == _KINDS[letter]
        if letter in "rwx":
            return may(self._call.state.user, entry, letter)
        return {
            "e": True,
            "h": entry.is_link,
            "L": entry.is_link,
            "s": entry.size > 0,
            "u": bool(entry.mode & stat.S_ISUID),
            "g": bool(entry.mode & stat.S_ISGID),
            "k": bool(entry.mode & stat.S_ISVTX),
            "O": entry.user == self._call.state.user,
        }[letter]


def _integer(text: str) -> int:
    try:
        return int(text.strip(), 10)
    except ValueError:
        raise Failed(f"Illegal number: {text}", 2) from None
