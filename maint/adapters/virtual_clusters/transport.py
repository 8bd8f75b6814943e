"""Send one request once, and say in our own words how it failed: before anything left, or after."""

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import cast
from urllib.parse import urlsplit

import msgspec
import requests
import urllib3
from requests.auth import AuthBase
from urllib3.util import Timeout

from maint.adapters.manager.certificate import reason
from maint.adapters.manager.failure import chain, root_of, words_for
from maint.adapters.manager.transport import Broken, NotSent
from maint.adapters.virtual_clusters.multipart import Form
from maint.adapters.virtual_clusters.tls import rules
from maint.adapters.virtual_clusters.wire import Wire, host_header
from maint.config.schema import VirtualClusterSettings
from maint.errors import MaintError
from maint.model.secret import Secret

_UNSENT = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError, ssl.SSLCertVerificationError)


class Timeouts(msgspec.Struct, frozen=True):
    """How long to wait, in seconds.

    Attributes:
        connect: for a connection, TLS included.
        read: for the answer to a call, and for each further part of it.
        upload: for the answer to an upload.
    """

    connect: float = 10.0
    read: float = 120.0
    upload: float = 600.0


class Bearer(AuthBase):
    """Sends an access token."""

    def __init__(self, token: Secret) -> None:
        self.token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the header."""
        request.headers["Authorization"] = f"Bearer {self.token.reveal()}"
        return request


class Call(msgspec.Struct, frozen=True):
    """One request to come.

    Attributes:
        method: GET, POST, PUT, PATCH or DELETE.
        url: percent-encoded, with the query.
        accept: the media type that is hoped for.
        json: a body as bytes of JSON.
        form: a body as a form with a file.
        headers: further ones.
    """

    method: str
    url: str
    accept: str = "application/json"
    json: bytes | None = None
    form: Form | None = None
    headers: Mapping[str, str] = {}

    @property
    def what(self) -> str:
        """The call in words, without its query."""
        return f"{self.method} {urlsplit(self.url).path}"


class Transport:
    """Virtual cluster and gateway, reached as the settings say."""

    def __init__(
        self, settings: VirtualClusterSettings, timeouts: Timeouts, warn: Callable[[str], None], at_once: int = 16
    ) -> None:
        self.settings = settings
        self.timeouts = timeouts
        self._warn = warn
        self._at_once = at_once
        self._wire: Wire | None = None

    def send(self, call: Call, auth: AuthBase) -> requests.Response:
        """Send a request once and return the answer, its body unread; redirects are answers like any other.

        Raises:
            NotSent: nothing has left.
            Broken: something may have.
            Invalid: the CA file cannot be used.
        """
        wire, prepared = self._connected(), _prepare(call, auth)
        limit = self.timeouts.upload if call.form else self.timeouts.read
        limits = Timeout(connect=self.timeouts.connect, read=limit)
        try:
            return wire.send(prepared, stream=True, timeout=cast(float, limits))
        except BaseException as error:
            caught = error
        # The frames below hold the Authorization header, and a traceback may show them: cut them off.
        failure = self._explain(caught, call, limit) if isinstance(caught, requests.RequestException) else caught
        failure.__context__ = failure.__cause__ = None
        raise failure.with_traceback(None)

    def close(self) -> None:
        """Let go of all connections."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _connected(self) -> Wire:
        if self._wire is None:
            if self.settings.insecure:
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # ours says more
                self._warn(
                    f"the certificate of {urlsplit(self.settings.base_url).hostname} is not verified: "
                    "`tls-insecure` is set; anyone on the way can read the password"
                )
            self._wire = Wire(rules(self.settings), self.settings.connect_to, self._at_once)
        return self._wire

    def _explain(self, error: Exception, call: Call, limit: float) -> MaintError:
        root, parts = root_of(error), urlsplit(call.url)
        address = f"{parts.scheme}://{parts.netloc}"
        if isinstance(root, ssl.SSLCertVerificationError):
            return self._untrusted(root, address, parts.hostname or "")
        unsent = any(isinstance(inner, _UNSENT) for inner in chain(error, set()))
        words = words_for(root, self.timeouts.connect if unsent else limit)
        failure = (NotSent if unsent else Broken)(f"{address}: {words}", hint=self._hint(root) if unsent else None)
        failure.words = words
        return failure

    def _hint(self, root: BaseException) -> str:
        if self.settings.connect_to:
            return f"connections go to {self.settings.connect_to} (`connect_to`): is that the way in?"
        if isinstance(root, socket.gaierror):
            return "`connect_to` in the config reaches a virtual cluster whose name does not resolve"
        return "is the virtual cluster up, and is its address right?"

    def _untrusted(self, error: ssl.SSLCertVerificationError, address: str, host: str) -> NotSent:
        words = reason(error, host)
        trusted = f"trusted: {self.settings.ca or 'the authorities of the system'}"
        failure = NotSent(
            f"{address} cannot be trusted: {words}",
            detail=[trusted],
            hint=f"name its authority under `ca`; a new virtual cluster gets its certificate by `maint vc init "
            f"{self.settings.name}` (the utility's init-virtual-cluster), and the utility's own last a year",
        )
        failure.words = f"certificate not accepted: {words}"
        return failure


def _prepare(call: Call, auth: AuthBase) -> requests.PreparedRequest:
    headers = {"Accept": call.accept, "User-Agent": "maint", "Host": host_header(call.url), **call.headers}
    if call.json is not None:
        headers["Content-Type"] = "application/json"
    prepared = requests.Request(call.method, call.url, headers=headers, data=call.json, auth=auth).prepare()
    if call.form is not None:  # prepared by hand: requests would read the whole file into memory
        prepared.body = cast(bytes, call.form)
        prepared.headers["Content-Type"] = call.form.type
        prepared.headers["Content-Length"] = str(call.form.length)
    return prepared
