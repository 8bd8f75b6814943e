"""HTTPS on loopback for all names of a service: the gateway's, the virtual clusters', the control plane's."""

import re
import ssl
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Protocol
from urllib.parse import parse_qs, urlsplit

from msgspec.structs import replace

from maint.lab import http_server
from maint.lab.http_server import Listener, RequestLog
from maint.lab.virtual_clusters.api.answer import Admitted, admit, handle, throttled
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.gateway import Gateway
from maint.lab.virtual_clusters.messages import ApiError, Request, Response, html

_PIECE = 1 << 18  # bytes of a stream that leave at once
_MOST_JSON = 1 << 24
_BOUNDARY = re.compile(r'boundary="?([^";,]{1,200})"?', re.IGNORECASE)
_HEAD = 1 << 14


class BadForm(ValueError):
    """It is not a form with a part of that name, or it ended early."""


class _Source:
    """Bytes that come in pieces, looked through for marks."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._held = b""

    def until(self, mark: bytes) -> Iterator[bytes]:
        """Yield everything up to a mark, and step over it."""
        while (place := self._held.find(mark)) < 0:
            safe = len(self._held) - len(mark) + 1
            if safe > 0:
                yield self._held[:safe]
                self._held = self._held[safe:]
            self._more()
        before, self._held = self._held[:place], self._held[place + len(mark) :]
        if before:
            yield before

    def short(self, mark: bytes) -> bytes:
        """Return everything up to a mark, of headers."""
        found = b""
        for piece in self.until(mark):
            found += piece
            if len(found) > _HEAD:
                raise BadForm("the head of a part is too long")
        return found

    def peek(self, count: int) -> bytes:
        """Return the next bytes and leave them."""
        while len(self._held) < count:
            self._more()
        return self._held[:count]

    def _more(self) -> None:
        piece = next(self._pieces, b"")
        if not piece:
            raise BadForm("unexpected EOF")
        self._held += piece


def form_part(pieces: Iterable[bytes], content_type: str, name: str = "file") -> Iterator[bytes]:
    """Yield the bytes of the part of that name; BadForm: there is none, or it ends early."""
    found = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or not found:
        raise BadForm("request Content-Type isn't multipart/form-data")
    mark = b"--" + found[1].strip().encode()
    source = _Source(pieces)
    for _ in source.until(mark):
        pass
    while source.peek(2) != b"--":
        head = source.short(b"\r\n\r\n").decode("utf-8", "replace")
        if re.search(rf'content-disposition:[^\r\n]*;\s*name="?{re.escape(name)}"?\s*(;|\r|$)', head, re.IGNORECASE):
            yield from source.until(b"\r\n" + mark)
            return
        for _ in source.until(b"\r\n" + mark):
            pass
    raise BadForm("http: no such file")


class Names(Protocol):
    """What a listener asks of the service behind it."""

    gateway: Gateway
    log: RequestLog

    def by_host(self, host: str) -> Cluster | None:
        """Return the virtual cluster that answers to a host's name."""

    def is_gateway(self, host: str) -> bool:
        """Return whether gateway or control plane answer to a host's name."""

    def context(self) -> ssl.SSLContext:
        """Return what the next client gets to see."""

    def too_often(self, cluster: Cluster) -> bool:
        """Return whether a request comes too soon after the others."""


class Port(Listener):
    """The one port of a service."""

    def __init__(self, names: Names, port: int) -> None:
        self.names = names
        super().__init__(port, Exchange, names.context, names.log)


class Exchange(http_server.Exchange):
    """One connection, request after request."""

    server: Port
    server_name = "istio-envoy"

    def respond(self) -> None:
        """Answer a request."""
        try:
            response = self._answer(self._request())
        except BadForm as error:
            response = ApiError(400, str(error)).response()
        self.note(0 if response.lost else response.status, "answer lost" if response.lost else "")
        try:
            if response.lost:
                self.close_connection = True
            else:
                self.drain()
                self._send(response)
        finally:
            if response.stream:
                response.stream.close()

    def refuse(self, status: int, message: str) -> None:
        """Send an error as the API spells it."""
        self._send(ApiError(status, message).response())

    def _request(self) -> Request:
        split = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, split.path, query=parse_qs(split.query, keep_blank_values=True), headers=headers)

    def _answer(self, request: Request) -> Response:
        names, host = self.server.names, request.headers.get("host", "").rsplit(":", 1)[0].lower()
        if names.is_gateway(host):
            return names.gateway.answer(replace(request, content=self._whole()))
        cluster = names.by_host(host)
        if cluster is None:
            return Response(404, text=b"default backend - 404", content_type="text/plain")
        if names.too_often(cluster):
            return throttled(cluster)
        admitted = admit(cluster, names.gateway, request)
        if isinstance(admitted, Response):
            return admitted
        return self._within(cluster, admitted)

    def _within(self, cluster: Cluster, admitted: Admitted) -> Response:
        limit = int(cluster.switches.number("vc-upload-max-bytes"))
        if limit and self.length > limit:
            self.close_connection = True
            return html(413, "413 Request Entity Too Large")
        if admitted.uploads:
            kind = admitted.request.headers.get("content-type", "")
            staged = cluster.files.stage(form_part(self.received(), kind))
            request = replace(admitted.request, upload=staged)
        else:
            request = replace(admitted.request, content=self._whole())
        return handle(cluster, Admitted(request, admitted.handler, admitted.uploads))

    def _whole(self) -> bytes:
        found = b""
        for piece in self.received():
            found += piece
            if len(found) > _MOST_JSON:
                self.close_connection = True
                raise BadForm("the body is too large")
        return found

    def _send(self, response: Response) -> None:
        body = b"" if response.stream else response.body()
        length = response.length if response.stream else len(body)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, value)
        if response.status != 204:
            if length or response.stream:
                self.send_header("Content-Type", response.content_type)
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if response.stream and self.command != "HEAD":
            self._stream(response.stream, response.length, response.damage)
        elif response.status != 204 and self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, stream: BinaryIO, length: int, damage: str) -> None:
        left = length // 2 if damage == "cut" else length
        self.close_connection = self.close_connection or damage == "cut"
        while left and (piece := stream.read(min(left, _PIECE))):
            left -= len(piece)
            if damage == "flip" and not left:
                piece = piece[:-1] + bytes([piece[-1] ^ 1])
            self.wfile.write(piece)
