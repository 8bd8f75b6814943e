"""Commands that are part of the shell, because they change it."""

import re

from maint.lab.hosts.shell.call import Call, Command, Failed, NotSimulated
from maint.lab.hosts.shell.condition import condition
from maint.lab.hosts.shell.formatting import echo, printf
from maint.lab.hosts.shell.source import Source
from maint.lab.hosts.shell.state import Leave, Loop, Return, ShellFailure
from maint.lab.hosts.shell.streams import decode, encode
from maint.lab.hosts.shell.words import NAME

_OPTIONS = {
    "errexit": "e",
    "nounset": "u",
    "xtrace": "x",
    "noglob": "f",
    "allexport": "a",
    "noclobber": "C",
    "pipefail": "pipefail",
}


def _status(call: Call) -> int:
    if not call.args:
        return call.state.status
    if not call.args[0].isdigit():
        raise ShellFailure(f"{call.name}: Illegal number: {call.args[0]}")
    return int(call.args[0]) & 255


def _exit(call: Call) -> int:
    raise Leave(_status(call))


def _return(call: Call) -> int:
    raise Return(_status(call))


def _break(call: Call) -> int:
    raise Loop(call.name == "continue", int(call.args[0]) if call.args else 1)


def _cd(call: Call) -> int:
    args = [a for a in call.args if a not in ("--", "-P", "-L")]
    state = call.state
    target = args[0] if args else state.variables.get("HOME", "/")
    shown = target == "-"
    target = state.variables.get("OLDPWD", state.cwd) if shown else target
    try:
        entry = call.files.entry(state.path(target))
    except OSError:
        entry = None
    if entry is None or not entry.is_folder:
        raise Failed(f"can't cd to {target}", 2)
    state.variables["OLDPWD"], state.cwd = state.cwd, entry.path
    state.variables["PWD"] = state.cwd
    if shown:
        call.out(state.cwd + "\n")
    return 0


def _pwd(call: Call) -> int:
    call.out(call.state.cwd + "\n")
    return 0


def _export(call: Call) -> int:
    marked = call.state.exported if call.name == "export" else call.state.readonly
    names = [arg for arg in call.args if arg not in ("-p", "--")]
    for arg in names:
        name, equals, value = arg.partition("=")
        if not NAME.fullmatch(name):
            raise ShellFailure(f"{call.name}: {name}: bad variable name")
        if equals:
            call.state.assign(name, value)
        marked.add(name)
    for name in sorted(marked) if not names else ():
        if name in call.state.variables:
            call.out(f"{call.name} {name}={_quoted(call.state.variables[name])}\n")
    return 0


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _unset(call: Call) -> int:
    options = call.options("fv")
    for name in options.operands:
        if name in call.state.readonly:
            raise ShellFailure(f"unset: {name}: is read only")
        if "f" in options:
            call.state.functions.pop(name, None)
        else:
            call.state.variables.pop(name, None)
            call.state.exported.discard(name)
    return 0


def _local(call: Call) -> int:
    if not call.state.locals:
        raise ShellFailure("local: not in a function")
    for arg in call.args:
        name, equals, value = arg.partition("=")
        call.state.locals[-1].setdefault(name, call.state.variables.get(name))
        if equals:
            call.state.assign(name, value)
    return 0


def _set(call: Call) -> int:
    args = list(call.args)
    if not args:
        for name, value in sorted(call.state.variables.items()):
            call.out(f"{name}={_quoted(value)}\n")
    while args:
        arg = args.pop(0)
        if arg in ("--", "-"):
            call.state.positional = args
            break
        if arg[:1] not in ("-", "+") or len(arg) == 1:
            call.state.positional = [arg, *args]
            break
        for letter in arg[1:]:
            _switch(call, arg[0] == "-", _long_option(args) if letter == "o" else letter)
    return 0


def _long_option(args: list[str]) -> str:
    name = args.pop(0) if args else ""
    if name not in _OPTIONS:
        raise ShellFailure(f"set: Illegal option -o {name}")
    return _OPTIONS[name]


