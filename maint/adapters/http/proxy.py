"""Go through an HTTP proxy: each connection is a tunnel, in which nobody but the server at its end can answer."""

import contextlib
import socket
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from urllib.parse import unquote, urlsplit

from requests.utils import should_bypass_proxies

from maint.model.formatting import show_duration

_LOGIN = 407


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


def connect(place: tuple[str, int], proxy: str | None, timeout: float) -> socket.socket:
    """Return a connection to a place, through a proxy if there is one; OSError: none came about in time (seconds)."""
    if proxy is None:
        return socket.create_connection(place, timeout)
    parts = urlsplit(proxy)
    hint = "is it up, and is `proxy` right? what NO_PROXY names is reached without it"
    with contextlib.ExitStack() as undone:
        try:
            found = socket.create_connection((parts.hostname or "", parts.port or 80), timeout)
            undone.callback(found.close)
            status, reason = _asked(found, place, login(proxy))
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
