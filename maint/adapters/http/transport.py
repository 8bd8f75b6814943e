"""Send one request once; a failure says whether anything may have left."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from http.client import HTTPMessage, HTTPResponse
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import requests
import urllib3
from msgspec import Struct
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import Timeout

from maint.adapters.clock import seconds_left, uptime
from maint.adapters.http import tls
from maint.adapters.http.answers import NoAnswer, Reply, read_reply
from maint.adapters.http.request import HttpCall, Timeouts
from maint.adapters.http.tls import ProxyFailed, Timed, TimedTls, connect, login, named, proxy_for
from maint.errors import CannotReach, DeadlinePassed, MaintError, NotTrusted
from maint.model.formatting import show_duration

# A connection cut within a handshake is the second for Python 3.11.2, the first for later ones.
_DROPPED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError)
_NO_CERTIFICATE = "maint shows no certificate of its own: name a port that asks for none, or have this one ask for none"
_PORTS = {"http": 80, "https": 443}
_GRACE = 1.0  # seconds by which a command's own limit goes off before a socket's
# Seconds within which a read takes the connection of the one before: what lies between may forget one that is silent.
_FRESH = 3.0
_READS_AT_ONCE = 8  # connections that several threads leave for each other


class NotSent(CannotReach):
    """No connection came about: nothing has left; `words` is the short form, `why` the kind of failure at its root."""

    words = "no connection"
    why: type[BaseException] = OSError


class Untrusted(NotSent, NotTrusted):
    """The server's certificate was not accepted: nothing but the host's name has left."""


class Peer(Struct, frozen=True):
    """A server and how it is reached."""

    ca: Path | None = None  # PEM file with the authorities to believe; None: the system's
    ca_hint: str = ""  # what to do about a CA file that cannot be used
    authority_hint: str = ""  # what to do about a certificate of an authority that is not in it
    name_setting: str = ""  # the setting that names the host
    unreachable: Callable[[BaseException], str] = lambda _: ""  # what to do where there is no connection, given why
    insecure: bool = False
    unverified: str = ""  # the warning for each new connection; `{origin}` is filled in
    # `HOST:PORT` to connect to whatever the name, which stays in TLS and in the Host header
    connect_to: str | None = None
    proxy: str | None = None  # `http://HOST:PORT`, which leads to all hosts but those that NO_PROXY names
    # the proxy as other programs use theirs: whatever NO_PROXY says, and without a tunnel where there is no TLS
    usual_proxy: bool = False
    # connections kept between calls; 0: each request gets a new one, but for reads that follow each other (`stream`)
    keep_open: int = 0

    def way(self, url: str) -> str | None:
        """Return the proxy on the way to an address, None where there is none."""
        return self.proxy if self.usual_proxy else proxy_for(self.proxy, url)

    def place(self, host: str, port: int) -> tuple[str, int]:
        """Return where to connect for an address."""
        if not self.connect_to:
            return host, port
        other, _, number = self.connect_to.rpartition(":")
        return other.strip("[]"), int(number)

    def trust(self) -> ssl.SSLContext:
        """Return the TLS rules as they stand now: the authorities may have been replaced; Invalid where unusable."""
        return _context(self.ca, self.insecure, self.ca_hint, tls.stamp(self.ca))


class Transport:
    """Sends requests to one peer, from several threads at once; warns, in words, when certificates are not verified."""

    def __init__(self, peer: Peer, timeouts: Timeouts, warn: Callable[[str], None]) -> None:
        self.peer = peer
        self.timeouts = timeouts
        self._warn = warn
        self._lock = threading.Lock()
        self._adapter: _Adapter | None = None
        self._fresh_until = 0.0  # by `uptime`

    def fetch(self, call: HttpCall, auth: AuthBase | None = None) -> Reply:
        """Send a request once and return the whole answer; NotSent: nothing has left, NoAnswer: it may have."""
        return read_reply(self._send(call, auth, call.total or self.timeouts.whole))

    def stream(self, call: HttpCall, auth: AuthBase | None = None, *, among_reads: bool = False) -> requests.Response:
        """Send a request once and return the answer, its body unread; raises as `fetch` does.

        Args:
            among_reads: whether it may take the connection of a read a moment ago; one that is dead fails: ask again.
        """
        return self._send(call, auth, call.total or self.timeouts.stream, among_reads=among_reads)

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            if self._adapter is not None:
                self._adapter.close()
            self._adapter = None

    def _send(
        self, call: HttpCall, auth: AuthBase | None, total: float, *, among_reads: bool = False
    ) -> requests.Response:
        kept = among_reads or self.peer.keep_open > 0
        adapter = self._connected(call, kept)
        headers = {} if kept else {"Connection": "close"}
        prepared = call.prepare(auth, headers)
        left = seconds_left()
        limit = total if left is None else min(total, left + _GRACE)
        exchange = _Exchange(uptime() + limit, call.read)
        under_way = _UNDER_WAY.set(exchange)
        try:
            limits = Timeout(connect=self.timeouts.connect, read=call.read)
            return adapter.send(prepared, stream=True, timeout=cast(float, limits))
        except BaseException as error:
            caught = error
        finally:
            _UNDER_WAY.reset(under_way)
        if isinstance(caught, DeadlinePassed):
            caught.awaited = call.origin
        # The frames below hold the Authorization header, and a traceback may show them: cut them off.
        known = isinstance(caught, requests.RequestException | urllib3.exceptions.HTTPError)
        failure = self._explain(cast(Exception, caught), call, limit, connected=exchange.connected) if known else caught
        failure.__context__ = failure.__cause__ = None
        raise failure.with_traceback(None)

    def _connected(self, call: HttpCall, kept: bool) -> "_Adapter":
        with self._lock:
            now = uptime()
            fresh = self.peer.keep_open or now < self._fresh_until
            if kept:
                self._fresh_until = now + _FRESH
            if kept and fresh and self._adapter is not None:
                return self._adapter
            secure = call.url.startswith("https:")
            if self.peer.insecure and (secure or self.peer.keep_open):
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # ours says more
                self._warn(self.peer.unverified.format(origin=call.origin))
            made = _Adapter(self.peer)
            if kept:
                self._adapter = made
            return made

    def _explain(self, error: Exception, call: HttpCall, limit: float, *, connected: bool) -> MaintError:
        root = _root(error)
        if isinstance(root, ssl.SSLCertVerificationError) and not connected:
            return self._untrusted(root, call)
        words = _words(root, min(call.read, limit) if connected else self.timeouts.connect)
        proxy = None if isinstance(root, ProxyFailed) else self.peer.way(call.url)
        if proxy:
            words += f", through the proxy {named(proxy)}"
        if connected:
            lost = NoAnswer(f"{call.origin}: {words}", hint=_lost_hint(call, root))
            lost.words, lost.late = words, isinstance(root, TimeoutError)
            return lost
        hint = root.hint if isinstance(root, ProxyFailed) else _tls_hint(call, root) or self.peer.unreachable(root)
        unsent = NotSent(f"{call.origin}: {words}", hint=hint)
        unsent.words, unsent.why = words, type(root)
        return unsent

    def _untrusted(self, error: ssl.SSLCertVerificationError, call: HttpCall) -> Untrusted:
        host, port = _address(call.url)
        words, proxy = tls.reason(error, host), self.peer.way(call.url)
        shown = tls.presented(self.peer.place(host, port), host, self.timeouts.connect, proxy)
        through = [f"through the proxy {named(proxy)}"] if proxy else []
        failure = Untrusted(
            f"{call.origin} cannot be trusted: {words}",
            detail=(f"trusted: {self.peer.ca or 'the authorities of the system'}", *shown, *through),
            hint=tls.remedy(error, authority=self.peer.authority_hint, name=self.peer.name_setting),
        )
        failure.words, failure.why = f"certificate not accepted: {words}", type(error)
        return failure


class _Exchange:
    """One request under way.

    Attributes:
        ends: by `uptime`, when all of it must be over.
        sending: seconds that sending one block may take.
        connected: whether the connection, TLS included, stood: before that nothing can have left.
    """

    def __init__(self, ends: float, sending: float) -> None:
        self.ends = ends
        self.sending = sending
        self.connected = False


_UNDER_WAY: ContextVar[_Exchange] = ContextVar("_UNDER_WAY")


class _Final(HTTPResponse):
    """The answer behind whatever only says that one is to come: Python passes over 100 alone, not 102 and 103."""

    def begin(self) -> None:
        """Read the head of an answer."""
        super().begin()
        while 100 < self.status < 200 and self.status != 101:  # after 101 no HTTP follows
            self.headers = self.msg = cast(HTTPMessage, None)  # else nothing more would be read
            super().begin()


class _Watched(HTTPConnection):
    """A connection that says when it stands, and swaps the short time-out of connecting for that of sending."""

    response_class = _Final

    def __init__(self, *arguments: Any, through: str | None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.through = through

    def connect(self) -> None:
        """Connect, through the proxy if there is one."""
        if self.through is None:
            super().connect()
        else:
            self.sock = connect((self.host, self.port), self.through, cast(float, self.timeout))

    def request(self, *arguments: Any, **options: Any) -> None:
        """Send a request's head and body."""
        if self.sock is None:  # else http.client would connect with the headers, credentials too, in its frames
            self.connect()
        if not isinstance(self.sock, Timed | TimedTls):
            self.sock = Timed.over(self.sock)
        exchange = _UNDER_WAY.get()
        exchange.connected = True
        self.timeout = exchange.sending
        self.sock.settimeout(exchange.sending)
        self.sock.ends = exchange.ends
        super().request(*arguments, **options)


