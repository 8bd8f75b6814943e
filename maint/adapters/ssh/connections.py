"""Open SSH connections with Fabric: host keys checked, one key, a jump host shared, every wait bounded."""

import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any
from weakref import WeakSet

import msgspec
from fabric import Config, Connection
from paramiko import Channel, MissingHostKeyPolicy, PKey, SSHClient, SSHConfig, SSHConfigDict
from paramiko.common import OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
from paramiko.ssh_exception import AuthenticationException, ChannelException, SSHException

from maint.adapters.ssh.known_hosts import HostKey, Standing, recorded_name, trusted
from maint.adapters.ssh.transport import SharedTransport, connect_socket, transport_factory
from maint.config.paths import account
from maint.config.schema import HostSettings, SshSettings
from maint.errors import CannotReach, Invalid, LoginRefused, Stopped
from maint.files import read_private

# Without a handler, paramiko's tracebacks would reach the terminal; our exceptions say what failed.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

BROKEN = (OSError, EOFError, SSHException)  # what a failing connection raises
_DAMAGED = (ValueError, IndexError, struct.error)  # what paramiko's parsers let through of a damaged greeting
JUMP_LOST = "the connection to the jump host was lost"
_REFUSALS = ("No authentication methods", "Too many authentication failures")  # the client's words, and OpenSSH's


class _NoConfig(SSHConfig):
    """An ssh_config that says nothing, neither the user's nor the system's: what counts is our own configuration.

    Nor is it asked whose account this is, which may have no name.
    """

    def lookup(self, _hostname: str) -> SSHConfigDict:
        """Return nothing about a host."""
        return SSHConfigDict()


def _settings() -> Config:
    try:
        return Config(ssh_config=_NoConfig(), lazy=True)
    except OSError:  # since Python 3.13, of an account without a name, where Fabric expects a KeyError
        os.environ["LOGNAME"] = account()
        return Config(ssh_config=_NoConfig(), lazy=True)


class Address(msgspec.Struct, frozen=True):
    """Where a host is reached, and the name that people know it by."""

    name: str
    host: str
    port: int
    user: str

    def __str__(self) -> str:
        return self.name if self.name == self.host else f"{self.name} ({self.host}:{self.port})"

    @property
    def recorded(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((recorded_name(self.host, self.port), recorded_name(self.name, self.port))))


class Sources(msgspec.Struct, frozen=True):
    """Where people say how hosts are reached: what errors name."""

    user: str = "ssh.user"
    key: str = "ssh.key"
    known: str = ""  # the file that host keys are written into; empty: `maint host trust` does it


