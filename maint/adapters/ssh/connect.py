"""Open SSH connections with Fabric: host keys checked, one key, every wait bounded."""

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import msgspec

from maint.adapters.ssh.known_hosts import HostKey, KnownHosts, Standing, recorded_name
from maint.adapters.ssh.paramiko_import import (
    AuthenticationException,
    Channel,
    MissingHostKeyPolicy,
    PKey,
    SSHClient,
    SSHException,
    Transport,
)
from maint.adapters.ssh.transports import Factory, transport_factory
from maint.adapters.ssh.wire import Wire
from maint.config.schema import SshSettings
from maint.errors import CannotReach, Invalid, LoginRefused
from maint.files import read_private

if TYPE_CHECKING:
    from fabric import Config, Connection

# Without a handler, paramiko's tracebacks would reach the terminal; what failed is told by our exceptions.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

Opening: TypeAlias = Callable[[socket.socket | Channel], None]
JUMP_LOST = "the connection to the jump host was lost"
_REFUSALS = ("No authentication methods", "Too many authentication failures")  # the client's words, and OpenSSH's
_SECOND_NAMES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}  # one key, several ways to sign with it


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
        """What its key may be recorded under."""
        return tuple(dict.fromkeys((recorded_name(self.host, self.port), recorded_name(self.name, self.port))))


class Connector:
    """Opens connections; keys and known hosts are read once and shared by all of them.

    Args:
        settings: how to reach hosts.
        known: the host keys that are believed.

    Raises:
        Invalid: the private key cannot be used, or others can read its file.
    """

    def __init__(self, settings: SshSettings, known: KnownHosts) -> None:
        self._settings = settings
        self._known = known
        self._key = None if settings.key is None else _load_key(settings.key)
        self._config: Config | None = None
        self._building = threading.Lock()

    def connect(
        self,
        address: Address,
        through: Transport | None = None,
        opening: Opening | None = None,
    ) -> "Connection":
        """Return an open connection.

        Args:
            address: where to.
            through: connection to a jump host, where there is one.
            opening: given the socket before anything is sent on it; whoever shuts it down ends the attempt.

        Raises:
            CannotReach: no answer, no SSH, unknown or changed host key.
            LoginRefused: the account was not let in.
        """
        try:
            sock = self.reach(address, through, opening)
            connection = self._build(address, sock)
            try:
                connection.open()
            except BaseException:
                with suppress(OSError, SSHException, EOFError):  # it may be dead already
                    connection.client.close()
                    sock.close()
                raise
        except (OSError, SSHException, EOFError) as error:
            explain(address, error, self._settings)
        return connection

    def reach(
        self,
        address: Address,
        through: Transport | None = None,
        opening: Opening | None = None,
    ) -> socket.socket | Channel:
        """Return a socket that leads to a host, before any SSH on it; see `connect`.

        Raises:
            OSError, SSHException: there is no way there.
        """
        if through is not None:
            tunnel = self._tunnel(address, through)
            if opening:
                opening(tunnel)
            return tunnel
        sock = self._reached(address, opening)
        sock.settle()
        return sock

    def _reached(self, address: Address, opening: Opening | None) -> Wire:
        """Try the addresses of a host one after the other; `socket.create_connection` would hide the socket."""
        failure: OSError = OSError("its name has no address")
        # Plain names as bytes: for text, Python loads all of Unicode's tables first.
        host = address.host.encode() if address.host.isascii() else address.host
        for family, kind, protocol, _, place in socket.getaddrinfo(host, address.port, 0, socket.SOCK_STREAM):
            sock = Wire(family, kind, protocol)
            sock.settimeout(self._settings.connect_timeout)
            try:
                if opening:
                    opening(sock)
                sock.connect(place)
                return sock
            except OSError as error:
                failure = error
                sock.close()
        raise failure

    def _tunnel(self, address: Address, through: Transport) -> Channel:
        target = (address.host, address.port)
        try:
            return through.open_channel("direct-tcpip", target, ("", 0), timeout=self._settings.connect_timeout)
        except (SSHException, EOFError) as error:
            if through.is_active():
                raise OSError(f"the jump host does not get there: {error}") from None
            raise OSError(JUMP_LOST) from None

    def client(self, address: Address, through: Transport | None = None, opening: Opening | None = None) -> SSHClient:
        """Return a connection without Fabric around it, whose import alone takes longer than many a host's answer.

        Raises:
            CannotReach, LoginRefused: as for `connect`.
        """
        client = SSHClient()
        client.set_missing_host_key_policy(_OnlyKnown(address, self._known))
        try:
            sock = self.reach(address, through, opening)
            try:
                limit = self._settings.connect_timeout
                options = self._options(address, sock, brief=True)
                client.connect(address.host, address.port, address.user, timeout=limit, **options)
            except BaseException:
                with suppress(OSError, SSHException, EOFError):  # it may be dead already
                    client.close()
                    sock.close()
                raise
        except (OSError, SSHException, EOFError) as error:
            explain(address, error, self._settings)
        return client

    def _options(
        self, address: Address, sock: socket.socket | Channel, *, brief: bool
    ) -> dict[str, Any]:  # Any: paramiko's own options
        limit = self._settings.connect_timeout
        return {
            "sock": sock,
            "pkey": self._key,
            "allow_agent": self._key is None,
            "look_for_keys": self._key is None,
            "banner_timeout": limit,
            "auth_timeout": limit,
            "channel_timeout": limit,
            "transport_factory": self.transport_factory(address, brief=brief),
        }

    def _build(self, address: Address, sock: socket.socket | Channel) -> "Connection":
        from fabric import Config, Connection
        from paramiko import SSHConfig

        # Fabric's configuration objects are not made for threads.
        with self._building:
            # Neither the user's nor the system's ssh_config plays a part: what counts is our own configuration.
            self._config = self._config or Config(ssh_config=SSHConfig(), lazy=True)
            connection = Connection(
                host=address.host,
                user=address.user,
                port=address.port,
                config=self._config.clone(),
                connect_timeout=self._settings.connect_timeout,
                connect_kwargs=self._options(address, sock, brief=False),
            )
        connection.client.set_missing_host_key_policy(_OnlyKnown(address, self._known))
        return connection

    def transport_factory(self, address: Address, *, brief: bool) -> Factory:
        """Return what makes a transport to a host that asks for the key types recorded for it first; see `wire`."""
        recorded = self._known.types(address.recorded)
        wanted = [name for kind in recorded for name in _SECOND_NAMES.get(kind, (kind,))]
        return transport_factory(wanted, brief=brief)