class _WatchedTls(_Watched, HTTPSConnection):
    """The same over TLS, by the rules that `trusting` returns at each connecting: the authorities may be replaced."""

    def __init__(self, *arguments: Any, trusting: Callable[[], ssl.SSLContext], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._trusting = trusting

    def connect(self) -> None:
        """Connect, through the proxy if there is one."""
        self.ssl_context = context = self._trusting()
        super().connect()
        if self.through is not None:
            self.sock = context.wrap_socket(self.sock, server_hostname=self.server_hostname)
            self.is_verified = context.verify_mode is ssl.CERT_REQUIRED


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Watched


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTls


class _Adapter(HTTPAdapter):
    """Carries requests without what a requests session adds: redirects, cookies, .netrc, repeats (M2.1)."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._pools: dict[tuple[str, str, int], HTTPConnectionPool] = {}
        self._lock = threading.Lock()
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def cert_verify(self, conn: Any, url: str, verify: object, cert: object) -> None:
        """Leave certificates to our TLS rules: requests would add its own list of public authorities."""

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: bool | str | None,  # noqa: ARG002  # requests' shape
        proxies: Any = None,  # noqa: ARG002  # requests' shape
        cert: Any = None,  # noqa: ARG002  # requests' shape
    ) -> HTTPConnectionPool:
        """Return the pool of connections for a request's address."""
        url = str(request.url)
        host, port = _address(url)
        key = (urlsplit(url).scheme, host, port)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = self._pool(*key, self._peer.way(url))
            return self._pools[key]

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        """Return what is asked for: a path, or for a proxy that is not a tunnel the whole address."""
        url = str(request.url)
        if not self._peer.usual_proxy or url.startswith("https:") or not (proxy := self._peer.way(url)):
            return super().request_url(request, proxies)
        request.headers.update(login(proxy))
        return url

    def close(self) -> None:
        with self._lock:
            for pool in self._pools.values():
                pool.close()
            self._pools.clear()
        super().close()

    def _pool(self, scheme: str, name: str, port: int, through: str | None) -> HTTPConnectionPool:
        host, number = self._peer.place(name, port)
        if self._peer.usual_proxy and scheme == "http" and through:
            host, number = _address(through)
            through = None
        most = self._peer.keep_open or _READS_AT_ONCE
        if scheme == "http":
            return _PlainPool(host, number, maxsize=most, through=through)
        rules: dict[str, Any] = {"cert_reqs": self._peer.trust().verify_mode.name, "server_hostname": name}
        # Urllib3 keeps what connections refer to until exit: the adapter refers to its pools, the peer does not.
        return _TlsPool(host, number, maxsize=most, through=through, trusting=self._peer.trust, **rules)


@lru_cache(maxsize=8)  # reading the system's authorities takes 20 ms, and most requests get a connection of their own
def _context(ca: Path | None, insecure: bool, hint: str, _stamp: tls.Stamp) -> ssl.SSLContext:
    made = tls.context(ca, insecure=insecure, hint=hint)
    made.sslsocket_class = TimedTls
    return made


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme]


