"""sh, sudo, env, timeout, nohup, nice, xargs: commands that run commands."""

import re
import shlex
import time

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.commands.modes import known_as
from maint.lab.hosts.shell.state import State
from maint.lab.hosts.shell.streams import Killed, Pipe, decode

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def _fresh(call: Call) -> State:
    state = call.state.copy()
    state.variables = {"IFS": " \t\n", "OPTIND": "1", **call.state.environment()}
    state.functions, state.options, state.positional = {}, set(), []
    state.locals = []
    state.name = call.name.rsplit("/", 1)[-1]
    return state


def sh(call: Call) -> int:
    """`sh [-eux] -c SCRIPT [NAME ARG…]`, `sh -s [ARG…]`, `sh FILE [ARG…]`, `sh` with the script on standard input."""
    state, args = _fresh(call), list(call.args)
    script = from_input = False
    while args and args[0][:1] in "-+" and len(args[0]) > 1 and args[0] != "--":
        arg = args.pop(0)
        if arg in ("--noprofile", "--norc", "--posix", "--login"):
            continue
        for letter in arg[1:]:
            script, from_input = script or letter == "c", from_input or letter == "s"
            if letter == "o" and args:
                _named(state, args.pop(0))
            elif letter in "euxf":
                state.options.add(letter)
            elif letter not in "csl":
                raise NotSimulated(f"option {arg}")
    args = args[1:] if args[:1] == ["--"] else args
    if script:
        if not args:
            raise Failed("-c requires an argument", 2)
        state.name, state.positional = (args[1] if len(args) > 1 else state.name), args[2:]
        return call.runner.run_script(args[0], state)
    if from_input or not args:
        state.positional = args
        return call.runner.run_stream(call.stdin, state)
    return _file(call, state, args)


def _named(state: State, option: str) -> None:
    if option not in ("pipefail", "errexit", "nounset"):
        raise NotSimulated(f"option -o {option}")
    state.options.add({"errexit": "e", "nounset": "u"}.get(option, option))


def _file(call: Call, state: State, args: list[str]) -> int:
    try:
        text = decode(call.files.read(call.path(args[0])))
    except OSError:
        raise Failed(f"0: cannot open {args[0]}: No such file", 127) from None
    state.name, state.positional = args[0], args[1:]
    return call.runner.run_script(text, state)


def sudo(call: Call) -> int:
    """`sudo [-n] [-S] [-H] [-E] [-i] [-u USER] [-p PROMPT] [--] [NAME=VALUE…] COMMAND…`.

    The machine's fact `sudo_password` is asked for with -S where it is set; root never needs one.
    """
    options = call.options("nSHEikv", "upgC", ("user=", "prompt=", "non-interactive", "stdin"), mixed=False)
    password = call.machine.fact("sudo_password")
    if password and call.state.user != "root":
        given = decode(call.stdin.readline()).rstrip("\n") if "S" in options or "stdin" in options else None
        if given != password:
            raise Failed("a password is required" if given is None else "1 incorrect password attempt")
    state = _fresh(call)
    user = options.get("u") or options.get("user") or "root"
    try:
        state.user = known_as(call, user, "passwd") or "root"
    except Failed:
        raise Failed(f"unknown user: {user}") from None
    words = list(options.operands)
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        name, _, value = words.pop(0).partition("=")
        _put(state, name, value)
    _put(state, "USER", state.user)
    _put(state, "SUDO_USER", call.state.user)
    _put(state, "HOME", "/root" if state.user == "root" else f"/home/{state.user}")
    if words:
        return call.runner.run_words(words, state)
    return call.runner.run_stream(call.stdin, state) if "i" in options else 0


def _put(state: State, name: str, value: str) -> None:
    state.variables[name] = value
    state.exported.add(name)


def env(call: Call) -> int:
    """`env [-i] [-u NAME] [NAME=VALUE…] [COMMAND…]`."""
    options = call.options("i0", "u", ("ignore-environment",), mixed=False)
    state = _fresh(call)
    if "i" in options or "ignore-environment" in options:
        state.variables, state.exported = {"IFS": " \t\n"}, set()
    for name in options.all("u"):
        state.variables.pop(name, None)
    words = list(options.operands)
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        _put(state, name, value)
    if words:
        return call.runner.run_words(words, state)
    call.out("".join(f"{name}={value}\n" for name, value in state.environment().items()))
    return 0


def timeout(call: Call) -> int:
    """`timeout [-k DURATION] [-s SIGNAL] DURATION COMMAND…`."""
    options = call.options("", "ks", ("foreground", "preserve-status", "kill-after=", "signal="), mixed=False)
    if len(options.operands) < 2:
        raise Failed("missing operand", 125)
    state, seconds = call.state.copy(), duration(options.operands[0])
    if seconds:
        state.life = call.state.life.limited(seconds)
    try:
        return call.runner.run_words(options.operands[1:], state)
    except Killed:
        call.state.life.check()
        return 124


def duration(text: str) -> float:
    """Return seconds.

    Raises:
        Failed: it is no duration.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not found:
        raise Failed(f"invalid time interval '{text}'", 125)
    return float(found[1]) * _UNITS[found[2]]


def plain(call: Call) -> int:
    """`nohup`, `setsid`, `ionice`-like words that only stand before a command; `nice [-n N]`."""
    options = call.options("", "n" if call.name == "nice" else "", mixed=False)
    return call.runner.run_words(options.operands, call.state.copy()) if options.operands else 0


def time_(call: Call) -> int:
    """`time COMMAND…`."""
    start = time.monotonic()
    words = call.options("p", mixed=False).operands
    status = call.runner.run_words(words, call.state.copy()) if words else 0
    call.stderr.write(f"real {time.monotonic() - start:.2f}\nuser 0.00\nsys 0.00\n".encode())
    return status


def xargs(call: Call) -> int:
    """`xargs [-0] [-r] [-n N] [-I MARK] COMMAND…`."""
    options = call.options("0rt", "nIP", ("null", "no-run-if-empty"), mixed=False)
    text = decode(call.stdin.read())
    if "0" in options or "null" in options:
        items = [item for item in text.split("\0") if item]
    else:
        items = text.splitlines() if "I" in options else shlex.split(text)
    words = options.operands or ["echo"]
    mark = options.get("I")
    size = 1 if mark else int(options.get("n") or max(1, len(items)))
    if not items and ("r" in options or "no-run-if-empty" in options or mark):
        return 0
    status = 0
    for start in range(0, max(1, len(items)), size):
        batch = items[start : start + size]
        run = [word.replace(mark, batch[0]) for word in words] if mark else [*words, *batch]
        code = call.runner.run_words(run, call.with_streams(stdin=Pipe()))
        status = 127 if code == 127 else 123 if code else status
    return status
