"""One call of a command: its arguments, its streams, and what it may ask of its host."""

import os
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.state import Device, FileStream, State, Stream, decode, encode
from maint.lab.hosts.shell.tree import DEVICES, Tree


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

    def run_script(self, text: str, state: State) -> int:
        """Run a script in another state."""

    def run_stream(self, stream: Stream, state: State) -> int:
        """Run a script that is read line by line; its commands may read on from the same stream."""


class Options:
    """Options of a call: letters and long names, values where they have one."""

    def __init__(self, found: dict[str, list[str]], operands: list[str]) -> None:
        self._found = found
        self.operands = operands

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def get(self, name: str, default: str = "") -> str:
        """Return the last value of an option."""
        return self._found.get(name, [default])[-1]

    def all(self, name: str) -> list[str]:
        """Return all values of an option that was given more than once."""
        return self._found.get(name, [])


class Call(msgspec.Struct):
    """A command being run, under the name it was called by; it does not change the calling shell's state."""

    machine: Machine
    name: str
    args: list[str]
    state: State
    runner: Runner

    @property
    def files(self) -> Tree:
        """The host's files."""
        return self.machine.files

    @property
    def stdin(self) -> Stream:
        """Descriptor 0."""
        return self.state.streams.get(0) or Stream()

    @property
    def stdout(self) -> Stream:
        """Descriptor 1."""
        return self.state.streams.get(1) or Stream()

    @property
    def stderr(self) -> Stream:
        """Descriptor 2."""
        return self.state.streams.get(2) or Stream()

    def path(self, text: str) -> str:
        """Return an absolute path of the host."""
        return self.state.path(text)

    def out(self, text: str) -> None:
        """Write text to standard output."""
        self.stdout.write(encode(text))

    def say(self, text: str) -> None:
        """Write `NAME: text` to standard error."""
        self.stderr.write(encode(f"{self.name}: {text}\n"))

    def open(self, text: str) -> Stream:
        """Return an input: `-` is standard input."""
        if text in ("-", "/dev/stdin"):
            return self.stdin
        path = self.path(text)
        canonical = self.files.canonical(path)
        if canonical in DEVICES:
            return Device(canonical)
        return FileStream(self.files.open(path, os.O_RDONLY), self.files, path)

    def inputs(self, operands: Sequence[str]) -> "Inputs":
        """Return the bytes of all operands (standard input without any); failures are said and remembered."""
        return Inputs(self, operands or ["-"])

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

    def options(self, flags: str = "", valued: str = "", long: Sequence[str] = (), *, mixed: bool = True) -> Options:
        """Return the options of the call; NotSimulated where there is another one.

        Args:
            flags: letters without a value.
            valued: letters with one.
            long: long names; one that ends in `=` has a value.
            mixed: whether options may follow operands.
        """
        found: dict[str, list[str]] = {}
        operands, rest = [], list(self.args)
        while rest:
            arg = rest.pop(0)
            if arg == "--":
                operands.extend(rest)
                break
            if arg.startswith("--"):
                self._long(arg, rest, long, found)
            elif arg.startswith("-") and len(arg) > 1:
                self._letters(arg, rest, flags, valued, found)
            else:
                operands.append(arg)
                if not mixed:
                    operands.extend(rest)
                    break
        return Options(found, operands)

    def _long(self, arg: str, rest: list[str], long: Sequence[str], found: dict[str, list[str]]) -> None:
        name, given, value = arg[2:].partition("=")
        if f"{name}=" in long and (given or rest):
            _note(found, name, value if given else rest.pop(0))
        elif name in long and not given:
            _note(found, name, "")
        else:
            raise NotSimulated(f"option {arg}")

    def _letters(self, arg: str, rest: list[str], flags: str, valued: str, found: dict[str, list[str]]) -> None:
        for place, letter in enumerate(arg[1:], 2):
            if letter in valued:
                if not arg[place:] and not rest:
                    raise Failed(f"option requires an argument -- '{letter}'", 2)
                _note(found, letter, arg[place:] or rest.pop(0))
                return
            if letter not in flags:
                raise NotSimulated(f"option -{letter}")
            _note(found, letter, "")

    def again(self, name: str, args: list[str]) -> "Call":
        """Return the same call under another name with other arguments."""
        return replace(self, name=name, args=args)


def _note(found: dict[str, list[str]], name: str, value: str) -> None:
    values = found.pop(name, [])
    found[name] = [*values, value]


class Inputs:
    """The inputs of a filter."""

    def __init__(self, call: Call, operands: Sequence[str]) -> None:
        self._call, self._operands = call, operands
        self.status = 0

    def each(self) -> list[tuple[str, bytes]]:
        """Return name and bytes of each that could be read."""
        found: list[tuple[str, bytes]] = []
        for operand in self._operands:
            try:
                found.append((operand, self._call.open(operand).read()))
            except OSError as error:
                self._call.say(f"{operand}: {error.strerror}")
                self.status = 1
        return found

    def lines(self) -> list[str]:
        """Return the lines of all, without their ends."""
        return [line for _, data in self.each() for line in lines_of(data)]


def lines_of(data: bytes) -> list[str]:
    """Return the lines of some bytes, without their ends."""
    lines = decode(data).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


Command = Callable[[Call], int]
