"""What a shell knows: variables, functions, options, descriptors, and the ways out of a command."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from maint.lab.hosts.shell.streams import Life, Stream
from maint.lab.hosts.shell.syntax import Command


class Leave(Exception):
    """`exit`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Return(Exception):
    """`return`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Loop(Exception):
    """`break` (again is False) or `continue` out of so many loops."""

    def __init__(self, again: bool, levels: int) -> None:
        super().__init__(levels)
        self.again, self.levels = again, levels


class ShellFailure(Exception):
    """A failure that ends a script: unset parameter, bad substitution, syntax."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.message, self.status = message, status


DEFAULT_ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "USER": "root",
    "LOGNAME": "root",
    "SHELL": "/bin/sh",
    "LANG": "C.UTF-8",
}


@dataclass(slots=True)
class State:
    """The inner state of one shell; a subshell works on a copy."""

    variables: dict[str, str] = field(default_factory=lambda: {**DEFAULT_ENVIRONMENT, "IFS": " \t\n", "OPTIND": "1"})
    exported: set[str] = field(default_factory=lambda: set(DEFAULT_ENVIRONMENT))
    readonly: set[str] = field(default_factory=set)
    positional: list[str] = field(default_factory=list)
    functions: dict[str, Command] = field(default_factory=dict)
    options: set[str] = field(default_factory=set)
    traps: dict[str, str] = field(default_factory=dict)
    streams: dict[int, Stream] = field(default_factory=dict)
    locals: list[dict[str, str | None]] = field(default_factory=list)
    cwd: str = "/root"
    umask: int = 0o022
    user: str = "root"
    name: str = "sh"
    status: int = 0
    pid: int = 4242
    life: Life = field(default_factory=Life)

    def copy(self) -> "State":
        """Return a copy for a subshell; traps are not inherited."""
        return replace(
            self,
            variables=dict(self.variables),
            exported=set(self.exported),
            readonly=set(self.readonly),
            positional=list(self.positional),
            functions=dict(self.functions),
            options=set(self.options),
            traps={},
            streams=dict(self.streams),
            locals=[dict(frame) for frame in self.locals],
        )

    def environment(self) -> dict[str, str]:
        """Return the exported variables."""
        return {name: self.variables[name] for name in sorted(self.exported) if name in self.variables}

    def assign(self, name: str, value: str) -> None:
        """Set a variable."""
        if name in self.readonly:
            raise ShellFailure(f"{name}: is read only")
        self.variables[name] = value
        if "a" in self.options:
            self.exported.add(name)

    def path(self, text: str) -> str:
        """Return an absolute path of the host."""
        return text if text.startswith("/") else f"{self.cwd.rstrip('/')}/{text}"