class Connections:
    """Makes Fabric connections; key, known hosts and jump host are shared.

    Args:
        once: whether a jump host that could not be reached is not tried again.
        sources: where the settings stand.
    """

    def __init__(self, settings: SshSettings, *, once: bool = False, sources: Sources | None = None) -> None:
        self.settings = settings
        self._sources = sources or Sources()
        self.known = trusted(settings)
        self._key = None if settings.key is None else _load_key(settings.key, self._sources.key)
        self._building = threading.Lock()  # Fabric's configuration objects are not made for threads
        jump = jump_address(settings)
        self._gateway = KeptConnection(self, jump, once=once) if jump else None
        self._sockets: WeakSet[socket.socket] | None = WeakSet()
        self._noting = threading.Lock()

    def address(self, host: HostSettings) -> Address:
        return Address(host.name, host.address, host.port or self.settings.port, self.settings.user)

    def open(self, address: Address) -> Connection:
        """Return an open connection, through the jump host where there is one.

        Raises:
            CannotReach: no answer, no SSH, unknown or changed host key, no way through the jump host.
            LoginRefused: the account was not let in.
        """

        def judge(key: HostKey) -> None:
            standing = self.known.judge(address.recorded, key)
            if standing is not Standing.KNOWN:
                raise _distrust(address, key, standing, self._sources.known)

        jump = self._gateway
        return self._open(address, judge, None if jump and jump.address == address else jump)

    def presented(self, address: Address) -> HostKey:
        """Return the key that a host presents, without logging in; CannotReach where no SSH answers."""
        seen: list[HostKey] = []
        jump = self._gateway
        straight = jump and (address.host, address.port) == (jump.address.host, jump.address.port)

        def show(key: HostKey) -> None:
            seen.append(key)
            raise EOFError("it has been seen")

        try:
            self._open(address, show, None if straight else jump)
        except CannotReach:
            if not seen:
                raise
        return seen[0]

    @staticmethod
    def drop(connection: Connection) -> None:
        with suppress(*BROKEN):  # what is closed may be dead already, and so may the jump host that it goes through
            connection.client.close()

    def blamed(self, address: Address, failure: CannotReach) -> CannotReach:
        """Return a connection's failure, or in its place that of the jump host, whose end is that of all behind it."""
        jump = self._gateway
        if jump is None or jump.address == address or jump.is_alive or isinstance(failure, LoginRefused):
            return failure
        return CannotReach(f"{address}: {JUMP_LOST}", hint="look at the jump host (ssh.jump), then again")

    def close(self) -> None:
        """Close everything, and open nothing any more; ends the attempts of other threads."""
        with self._noting:
            doomed, self._sockets = tuple(self._sockets or ()), None
        for sock in doomed:
            with suppress(OSError):  # it may be closed already
                sock.shutdown(socket.SHUT_RDWR)
        if self._gateway is not None:
            self._gateway.drop()

    def _note(self, sock: socket.socket) -> None:
        with self._noting:
            if self._sockets is None:
                raise OSError("stopped")
            self._sockets.add(sock)

    def _open(self, address: Address, judge: Callable[[HostKey], None], jump: "KeptConnection | None") -> Connection:
        try:
            through = jump.live()[0] if jump else None
        except CannotReach as failure:
            words = f"no way through the jump host {failure.message}"
            raise type(failure)(words, detail=failure.detail, hint=failure.hint) from None
        limit = self.settings.connect_timeout
        connection = self._build(address, judge, through)
        begun = time.monotonic()
        try:
            if through is None:
                connection.connect_kwargs["sock"] = connect_socket(address.host, address.port, limit, self._note)
            connection.open()
        except BaseException as error:
            transport = connection.client.get_transport()
            self.drop(connection)
            if not isinstance(error, (*BROKEN, *_DAMAGED)):
                raise
            said_no = isinstance(transport, SharedTransport) and transport.packetizer.login_refused
            # Whatever paramiko calls it, what takes so long is silence.
            late = time.monotonic() - begun >= limit and not (said_no or isinstance(error, OSError))
            explained = self._explained(address, TimeoutError() if late else error, said_no=said_no)
            raise (self.blamed(address, explained) if jump else explained) from None
        return connection

    def _build(self, address: Address, judge: Callable[[HostKey], None], through: Connection | None) -> Connection:
        # The limit stands here, since Fabric cuts its own `connect_timeout` down to whole seconds.
        limits = ("timeout", "banner_timeout", "auth_timeout", "channel_timeout")
        options: dict[str, Any] = dict.fromkeys(limits, self.settings.connect_timeout) | {
            "pkey": self._key,
            "allow_agent": self._key is None,
            "look_for_keys": self._key is None,
            "transport_factory": transport_factory(self.known.types(address.recorded)),
        }
        with self._building:
            connection = Connection(
                host=address.host,
                user=address.user,
                port=address.port,
                config=_settings(),  # a clone would be of the usual kind
                gateway=through,
                connect_kwargs=options,
            )
        connection.client.set_missing_host_key_policy(_Policy(judge))
        return connection

    def _explained(self, address: Address, error: Exception, *, said_no: bool) -> CannotReach:
        refused = said_no and isinstance(error, AuthenticationException)
        if refused or any(words in str(error) for words in _REFUSALS):
            jump = self.settings.jump is not None and jump_address(self.settings) == address
            user = "ssh.jump.user" if jump else self._sources.user
            hint = f"look at {user} and {self._sources.key}, and at authorized_keys on the host"
            return LoginRefused(f"{address}: {address.user} was not let in", detail=[str(error)], hint=hint)
        if isinstance(error, ChannelException):
            words, hint = error.text, "look at that host's port, and from the jump host at its name and firewall"
            if error.code == OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED:
                words = "forwarding is forbidden there"
                hint = "on the jump host, look at AllowTcpForwarding and PermitOpen in sshd_config, and at the account"
            return CannotReach(f"{address}: the jump host does not get there: {words}", hint=hint)
        hint = f"try: ssh -p {address.port} {address.user}@{address.host}"
        return CannotReach(f"{address}: {reason(error, self.settings.connect_timeout)}", hint=hint)


def jump_address(settings: SshSettings) -> Address | None:
    """Return where the jump host is, None where there is none."""
    jump = settings.jump
    return Address(jump.host, jump.host, jump.port, jump.user or settings.user) if jump else None


def alive(connection: Connection) -> bool:
    """Whether nobody has noticed a connection's end."""
    transport = connection.client.get_transport()
    return transport is not None and transport.is_active()


