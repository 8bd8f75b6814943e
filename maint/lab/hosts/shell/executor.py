"""Carry out a parsed script."""

import errno
import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Words
from contextlib import contextmanager
from io import BytesIO
from threading import Event

import msgspec

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.builtins import BUILTINS, SPECIAL
from maint.lab.hosts.shell.call import Call, Command, Failed
from maint.lab.hosts.shell.commands import COMMANDS
from maint.lab.hosts.shell.expansion import Expander, matches
from maint.lab.hosts.shell.parser import Parser
from maint.lab.hosts.shell.state import (
    Closed,
    Killed,
    Leave,
    Lifetime,
    Loop,
    Outgoing,
    ShellFailure,
    State,
    Stream,
    decode,
    encode,
    pipe,
)
from maint.lab.hosts.shell.syntax import (
    AndOr,
    Case,
    For,
    Function,
    If,
    Pipeline,
    Redirected,
    Redirection,
    Sequence,
    Simple,
    Source,
    Subshell,
    SyntaxFailure,
    While,
)
from maint.lab.hosts.shell.syntax import Command as Node

_FLAGS = {"<": os.O_RDONLY, ">": os.O_WRONLY | os.O_CREAT | os.O_TRUNC, ">>": os.O_WRONLY | os.O_CREAT | os.O_APPEND}
_FOLDERS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")


