"""Knock at a virtual cluster without logging in: is there still one at that address?"""

import http.client
import socket
import ssl
from urllib.parse import urlsplit

_PATIENCE = 10.0  # seconds
_GONE = 404  # what the ingress says of a host that it does not know


def knock(base_url: str, connect_to: str | None = None) -> bool:
    """Return whether a jobs API answers there, however it answers.

    Args:
        base_url: where its API is, or was.
        connect_to: `HOST:PORT` to connect to where the name does not resolve.
    """
    parts = urlsplit(base_url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    line = http.client.HTTPConnection(host, parts.port or (443 if secure else 80), timeout=_PATIENCE)
    try:
        plain = _connected(host, line.port, connect_to)
        line.sock = _without_trust().wrap_socket(plain, server_hostname=host) if secure else plain
        line.request("GET", f"{parts.path.rstrip('/')}/info")
        return line.getresponse().status != _GONE
    except ssl.SSLError:
        return True  # somebody is there
    except (OSError, http.client.HTTPException):
        return False
    finally:
        line.close()


def _connected(host: str, port: int, connect_to: str | None) -> socket.socket:
    try:
        return socket.create_connection((host, port), _PATIENCE)
    except socket.gaierror:
        if not connect_to:
            raise
    other, _, number = connect_to.rpartition(":")
    return socket.create_connection((other, int(number)), _PATIENCE)


def _without_trust() -> ssl.SSLContext:
    """Return how to greet whoever is there: no secret is sent, and an expired certificate is an answer too."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
