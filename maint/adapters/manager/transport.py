"""Send one request once, and say in our own words how it failed: before anything left, or after."""

import ssl
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import msgspec
import requests
import urllib3
from requests.auth import AuthBase
from urllib3.util import Timeout

from maint.adapters.manager import certificate
from maint.adapters.manager.failure import root_of, words_for
from maint.adapters.manager.wire import Wire
from maint.config.schema import ManagerSettings
from maint.errors import CannotReach, MaintError
from maint.model.manager import Door
from maint.model.secret import Secret


class Timeouts(msgspec.Struct, frozen=True):
    """How long to wait, in seconds.

    Attributes:
        connect: for a connection, TLS included.
        knock: for the answer to an anonymous knock.
        read: for the answer to a read.
        write: for the answer to a change other than a deployment's.
        export: for the next bytes of an export; a large manager thinks for minutes (contract section 7).
    """

    connect: float = 10.0
    knock: float = 10.0
    read: float = 120.0
    write: float = 600.0
    export: float = 1800.0


class NotSent(CannotReach):
    """No connection came about: nothing has left. `words` is the short form."""

    words = "no connection"


class Broken(CannotReach):
    """The connection stood, and no whole answer came. `words` is the short form."""

    words = "no answer"


class Basic(AuthBase):
    """Sends an account's name and password ahead of any challenge, in UTF-8 (contract section 2.2)."""

    def __init__(self, username: str, password: Secret) -> None:
        self.username = username
        self._password = password

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header."""
        pair = b64encode(f"{self.username}:{self._password.reveal()}".encode())
        request.headers["Authorization"] = "Basic " + pair.decode("ascii")
        return request


class Call(msgspec.Struct, frozen=True):
    """One request to come.

    Attributes:
        method: GET, POST, PUT or DELETE.
        path: with the query, percent-encoded.
        read: seconds to wait for the answer, and for each further part of it.
        total: seconds for sending and waiting together; None where `read` is enough.
        headers: besides the usual ones.
        json: a body as bytes of JSON.
        file: a body as one part of a form: part name, file name, content.
        blocks: a body as blocks, `length` bytes in all.
    """

    method: str
    path: str
    read: float
    total: float | None = None
    headers: Mapping[str, str] = {}
    json: bytes | None = None
    file: tuple[str, str, bytes] | None = None
    blocks: Iterable[bytes] | None = None
    length: int = 0


class Transport:
    """Both ports of one manager."""

    def __init__(self, settings: ManagerSettings, timeouts: Timeouts, warn: Callable[[str], None]) -> None:
        self.settings = settings
        self.timeouts = timeouts
        self._warn = warn

    def port(self, door: Door) -> int:
        """Return the port behind a door."""
        return self.settings.tls_port if door is Door.TLS else self.settings.plain_port

    def address(self, door: Door) -> str:
        """Return scheme, host and port as an operator would type them."""
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"{'https' if door is Door.TLS else 'http'}://{host}:{self.port(door)}"

    def send(self, door: Door, call: Call, auth: Basic | None = None) -> requests.Response:
        """Send a request once and return the answer, its body unread; redirects are answers like any other.

        Raises:
            NotSent: nothing has left.
            Broken: something may have.
            Invalid: the CA file cannot be used.
        """
        wire = Wire(self._rules(door), call.total or call.read)
        limits = Timeout(connect=self.timeouts.connect, read=call.read, total=call.total)
        prepared = _prepare(self.address(door) + call.path, call, auth)
        try:
            return wire.send(prepared, stream=True, timeout=cast(float, limits), verify=not self.settings.insecure)
        except BaseException as error:
            caught = error
        # The frames below hold the Authorization header, and a traceback may show them: cut them off.
        failure = self._explain(caught, wire, door, call) if isinstance(caught, requests.RequestException) else caught
        failure.__context__ = failure.__cause__ = None
        raise failure.with_traceback(None)

    def _rules(self, door: Door) -> ssl.SSLContext | None:
        if door is not Door.TLS:
            return None
        if self.settings.insecure:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # ours says more
            self._warn(f"the certificate of {self.address(door)} is not verified (insecure is set)")
        return certificate.rules(self.settings)

    def _explain(self, error: Exception, wire: Wire, door: Door, call: Call) -> MaintError:
        root = root_of(error)
        if isinstance(root, ssl.SSLCertVerificationError) and not wire.connected:
            return self._untrusted(root, door)
        seconds = call.read if wire.connected else self.timeouts.connect
        words = words_for(root, seconds)
        kind = Broken if wire.connected else NotSent
        failure = kind(f"{self.address(door)}: {words}", hint=None if wire.connected else _hint(self.settings))
        failure.words = words
        return failure

    def _untrusted(self, error: ssl.SSLCertVerificationError, door: Door) -> NotSent:
        words = certificate.reason(error, self.settings.host)
        ca = self.settings.ca
        failure = NotSent(
            f"{self.address(door)} cannot be trusted: {words}",
            detail=certificate.hints(self.settings.host, self.port(door), ca, self.timeouts.connect),
            hint="manager.ca must name a PEM file that the chain leads to, manager.host the name it is for",
        )
        failure.words = f"certificate not accepted: {words}"
        return failure


def _hint(settings: ManagerSettings) -> str:
    return f"is the manager up, and are {settings.host}, {settings.plain_port} and {settings.tls_port} right?"


def _prepare(url: str, call: Call, auth: Basic | None) -> requests.PreparedRequest:
    headers = {"Accept": "*/*", "Connection": "close", "User-Agent": "maint", **call.headers}
    if call.json is not None or call.blocks is not None:
        headers["Content-Type"] = "application/json"
    files = {call.file[0]: (call.file[1], call.file[2], "text/plain")} if call.file else None
    request = requests.Request(call.method, url, headers=headers, data=call.json, files=files, auth=auth)
    prepared = request.prepare()
    if call.blocks is not None:  # prepared by hand: requests would choose chunks for it (contract section 14, U21)
        prepared.body = cast(bytes, call.blocks)
        prepared.headers["Content-Length"] = str(call.length)
    return prepared
