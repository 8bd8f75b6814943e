"""How a server is reached and trusted: sockets that end in time, tunnels of a proxy, why a certificate was refused."""

import contextlib
import math
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import unquote, urlsplit

from requests.utils import should_bypass_proxies

from maint.adapters.clock import uptime
from maint.files import explaining, opened
from maint.model.formatting import show_duration
from maint.retry import heeded

_LOGIN = 407
_SLICE, _SOON = 0.5, 0.001  # seconds between looks at whether a thread's work is over; as good as none


class ProxyFailed(OSError):
    """A proxy did not lead to a server: nothing was sent to that one; `hint` is what to do."""

    def __init__(self, proxy: str, words: str, hint: str) -> None:
        super().__init__(f"the proxy {named(proxy)} {words}")
        self.hint = hint


class NothingBehind(ProxyFailed):
    """A proxy that would lead to a server found none."""


def proxy_for(proxy: str | None, url: str) -> str | None:
    """Return the proxy on the way to an address; None where there is none, or NO_PROXY names the host."""
    return None if proxy is None or should_bypass_proxies(url, no_proxy=None) else proxy


def named(proxy: str) -> str:
    """Return a proxy's host and port, without a login."""
    return urlsplit(proxy).netloc.rpartition("@")[2]


def login(proxy: str) -> dict[str, str]:
    """Return the header that says who asks, where a proxy's address does; only that of the environment can."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode('ascii')}"}


class Timed(socket.socket):
    """A socket that is over at a moment, however little comes at a time."""

    ends = math.inf  # by `uptime`

    @classmethod
    def over(cls, plain: socket.socket) -> Self:
        """Return a socket in place of another one."""
        limit = plain.gettimeout()
        made = cls(plain.family, plain.type, plain.proto, fileno=plain.detach())
        made.settimeout(limit)
        return made

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        """Receive, for no longer than is left."""
        return _received(self, partial(super().recv_into, *arguments, **options))

    def sendall(self, *arguments: Any) -> None:
        """Send, for no longer than is left."""
        _arm(self)
        super().sendall(*arguments)


class TimedTls(ssl.SSLSocket):
    """The same over TLS."""

    ends = math.inf

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        """Receive, for no longer than is left."""
        return _received(self, partial(super().recv_into, *arguments, **options))

    def send(self, *arguments: Any, **options: Any) -> int:
        """Send, for no longer than is left."""
        _arm(self)
        return super().send(*arguments, **options)


def _received(sock: "Timed | TimedTls", receive: Callable[[], int]) -> int:
    _arm(sock)
    stop, limit = heeded(), cast(float, sock.gettimeout())
    if stop is None:
        return receive()
    until = uptime() + limit
    try:
        while not stop.is_set():
            sock.settimeout(max(min(until - uptime(), _SLICE), _SOON))
            try:
                return receive()
            except TimeoutError:
                if uptime() >= until:
                    raise
        raise TimeoutError("timed out")
    finally:
        sock.settimeout(limit)


def _arm(sock: "Timed | TimedTls") -> None:
    left = sock.ends - uptime()
    if left <= 0:
        raise TimeoutError("timed out")
    limit = sock.gettimeout()
    if limit is None or left < limit:
        sock.settimeout(left)


def connect(place: tuple[str, int], proxy: str | None, timeout: float) -> socket.socket:
    """Return a connection to a place, through a proxy if there is one; OSError: none came about in time (seconds)."""
    if proxy is None:
        return socket.create_connection(place, timeout)
    parts = urlsplit(proxy)
    hint = "is it up, and is `proxy` right? what NO_PROXY names is reached without it"
    with contextlib.ExitStack() as undone:
        try:
            found = Timed.over(socket.create_connection((parts.hostname or "", parts.port or 80), timeout))
            undone.callback(found.close)
            found.ends = uptime() + timeout
            status, reason = _asked(found, place, login(proxy))
            found.ends = math.inf
            found.settimeout(timeout)
        except TimeoutError:
            raise ProxyFailed(proxy, f"gave no answer in {show_duration(timeout)}", hint) from None
        except ConnectionRefusedError:
            raise ProxyFailed(proxy, "refused the connection", hint) from None
        except socket.gaierror:
            raise ProxyFailed(proxy, "is a host name that is not known", hint) from None
        except (OSError, HTTPException):
            raise ProxyFailed(proxy, "closed the connection or does not speak HTTP", hint) from None
        words = f"answered {status} {reason[:60]}".rstrip()
        if status >= 500:
            raise NothingBehind(proxy, words, f"does {place[0]} answer on port {place[1]}? the proxy's log says more")
        if status == _LOGIN:
            raise ProxyFailed(proxy, words, "`proxy` cannot hold a login: it must let this machine through without one")
        if status != 200:
            raise ProxyFailed(proxy, words, f"it must be allowed to lead to {place[0]}, port {place[1]} (CONNECT)")
        undone.pop_all()
    return found


def _asked(proxy: socket.socket, place: tuple[str, int], headers: Mapping[str, str]) -> tuple[int, str]:
    host = f"[{place[0]}]" if ":" in place[0] else place[0].encode("idna").decode()
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    proxy.sendall(f"CONNECT {host}:{place[1]} HTTP/1.1\r\nHost: {host}:{place[1]}\r\n{more}\r\n".encode())
    answer = HTTPResponse(proxy, method="CONNECT")
    try:
        answer.begin()
    finally:
        answer.close()
    return answer.status, answer.reason


_ANY_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, which the ssl module has no name for
_LIMIT = 10.0  # seconds

# OpenSSL's numbers (X509_V_ERR_…), which stay when its texts change.
_REASONS = {
    9: "the certificate is not valid yet",
    10: "the certificate has expired",
    18: "the certificate is self-signed, and not one that is believed",
    19: "the chain ends in a root that is not believed",
    20: "no authority that is believed has issued it",
    21: "no authority that is believed has issued it",
    62: "the certificate is for another host name",
    64: "the certificate is for another address",
}
_TIME, _NAME = (9, 10), (62, 64)

Stamp = tuple[tuple[str, int, int, int], ...]


def context(ca: Path | None, *, insecure: bool, hint: str) -> ssl.SSLContext:
    """Return TLS rules that believe a PEM file, or the system's authorities where none is named.

    An intermediate certificate in the file is an anchor in its own right, as it is for curl.

    Args:
        hint: what to do about a file that cannot be used, which is `Invalid`.
    """
    if insecure:
        return _unverified()
    with explaining(f"the CA file {ca} cannot be used", hint):
        if ca:
            opened(ca).close()  # OpenSSL would wait for whoever writes to a named pipe
        made = ssl.create_default_context(cafile=str(ca) if ca else None)
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Python 3.13 sets it; authorities of older managers lack key ids, self-signed certificates lack extensions.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return made


def stamp(ca: Path | None) -> Stamp:
    """Return what changes when the authorities that `context` would believe may have changed."""
    paths = ssl.get_default_verify_paths()
    files = (ca,) if ca else tuple(Path(one) for one in (paths.cafile, paths.capath) if one)
    return tuple((str(path), told.st_ino, told.st_size, told.st_mtime_ns) for path in files if (told := _told(path)))


def _told(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:  # `context` says what is wrong with it
        return None


def reason(error: ssl.SSLCertVerificationError, host: str) -> str:
    """Return in words why a chain was not accepted for a host."""
    words = _REASONS.get(error.verify_code, error.verify_message)
    return f"{words} than {host}" if error.verify_code in _NAME else words


def remedy(error: ssl.SSLCertVerificationError, *, authority: str, name: str) -> str:
    """Return what mends a certificate; `authority`: where its issuer is unknown, `name`: the setting of the host."""
    if error.verify_code in _TIME:
        return "renew the server's certificate, or set the clock right: this machine's or the server's"
    if error.verify_code in _NAME:
        return f"{name} must be a name that the certificate is for; or the server gets a certificate for that name"
    return authority


def presented(place: tuple[str, int], name: str, timeout: float, proxy: str | None = None) -> tuple[str, ...]:
    """Return in words what a server shows for a name, trusted or not; nothing if it shows none in time (seconds)."""
    shown = _presented(place, name, timeout, proxy)
    return _lines(shown) if shown else ()


def presented_end(place: tuple[str, int], name: str, timeout: float, proxy: str | None = None) -> datetime | None:
    """Return when the certificate ends that a server shows, trusted or not; None if it shows none in time (seconds)."""
    end = _presented(place, name, timeout, proxy).get("notAfter")
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(end), UTC) if isinstance(end, str) else None


def _presented(
    place: tuple[str, int], name: str, timeout: float, proxy: str | None
) -> dict[str, Any]:  # Any: ssl's shape
    with contextlib.suppress(OSError, ValueError):
        raw = presented_der(place, name, timeout, proxy)
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _ANY_TIME
        trusting.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(raw))
        with connect(place, proxy, timeout) as plain, trusting.wrap_socket(plain, server_hostname=name) as tls:
            return tls.getpeercert() or {}
    return {}


def presented_der(place: tuple[str, int], name: str, timeout: float = _LIMIT, proxy: str | None = None) -> bytes:
    """Return the certificate (DER) that a server shows for a name; OSError where none came in time (seconds)."""
    with connect(place, proxy, timeout) as plain, _unverified().wrap_socket(plain, server_hostname=name) as tls:
        return tls.getpeercert(binary_form=True) or b""


def _unverified() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def _lines(shown: dict[str, Any]) -> tuple[str, ...]:  # Any: ssl's shape
    names = [value for _, value in shown.get("subjectAltName", ())]
    return (
        f"presented: {_name(shown.get('subject', ()))}",
        f"issued by: {_name(shown.get('issuer', ()))}",
        f"valid: {shown.get('notBefore', '?')} to {shown.get('notAfter', '?')}",
        f"for: {', '.join(names) or 'no name at all'}",
    )


def _name(parts: Sequence[Sequence[tuple[str, str]]]) -> str:
    return ", ".join(f"{key}={value}" for part in parts for key, value in part)