class KeptConnection:
    """The connection to one host, replaced when it is lost; shared by threads; `once`: failures are final."""

    def __init__(self, connections: Connections, address: Address, *, once: bool = False) -> None:
        self.connections = connections
        self.address = address
        self._once = once
        self._failure: CannotReach | None = None
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    @property
    def is_alive(self) -> bool:
        return self._connection is not None and alive(self._connection)

    def live(self) -> tuple[Connection, bool]:
        """Return the connection, opened anew where it must be, and whether it was there before."""
        with self._lock:
            if self._connection is not None and self.is_alive:
                return self._connection, True
            if self._failure:
                raise self._failure
            try:
                self._connection = self.connections.open(self.address)
            except CannotReach as failure:
                self._failure = failure if self._once else None
                raise
            return self._connection, False

    def session(self) -> tuple[Connection, Channel, bool]:
        """Return the connection, a new session on it, and whether the connection was there before; or CannotReach.

        Until something is sent nothing has begun, so a dead connection is replaced whatever is to come.
        """
        connection, reused = self.live()
        try:
            return connection, connection.create_session(), reused
        except BROKEN as error:
            if not self.gave_up(connection, error) or not reused:
                words = reason(error, self.connections.settings.connect_timeout)
                hint = "sshd there may refuse further sessions (MaxSessions): look at its log"
                failure = CannotReach(f"{self.address}: no session: {words}", hint=hint)
                raise self.connections.blamed(self.address, failure) from None
        return self.session()

    def gave_up(self, connection: Connection, error: BaseException) -> bool:
        """Return whether a failure was the connection's own, and drop it then; one that only said no stays in use."""
        dead = isinstance(error, TimeoutError) or not alive(connection)
        if dead:
            self.drop(connection)
        return dead

    def drop(self, dead: Connection | None = None) -> None:
        """Close the connection; where another thread has replaced the `dead` one already, the new one stays."""
        with self._lock:
            if self._connection is not None and (dead is None or dead is self._connection):
                self.connections.drop(self._connection)
                self._connection = None


def reason(error: Exception, limit: float) -> str:
    """Return what a failure of a connection means; `limit` is the seconds that an answer was waited for."""
    if isinstance(error, socket.gaierror):
        return f"its address cannot be resolved: {error.strerror}"
    if isinstance(error, TimeoutError):
        return f"no answer within {limit:g} s"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, _DAMAGED):
        return "no SSH connection: what it answers is damaged, or no SSH"
    return f"no SSH connection: {str(error) or 'closed by the host'}"


class _Policy(MissingHostKeyPolicy):
    """Asks about every key: paramiko's own table knows neither patterns nor revoked keys, and one key of each type."""

    def __init__(self, judge: Callable[[HostKey], None]) -> None:
        self._judge = judge

    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:  # noqa: ARG002 - paramiko's signature
        self._judge(HostKey(key.get_name(), key.asbytes()))


def _distrust(address: Address, key: HostKey, standing: Standing, known: str) -> CannotReach:
    seen = f"it presents {key.type} {key.fingerprint}"
    add = f"`ssh-keyscan -p {address.port} {address.host} >> {quote(known)}`"
    if standing is Standing.UNKNOWN:
        way = add if known else f"`maint host trust {address.name}`"
        hint = f"compare it with `ssh-keygen -lf` on the host itself, then: {way}"
        return CannotReach(f"{address}: its host key is not known", detail=[seen], hint=hint)
    if standing is Standing.REVOKED:
        return CannotReach(f"{address}: ITS HOST KEY HAS BEEN REVOKED", detail=[seen], hint="do not log in there")
    drop = f"`ssh-keygen -R {quote(recorded_name(address.host, address.port))} -f {quote(known)}`"
    way = f"{drop}, then {add}" if known else f"`maint host trust {address.name} --replace`"
    return CannotReach(
        f"{address}: ITS HOST KEY HAS CHANGED: someone may be listening in, or the host was installed anew",
        detail=[seen, "that is none of the keys recorded for it"],
        hint=f"only if you know why it changed: {way}",
    )


def _load_key(path: Path, setting: str) -> PKey:
    content = read_private(path)
    if content is None:
        raise Invalid(f"the SSH key {path} is not there", hint=f"look at {setting}")
    try:
        return PKey.from_path(path)
    except Stopped:
        raise
    except Exception as error:  # paramiko lets through whatever its parsers raise
        # Its own words may quote the file.
        words, hint = "expected: a private key as ssh-keygen writes it", f"look at {setting}"
        protected = isinstance(error, TypeError) or "password-protected" in str(error.__context__)  # cryptography 44
        if protected or type(error).__name__ == "PasswordRequiredException":
            words = "it has a passphrase, and nobody is there to type it"
            hint = f"load it into an SSH agent and leave {setting} out, or use a key without a passphrase"
        raise Invalid(f"the SSH key {path} cannot be used", detail=[words], hint=hint) from None
