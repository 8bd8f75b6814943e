"""sh, sudo, timeout: commands that run commands."""

import posixpath
import re

from maint.lab.hosts.shell.call import Call, Failed
from maint.lab.hosts.shell.state import Killed, decode
from maint.lab.hosts.shell.syntax import Source

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def sh(call: Call) -> int:
    """`sh [-eu] -c SCRIPT [NAME ARG…]`, `sh -s [ARG…]`, `sh FILE [ARG…]`, `sh` with the script on standard input."""
    options = call.options("ceus", mixed=False)
    state, args = call.state.child(posixpath.basename(call.name)), options.operands
    state.options = {letter for letter in "eu" if letter in options}
    if "c" in options:
        if not args:
            raise Failed("-c requires an argument", 2)
        state.name, state.positional = (args[1] if len(args) > 1 else state.name), args[2:]
        return call.runner.run_script(Source(args[0]), state)
    if "s" in options or not args:
        state.positional = args
        return call.runner.run_script(Source("", lambda: decode(call.stdin.readline())), state)
    if not call.files.exists(call.path(args[0])):
        raise Failed(f"0: cannot open {args[0]}: No such file", 127)
    state.name, state.positional = args[0], args[1:]
    return call.runner.run_script(Source(decode(call.files.read(call.path(args[0])))), state)


def sudo(call: Call) -> int:
    """`sudo [-n] [-S] [-p PROMPT] COMMAND…`: the account of a lab host is root, who never needs a password."""
    operands = call.options("nSp:", mixed=False).operands
    return call.runner.run_words(operands, call.state.child("sudo")) if operands else 0


def timeout(call: Call) -> int:
    """`timeout DURATION COMMAND…`."""
    operands = call.options(mixed=False).operands
    if len(operands) < 2:
        raise Failed("missing operand", 125)
    state, seconds = call.state.copy(), duration(operands[0])
    if seconds:
        state.lifetime = call.state.lifetime.limited(seconds)
    try:
        return call.runner.run_words(operands[1:], state)
    except Killed:
        call.state.lifetime.check()
        return 124


def duration(text: str) -> float:
    """Return seconds; Failed where it is not a duration."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not found:
        raise Failed(f"invalid time interval '{text}'", 125)
    return float(found[1]) * _UNITS[found[2]]
