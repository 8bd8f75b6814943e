"""Servers that tests script."""

import logging
import socket
import threading
from contextlib import suppress
from typing import Any

from pytest_httpserver import HTTPServer

from tests.ports import free_port

_LOOKS_AGAIN = 0.01  # seconds

logging.getLogger("werkzeug").setLevel(logging.WARNING)  # it writes to what its test has closed


class ScriptedServer(HTTPServer):
    """As the library has it, but it stops at once, not within half a second, and finds its port free to start again."""

    def __init__(self, *, port: int = 0, **options: Any) -> None:  # Any: as the library takes them
        super().__init__(port=port or free_port(), **options)

    def thread_target(self) -> None:
        """Serve until told to stop."""
        assert self.server is not None
        self.server.serve_forever(poll_interval=_LOOKS_AGAIN)


class ConnectProxy:
    """An HTTP proxy that leads to this machine whatever the host's name, or answers and ends as it is told."""

    def __init__(self, says: bytes | None = None) -> None:
        self._says = says
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.led: list[str] = []  # HOST:PORT of each tunnel asked for
        self.heads: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept nothing more."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError):
            head = b""
            while not head.endswith(b"\r\n\r\n") and (block := near.recv(4096)):
                head += block
            method, target, *_ = head.decode().split()
            assert method == "CONNECT"
            self.heads.append(head)
            self.led.append(target)
            if self._says is not None:
                near.sendall(self._says)
                return
            try:
                far = socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2])))
            except OSError:
                near.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
                return
            with far:
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=_pump, args=(far, near), daemon=True)
                back.start()
                _pump(near, far)
                back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while block := source.recv(65_536):
            target.sendall(block)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
