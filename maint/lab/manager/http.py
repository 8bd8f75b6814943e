"""HTTP on loopback: the plain and the TLS port of a simulated manager (contract sections 2, 16)."""

import ssl
import tempfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Protocol

from maint.lab.listener import Listener
from maint.lab.manager.api.answer import Admitted, Incoming, admit, handle
from maint.lab.manager.api.messages import JSON, Response, html
from maint.lab.manager.fault_injection import SLOW_PIECES, ending, pause, stand_in
from maint.lab.manager.request_body import BodyCut, spool
from maint.lab.manager.world import World
from maint.lab.requestlog import RequestLog

_BLOCK = 1 << 16
_HEADERS = {
    "Expires": "Thu, 01 Jan 1970 00:00:00 GMT",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "X-XSS-Protection": "1; mode=block",
}


class Manager(Protocol):
    """What a listener asks of the server behind it."""

    world: World
    log: RequestLog
    spool: Path
    tls_port: int

    @property
    def ready(self) -> bool:
        """Whether it answers; otherwise it is starting."""

    @property
    def redirects(self) -> bool:
        """Whether the plain port sends everyone to the TLS port."""

    def context(self) -> ssl.SSLContext:
        """Return what the TLS port shows to the next client."""

    def changed(self) -> None:
        """Keep the world on disk."""


class Port(Listener):
    """One port of a manager.

    Args:
        manager: the server behind it.
        port: a free port of loopback.
        tls: whether it speaks TLS.
    """

    def __init__(self, manager: Manager, port: int, *, tls: bool) -> None:
        self.manager, self.tls = manager, tls
        super().__init__(port, Exchange, manager.context if tls else None)


class Exchange(BaseHTTPRequestHandler):
    """One connection, request after request."""

    protocol_version = "HTTP/1.1"
    timeout = 600
    server: Port

    def do_GET(self) -> None:
        """Answer a request."""
        incoming = Incoming(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        response = self._door(incoming) or self._within(incoming)
        if response is None:
            self.close_connection = True
            return
        self._send(incoming, response)

    do_POST = do_PUT = do_DELETE = do_GET

    def handle_expect_100(self) -> bool:
        """Say `100 Continue` only when the body is wanted (contract section 16.12)."""
        return True

    def version_string(self) -> str:
        """Return what the header `Server` says."""
        return "Jetty"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Keep quiet: the request log is elsewhere."""

    def _door(self, incoming: Incoming) -> Response | None:
        """Return what a server that is starting, redirecting or broken says, None when it is none of these."""
        manager = self.server.manager
        if not manager.ready:
            return html(int(manager.world.switches["starting-status"]), "Cloudera Manager is starting")
        if not self.server.tls and manager.redirects:
            host = self.headers.get("Host", "localhost").rsplit(":", 1)[0]
            location = f"https://{host}:{manager.tls_port}{incoming.target}"
            return Response(int(manager.world.switches["redirect-code"]), text=b"", headers={"Location": location})
        with manager.world.lock:
            return stand_in(manager.world, incoming)

    def _within(self, incoming: Incoming) -> Response | None:
        """Return the server's answer, None when the connection is to end without one."""
        manager, world = self.server.manager, self.server.manager.world
        with world.lock:
            if world.faults.strikes("connection-dropped", incoming.call):
                manager.log.add(self._port, incoming.method, incoming.target, 0, "connection dropped")
                return None
            admitted = admit(world, incoming)
        if isinstance(admitted, Response):
            return admitted
        with tempfile.TemporaryDirectory(dir=manager.spool) as folder:
            try:
                body = self._body(Path(folder) / "body")
            except BodyCut as cut:
                manager.log.add(self._port, incoming.method, incoming.target, 0, str(cut))
                return None
            if isinstance(body, Response):
                return body
            return self._apply(incoming, admitted, body)

    def _body(self, target: Path) -> Path | Response | None:
        switches = self.server.manager.world.switches
        chunked = "chunked" in self.headers.get("Transfer-Encoding", "").lower()
        length = int(self.headers.get("Content-Length") or 0)
        limit = int(switches.number("put-max-bytes"))
        if chunked and switches["chunked-upload"] == "refuse":
            self.close_connection = True
            return html(411, "Error 411 Length Required")
        if limit and length > limit:
            self.close_connection = True
            return html(413, "Error 413 Request Entity Too Large")
        if not chunked and not length:
            return None
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        self._body_read = True
        return spool(self.rfile, target, None if chunked else length)

    def _apply(self, incoming: Incoming, admitted: Admitted, body: Path | None) -> Response | None:
        manager, world, stopped = self.server.manager, self.server.manager.world, self.server.stopped
        with world.lock:
            seconds = pause(world, incoming)
        if seconds and stopped.wait(seconds):
            return None  # rolled back
        with world.lock:
            if stopped.is_set():
                return None
            before = (world.edits, list(world.faults.active))
            response = handle(world, admitted, body).spelled()
            lost = ending(world, incoming, response)
            if incoming.method != "GET" or before != (world.edits, world.faults.active):
                manager.changed()
        if lost:
            manager.log.add(self._port, incoming.method, incoming.target, response.status, "answer lost")
            return None
        stopped.wait(response.seconds)
        return response

    def _send(self, incoming: Incoming, response: Response) -> None:
        manager, body = self.server.manager, response.body()
        self._drain()
        manager.log.add(self._port, incoming.method, incoming.target, response.status)
        with manager.world.lock:
            cut, slow, clean = (
                response.status == 200 and manager.world.faults.strikes(name, incoming.call)
                for name in ("cut-body", "slow-body", "cut-body-cleanly")
            )
        chunked = response.content_type == JSON and self.request_version != "HTTP/1.0"
        self._head(response, None if chunked and response.status != 204 else len(body))
        body = body[: len(body) // 2] if cut or clean else body
        delay = manager.world.switches.number("slow-seconds") / SLOW_PIECES if slow else 0.0
        self._write(body, max(1, len(body) // SLOW_PIECES) if slow else _BLOCK, chunked, delay)
        if chunked and not cut and response.status != 204:
            self.wfile.write(b"0\r\n\r\n")
        if cut or (clean and not chunked):
            self.close_connection = True

    def _head(self, response: Response, length: int | None) -> None:
        self.send_response(response.status, response.reason)
        for name, value in {**_HEADERS, **response.headers}.items():
            self.send_header(name, value)
        if response.status != 204:
            kind = response.content_type
            self.send_header("Content-Type", f"{kind};charset=utf-8" if kind == JSON else kind)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        elif response.status != 204:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def _write(self, body: bytes, size: int, chunked: bool, delay: float) -> None:
        for start in range(0, len(body), size):
            piece = body[start : start + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            if delay:
                self.server.stopped.wait(delay)

    def _drain(self) -> None:
        """Take in a body that nobody wanted, so that the answer reaches its sender."""
        if getattr(self, "_body_read", False):
            self._body_read = False
            return
        waiting = self.headers.get("Expect", "").lower() == "100-continue"
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower() or waiting:
            self.close_connection = True
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left > 0 and (piece := self.rfile.read(min(left, _BLOCK))):
            left -= len(piece)

    @property
    def _port(self) -> int:
        return int(self.server.server_address[1])
