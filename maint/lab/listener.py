"""One port of loopback that speaks HTTP, with or without TLS, until it is closed with all that is open."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Listener(ThreadingHTTPServer):
    """A port that listens from the start.

    Args:
        port: a free port of loopback.
        exchange: what speaks to one client.
        context: what the next client gets to see; None for a port without TLS.

    Attributes:
        stopped: set once the port is closed; what is under way then comes to nothing.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, port: int, exchange: type[BaseHTTPRequestHandler], context: Callable[[], ssl.SSLContext] | None
    ) -> None:
        super().__init__(("127.0.0.1", port), exchange)
        self.stopped = threading.Event()
        self._context = context
        self._open: set[socket.socket] = set()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        """Refuse new connections and end the open ones."""
        self.stopped.set()
        self.shutdown()
        self.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    # The annotation of the standard library names a wider type than a TCP server ever passes.
    def process_request_thread(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        """Speak to one client."""
        try:
            connection = self._greeted(request)
        except (OSError, ValueError):
            request.close()
            return
        self._open.add(connection)
        # A client that goes away in the middle is none of the server's business.
        with contextlib.suppress(OSError):
            self.finish_request(connection, client_address)
        self._open.discard(connection)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        connection.close()

    def _greeted(self, request: socket.socket) -> socket.socket:
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request.settimeout(60)
        return self._context().wrap_socket(request, server_side=True) if self._context else request
