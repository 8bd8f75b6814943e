"""What a shell knows: variables, functions, options, where commands read and write, and the ways out of a command."""

import errno
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from tempfile import SpooledTemporaryFile
from typing import Protocol

import msgspec
from msgspec.structs import replace

from maint.lab.hosts.shell.syntax import Command

_IN_MEMORY = 1 << 20


def encode(text: str) -> bytes:
    """Return the bytes of a shell's text; bytes that are not UTF-8 survive."""
    return text.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """Return bytes as a shell's text."""
    return data.decode("utf-8", "surrogateescape")


class Stream(Protocol):
    """A file descriptor, of which files and pipes have as much as this."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes, all when negative, b'' at the end."""

    def readline(self) -> bytes:
        """Return a line with its end."""

    def write(self, data: bytes, /) -> object:
        """Write all the bytes."""

    def close(self) -> None:
        """Let go of it."""


class Closed:
    """A file descriptor that can do nothing."""

    def read(self, size: int = -1, /) -> bytes:
        raise OSError(errno.EBADF, "Bad file descriptor", str(size))

    def readline(self) -> bytes:
        return self.read()

    def write(self, data: bytes, /) -> object:
        raise OSError(errno.EBADF, "Bad file descriptor", str(len(data)))

    def close(self) -> None:
        """Let go of nothing."""


def pipe() -> "SpooledTemporaryFile[bytes]":
    """Return a pipe, which is filled first, and read then."""
    return SpooledTemporaryFile(_IN_MEMORY)


class Outgoing(Closed):
    """Output that leaves through a function."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send

    def write(self, data: bytes, /) -> None:
        if data:
            self._send(data)


class Killed(Exception):
    """The shell has to end: by its server, or by `timeout`."""


class Lifetime:
    """How long a shell may go on: until `cancelled` is set, or the deadline (monotonic)."""

    # `left` is set once the shell that began it has gone, whether it goes on or not.

    def __init__(self, cancelled: threading.Event | None = None, deadline: float | None = None) -> None:
        self.cancelled = cancelled or threading.Event()
        self.left = self.cancelled
        self.deadline = deadline

    def detached(self) -> "Lifetime":
        """Return a lifetime that goes on when the caller has gone."""
        lifetime = Lifetime(deadline=self.deadline)
        lifetime.left = self.left
        return lifetime

    def check(self) -> None:
        """Raise `Killed` when it is over."""
        if self.cancelled.is_set() or (self.deadline is not None and time.monotonic() >= self.deadline):
            raise Killed

    def sleep(self, seconds: float) -> None:
        left = seconds if self.deadline is None else min(seconds, self.deadline - time.monotonic())
        self.cancelled.wait(max(0.0, left))
        self.check()

    def limited(self, seconds: float) -> "Lifetime":
        end = time.monotonic() + seconds
        return Lifetime(self.cancelled, end if self.deadline is None else min(end, self.deadline))


class Leave(Exception):
    """`exit`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Loop(Exception):
    """`break` (again is False), or `continue`."""

    def __init__(self, again: bool) -> None:
        super().__init__(again)
        self.again = again


class ShellFailure(Exception):
    """A failure that ends a script: unset parameter, bad substitution, syntax."""

    status = 2

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


DEFAULT_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
}


class State(msgspec.Struct):
    """The inner state of one shell; a subshell works on a copy."""

    variables: dict[str, str] = msgspec.field(default_factory=lambda: {**DEFAULT_ENVIRONMENT, "IFS": " \t\n"})
    exported: set[str] = msgspec.field(default_factory=lambda: set(DEFAULT_ENVIRONMENT))
    positional: list[str] = msgspec.field(default_factory=list)
    functions: dict[str, Command] = msgspec.field(default_factory=dict)
    options: set[str] = msgspec.field(default_factory=set)
    traps: dict[str, str] = msgspec.field(default_factory=dict)
    streams: dict[int, Stream] = msgspec.field(default_factory=dict)
    cwd: str = "/root"
    umask: int = 0o022
    name: str = "sh"
    status: int = 0
    pid: int = 4242
    lifetime: Lifetime = msgspec.field(default_factory=Lifetime)

    def copy(self) -> "State":
        """Return a copy for a subshell; traps are not inherited."""
        return replace(
            self,
            variables=dict(self.variables),
            exported=set(self.exported),
            positional=list(self.positional),
            functions=dict(self.functions),
            options=set(self.options),
            traps={},
            streams=dict(self.streams),
        )

    def child(self, name: str, arguments: Sequence[str] = ()) -> "State":
        """Return a state for a program of its own, which has only what is exported."""
        child = self.copy()
        child.variables = {"IFS": " \t\n", **self.environment()}
        child.functions, child.options = {}, set()
        child.name, child.positional = name, list(arguments)
        return child

    def environment(self) -> dict[str, str]:
        return {name: self.variables[name] for name in sorted(self.exported) if name in self.variables}

    def path(self, text: str) -> str:
        return text if text.startswith("/") else f"{self.cwd.rstrip('/')}/{text}"
