"""Run one command line on a lab host."""

import itertools
from io import BytesIO
from threading import Event

import msgspec

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.commands import COMMANDS
from maint.lab.hosts.shell.executor import Shell
from maint.lab.hosts.shell.state import Killed, Lifetime, Outgoing, State, Stream
from maint.lab.hosts.shell.syntax import Source

_NUMBERS = itertools.count(4242)


class Ended(msgspec.Struct, frozen=True):
    """How a command line ended."""

    status: int
    out: bytes
    err: bytes


def execute(machine: Machine, command: str, stdin: Stream, out: Stream, err: Stream, cancelled: Event) -> int:
    """Run a command line as a login of root does, and return its status: 137 once `cancelled` is set."""
    state = State(streams={0: stdin, 1: out, 2: err}, lifetime=Lifetime(cancelled), pid=next(_NUMBERS))
    machine.shells.add(state.pid)
    state.cwd = "/root" if machine.files.exists("/root") else "/"
    try:
        return Shell(machine, state, {**COMMANDS, **machine.programs}).script(Source(command)) & 255
    except Killed:
        return 137
    except Exception as bug:  # the boundary: a client must see a failure, not a closed channel
        err.write(f"the lab itself failed: {type(bug).__name__}: {bug}\n".encode())
        return 70
    finally:
        machine.shells.discard(state.pid)


def run(machine: Machine, command: str, stdin: bytes = b"") -> Ended:
    """Run a command line with all its input, and return all its output."""
    out, err = bytearray(), bytearray()
    status = execute(machine, command, BytesIO(stdin), Outgoing(out.extend), Outgoing(err.extend), Event())
    return Ended(status, bytes(out), bytes(err))
