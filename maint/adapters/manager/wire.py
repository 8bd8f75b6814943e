"""One connection for one exchange: what requests does by default and a management API must not meet, left out.

A requests session would follow redirects, keep cookies and read .netrc and proxy variables; a pooled connection may
be half dead, and urllib3 would then send again. So every exchange gets an adapter of its own, without a session:
nothing is followed, kept, read from the environment or sent twice (contract section 2.1).
"""

import ssl
from typing import Any, cast

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool


class Wire(HTTPAdapter):
    """Carries one request.

    Args:
        context: TLS rules; they alone decide what is trusted.
        patience: seconds that sending one block may take, once connected.

    Attributes:
        connected: whether the connection, TLS included, stood: before that nothing can have left.
    """

    def __init__(self, context: ssl.SSLContext | None, patience: float) -> None:
        self._context = context
        self._patience = patience
        self.connected = False
        super().__init__(pool_connections=1, pool_maxsize=1, max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
        """Hand our TLS rules to every connection (options: whatever requests passes on)."""
        if self._context is not None:
            options["ssl_context"] = self._context
        super().init_poolmanager(connections, maxsize, block, **options)

    def cert_verify(self, conn: Any, url: str, verify: object, cert: object) -> None:  # noqa: ARG002  # requests' shape
        """Leave certificates to the context: requests would add its own list of public authorities to it."""
        conn.cert_reqs = "CERT_NONE" if self._context is None else self._context.verify_mode.name

    def get_connection_with_tls_context(
        self,
        request: requests.PreparedRequest,
        verify: bool | str | None,
        proxies: Any = None,
        cert: Any = None,
    ) -> HTTPConnectionPool:
        """Return a pool whose connections say when they stand."""
        pool = cast(HTTPConnectionPool, super().get_connection_with_tls_context(request, verify, proxies, cert))
        pool.ConnectionCls = _telling(self, pool.ConnectionCls)
        return pool

    def stand(self, connection: HTTPConnection) -> None:
        """Note that the connection stands, and swap the short time-out of connecting for that of sending."""
        self.connected = True
        connection.timeout = self._patience
        connection.sock.settimeout(self._patience)


def _telling(wire: Wire, kind: Any) -> Any:
    class Telling(kind):  # type: ignore[misc]  # the kind is HTTPConnection or HTTPSConnection, known at run time
        def connect(self) -> None:
            super().connect()
            wire.stand(self)

        def request(self, *arguments: Any, **options: Any) -> None:
            if self.sock is None:  # else http.client would connect with the headers, credentials too, in its frames
                self.connect()
            super().request(*arguments, **options)

    return Telling
