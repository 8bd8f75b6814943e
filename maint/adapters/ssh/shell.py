"""Ask and act on a site's hosts over SSH, one command at a time, and read and replace their files."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from paramiko import Channel

from maint.adapters.ssh.connections import Connections, KeptConnection
from maint.adapters.ssh.runner import Lost, RemoteCommand, SudoGates, ssh_settings
from maint.adapters.ssh.transport import end
from maint.config.schema import HostSettings, SiteSettings
from maint.errors import CannotReach, Invalid, LoginRefused, WorkFailed
from maint.ports import Answer, Ran, Secrets
from maint.ports.hosts import MISSING, read_script, write_script


class FabricShell:
    """`ports.Shell`: connections are made when first needed, kept while the shell is, and shared by threads."""

    def __init__(self, settings: SiteSettings, secrets: Secrets) -> None:
        self._settings = settings
        self._sudo = SudoGates(settings, secrets)
        self._connections: Connections | None = None
        self._kept: dict[str, KeptConnection] = {}
        self._opening = threading.Lock()

    def ask(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        """Run a command that changes nothing, once more where a kept connection is dead; see `ports.ShellSight.ask`."""
        return self._run(host, command, stdin, timeout, repeatable=True)

    def run(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        """Run a command that may change something, never a second time once it may have begun; see `ask`."""
        return self._run(host, command, stdin, timeout, repeatable=False)

    @contextmanager
    def stream(self, host: str, command: str, *, timeout: float | None = None) -> Iterator[Answer]:
        """Run a command that changes nothing and give out what it prints; see `ports.ShellSight.stream`."""
        kept = self._host(host)
        connection, channel, _ = kept.session()
        try:
            yield self._command(kept, channel, b"", timeout).begin(command)
        except Lost as lost:
            kept.drop(connection)
            raise kept.connections.blamed(kept.address, lost) from None
        finally:
            end(channel)

    def read_file(self, host: str, path: str) -> bytes | None:
        """Return a file's bytes, or None where there is none; WorkFailed where it is there, but cannot be read."""
        ran = self.ask(host, read_script(path))
        if ran.status == MISSING:
            return None
        if not ran.ok:
            raise _failed(f"{host}: cannot read {path}", ran)
        return ran.out

    def write_file(
        self,
        host: str,
        path: str,
        content: bytes,
        *,
        owner: str = "",
        group: str = "",
        mode: str = "",
        timeout: float | None = None,
    ) -> None:
        """Replace or make a file atomically, see `ports.Shell.write_file`; WorkFailed leaves the old one as it was."""
        words = write_script(path, content, owner=owner, group=group, mode=mode)
        ran = self.run(host, words, stdin=content, timeout=timeout)
        if not ran.ok:
            raise _failed(f"{host}: cannot write {path}", ran)

    def close(self) -> None:
        with self._opening:
            for kept in self._kept.values():
                kept.drop()
            self._kept.clear()
            if self._connections is not None:
                self._connections.close()
                self._connections = None

    def __enter__(self) -> "FabricShell":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _run(
        self, host: str, command: str, stdin: bytes, timeout: float | None, *, repeatable: bool, again: bool = False
    ) -> Ran:
        kept = self._host(host)
        try:
            connection, channel, reused = kept.session()
        except CannotReach as away:
            away.untouched = True
            raise
        try:
            return self._command(kept, channel, stdin, timeout).begin(command).finish()
        except LoginRefused as refusal:  # sudo's, before the command
            refusal.untouched = True
            raise
        except Lost as lost:
            kept.drop(connection)
            failure = kept.connections.blamed(kept.address, lost)
            if not repeatable:
                failure.detail = ("the command may have begun, and may still run",)
                failure.hint = "look at the host before running it again"
            if again or not (repeatable and reused):
                raise failure from None
        finally:
            end(channel)
        return self._run(host, command, stdin, timeout, repeatable=True, again=True)

    def _command(self, kept: KeptConnection, channel: Channel, stdin: bytes, timeout: float | None) -> RemoteCommand:
        return RemoteCommand(
            str(kept.address),
            channel,
            self._sudo.gate(str(kept.address)),
            stdin=stdin,
            timeout=kept.connections.settings.command_timeout if timeout is None else timeout,
        )

    def _host(self, name: str) -> KeptConnection:
        host = self._named(name)
        with self._opening:
            if self._connections is None:
                self._connections = Connections(ssh_settings(self._settings))
            if name not in self._kept:
                self._kept[name] = KeptConnection(self._connections, self._connections.address(host))
            return self._kept[name]

    def _named(self, name: str) -> HostSettings:
        for host in (*self._settings.hosts, *self._settings.hosts_in("manager")):
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self._settings.hosts) or "none"
        raise Invalid(
            f"site {self._settings.name} has no host {name!r}",
            detail=[f"hosts: {known}"],
            hint="add it below `hosts`, or name one of these",
        )


def _failed(what: str, ran: Ran) -> WorkFailed:
    return WorkFailed(
        what,
        detail=ran.last_words,
        hint="look at that host: its disk, its permissions, and whether sudo works there without a password",
    )
