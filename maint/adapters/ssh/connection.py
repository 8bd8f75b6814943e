"""Keep one connection to each host, and know what may be repeated when it breaks."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from maint.adapters.ssh.channel_guard import send_signal
from maint.adapters.ssh.connect import JUMP_LOST, Address, Connector, Opening, reason, transport_of
from maint.adapters.ssh.exchange import Exchange, Lost
from maint.adapters.ssh.known_hosts import KnownHosts
from maint.adapters.ssh.paramiko_import import Channel, SSHException, Transport
from maint.adapters.ssh.stream import Stream
from maint.adapters.ssh.sudo import SudoGate
from maint.config.schema import HostSettings, SshSettings
from maint.errors import CannotReach
from maint.model.secret import Secret
from maint.ports import Ran

if TYPE_CHECKING:
    from fabric import Connection

E = TypeVar("E", bound=Exchange)


class Line:
    """The way to one host.

    Args:
        address: where it is.
        connect: opens a connection to it.
        settings: time-outs, and whether to go through sudo.
        password: returns sudo's password, None where there is none.
        monotonic: seconds that never go back.
        jump: the way to the jump host that the connections go through, where there is one.
    """

    def __init__(
        self,
        address: Address,
        connect: "Callable[[], Connection]",
        settings: SshSettings,
        password: Callable[[], Secret | None],
        monotonic: Callable[[], float],
        jump: "Line | None" = None,
    ) -> None:
        self._address = address
        self._connect = connect
        self._settings = settings
        self._password = password
        self._monotonic = monotonic
        self._jump = jump
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def run(self, command: str, *, stdin: bytes, timeout: float | None, repeatable: bool) -> Ran:
        """Run a command; see `ports.ShellSight.ask`."""
        transport, channel, reused = self.open_channel()
        try:
            return self._run(channel, command, stdin, timeout)
        except Lost as lost:
            self.drop(transport)
            if repeatable and reused:
                return self.run(command, stdin=stdin, timeout=timeout, repeatable=False)
            if repeatable:
                raise self._blamed(lost) from None
            raise Lost(
                self._blamed(lost).message,
                detail=["the command may have begun, and may still run"],
                hint="look at the host before running it again",
            ) from None

    @contextmanager
    def stream(self, command: str, *, timeout: float | None) -> Iterator[Stream]:
        """Run a command and give out what it prints; see `ports.ShellSight.stream`."""
        transport, channel, _ = self.open_channel()
        try:
            yield self._begun(Stream, channel, command, b"", timeout)
        except Lost as lost:
            self.drop(transport)
            raise self._blamed(lost) from None
        finally:
            if not channel.closed and not channel.eof_received:  # whoever read it has stopped before its end
                _terminate(channel)
            with suppress(SSHException, EOFError, OSError):
                channel.close()

    def _blamed(self, lost: Lost) -> Lost:
        """Return whose loss it was: with a jump host go all the connections through it."""
        if self._jump is None or self._jump.alive:
            return lost
        return Lost(f"{self._address}: {JUMP_LOST}")

    @property
    def alive(self) -> bool:
        """Whether there is a connection of which nobody has noticed the end."""
        connection = self._connection
        return connection is not None and transport_of(connection).is_active()

    def transport(self) -> Transport:
        """Return what channels to this host go through, connected anew where it must be."""
        return self._live()[0]

    def drop(self, dead: Transport | None = None) -> None:
        """Close the connection; the next command opens another one.

        Args:
            dead: the connection that is meant: where another thread has replaced it already, the new one stays.
        """
        with self._lock:
            if dead is None or (self._connection is not None and transport_of(self._connection) is dead):
                self._close()

    def _close(self) -> None:
        if self._connection is not None:
            # What is closed may be dead already, and so may the jump host that it goes through.
            with suppress(SSHException, EOFError, OSError):
                self._connection.client.close()
            self._connection = None

    def _live(self) -> tuple[Transport, bool]:
        with self._lock:
            if self._connection is not None and transport_of(self._connection).is_active():
                return transport_of(self._connection), True
            self._close()
            self._connection = self._connect()
            return transport_of(self._connection), False

    def open_channel(self) -> tuple[Transport, Channel, bool]:
        """Return the connection, a new session on it, and whether the connection was there before.

        Until something is sent nothing has begun, so a dead connection is replaced whatever is to come.

        Raises:
            CannotReach: no connection, or the host opens no session.
        """
        transport, reused = self._live()
        try:
            return transport, transport.open_session(timeout=self._settings.connect_timeout), reused
        except (SSHException, EOFError, OSError) as error:
            if not self.gave_up(transport, error) or not reused:
                words = reason(error, self._settings.connect_timeout)
                raise CannotReach(f"{self._address}: no session: {words}") from None
        return self.open_channel()

    def gave_up(self, transport: Transport, error: BaseException) -> bool:
        """Return whether a failure was the connection's own; it is dropped then.

        A connection that only said no is left to the other threads that use it.
        """
        dead = isinstance(error, TimeoutError) or not transport.is_active()
        if dead:
            self.drop(transport)
        return dead

    def _run(self, channel: Channel, command: str, stdin: bytes, timeout: float | None) -> Ran:
        try:
            return self._begun(Exchange, channel, command, stdin, timeout).finish()
        except BaseException:
            _terminate(channel)
            raise
        finally:
            with suppress(SSHException, EOFError, OSError):
                channel.close()

    def _begun(
        self,
        kind: type[E],
        channel: Channel,
        command: str,
        stdin: bytes,
        timeout: float | None,
    ) -> E:
        """Send a command, and return its exchange."""
        exchange = kind(
            str(self._address),
            channel,
            stdin=stdin,
            gate=sudo_gate(str(self._address), self._settings, self._password),
            timeout=self._settings.command_timeout if timeout is None else timeout,
            monotonic=self._monotonic,
        )
        try:
            exchange.begin(command)
        except (SSHException, EOFError, OSError) as error:
            failure = CannotReach if channel.get_transport().is_active() else Lost
            words = reason(error, self._settings.connect_timeout)
            raise failure(f"{self._address}: the command was not taken: {words}") from None
        return exchange


def sudo_gate(host: str, settings: SshSettings, password: Callable[[], Secret | None]) -> SudoGate | None:
    """Return a call of sudo, None where the settings want none."""
    return SudoGate(host, password()) if settings.sudo or settings.sudo_password else None


def _terminate(channel: Channel) -> None:
    # Closing a channel leaves the command running.
    with suppress(SSHException, EOFError, OSError):
        send_signal(channel, "TERM")


class Lines:
    """The ways to all hosts of a site.

    Args:
        settings: how to reach hosts.
        password: returns sudo's password, None where there is none.
        monotonic: seconds that never go back.
        home: whose `.ssh/known_hosts` counts where none is configured; None for the user's own.
        opening: see `Connector.connect`.
    """

    def __init__(
        self,
        settings: SshSettings,
        password: Callable[[], Secret | None],
        monotonic: Callable[[], float],
        home: Path | None,
        opening: Opening | None = None,
    ) -> None:
        self._settings = settings
        self._password = password
        self._monotonic = monotonic
        self.known = KnownHosts(_known_hosts(settings, home))
        self.connector = Connector(settings, self.known)
        self._opening = opening
        self._lines: dict[str, Line] = {}
        self._lock = threading.Lock()
        self._jump = self._jump_line()

    def line(self, host: HostSettings) -> Line:
        """Return the way to a host."""
        with self._lock:
            if host.name not in self._lines:
                self._lines[host.name] = self._make(self.address(host), self._jump)
            return self._lines[host.name]

    def address(self, host: HostSettings) -> Address:
        """Return where a host is reached."""
        return Address(host.name, host.address, host.port or self._settings.port, self._settings.user)

    def through(self) -> Transport | None:
        """Return the connection to the jump host, None where there is none."""
        return self._jump.transport() if self._jump else None

    def gate(self, host: str) -> SudoGate | None:
        """Return a call of sudo for a host, None where commands run without it."""
        return sudo_gate(host, self._settings, self._password)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for line in self._lines.values():
                line.drop()
            if self._jump is not None:
                self._jump.drop()

    def _make(self, address: Address, jump: Line | None) -> Line:
        def connect() -> "Connection":
            return self.connector.connect(address, jump.transport() if jump else None, self._opening)

        return Line(address, connect, self._settings, self._password, self._monotonic, jump)

    def _jump_line(self) -> Line | None:
        jump = self._settings.jump
        if not jump:
            return None
        address = Address(jump.host, jump.host, jump.port, jump.user or self._settings.user)
        return self._make(address, None)


def _known_hosts(settings: SshSettings, home: Path | None) -> list[str]:
    usual = [(home or Path.home()) / ".ssh/known_hosts", Path("/etc/ssh/ssh_known_hosts")]
    paths = [settings.known_hosts] if settings.known_hosts else usual
    # A file that is not there knows nobody, and each host is then refused with words of its own.
    return [path.read_text("utf-8", "replace") for path in paths if path.is_file()]
