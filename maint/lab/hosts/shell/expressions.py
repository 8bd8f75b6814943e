"""The expressions of `test` and `[`, and those of `$((…))`."""

import operator
import re
from collections.abc import Callable, Mapping

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.state import ShellFailure

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {"=": operator.eq, "!=": operator.ne}
_TOKEN = re.compile(r"\s*(\d+|[A-Za-z_]\w*|[-+*/%()])")
_RANKS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": lambda a, b: int(a / b), "%": lambda a, b: a - b * int(a / b)},
)


def condition(call: Call) -> int:
    """Carry out `test` or `[`: one comparison or question, perhaps after `!`."""
    args = list(call.args)
    if call.name == "[" and (not args or args.pop() != "]"):
        raise Failed("missing ]", 2)
    if len(args) == 3 and (args[1] in _NUMBERS or args[1] in _TEXTS):
        return int(not _compared(*args))
    wanted = True
    while args[:1] == ["!"] and len(args) > 1:
        wanted, args = not wanted, args[1:]
    if len(args) == 3 and (args[1] in _NUMBERS or args[1] in _TEXTS):
        found = _compared(*args)
    elif len(args) == 2:
        found = _asked(call, args[0], args[1])
    elif len(args) < 2:
        found = bool(args and args[0])
    else:
        raise NotSimulated(" ".join(args))
    return int(found != wanted)


def _compared(left: str, sign: str, right: str) -> bool:
    if sign in _TEXTS:
        return _TEXTS[sign](left, right)
    for text in (left, right):
        if not re.fullmatch(r"\s*[-+]?\d+\s*", text):
            raise Failed(f"Illegal number: {text}", 2)
    return _NUMBERS[sign](int(left), int(right))


def _asked(call: Call, sign: str, operand: str) -> bool:
    if sign in ("-n", "-z"):
        return bool(operand) == (sign == "-n")
    if sign not in ("-e", "-f", "-d", "-L", "-s", "-r", "-w", "-x"):
        raise NotSimulated(f"{sign} {operand}")
    try:
        entry = call.files.entry(call.path(operand), follow=sign != "-L")
    except OSError:
        return False
    answers = {"-f": entry.is_file, "-d": entry.is_folder, "-L": entry.is_link, "-s": entry.size > 0}
    answers["-x"] = entry.is_folder or bool(entry.mode & 0o111)
    return bool(operand) and answers.get(sign, True)  # root may read and write everything


def evaluate(expression: str, variables: Mapping[str, str]) -> int:
    """Return the value of whole numbers and variables under + - * / % and brackets; else ShellFailure."""
    tokens, at = list[str](), 0
    while expression[at:].strip():
        found = _TOKEN.match(expression, at)
        if not found:
            raise ShellFailure(f"arithmetic expression: {expression!r}: not simulated on a lab host")
        tokens.append(found[1])
        at = found.end()

    def value(rank: int) -> int:
        if rank == len(_RANKS):
            token = tokens.pop(0) if tokens else ""
            if token == "(":
                inner = value(0)
                if tokens[:1] != [")"]:
                    raise ShellFailure(f'arithmetic expression: expecting ")": "{expression}"')
                tokens.pop(0)
                return inner
            text = token if token.isdigit() else variables.get(token, "0") if token.isidentifier() else ""
            if not re.fullmatch(r"-?\d+", text):
                raise ShellFailure(f'arithmetic expression: expecting primary: "{expression}"')
            return int(text)
        left = value(rank + 1)
        while tokens and tokens[0] in _RANKS[rank]:
            sign = tokens.pop(0)
            right = value(rank + 1)
            if sign in "/%" and right == 0:
                raise ShellFailure(f'arithmetic expression: division by zero: "{expression}"')
            left = _RANKS[rank][sign](left, right)
        return left

    result = value(0) if tokens else 0
    if tokens:
        raise ShellFailure(f'arithmetic expression: expecting EOF: "{expression}"')
    return result
