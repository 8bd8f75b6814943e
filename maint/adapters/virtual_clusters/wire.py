"""Connections to a virtual cluster and its gateway: kept open between calls, wherever the names lead.

Nothing is followed, kept as a cookie, read from the environment or sent twice: no session is used, only its adapter.
"""

import ssl
import threading
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

_PORTS = {"http": 80, "https": 443}


class Wire(HTTPAdapter):
    """Carries requests; may be used by several threads at once.

    Args:
        context: TLS rules; they alone decide what is trusted.
        connect_to: `HOST:PORT` to connect to whatever the name; the name stays in TLS and in the Host header.
        at_once: connections that are kept open.
    """

    def __init__(self, context: ssl.SSLContext, connect_to: str | None, at_once: int) -> None:
        self._context = context
        self._connect_to = connect_to
        self._at_once = at_once
        self._pools: dict[tuple[str, str, int], HTTPConnectionPool] = {}
        self._lock = threading.Lock()
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def cert_verify(self, conn: Any, url: str, verify: object, cert: object) -> None:
        """Leave certificates to the context: requests would add its own list of public authorities to it."""

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: bool | str | None,  # noqa: ARG002  # requests' shape
        proxies: Any = None,  # noqa: ARG002  # requests' shape
        cert: Any = None,  # noqa: ARG002  # requests' shape
    ) -> HTTPConnectionPool:
        """Return the pool of connections for a request's address."""
        parts = urlsplit(str(request.url))
        key = (parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme])
        with self._lock:
            if key not in self._pools:
                self._pools[key] = self._pool(*key)
            return self._pools[key]

    def close(self) -> None:
        """Let go of all connections."""
        with self._lock:
            for pool in self._pools.values():
                pool.close()
            self._pools.clear()
        super().close()

    def _pool(self, scheme: str, name: str, port: int) -> HTTPConnectionPool:
        host, number = name, port
        if self._connect_to:
            host, _, text = self._connect_to.rpartition(":")
            host, number = host.strip("[]"), int(text)
        if scheme == "http":
            return HTTPConnectionPool(host, number, maxsize=self._at_once)
        return HTTPSConnectionPool(
            host,
            number,
            maxsize=self._at_once,
            ssl_context=self._context,
            cert_reqs=self._context.verify_mode.name,
            server_hostname=name,
        )


def host_header(url: str) -> str:
    """Return what stands under `Host` for an address, wherever the connection leads."""
    return urlsplit(url).netloc