class Shell:
    """A shell on a lab host; `commands` can be called by name or by absolute path."""

    def __init__(self, machine: Machine, state: State, commands: Mapping[str, Command]) -> None:
        self.machine = machine
        self.state = state
        self.commands = commands
        self._expander = Expander(state, machine.files, self._substitute)
        self._guarded = 0
        self._substituted = 0
        self._nodes: dict[type, Callable[..., int]] = {
            Simple: self._simple,
            Subshell: self._subshell,
            Sequence: self.sequence,
            If: self._if,
            For: self._for,
            While: self._while,
            Case: self._case,
            Function: self._define,
            Redirected: lambda node: self._within(node, lambda: self.node(node.body)),
        }

    def script(self, source: Source) -> int:
        """Run a script to its end, and the EXIT trap; return the status."""

        def work() -> int:
            self.lines(source)
            return self.state.status

        return self.isolated(work)

    def lines(self, source: Source) -> None:
        parser = Parser(source)
        while True:
            try:
                command = parser.complete_command()
            except SyntaxFailure as failure:
                raise ShellFailure(f"Syntax error: {failure}") from None
            if command is None:
                return
            self.sequence(command)

    def _complain(self, failure: ShellFailure) -> int:
        (self.state.streams.get(2) or Closed()).write(encode(f"{self.state.name}: 1: {failure.message}\n"))
        return failure.status

    def _at_exit(self, status: int) -> int:
        self.state.status = status
        action = self.state.traps.pop("EXIT", None)
        if action:
            try:
                self.lines(Source(action))
            except Leave as leaving:
                return leaving.status
        return status

    def sequence(self, body: Sequence) -> int:
        for item in body.items:
            self.state.status = self._and_or(item)
        return self.state.status

    def _and_or(self, node: AndOr) -> int:
        if node.background:
            forked = self.fork()
            self.state.status = forked.isolated(lambda: forked._and_or(AndOr(node.first, node.rest)))
            return 0
        pipelines = [("", node.first), *node.rest]
        status = self.state.status
        for place, (operator, pipeline) in enumerate(pipelines):
            if operator and (operator == "&&") != (status == 0):
                continue
            last = place == len(pipelines) - 1
            status = self.state.status = self._pipeline(pipeline, guarded=not last)
            if status and last and not pipeline.negated and "e" in self.state.options and not self._guarded:
                raise Leave(status)
        return status

    def _pipeline(self, node: Pipeline, guarded: bool) -> int:
        self._guarded += guarded or node.negated
        try:
            status = self.node(node.commands[0]) if len(node.commands) == 1 else self._piped(node.commands)
        finally:
            self._guarded -= guarded or node.negated
        return int(status == 0) if node.negated else status

    def _piped(self, commands: tuple[Node, ...]) -> int:
        before: Stream | None = None
        status = 0
        for place, command in enumerate(commands):
            forked = self.fork()
            after = pipe() if place < len(commands) - 1 else None
            if before:
                forked.state.streams[0] = before
            if after:
                forked.state.streams[1] = after
            status = forked.isolated(lambda run=forked, node=command: run.node(node))  # type: ignore[misc]  # mypy cannot type defaults of a lambda
            if after:
                after.seek(0)
            before = after
        return status

    def fork(self) -> "Shell":
        forked = Shell(self.machine, self.state.copy(), self.commands)
        forked._guarded = self._guarded
        return forked

    def isolated(self, work: Callable[[], int]) -> int:
        """Run something as a subshell does: what ends it ends only this."""
        try:
            status = work()
        except Leave as leaving:
            status = leaving.status
        except Loop:
            status = 0
        except ShellFailure as failure:
            status = self._complain(failure)
        return self._at_exit(status)

    def _substitute(self, body: Sequence) -> str:
        forked, said = self.fork(), pipe()
        forked.state.streams[1] = said
        self._substituted = forked.isolated(lambda: forked.sequence(body))
        said.seek(0)
        return decode(said.read().replace(b"\0", b""))

    def node(self, node: Node) -> int:
        return self._nodes[type(node)](node)

    def _subshell(self, node: Subshell) -> int:
        forked = self.fork()
        return forked.isolated(lambda: forked.sequence(node.body))

    def _condition(self, body: Sequence) -> bool:
        self._guarded += 1
        try:
            return self.sequence(body) == 0
        finally:
            self._guarded -= 1

    def _if(self, node: If) -> int:
        for condition, body in node.arms:
            if self._condition(condition):
                return self.sequence(body)
        return self.sequence(node.otherwise) if node.otherwise else 0

    def _for(self, node: For) -> int:
        words = self.state.positional if node.words is None else self._expander.fields(node.words)
        self.state.status = 0
        for word in list(words):
            self.state.variables[node.name] = word
            if not self._once(node.body):
                break
        return self.state.status

    def _while(self, node: While) -> int:
        status = 0
        while self._condition(node.condition):
            if not self._once(node.body):
                return self.state.status
            status = self.state.status
            self.state.lifetime.check()
        return status

    def _once(self, body: Sequence) -> bool:
        """Run a loop's body; return whether the loop goes on."""
        try:
            self.sequence(body)
        except Loop as loop:
            self.state.status = 0
            return loop.again
        return True

    def _case(self, node: Case) -> int:
        subject = self._expander.text(node.word)
        for patterns, body in node.arms:
            if any(matches(self._expander.pattern(pattern), subject) for pattern in patterns):
                self.state.status = 0
                return self.sequence(body)
        return 0

    def _define(self, node: Function) -> int:
        self.state.functions[node.name] = node.body
        return 0

    def _within(self, node: Simple | Redirected, work: Callable[[], int]) -> int:
        """Do something under a command's redirections; 2 where they cannot be made."""
        try:
            with self._redirected(node.redirections):
                return work()
        except Failed as failure:
            return self._complain(ShellFailure(failure.message))

    @contextmanager
    def _redirected(self, redirections: Words[Redirection], *, keep: bool = False) -> Iterator[None]:
        # For the length of the block, or for good (`keep`, for `exec`); Failed where a file cannot be opened.
        if not redirections:
            yield
            return
        streams, opened = self.state.streams, list[Stream]()
        before = dict(streams)
        try:
            for one in redirections:
                target = self._expander.text(one.target)
                if one.operator not in _FLAGS:
                    self._duplicate(one.fd, target)
                else:
                    streams[one.fd] = self._opened(target, one.operator)
                    opened.append(streams[one.fd])
            yield
        finally:
            if not keep:
                streams.clear()
                streams.update(before)
                for stream in opened:
                    stream.close()

    def _duplicate(self, fd: int, number: str) -> None:
        streams = self.state.streams
        if number == "-":
            streams.pop(fd, None)
        elif number.isdigit() and int(number) in streams:
            streams[fd] = streams[int(number)]
        else:
            raise Failed(f"{number}: bad fd number")

    def _opened(self, text: str, operator: str) -> Stream:
        path, files = self.state.path(text), self.machine.files
        if operator == ">" and "C" in self.state.options and files.exists(path) and files.entry(path).is_file:
            raise Failed(f"cannot create {text}: File exists")
        try:
            return files.open(path, _FLAGS[operator], 0o666 & ~self.state.umask)
        except OSError as error:
            verb, missing = ("open", "No such file") if operator == "<" else ("create", "Directory nonexistent")
            said = missing if error.errno == errno.ENOENT else error.strerror
            raise Failed(f"cannot {verb} {text}: {said}") from None

    def _simple(self, node: Simple) -> int:
        self.state.lifetime.check()
        self._substituted = 0
        words = self._expander.fields(node.words)
        assignments = [(name, self._expander.text(value)) for name, value in node.assignments]
        if not words:
            self.state.variables.update(assignments)
            status = self._substituted
            return self._within(node, lambda: status)
        try:
            if not node.redirections:  # as for most: a check runs thousands of commands
                return self._called(words, assignments)
            with self._redirected(node.redirections, keep=words[0] == "exec"):
                return self._called(words, assignments)
        except Failed as failure:
            status = self._complain(ShellFailure(failure.message))
            if words[0] in SPECIAL:
                raise Leave(status) from None
            return status

    def _called(self, words: list[str], assignments: list[tuple[str, str]]) -> int:
        if not assignments:
            return self.call(words)
        name, state = words[0], self.state
        saved, exported = dict(state.variables), set(state.exported)
        state.variables.update(assignments)
        if name in SPECIAL:
            return self.call(words)
        state.exported.update(key for key, _ in assignments)
        try:
            return self.call(words)
        finally:
            state.exported = exported
            for key, _ in assignments:
                if key in saved:
                    state.variables[key] = saved[key]
                else:
                    state.variables.pop(key, None)

    def call(self, words: Words[str], *, functions: bool = True) -> int:
        name, args = words[0], list(words[1:])
        if functions and name in self.state.functions:
            return self._function(name, args)
        call = Call(self.machine, name, args, self.state, self)
        try:
            command = BUILTINS.get(name) or self.find(name)
            if command:
                return command(call)
            return self._from_file(call)
        except Failed as failure:
            call.say(failure.message)
            return failure.status
        except OSError as error:
            call.say(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
            return 1

    def find(self, name: str) -> Command | None:
        folder, slash, base = name.rpartition("/")
        if base in self.machine.lacking:
            return None
        if not slash or name in self.commands:
            return self.commands.get(name)
        return self.commands.get(base) if folder in _FOLDERS else None

    def which(self, name: str) -> str | None:
        """Return where a command is, as `which` does."""
        if "/" in name:
            path = self.state.path(name)
            return name if self.find(name) or self.machine.files.exists(path) else None
        for folder in self.state.variables.get("PATH", "").split(":"):
            path = f"{folder}/{name}"
            if self.machine.files.exists(path) and self.machine.files.entry(path).mode & 0o111:
                return path
        return f"/usr/bin/{name}" if self.find(name) else None

    def _from_file(self, call: Call) -> int:
        path = self.which(call.name)
        if path is None:
            self.state.streams.get(2, Closed()).write(encode(f"{self.state.name}: 1: {call.name}: not found\n"))
            return 127
        entry = self.machine.files.entry(self.state.path(path))
        if entry.is_folder or not entry.mode & 0o111:
            self._complain(ShellFailure(f"{call.name}: Permission denied"))
            return 126
        text = decode(self.machine.files.read(self.state.path(path)))
        return self.run_script(Source(text), self.state.child(path, call.args))

    def _function(self, name: str, args: list[str]) -> int:
        outer, self.state.positional = self.state.positional, args
        try:
            return self.node(self.state.functions[name])
        finally:
            self.state.positional = outer

    def run_words(self, words: Words[str], state: State) -> int:
        """Run a command with its arguments in another state, as a process of its own."""
        shell = Shell(self.machine, state, self.commands)
        return shell.isolated(lambda: shell.call(words))

    def run_script(self, source: Source, state: State) -> int:
        return Shell(self.machine, state, self.commands).script(source)


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
