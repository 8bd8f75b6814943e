"""The two ports of a simulated manager, what faults do to its answers, and the certificates it shows (M2, M16)."""

import ssl
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from maint.lab import pki
from maint.lab.faults import FaultBox
from maint.lab.http.messages import JSON, ApiError, Request, Response
from maint.lab.http.server import EXPIRED, STRANGE, Exchange, Listener, RequestLog, bad_pem, context_of
from maint.lab.manager import jks
from maint.lab.manager.api.answer import Admitted, admit, handle
from maint.lab.manager.api.messages import html, printed
from maint.lab.manager.document import parse
from maint.lab.manager.world import World

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

    def respond(self) -> Response:
        """Return the answer to a request, as faults let it arrive."""
        request, world = self.head(), self.server.manager.world
        response = self._door(request) or self._within(request)
        with world.lock:
            return damaged(world, request, response)

    def refused(self, status: int, message: str) -> Response:
        """Return a page where the request could not be read, else an `ApiErrorMessage` (M2.4)."""
        return ApiError(status, message).response if status == 500 else html(status, f"Error {status} {message}")

    def dumps(self, value: Any) -> bytes:  # Any: what JSON can spell
        return printed(value)

    def chunks(self, response: Response) -> bool:
        """Return whether an answer leaves in chunks, as every JSON does for a client that knows them."""
        return response.content_type == JSON and self.request_version != "HTTP/1.0" and response.status != 204

    def headers_of(self, response: Response, length: int) -> Mapping[str, str]:
        del length
        kind = f"{JSON};charset=utf-8" if response.content_type == JSON else response.content_type
        return {**_HEADERS, **response.headers, **({"Content-Type": kind} if response.status != 204 else {})}

    def _door(self, request: Request) -> Response | None:
        manager = self.server.manager
        if not manager.ready:
            return html(int(manager.world.switches["starting-status"]), "Cloudera Manager is starting")
        if not self.server.tls and manager.redirects:
            host = self.headers.get("Host", "localhost").rsplit(":", 1)[0]
            location = f"https://{host}:{manager.tls_port}{self.path}"
            return Response(int(manager.world.switches["redirect-code"]), text=b"", headers={"Location": location})
        struck = manager.world.faults.strikes
        return next((answer for name, answer in _STAND_INS.items() if struck(name, request.call)), None)

    def _within(self, request: Request) -> Response:
        world = self.server.manager.world
        with world.lock:
            if world.faults.strikes("connection-dropped", request.call):
                return Response(0, lost=True, remark="connection dropped")
            admitted = admit(world, request)
        if isinstance(admitted, Response):
            return admitted
        refused = self._unwanted()
        if refused:
            return refused
        early = _is_restore(request) and world.switches["put-commits"] == "closing-brace"
        return self._apply(request, admitted, self._content(early=early))

    def _unwanted(self) -> Response | None:
        switches = self.server.manager.world.switches
        limit = int(switches.number("put-max-bytes"))
        if self.chunked and switches["chunked-upload"] == "refuse":
            return html(411, "Error 411 Length Required")
        if limit and self.length > limit:
            return html(413, "Error 413 Request Entity Too Large")
        return None

    def _content(self, *, early: bool) -> bytes:
        # `early`: no more of it than the JSON document, as the rest may never come.
        pieces: list[bytes] = []
        for piece in self.received():
            pieces.append(piece)
            if early and _is_whole(b"".join(pieces)):
                break
        return b"".join(pieces)

    def _apply(self, request: Request, admitted: Admitted, content: bytes) -> Response:
        manager, world, stopped = self.server.manager, self.server.manager.world, self.server.stopped
        with world.lock:
            seconds = pause(world, request)
        stopped.wait(seconds)
        with world.lock:
            if stopped.is_set():
                return Response(0, lost=True, remark="rolled back, the server stopped")
            before = (world.edits, list(world.faults.active))
            response = ended(world, request, handle(world, admitted, content))
            if request.method != "GET" or before != (world.edits, world.faults.active):
                manager.changed()
        return response


def _is_whole(text: bytes) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def pause(world: World, request: Request) -> float:
    """Return how many seconds pass before a request is carried out."""
    seconds = 0.0
    if _is_restore(request):
        seconds = world.switches.number("put-seconds")
        if world.faults.strikes("put-slow", request.call):
            seconds += world.switches.number("slow-seconds")
    return seconds


def ended(world: World, request: Request, response: Response) -> Response:
    """Return the answer to something that was carried out, which a fault may lose."""
    losing = ("put-answer-lost", "delete-answer-lost", "config-answer-lost", "command-answer-lost")
    if response.status == 200 and any(world.faults.strikes(name, request.call) for name in losing):
        return replace(response, lost=True, remark="answer lost")
    return response


def damaged(world: World, request: Request, response: Response) -> Response:
    """Return an answer as faults let it arrive."""
    cut, slow, short = (
        response.status == 200 and not response.lost and world.faults.strikes(name, request.call)
        for name in ("cut-body", "slow-body", "cut-body-cleanly")
    )
    damage = "cut" if cut else "short" if short else ""
    return replace(response, damage=damage, drops=world.switches.number("slow-seconds") if slow else 0.0)


def _is_restore(request: Request) -> bool:
    return request.method == "PUT" and request.path.endswith("/cm/deployment")


_BUSY = ApiError(503, "The server is busy, try again later.").response
_FAILED = ApiError(500, "Internal server error: the lab was told to fail.").response
_STAND_INS: dict[str, Response] = {
    "redirect-everything": Response(302, text=b"", headers={"Location": "https://elsewhere.invalid/login"}),
    "proxy-502": html(502, "502 Bad Gateway"),
    "html-error": html(500, "Error 500 Internal Server Error"),
    "html-200": html(200, "Please log in to the network"),
    "unavailable-once": _BUSY,
    "unavailable": _BUSY,
    "error-500-once": _FAILED,
    "error-500": _FAILED,
    "bad-request-once": ApiError(400, "Internal failure, try again.").response,
}


_FAULTS = {"expired-certificate": EXPIRED, "wrong-host-certificate": "", "unknown-ca-certificate": STRANGE}


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
            chain = b"".join(pki.pem_of_certificate(certificate) for certificate in entries[0].chain)
            self._contexts["own"] = context_of(self._folder / "own.pem", key + chain)
        except jks.BadKeystore as error:
            return str(error)
        except (OSError, ValueError) as error:  # a folder, a key that is none
            return f"{keystore.name} cannot be used: {error}"
        return ""

    def context(self, faults: FaultBox) -> ssl.SSLContext:
        set_now = [name for name, _ in faults.active if name in _FAULTS]
        kind = set_now[-1] if set_now else "own"
        if kind not in self._contexts:
            self._contexts[kind] = self._bad(kind)
        return self._contexts[kind]

    def _bad(self, kind: str) -> ssl.SSLContext:
        names = ["elsewhere.invalid"] if kind == "wrong-host-certificate" else self._names
        return context_of(self._folder / f"{kind}.pem", bad_pem(_FAULTS[kind], self._authority, names, self._now))