def _switch(call: Call, on: bool, option: str) -> None:
    if option not in _OPTIONS.values():
        raise ShellFailure(f"set: Illegal option -{option}")
    (call.state.options.add if on else call.state.options.discard)(option)


def _shift(call: Call) -> int:
    count = int(call.args[0]) if call.args else 1
    if count > len(call.state.positional):
        raise ShellFailure("shift: can't shift that many")
    del call.state.positional[:count]
    return 0


def _eval(call: Call) -> int:
    before = call.state.status
    call.state.status = 0
    text = " ".join(call.args)
    if not text.strip():
        return 0
    call.state.status = before
    call.runner.lines(Source(text))
    return call.state.status


def _source(call: Call) -> int:
    if not call.args:
        raise ShellFailure(".: filename argument required")
    name = call.args[0]
    found = name if "/" in name else call.runner.which(name)
    try:
        text = decode(call.files.read(call.path(found or name)))
    except OSError:
        raise ShellFailure(f".: cannot open {name}: No such file") from None
    call.state.status = 0
    try:
        call.runner.lines(Source(text))
    except Return as returning:
        return returning.status
    return call.state.status


def _exec(call: Call) -> int:
    if not call.args:
        return 0
    raise Leave(call.runner.call(call.args, functions=False))


def _command(call: Call) -> int:
    args = list(call.args)
    if args[:1] in (["-v"], ["-V"]):
        return _where(call, args[1:])
    while args[:1] in (["-p"], ["--"]):
        args.pop(0)
    return call.runner.call(args, functions=False) if args else 0


def _where(call: Call, names: list[str]) -> int:
    status = 0
    for name in names:
        inside = name in BUILTINS or name in call.state.functions
        path = name if inside else call.runner.which(name)
        if path is None:
            status = 127
        else:
            call.out(path + "\n")
    return status


def _type(call: Call) -> int:
    status = 0
    for name in call.args:
        path = call.runner.which(name)
        kind = "a shell function" if name in call.state.functions else "a shell builtin" if name in BUILTINS else path
        call.out(f"{name} is {kind}\n" if kind else f"{name}: not found\n")
        status = status if kind else 127
    return status


def _read(call: Call) -> int:
    options = call.options("r", "p", mixed=False)
    line, whole = b"", False
    while True:
        part = call.stdin.readline()
        whole = part.endswith(b"\n")
        line += part.removesuffix(b"\n")
        if "r" in options or not whole or not _continued(line):
            break
        line = line[:-1]
    names = options.operands or ["REPLY"]
    for name, value in zip(names, _fields(call, decode(line), len(names), "r" not in options), strict=True):
        call.state.assign(name, value)
    return 0 if whole else 1


def _continued(line: bytes) -> bool:
    return (len(line) - len(line.rstrip(b"\\"))) % 2 == 1


def _fields(call: Call, line: str, count: int, escapes: bool) -> list[str]:
    separators = call.state.variables.get("IFS", " \t\n")
    blank = "".join(c for c in separators if c in " \t\n")
    chars = re.findall(r"\\.|." if escapes else ".", line, re.DOTALL)
    values: list[str] = []
    while chars and chars[0] in blank and chars[0]:
        chars.pop(0)
    while len(values) < count - 1 and chars:
        values.append(_one_field(chars, separators, blank))
    while chars and blank and chars[-1] in blank:
        chars.pop()
    last = "".join(c[-1] for c in chars)
    if len(chars) > 1 and chars[-1] in separators and not any(c in separators for c in chars[:-1]):
        last = last[:-1]
    values.append(last)
    return [*values, *[""] * (count - len(values))][:count]


def _one_field(chars: list[str], separators: str, blank: str) -> str:
    value = ""
    while chars and chars[0] not in separators:
        value += chars.pop(0)[-1]
    while chars and chars[0] in blank:
        chars.pop(0)
    if chars and chars[0] in separators:
        chars.pop(0)
        while chars and chars[0] in blank:
            chars.pop(0)
    return value


