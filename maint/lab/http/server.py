"""HTTP as every server of the lab speaks it: free ports, certificates shown, exchanges, the record of every request."""

import base64
import binascii
import contextlib
import io
import itertools
import json
import re
import secrets
import socket
import ssl
import sys
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from maint.files import write_whole
from maint.lab import pki
from maint.lab.http.messages import Request, Response

OWN_PORTS = range(20_000, 32_000)
# One after the other: a lab that is down keeps its ports, and no other lab of this process is given them.
turns = itertools.count(secrets.randbelow(len(OWN_PORTS)))


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as holder:
        return _bound(holder, 0)


def free_ports(first: int, second: int) -> tuple[int, int]:
    """Return two ports that differ; 0 is for any free one, OSError where a wanted one is taken."""
    with socket.socket() as one, socket.socket() as other:
        return _bound(one, first), _bound(other, second)


def _bound(holder: socket.socket, wanted: int) -> int:
    # A free port is below those that the system hands out: a server that restarts finds its port free again.
    while True:
        port = wanted or OWN_PORTS[next(turns) % len(OWN_PORTS)]
        try:
            holder.bind(("127.0.0.1", port))
        except OSError:
            if wanted:
                raise
            continue
        return port


EXPIRED, STRANGE = "expired", "strange"


def bad_pem(kind: str, authority: pki.Authority, names: Sequence[str], now: datetime) -> bytes:
    """Return key and chain: EXPIRED yesterday, of a STRANGE authority, of one with another name (`kind`), else good."""
    if kind not in ("", EXPIRED):
        authority = pki.Authority.create(now, "Somebody Else's" if kind == STRANGE else kind)
    pair = (authority.expired if kind == EXPIRED else authority.server)(names, now)
    return pair.key_pem + authority.chain_pem(pair)


def context_of(path: Path, pem: bytes = b"") -> ssl.SSLContext:
    """Return a server's context of a PEM file, written first where a text is given."""
    if pem:
        write_whole(path, pem, 0o600)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


class RequestLog:
    """The record of every request: one JSON line each, written before its answer leaves (M16.10)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def add(self, port: int, method: str, path: str, status: int, remark: str = "") -> None:
        """Note a request; status 0 is for no answer, the remark says what became of it."""
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": stamp, "port": port, "method": method, "path": path, "status": status}
        text = json.dumps(line | ({"remark": remark} if remark else {}))
        with self._lock, self.path.open("a") as stream:
            stream.write(text + "\n")


def read_requests(path: Path) -> list[dict[str, Any]]:  # Any: what JSON can spell
    """Return the requests so far; a line that is being written does not count yet."""
    whole, _, _ = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
    return [json.loads(line) for line in whole.splitlines()]


def request_counts(path: Path) -> dict[str, int]:
    """Return how often each "METHOD path" was asked, the query left out."""
    lines = read_requests(path)
    return dict(Counter(f"{line['method']} {line['path'].split('?')[0]}" for line in lines))


_LEAVE = 5.0  # seconds that threads have to end
_DROPS = 20  # pieces of a body that comes slowly
PIECE = 1 << 18  # bytes of a body that are read or written at once


class BadRequest(Exception):
    """The head of a request, or of a chunk of its body, makes no sense: it is answered 400."""


class BodyCut(Exception):
    """The sender went away before its body was whole, or a chunk did not end where it should."""


class Listener(ThreadingHTTPServer):
    """A loopback port that listens from the start; without a `context` it does not speak TLS."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        port: int,
        exchange: type[BaseHTTPRequestHandler],
        context: Callable[[], ssl.SSLContext] | None,
        log: RequestLog,
    ) -> None:
        super().__init__(("127.0.0.1", port), exchange)
        self.port, self.log = int(self.server_address[1]), log
        self.stopped = threading.Event()  # set once it is closed; what is under way then comes to nothing
        self._context = context  # what the next client is shown
        self._open: set[socket.socket] = set()
        self._speaking: set[threading.Thread] = set()
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def close(self) -> None:
        """Refuse new connections, end the open ones, and wait for the threads that speak to clients."""
        self.stopped.set()
        try:
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes who waits for the next connection
        except OSError:  # a system that does not do so for listeners: a connection does
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), _LEAVE).close()
        leave(self._serving)
        self.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):  # not the TLS layer, which another thread is within
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
        leave(*self._speaking)

    def _serve(self) -> None:
        # Without the looks of `serve_forever`: each would cost time, and each stop wait for the next one.
        while not self.stopped.is_set():
            self.handle_request()

    def process_request(self, request: object, client_address: object) -> None:
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._speaking.add(thread)
        thread.start()

    # The annotation of the standard library names a wider type than a TCP server ever passes.
    def process_request_thread(self, request: socket.socket, client_address: tuple[str, int]) -> None:  # type: ignore[override]
        self._open.add(request)
        connection = request
        # A client that goes away in the middle, or never says who it is, is none of the server's business.
        with contextlib.suppress(OSError, ValueError):
            connection = self._greeted(request)
            self._open.add(connection)
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            self.finish_request(connection, client_address)
        self._open -= {request, connection}
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        connection.close()
        self._speaking.discard(threading.current_thread())

    def _greeted(self, request: socket.socket) -> socket.socket:
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request.settimeout(60)
        if self._context is None:
            return request
        return self._context().wrap_socket(request, server_side=True, do_handshake_on_connect=False)