class _OnlyKnown(MissingHostKeyPolicy):
    """Believes recorded keys only.

    The client itself is given no host keys, so that every key comes here: paramiko's own table compares with one key
    of each type, and knows neither patterns nor revoked keys.
    """

    def __init__(self, address: Address, known: KnownHosts) -> None:
        self._address = address
        self._known = known

    def missing_host_key(self, client: SSHClient, hostname: str, key: PKey) -> None:  # noqa: ARG002 - paramiko's signature
        presented = HostKey(key.get_name(), key.asbytes())
        standing = self._known.judge(self._address.recorded, presented)
        if standing is not Standing.KNOWN:
            raise _distrust(self._address, presented, standing)


def _distrust(address: Address, key: HostKey, standing: Standing) -> CannotReach:
    seen = f"it presents {key.type} {key.fingerprint}"
    if standing is Standing.UNKNOWN:
        return CannotReach(
            f"{address}: its host key is not known",
            detail=[seen],
            hint=f"compare it with `ssh-keygen -lf` on the host itself, then: maint host trust {address.name}",
        )
    if standing is Standing.REVOKED:
        return CannotReach(f"{address}: ITS HOST KEY HAS BEEN REVOKED", detail=[seen], hint="do not log in there")
    return CannotReach(
        f"{address}: ITS HOST KEY HAS CHANGED: someone may be listening in, or the host was installed anew",
        detail=[seen, "that is none of the keys recorded for it"],
        hint=f"only if you know why it changed: maint host trust {address.name} --replace",
    )


def _load_key(path: Path) -> PKey:
    if read_private(path) is None:
        raise Invalid(f"the SSH key {path} is not there", hint="look at ssh.key")
    try:
        return PKey.from_path(path)
    except Exception as error:  # paramiko lets through whatever its parsers raise
        # Its own words may quote the file.
        raise Invalid(
            f"the SSH key {path} cannot be used",
            detail=[type(error).__name__, "expected: a private key without a passphrase"],
        ) from None


def explain(address: Address, error: Exception, settings: SshSettings) -> NoReturn:
    """Raise what a failed connection means, in words.

    Raises:
        LoginRefused: the account was not let in.
        CannotReach: anything else.
    """
    if isinstance(error, AuthenticationException) or any(words in str(error) for words in _REFUSALS):
        raise LoginRefused(
            f"{address}: {address.user} was not let in",
            detail=[str(error)],
            hint="look at ssh.user and ssh.key, and at authorized_keys on the host",
        ) from None
    raise CannotReach(
        f"{address}: {reason(error, settings.connect_timeout)}",
        hint=f"try: ssh -p {address.port} {address.user}@{address.host}",
    ) from None


def reason(error: Exception, limit: float) -> str:
    """Return what a failure of a connection means.

    Args:
        error: what was raised.
        limit: seconds that an answer was waited for.
    """
    if isinstance(error, socket.gaierror):
        return f"its address cannot be resolved: {error.strerror}"
    if isinstance(error, TimeoutError):
        return f"no answer within {limit:g} s"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"no SSH connection: {str(error) or 'closed by the host'}"


def transport_of(connection: "Connection") -> Transport:
    """Return what the connection's channels go through."""
    transport: Transport = connection.transport
    return transport