def _trap(call: Call) -> int:
    args = call.args[1:] if call.args[:1] == ["--"] else call.args
    if not args:
        for name, action in call.state.traps.items():
            call.out(f"trap -- {_quoted(action)} {name}\n")
        return 0
    action, signals = (args[0], args[1:]) if len(args) > 1 else ("-", args)
    for signal in signals:
        name = "EXIT" if signal == "0" else signal.removeprefix("SIG")
        if action == "-":
            call.state.traps.pop(name, None)
        else:
            call.state.traps[name] = action
            if name == "HUP" and not action:  # it goes on when its connection is lost
                call.state.life = call.state.life.detached()
    return 0


def _umask(call: Call) -> int:
    if not call.args:
        call.out(f"{call.state.umask:04o}\n")
        return 0
    if not re.fullmatch("[0-7]{1,4}", call.args[0]):
        raise NotSimulated(f"mask {call.args[0]}")
    call.state.umask = int(call.args[0], 8)
    return 0


def _ulimit(call: Call) -> int:
    flags = "".join(arg[1:] for arg in call.args if arg.startswith("-"))
    if [arg for arg in call.args if not arg.startswith("-")]:
        return 0
    kind = flags.replace("S", "").replace("H", "") or "f"
    if kind not in ("n", "u", "f", "c"):
        raise NotSimulated(f"option -{kind}")
    call.out({"n": call.machine.fact("nofile"), "u": call.machine.fact("nproc_limit")}.get(kind, "unlimited") + "\n")
    return 0


def _getopts(call: Call) -> int:
    specification, name = call.args[0], call.args[1]
    args = call.args[2:] or call.state.positional
    place = int(call.state.variables.get("OPTIND", "1"))
    offset = int(call.state.variables.get("_OPTOFFSET", "1"))
    arg = args[place - 1] if place <= len(args) else ""
    if len(arg) < 2 or arg[0] != "-" or arg == "--":
        call.state.variables.update({name: "?", "OPTIND": str(place + (arg == "--"))})
        return 1
    letter, rest = arg[offset], arg[offset + 1 :]
    place, offset = (place, offset + 1) if rest else (place + 1, 1)
    at = specification.find(letter) if letter != ":" else -1
    if at >= 0 and specification[at + 1 : at + 2] == ":":
        value = rest or (args[place - 1] if place <= len(args) else None)
        place, offset = place + (not rest), 1
        call.state.variables["OPTARG"] = value or ""
        letter = letter if value is not None else "?"
    elif at < 0:
        if not specification.startswith(":"):
            call.stderr.write(encode(f"Illegal option -{letter}\n"))
        call.state.variables["OPTARG"] = letter
        letter = "?"
    call.state.variables.update({name: letter, "OPTIND": str(place), "_OPTOFFSET": str(offset)})
    return 0


def _nothing(call: Call) -> int:
    del call
    return 0


def _fail(call: Call) -> int:
    del call
    return 1


SPECIAL = frozenset(
    [
        ":",
        ".",
        "break",
        "continue",
        "eval",
        "exec",
        "exit",
        "export",
        "readonly",
        "return",
        "set",
        "shift",
        "trap",
        "unset",
    ]
)

BUILTINS: dict[str, Command] = {
    ":": _nothing,
    ".": _source,
    "[": condition,
    "break": _break,
    "cd": _cd,
    "command": _command,
    "continue": _break,
    "echo": echo,
    "eval": _eval,
    "exec": _exec,
    "exit": _exit,
    "export": _export,
    "false": _fail,
    "getopts": _getopts,
    "hash": _nothing,
    "local": _local,
    "printf": printf,
    "pwd": _pwd,
    "read": _read,
    "readonly": _export,
    "return": _return,
    "set": _set,
    "shift": _shift,
    "test": condition,
    "trap": _trap,
    "true": _nothing,
    "type": _type,
    "ulimit": _ulimit,
    "umask": _umask,
    "unset": _unset,
    "wait": _nothing,
}