class Exchange(BaseHTTPRequestHandler, ABC):
    """One connection, request after request; a server defines `respond` and `refused`; every failure is answered."""

    protocol_version = "HTTP/1.1"
    timeout = 600
    server: Listener
    server_name = ""
    _left: int | None = 0  # bytes of the body still to come, None where it comes in chunks
    _waiting = False  # whether the client sends its body only when asked to
    _begun = False  # whether the answer's head has left
    _body: Iterator[bytes] | None = None  # the pieces of the body, once somebody has asked for them

    @abstractmethod
    def respond(self) -> Response:
        """Return the answer to the request."""

    @abstractmethod
    def refused(self, status: int, message: str) -> Response:
        """Return the answer to a request that could not be read, or failed, in the server's own spelling."""

    @abstractmethod
    def dumps(self, value: Any) -> bytes:  # Any: what JSON can spell
        """Return a value as the server prints it."""

    def headers_of(self, response: Response, length: int) -> Mapping[str, str]:
        """Return the headers of an answer, but for what says how long it is."""
        return {**response.headers, **({"Content-Type": response.content_type} if length or response.stream else {})}

    def head(self) -> Request:
        """Return the request without its body; of a header that comes twice, the first counts."""
        try:
            split = urlsplit(self.path)
        except ValueError as error:
            raise BadRequest("Bad URI") from error
        query = parse_qs(split.query, keep_blank_values=True)
        headers = {name.lower(): value for name, value in reversed(self.headers.items())}
        return Request(self.command, split.path, query, headers)

    def answer(self) -> None:
        """Answer a request, with 400 or 500 at worst."""
        self._begun, self._left, self._waiting, self._body = False, 0, False, None
        # What is no ASCII came unescaped, in UTF-8.
        self.path = re.sub(r"[^\x21-\x7e]", lambda found: f"%{ord(found[0]):02X}", self.path)
        try:
            self._refuse_ambiguous()
            self._left = self._announced()
            self._waiting = self.headers.get("Expect", "").lower() == "100-continue"
            self._deliver(self.respond())
        except BadRequest as error:
            self._give_up(400, str(error))
        except BodyCut:
            self.close_connection = True
            self.note(0, "body cut")
        except OSError:  # the client went away
            raise
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            self._give_up(500, f"Internal server error: {type(error).__name__}")

    do_GET = do_HEAD = do_OPTIONS = do_PATCH = do_POST = do_PUT = do_DELETE = do_TRACE = answer

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what the standard library refuses: a request line or head that it cannot read, a strange method."""
        del explain
        self._begun, self._left, self._waiting, self._body = False, 0, False, None
        self._give_up(int(code), message or self.responses[code][0])

    def send_response(self, code: int, message: str | None = None) -> None:
        self._begun = True
        super().send_response(code, message)

    def handle_expect_100(self) -> bool:
        """Say `100 Continue` only when the body is wanted (M16.12)."""
        return True

    def version_string(self) -> str:
        """Return what the header `Server` says."""
        return self.server_name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the standard library's name
        """Keep quiet: the request log is elsewhere."""

    def note(self, status: int, remark: str = "") -> None:
        """Note the request; status 0 is for no answer."""
        method, target = getattr(self, "command", None) or "?", getattr(self, "path", None) or "?"
        self.server.log.add(self.server.port, method, target, status, remark)

    # -- the body

    @property
    def chunked(self) -> bool:
        return "Transfer-Encoding" in self.headers  # the one coding that is not refused

    @property
    def length(self) -> int:
        """The bytes of the body that the head announces; 0 for none, and for chunks."""
        return 0 if self.chunked else self._announced() or 0

    def received(self) -> Iterator[bytes]:
        """Yield the body as it comes, from where the last reader stopped; `BodyCut` where it is not whole."""
        self._body = self._body or self._pieces()
        return self._body

    def _pieces(self) -> Iterator[bytes]:
        if self._waiting and self._left != 0:
            self.send_response_only(100)
            self.end_headers()
        self._waiting = False
        try:
            if self._left is None:
                yield from self._chunks()
                self._left = 0
            while self._left:
                piece = self._piece(self._left)
                self._left -= len(piece)
                yield piece
        except (OSError, ValueError) as error:
            raise BodyCut("the connection was lost within the body") from error

    def drain(self) -> None:
        """Take in what is left of the body, so that the answer reaches its sender."""
        if self._waiting:
            self.close_connection = True
            return
        try:
            for _ in self.received():
                pass
        except (BodyCut, BadRequest):
            self.close_connection = True

    def _refuse_ambiguous(self) -> None:
        # A head that two readers could take for two requests: every server refuses it.
        hosts, lengths = (self.headers.get_all(name) or [] for name in ("Host", "Content-Length"))
        if len(hosts) > 1 or (not hosts and self.request_version == "HTTP/1.1"):
            raise BadRequest("Bad Host" if hosts else "No Host")
        if len(set(lengths)) > 1:
            raise BadRequest("Multiple Content-Lengths")
        if (self.headers.get("Transfer-Encoding") or "chunked").strip().lower() != "chunked":
            raise BadRequest("Bad Transfer-Encoding")

    def _announced(self) -> int | None:
        if self.chunked:
            return None
        given = (self.headers.get("Content-Length") or "0").strip()
        if not re.fullmatch("[0-9]{1,18}", given):
            self.close_connection = True
            raise BadRequest("Bad Content-Length")
        return int(given)

    def _chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            while size:
                piece = self._piece(size)
                size -= len(piece)
                yield piece
            if self.rfile.readline(8).strip():
                raise BodyCut("a chunk did not end where it should")
        while self.rfile.readline(1024).strip():
            pass  # trailers

    def _chunk_size(self) -> int:
        line = self.rfile.readline(64)
        if not line:
            raise BodyCut("the connection ended within the body")
        size = line.split(b";")[0].strip()
        if not re.fullmatch(rb"[0-9a-fA-F]{1,15}", size):
            raise BadRequest("Bad chunk size")
        return int(size, 16)

    def _piece(self, most: int) -> bytes:
        piece = self.rfile.read1(min(most, PIECE))
        if not piece:
            raise BodyCut("the connection ended within the body")
        return piece

    def _give_up(self, status: int, message: str) -> None:
        # Where an answer has begun already, the connection just ends.
        self.close_connection = True
        if self._begun:
            self.note(0, f"broken off: {message}")
            return
        self.note(status, message)
        self.drain()
        self.close_connection = True
        self._send(self.refused(status, message))

    # -- the answer

    def chunks(self, response: Response) -> bool:
        """Return whether the body of an answer leaves in chunks, without its length."""
        del response
        return False

    def _deliver(self, response: Response) -> None:
        try:
            self.server.stopped.wait(response.delay)
            self.note(response.status, response.remark)
            if response.lost:
                self.close_connection = True
                return
            self.drain()
            self._send(response)
        finally:
            if response.stream:
                response.stream.close()

    def _send(self, response: Response) -> None:
        chunked, text = self.chunks(response), response.printed(self.dumps).text or b""
        length = response.length if response.stream else len(text)
        torn = response.damage == "cut" or (response.damage == "short" and not chunked)
        self.close_connection = self.close_connection or torn
        self.send_response(response.status, response.reason)
        for name, value in self.headers_of(response, length).items():
            self.send_header(name, value)
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif response.status != 204:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD" and response.status != 204:
            self._write(response, response.stream or io.BytesIO(text), length, chunked=chunked)

    def _write(self, response: Response, source: BinaryIO, length: int, *, chunked: bool) -> None:
        left = end = length // 2 if response.damage in ("cut", "short") else length
        size = max(1, length // _DROPS) if response.drops else PIECE
        while left and (piece := source.read(min(left, size))):
            left -= len(piece)
            if response.damage == "flip" and not left:
                piece = piece[:-1] + bytes([piece[-1] ^ 1])
            torn = response.damage == "cut" and not left  # this chunk announces more than comes
            framed = b"%x\r\n%s%s" % (len(piece) + torn * (length - end), piece, b"" if torn else b"\r\n")
            self.wfile.write(framed if chunked else piece)
            if response.drops:
                self.server.stopped.wait(response.drops / _DROPS)
        if chunked and response.damage != "cut":
            self.wfile.write(b"0\r\n\r\n")


def leave(*threads: threading.Thread) -> None:
    """Wait for threads that were asked to end: none of them may run when the interpreter goes down."""
    deadline = time.monotonic() + _LEAVE
    for thread in threads:
        if thread is not threading.current_thread() and thread.ident is not None:
            thread.join(max(0.0, deadline - time.monotonic()))


def basic_login(header: str) -> tuple[str, str]:
    """Return name and password of an `Authorization: Basic` header, empty where it holds none."""
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password
