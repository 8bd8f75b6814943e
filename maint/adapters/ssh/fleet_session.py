"""Visit one host of a fleet: connect, one channel, one script, close; or look at its host key alone."""

import base64
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from maint.adapters.ssh.connect import JUMP_LOST, Address, Opening, explain, reason
from maint.adapters.ssh.connection import Lines
from maint.adapters.ssh.exchange import Exchange
from maint.adapters.ssh.known_hosts import HostKey, recorded_name
from maint.adapters.ssh.paramiko_import import Channel, SSHClient, SSHException, Transport
from maint.adapters.ssh.watchdog import leashed
from maint.config.schema import HostSettings, SshSettings
from maint.errors import CannotReach, LoginRefused, MaintError, TimedOut
from maint.model.fleet import Presented, Reply
from maint.model.secret import Secret

_SHELL = "exec /bin/sh -s"  # no rc files are read, nothing stands in `ps`, no argument is too long


class Visits:
    """All connections of one run over a fleet.

    Args:
        settings: how to reach hosts.
        password: returns sudo's password, None where there is none.
        monotonic: seconds that never go back.
        now: seconds since 1970.
        home: whose known hosts count where none are configured.
    """

    def __init__(
        self,
        settings: SshSettings,
        password: Callable[[], Secret | None],
        monotonic: Callable[[], float],
        now: Callable[[], float],
        home: Path | None,
    ) -> None:
        self._settings = settings
        self._lines = Lines(settings, password, monotonic, home, self._opening)
        self._monotonic = monotonic
        self._now = now
        self._open: set[socket.socket | Channel] = set()
        self._lock = threading.Lock()
        self._ended = False
        self._to_jump = threading.Lock()
        self._no_jump: MaintError | None = None

    def end(self) -> None:
        """Close everything, and open nothing any more."""
        with self._lock:
            self._ended = True
            doomed = tuple(self._open)
        for sock in doomed:
            _shut(sock)
        self._lines.close()

    def ask(self, host: HostSettings, script: bytes) -> Reply:
        """Run a script on a host and return what came of it; failures are part of the reply."""
        stay = _Stay(host.name, self._now, self._monotonic)
        try:
            self._converse(self._lines.address(host), script, stay)
        except TimedOut:
            limit = self._settings.command_timeout
            stay.reason = f"its answer did not end within {limit:g} s"
            stay.hint = "give it more time (ssh.command_timeout), or look at what hangs there"
        except MaintError as error:
            stay.reason = "; ".join([error.message.removeprefix(f"{self._lines.address(host)}: "), *error.detail])
            stay.hint = error.hint
        return stay.reply()

    def key(self, host: HostSettings) -> Presented:
        """Return the key that a host presents, without logging in."""
        address = self._lines.address(host)
        recorded = recorded_name(address.host, address.port)
        try:
            key = self._presented(address)
        except MaintError as error:
            return Presented(host.name, recorded, reason=error.message.removeprefix(f"{address}: "))
        standing = self._lines.known.judge(address.recorded, key)
        return Presented(
            host.name, recorded, key.type, base64.b64encode(key.blob).decode(), key.fingerprint, standing, None
        )

    def _converse(self, address: Address, script: bytes, stay: "_Stay") -> None:
        with self._watched() as opening:
            through = self._through()
            try:
                self._visit(address, through, opening, script, stay)
            except CannotReach as failure:
                # What a host behind it fails of then is not that host's own.
                if through is None or through.is_active() or isinstance(failure, LoginRefused):
                    raise
                raise CannotReach(
                    f"{address}: {JUMP_LOST}", hint="look at the jump host (ssh.jump), then again"
                ) from None

    def _visit(
        self, address: Address, through: Transport | None, opening: Opening, script: bytes, stay: "_Stay"
    ) -> None:
        client = self._lines.connector.client(address, through, opening)
        try:
            exchange = self._begun(address, _transport(address, client), script, stay)
            try:
                stay.status = exchange.finish().status
            finally:
                stay.out = exchange.received
                stay.received = self._now()
        finally:
            with suppress(SSHException, EOFError, OSError):  # it may be dead already
                client.close()

    def _begun(self, address: Address, transport: Transport, script: bytes, stay: "_Stay") -> Exchange:
        try:
            channel = transport.open_session(timeout=self._settings.connect_timeout)
            exchange = Exchange(
                str(address),
                channel,
                stdin=leashed(script),
                held=True,
                gate=self._lines.gate(str(address)),
                timeout=self._settings.command_timeout,
                monotonic=self._monotonic,
            )
            stay.left()
            exchange.begin(_SHELL)
        except (SSHException, EOFError, OSError) as error:
            raise CannotReach(f"{address}: no session: {reason(error, self._settings.connect_timeout)}") from None
        return exchange

    def _presented(self, address: Address) -> HostKey:
        with self._watched() as opening:
            transport: Transport | None = None
            try:
                sock = self._lines.connector.reach(address, self._through(), opening)
                transport = self._lines.connector.transport_factory(address, brief=True)(sock)
                transport.banner_timeout = self._settings.connect_timeout
                transport.start_client(timeout=self._settings.connect_timeout)
                key = transport.get_remote_server_key()
                return HostKey(key.get_name(), key.asbytes())
            except (OSError, SSHException, EOFError) as error:
                explain(address, error, self._settings)
            finally:
                if transport is not None:
                    transport.close()

    def _through(self) -> Transport | None:
        """Return the connection to the jump host; one that cannot be reached is tried once, not for each host."""
        with self._to_jump:
            if self._no_jump is not None:
                raise self._no_jump
            try:
                return self._lines.through()
            except MaintError as failure:
                self._no_jump = CannotReach(f"no way through the jump host {failure.message}", hint=failure.hint)
                raise self._no_jump from None

    def _opening(self, sock: socket.socket | Channel) -> None:
        """Note a socket before anything is sent on it, so that `end` can close it."""
        with self._lock:
            if self._ended:
                raise OSError("stopped")
            self._open.add(sock)

    @contextmanager
    def _watched(self) -> Iterator[Opening]:
        """Yield what must be told of each socket of one visit."""
        own: list[socket.socket | Channel] = []

        def opening(sock: socket.socket | Channel) -> None:
            self._opening(sock)
            own.append(sock)

        try:
            yield opening
        finally:
            with self._lock:
                self._open.difference_update(own)


class _Stay:
    """One visit under way, as far as it got."""

    def __init__(self, host: str, now: Callable[[], float], monotonic: Callable[[], float]) -> None:
        self._host = host
        self._now = now
        self._monotonic = monotonic
        self._begun = monotonic()
        self._login = 0.0
        self._sent = 0.0
        self.out = b""
        self.status: int | None = None
        self.received = 0.0
        self.reason: str | None = None
        self.hint: str | None = None

    def left(self) -> None:
        """Note that the script leaves now."""
        self._login = self._monotonic() - self._begun
        self._sent = self._now()

    def reply(self) -> Reply:
        """Return what came of it."""
        seconds = self._monotonic() - self._begun
        return Reply(
            self._host,
            self.out,
            self.status,
            self.reason,
            self.hint,
            self._sent,
            self.received,
            seconds,
            self._login or seconds,
        )


def _transport(address: Address, client: SSHClient) -> Transport:
    transport = client.get_transport()
    if transport is None:
        raise CannotReach(f"{address}: the connection was closed again")
    return transport


def _shut(sock: socket.socket | Channel) -> None:
    with suppress(OSError, EOFError, SSHException):  # it may be closed already
        if isinstance(sock, Channel):
            sock.close()
        else:
            sock.shutdown(socket.SHUT_RDWR)
