"""One call of a command: its arguments, its streams, and what it may ask of its host."""

import getopt
import os
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.state import Closed, State, Stream, decode, encode
from maint.lab.hosts.shell.syntax import Source
from maint.lab.hosts.shell.tree import Tree


class Failed(Exception):
    """A command could not do its work; it says `NAME: message` and exits with the status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.message, self.status = message, status


class NotSimulated(Failed):
    """The real command knows this, the lab's does not."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: not simulated on a lab host", 2)


class Runner(Protocol):
    """What a command may do with the shell that called it."""

    def call(self, words: Sequence[str], *, functions: bool = True) -> int:
        """Run a command in the shell itself."""

    def which(self, name: str) -> str | None:
        """Return where a command is."""

    def run_words(self, words: Sequence[str], state: State) -> int:
        """Run a command with its arguments in another state."""

    def run_script(self, source: Source, state: State) -> int:
        """Run a script in another state."""


class Options(msgspec.Struct, frozen=True):
    """The options of a call, each without its dashes and with its value, and the operands."""

    found: Sequence[tuple[str, str]]
    operands: list[str]

    def __contains__(self, name: str) -> bool:
        return any(known == name for known, _ in self.found)

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.found if known == name]

    def get(self, name: str, default: str = "") -> str:
        return [default, *self.all(name)][-1]


class Call(msgspec.Struct):
    """A command being run, under the name it was called by; it does not change the calling shell's state."""

    machine: Machine
    name: str
    args: list[str]
    state: State
    runner: Runner

    @property
    def files(self) -> Tree:
        return self.machine.files

    @property
    def stdin(self) -> Stream:
        """Descriptor 0."""
        return self.state.streams.get(0) or Closed()

    @property
    def stdout(self) -> Stream:
        """Descriptor 1."""
        return self.state.streams.get(1) or Closed()

    @property
    def stderr(self) -> Stream:
        """Descriptor 2."""
        return self.state.streams.get(2) or Closed()

    def path(self, text: str) -> str:
        return self.state.path(text)

    def out(self, text: str) -> None:
        self.stdout.write(encode(text))

    def say(self, text: str) -> None:
        """Write `NAME: text` to standard error."""
        self.stderr.write(encode(f"{self.name}: {text}\n"))

    def open(self, text: str) -> Stream:
        """Return an input: `-` is standard input."""
        if text in ("-", "/dev/stdin"):
            return self.stdin
        return self.files.open(self.path(text), os.O_RDONLY)

    def content(self, operands: Sequence[str]) -> tuple[bytes, int]:
        """Return the bytes of all inputs (standard input without any), and the status as of `each`."""
        found = bytearray()
        status = self.each(operands or ["-"], lambda operand: found.extend(self.open(operand).read()))
        return bytes(found), status

    def each(self, operands: Sequence[str], work: Callable[[str], object]) -> int:
        """Do something to each operand; a failure is said, the others go on, and the status is 1."""
        status = 0
        for operand in operands:
            try:
                work(operand)
            except OSError as error:
                self.say(f"{operand}: {error.strerror}")
                status = 1
        return status

    def options(self, short: str = "", long: Sequence[str] = (), *, mixed: bool = True) -> Options:
        """Return the options of the call, spelled as for `getopt`; NotSimulated where there is another one.

        Args:
            mixed: whether options may follow operands.
        """
        try:
            found, operands = (getopt.gnu_getopt if mixed else getopt.getopt)(self.args, short, list(long))
        except getopt.GetoptError as error:
            raise NotSimulated(f"option {error.opt}") from None
        return Options([(name.lstrip("-"), value) for name, value in found], operands)

    def again(self, name: str, args: list[str]) -> "Call":
        return replace(self, name=name, args=args)


def lines_of(data: bytes) -> list[str]:
    """Return the lines of some bytes, without their ends."""
    lines = decode(data).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


Command = Callable[[Call], int]
