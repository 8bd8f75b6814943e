"""Ask and act on a site's hosts over SSH."""

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from maint.adapters.ssh import files
from maint.adapters.ssh.settings import Reach
from maint.config.schema import HostSettings, SiteSettings
from maint.errors import Invalid, WorkFailed
from maint.ports import Answer, Ran, Secrets

if TYPE_CHECKING:
    from maint.adapters.ssh.connection import Line, Lines


class FabricShell:
    """`ports.Shell`: connections are made when first needed, kept for the life of the shell, and shared by threads.

    Args:
        settings: the site, whose `hosts` and `ssh` say where and how.
        secrets: resolves the reference to sudo's password.
        monotonic: seconds that never go back.
        home: whose `.ssh/known_hosts` counts where the site configures none; None for the user's own.
    """

    def __init__(
        self,
        settings: SiteSettings,
        secrets: Secrets,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        home: Path | None = None,
    ) -> None:
        self._settings = settings
        self._reach = Reach(settings, secrets)
        self._monotonic = monotonic
        self._home = home
        self._opened: Lines | None = None
        self._opening = threading.Lock()

    def ask(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        """Run a command that changes nothing; repeated once where a connection kept from earlier turns out dead.

        Raises:
            CannotReach: no connection, unknown or changed host key, login refused, connection lost.
            TimedOut: the command did not end in time (seconds; by default the site's `command_timeout`).
        """
        return self._line(host).run(command, stdin=stdin, timeout=timeout, repeatable=True)

    def run(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        """Run a command that may change something, never a second time once it may have begun; see `ask`."""
        return self._line(host).run(command, stdin=stdin, timeout=timeout, repeatable=False)

    @contextmanager
    def stream(self, host: str, command: str, *, timeout: float | None = None) -> Iterator[Answer]:
        """Run a command that changes nothing and give out what it prints; see `ports.ShellSight.stream`."""
        with self._line(host).stream(command, timeout=timeout) as output:
            yield output

    def read_file(self, host: str, path: str) -> bytes | None:
        """Return a file's bytes, or None where there is no such file.

        Raises:
            WorkFailed: it is there, but cannot be read.
        """
        ran = self.ask(host, files.reading(path))
        if ran.status == files.MISSING:
            return None
        if not ran.ok:
            raise _failed(f"{host}: cannot read {path}", ran)
        return ran.out

    def write_file(self, host: str, path: str, content: bytes) -> None:
        """Replace or make a file atomically; owner and mode stay as they were, else root and 0644.

        Raises:
            WorkFailed: it could not be written; the old one is as it was.
        """
        ran = self.run(host, files.writing(path, content, secrets.token_hex(8)), stdin=content)
        if not ran.ok:
            raise _failed(f"{host}: cannot write {path}", ran)

    def close(self) -> None:
        """Close all connections."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def __enter__(self) -> "FabricShell":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def _line(self, name: str) -> "Line":
        host = self._host(name)
        with self._opening:
            if self._opened is None:
                # Fabric takes 0.1 s to import, which only those who reach a host should wait for.
                from maint.adapters.ssh.connection import Lines

                self._opened = Lines(self._reach.ssh, self._reach.sudo_password, self._monotonic, self._home)
            return self._opened.line(host)

    def _host(self, name: str) -> HostSettings:
        for host in (*self._settings.hosts, *self._settings.hosts_in("manager")):
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self._settings.hosts) or "none"
        raise Invalid(f"site {self._settings.name} has no host {name!r}", detail=[f"hosts: {known}"])


def _failed(what: str, ran: Ran) -> WorkFailed:
    lines = ran.err.decode("utf-8", "replace").splitlines()
    return WorkFailed(what, detail=lines[:5] or [f"exit status {ran.status}"])