def _lost_hint(call: HttpCall, root: BaseException) -> str:
    if _asks_certificate(root):
        return _NO_CERTIFICATE
    if call.method != "GET":
        return "`maint site status` shows who answers now; a change that was sent may have been carried out"
    again = "ask again; where it stays so, the server's log says why"
    # With TLS 1.3 the handshake is over for us before the server has missed our certificate.
    demands = call.url.startswith("https:") and isinstance(root, _DROPPED)
    return f"{again}, such as that it asks clients for a certificate: maint shows none" if demands else again


def _asks_certificate(root: BaseException) -> bool:
    return isinstance(root, ssl.SSLError) and str(root.reason).endswith(("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE"))


def _tls_hint(call: HttpCall, root: BaseException) -> str | None:
    if _asks_certificate(root):
        return _NO_CERTIFICATE
    if call.url.startswith("https:") and isinstance(root, _DROPPED):
        return "the port closed the connection before TLS stood: see the server's log; a proxy may do it, too"
    if isinstance(root, ssl.SSLError):
        return "is this the port for TLS? It must allow TLS 1.2 or later, and ask clients for no certificate"
    return None


def _words(root: BaseException, seconds: float) -> str:
    if isinstance(root, ProxyFailed):
        return str(root)
    if isinstance(root, ConnectionRefusedError):
        return "refused"
    if isinstance(root, socket.gaierror):
        return "the host name is not known"
    if isinstance(root, TimeoutError):
        return f"no answer in {show_duration(seconds)}"
    if isinstance(root, _DROPPED):
        return "closed the connection without an answer"
    if _asks_certificate(root):
        return "asks clients for a certificate"
    if isinstance(root, ssl.SSLError):
        return f"does not speak TLS as we do ({root.reason or 'no reason given'})"
    if isinstance(root, OSError) and root.strerror:
        return root.strerror.lower()
    return "closed the connection or answered something that is not HTTP"


def _root(error: BaseException) -> BaseException:
    # What the operating system or OpenSSL said stands below all that was wrapped around it.
    deepest = error
    for found in _chain(error, set()):
        if isinstance(found, OSError) and not isinstance(found, requests.RequestException):
            return found
        if isinstance(found, urllib3.exceptions.TimeoutError):
            deepest = TimeoutError()
    return deepest


def _chain(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    if id(error) in seen:
        return
    seen.add(id(error))
    yield error
    for inner in (*error.args, getattr(error, "reason", None), error.__cause__, error.__context__):
        if isinstance(inner, BaseException):
            yield from _chain(inner, seen)
