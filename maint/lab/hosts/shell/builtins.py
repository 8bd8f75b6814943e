"""Commands that are part of the shell, because they change it, and test, echo and printf, which it brings along."""

import operator
import re
from collections.abc import Callable

from maint.lab.hosts.shell.call import Call, Command, Failed, NotSimulated
from maint.lab.hosts.shell.parser import NAME
from maint.lab.hosts.shell.state import Leave, Loop, ShellFailure, decode

_ESCAPE = re.compile(r"\\(0[0-7]{0,3}|[1-7][0-7]{0,2}|[nrt\\])")
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {"=": operator.eq, "!=": operator.ne}
_NAMED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}


def _exit(call: Call) -> int:
    status = call.args[0] if call.args else str(call.state.status)
    if not status.isdigit():
        raise ShellFailure(f"exit: Illegal number: {status}")
    raise Leave(int(status) & 255)


def _break(call: Call) -> int:
    if call.args:
        raise NotSimulated("out of more than one loop")
    raise Loop(call.name == "continue")


def _cd(call: Call) -> int:
    state = call.state
    target = call.args[0] if call.args else state.variables.get("HOME", "/")
    path = call.path(target)
    if not call.files.exists(path) or not (entry := call.files.entry(path)).is_folder:
        raise Failed(f"can't cd to {target}", 2)
    state.cwd = state.variables["PWD"] = entry.path
    return 0


def _export(call: Call) -> int:
    for arg in call.args:
        name, equals, value = arg.partition("=")
        if not NAME.fullmatch(name):
            raise ShellFailure(f"export: {name}: bad variable name")
        if equals:
            call.state.variables[name] = value
        call.state.exported.add(name)
    return 0


def _set(call: Call) -> int:
    for arg in call.args:
        if not re.fullmatch("[-+][euC]+", arg):
            raise ShellFailure(f"set: {arg}: not simulated on a lab host")
        (call.state.options.update if arg[0] == "-" else call.state.options.difference_update)(arg[1:])
    return 0


def _exec(call: Call) -> int:
    """Become another command; without one, only the redirections stay."""
    if not call.args:
        return 0
    raise Leave(call.runner.call(call.args, functions=False))


def _command(call: Call) -> int:
    if call.args[:1] != ["-v"]:
        raise NotSimulated("anything but -v")
    status = 0
    for name in call.args[1:]:
        inside = name in BUILTINS or name in call.state.functions
        path = name if inside else call.runner.which(name)
        if path is None:
            status = 127
        else:
            call.out(path + "\n")
    return status


def _read(call: Call) -> int:
    """`read -r [NAME…]`: words of a line; all of it, blanks included, where IFS is empty."""
    options = call.options("r", mixed=False)
    separators, names = call.state.variables.get("IFS"), options.operands or ["REPLY"]
    if "r" not in options or separators not in ("", " \t\n"):
        raise NotSimulated("read without -r, or with separators of its own")
    line = decode(call.stdin.readline())
    text = line.removesuffix("\n")
    values = [text] if not separators else text.strip(" \t").split(None, len(names) - 1)
    for place, name in enumerate(names):
        call.state.variables[name] = values[place] if place < len(values) else ""
    return 0 if line.endswith("\n") else 1


def _trap(call: Call) -> int:
    if len(call.args) < 2:
        raise NotSimulated("trap without an action and a signal")
    action, *signals = call.args
    if action == "-":
        raise NotSimulated("taking a trap back")
    call.state.traps |= dict.fromkeys(signals, action)
    if "HUP" in signals and not action:  # it goes on when its connection is lost
        call.state.lifetime = call.state.lifetime.detached()
    return 0


def _umask(call: Call) -> int:
    if not call.args:
        call.out(f"{call.state.umask:04o}\n")
        return 0
    if not re.fullmatch("[0-7]{1,4}", call.args[0]):
        raise NotSimulated(f"mask {call.args[0]}")
    call.state.umask = int(call.args[0], 8)
    return 0


def echo(call: Call) -> int:
    """`echo` as sh has it: -n, and escapes."""
    bare = call.args[:1] == ["-n"]
    call.out(_unescaped(" ".join(call.args[bare:])) + ("" if bare else "\n"))
    return 0


def _unescaped(text: str) -> str:
    """Return a text with its escapes carried out."""
    if "\\c" in text:
        raise NotSimulated("the escape \\c")

    def one(found: "re.Match[str]") -> str:
        code = found[1]
        return _NAMED[code] if code in _NAMED else decode(bytes([int(code, 8) & 255]))

    return _ESCAPE.sub(one, text)


def printf(call: Call) -> int:
    """`printf FORMAT [ARGUMENT…]`, where the format knows %s and %%; it is used again while there are arguments."""
    if not call.args:
        raise Failed("usage: printf format [arg ...]", 2)
    form, arguments = call.args[0], call.args[1:]
    if unknown := [kind for kind in re.findall("%(.?)", form) if kind not in ("s", "%")]:
        raise NotSimulated(f"directive %{unknown[0]}")
    pieces, done = re.split("(%[s%])", form), ""
    while True:
        for piece in pieces:
            if piece == "%s":
                done += arguments.pop(0) if arguments else ""
            else:
                done += "%" if piece == "%%" else _unescaped(piece)
        if not arguments or "%s" not in pieces:
            break
    call.out(done)
    return 0


def _succeed(call: Call) -> int:
    del call
    return 0


def _fail(call: Call) -> int:
    del call
    return 1


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


SPECIAL = frozenset([":", "break", "continue", "exec", "exit", "export", "set", "trap"])

BUILTINS: dict[str, Command] = {
    ":": _succeed,
    "[": condition,
    "break": _break,
    "cd": _cd,
    "command": _command,
    "continue": _break,
    "echo": echo,
    "exec": _exec,
    "exit": _exit,
    "export": _export,
    "false": _fail,
    "printf": printf,
    "read": _read,
    "set": _set,
    "test": condition,
    "trap": _trap,
    "true": _succeed,
    "umask": _umask,
}
