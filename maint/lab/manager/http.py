"""The two ports of a simulated manager, what faults do to its answers, and the certificates it shows (M2, M16)."""

import ssl
import tempfile
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from maint.lab import pki
from maint.lab.faults import FaultBox
from maint.lab.files import write_whole
from maint.lab.http_server import PIECE, Exchange, Listener, RequestLog
from maint.lab.manager import jks
from maint.lab.manager.api.answer import Admitted, Incoming, admit, handle
from maint.lab.manager.api.messages import JSON, ApiError, Response, html
from maint.lab.manager.world import World

_HEADERS = {
    "Expires": "Thu, 01 Jan 1970 00:00:00 GMT",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "X-XSS-Protection": "1; mode=block",
}
_SLOW_PIECES = 20


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
    """One port of a manager."""

    def __init__(self, manager: Manager, port: int, *, tls: bool) -> None:
        self.manager, self.tls = manager, tls
        super().__init__(port, ManagerExchange, manager.context if tls else None, manager.log)


class ManagerExchange(Exchange):
    """One connection to a manager."""

    server: Port
    server_name = "Jetty"

    def respond(self) -> None:
        """Answer a request, unless a fault ends the connection without an answer."""
        incoming = Incoming(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
        response = self._door(incoming) or self._within(incoming)
        if response is None:
            self.close_connection = True
            return
        self.note(response.status, response.remark)
        self.drain()
        self._send(incoming, response)

    def refuse(self, status: int, message: str) -> None:
        """Send a page where the request could not be read, else an `ApiErrorMessage` (M2.4)."""
        response = ApiError(status, message).response() if status == 500 else html(status, f"Error {status} {message}")
        body = response.body()
        self._head(response, len(body))
        self.wfile.write(body)

    def _door(self, incoming: Incoming) -> Response | None:
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
        manager, world = self.server.manager, self.server.manager.world
        with world.lock:
            if world.faults.strikes("connection-dropped", incoming.call):
                self.note(0, "connection dropped")
                return None
            admitted = admit(world, incoming)
        if isinstance(admitted, Response):
            return admitted
        refused = self._unwanted()
        if refused:
            return refused
        if not self.chunked and not self.length:
            return self._apply(incoming, admitted, None)
        with tempfile.TemporaryDirectory(dir=manager.spool) as folder:
            body = Path(folder) / "body"
            self._spool(body, early=_is_restore(incoming) and world.switches["put-commits"] == "closing-brace")
            return self._apply(incoming, admitted, body)

    def _unwanted(self) -> Response | None:
        switches = self.server.manager.world.switches
        limit = int(switches.number("put-max-bytes"))
        if self.chunked and switches["chunked-upload"] == "refuse":
            return html(411, "Error 411 Length Required")
        if limit and self.length > limit:
            return html(413, "Error 413 Request Entity Too Large")
        return None

    def _spool(self, target: Path, *, early: bool) -> None:
        # `early`: no more of it than the JSON document, as the rest may never come.
        depth = _Depth()
        with target.open("wb") as stream:
            for piece in self.received():
                stream.write(piece)
                if early and depth.closed_by(piece):
                    return

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
            self.note(response.status, "answer lost")
            return None
        stopped.wait(response.seconds)
        return response

    def _send(self, incoming: Incoming, response: Response) -> None:
        manager, body = self.server.manager, response.body()
        with manager.world.lock:
            cut, slow, clean = (
                response.status == 200 and manager.world.faults.strikes(name, incoming.call)
                for name in ("cut-body", "slow-body", "cut-body-cleanly")
            )
        chunked = response.content_type == JSON and self.request_version != "HTTP/1.0" and response.status != 204
        self.close_connection = self.close_connection or cut or (clean and not chunked)
        self._head(response, None if chunked else len(body))
        if incoming.method == "HEAD":
            return
        size = max(1, len(body) // _SLOW_PIECES) if slow else PIECE
        delay = manager.world.switches.number("slow-seconds") / _SLOW_PIECES if slow else 0.0
        self._write(body, len(body) // 2 if cut or clean else len(body), size, chunked=chunked, torn=cut, delay=delay)
        if chunked and not cut:
            self.wfile.write(b"0\r\n\r\n")

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

    def _write(self, body: bytes, end: int, size: int, *, chunked: bool, torn: bool, delay: float) -> None:
        # The last chunk of a torn body announces more than comes.
        for start in range(0, end, size):
            piece = body[start : min(start + size, end)]
            announced = len(body) - start if torn and start + size >= end else len(piece)
            self.wfile.write(b"%x\r\n%s" % (announced, piece) if chunked else piece)
            if chunked and announced == len(piece):
                self.wfile.write(b"\r\n")
            if delay:
                self.server.stopped.wait(delay)


class _Depth:
    """How deep a JSON text is in its braces after the pieces so far."""

    def __init__(self) -> None:
        self._depth, self._quoted, self._escaped = 0, False, False

    def closed_by(self, piece: Iterable[int]) -> bool:
        for byte in piece:
            if self._escaped:
                self._escaped = False
            elif self._quoted:
                self._escaped, self._quoted = byte == 0x5C, byte != 0x22
            elif byte == 0x22:
                self._quoted = True
            elif byte in b"{[":
                self._depth += 1
            elif byte in b"}]":
                self._depth -= 1
                if not self._depth:
                    return True
        return False


def stand_in(world: World, incoming: Incoming) -> Response | None:
    """Return what a fault answers in the server's place, None when none strikes."""
    faults, call = world.faults, incoming.call
    for name, answer in _STAND_INS.items():
        if faults.strikes(name, call):
            return answer
    return None


def pause(world: World, incoming: Incoming) -> float:
    """Return how many seconds pass before a request is carried out."""
    seconds = 0.0
    if _is_restore(incoming):
        seconds = world.switches.number("put-seconds")
        if world.faults.strikes("put-slow", incoming.call):
            seconds += world.switches.number("slow-seconds")
    return seconds


def ending(world: World, incoming: Incoming, response: Response) -> bool:
    """Return whether the answer to something that was carried out gets lost."""
    if response.status != 200:
        return False
    lost = ("put-answer-lost", "delete-answer-lost", "config-answer-lost", "command-answer-lost")
    return any(world.faults.strikes(name, incoming.call) for name in lost)


def _is_restore(incoming: Incoming) -> bool:
    return incoming.method == "PUT" and incoming.path.endswith("/cm/deployment")


_BUSY = ApiError(503, "The server is busy, try again later.").response()
_FAILED = ApiError(500, "Internal server error: the lab was told to fail.").response()
_STAND_INS: dict[str, Response] = {
    "redirect-everything": Response(302, text=b"", headers={"Location": "https://elsewhere.invalid/login"}),
    "proxy-502": html(502, "502 Bad Gateway"),
    "html-error": html(500, "Error 500 Internal Server Error"),
    "html-200": html(200, "Please log in to the network"),
    "unavailable-once": _BUSY,
    "unavailable": _BUSY,
    "error-500-once": _FAILED,
    "error-500": _FAILED,
    "bad-request-once": ApiError(400, "Internal failure, try again.").response(),
}


_FAULTS = ("expired-certificate", "wrong-host-certificate", "unknown-ca-certificate")


class ShownCertificates:
    """Certificates for the TLS port, in PEM files of `folder`; bad ones are dated from `now`."""

    def __init__(self, folder: Path, authority: pki.Authority, names: list[str], now: datetime) -> None:
        self._folder, self._authority, self._names, self._now = folder, authority, names, now
        self._contexts: dict[str, ssl.SSLContext] = {}

    def load(self, keystore: Path, password: str) -> str:
        """Take the key and chain of a keystore; return why not, "" when it went well."""
        if not keystore.exists():
            return f"{keystore.name} does not exist"
        try:
            entries = [entry for entry in jks.read(keystore.read_bytes(), password) if entry.protected_key]
            if not entries:
                return f"{keystore.name} holds no key"
            key = pki.pem_of_key(jks.unprotect(entries[0].protected_key, password))
        except jks.BadKeystore as error:
            return str(error)
        chain = b"".join(pki.pem_of_certificate(certificate) for certificate in entries[0].chain)
        self._contexts["own"] = self._context("own", key, chain)
        return ""

    def context(self, faults: FaultBox) -> ssl.SSLContext:
        """Return what the next client gets to see."""
        set_now = [name for name, _ in faults.active if name in _FAULTS]
        kind = set_now[-1] if set_now else "own"
        if kind not in self._contexts:
            self._contexts[kind] = self._bad(kind)
        return self._contexts[kind]

    def _bad(self, kind: str) -> ssl.SSLContext:
        authority = self._authority
        if kind == "unknown-ca-certificate":
            authority = pki.Authority.create(self._now, "Somebody Else's")
        names = ["elsewhere.invalid"] if kind == "wrong-host-certificate" else self._names
        make = authority.expired if kind == "expired-certificate" else authority.server
        pair = make(names, self._now)
        return self._context(kind, pair.key_pem, authority.chain_pem(pair))

    def _context(self, name: str, key: bytes, chain: bytes) -> ssl.SSLContext:
        path = self._folder / f"{name}.pem"
        write_whole(path, key + chain, 0o600)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context
