"""What goes into the gateway and the jobs API, and what comes out."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.store import Staged

JSON, TEXT, BYTES, ZIP = "application/json", "text/plain; charset=utf-8", "application/octet-stream", "application/zip"


class Request(msgspec.Struct, frozen=True):
    """A request."""

    method: str
    path: str
    parts: Mapping[str, str] = msgspec.field(default_factory=dict)  # values of the path's placeholders
    query: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)  # all values of each name
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)  # by lower-case name
    user: str = ""  # "" before that is known
    sees: bool = True  # whether the user has a role
    content: bytes = b""  # the body, but for uploads
    upload: Staged | None = None  # the file of a multipart body

    @property
    def call(self) -> str:
        """Method and path, for faults."""
        return f"{self.method} {self.path}"

    def word(self, name: str, default: str = "") -> str:
        """Return the last value of a name of the query."""
        return (self.query.get(name) or [default])[-1]

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean of the query."""
        return self.word(name, str(default)).lower() in ("true", "1")

    def document(self) -> Any:  # Any: what JSON can spell
        """Return the body as JSON, an empty object where there is no body; ApiError where it is not JSON."""
        if not self.content.strip():
            return {}
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise ApiError(400, f"invalid character in body: {error}") from error


class Response(msgspec.Struct, frozen=True):
    """What is sent back."""

    status: int = 200
    value: Any = None  # Any: what JSON can spell
    text: bytes | None = None  # the bare body
    stream: BinaryIO | None = None  # a body of `length` bytes, sent piece by piece
    length: int = 0
    content_type: str = JSON
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    damage: str = ""  # "flip" lets the last byte be wrong, "cut" ends in the middle
    lost: bool = False  # the connection ends without this answer

    def body(self) -> bytes:
        """Return the bytes of a body that is not a stream."""
        if self.text is not None:
            return self.text
        return b"" if self.value is None else json.dumps(self.value, separators=(",", ":")).encode() + b"\n"

    def dropped(self) -> "Response":
        """Return the same, lost on its way."""
        return replace(self, lost=True)


class ApiError(Exception):
    """An answer that is an error (J3.5)."""

    def __init__(self, status: int, message: str, more: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.more = status, message, dict(more or {})

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """Return the answer."""
        body = {"status": "error", "message": self.message, **self.more}
        return Response(self.status, body, headers=headers or {})


def html(status: int, title: str) -> Response:
    """Return a page as a proxy writes it."""
    page = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
    return Response(
        status, text=f"{page}<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n".encode(), content_type="text/html"
    )


# Printed although it is false.
_PRINTED = {"enabled"}


def shown(value: Mapping[str, Any]) -> Doc:  # Any: what JSON can spell
    """Return an object without what is empty, objects within objects too."""
    inner = {name: _inner(member) for name, member in value.items()}
    return {name: member for name, member in inner.items() if name in _PRINTED or not _empty(member)}


def _empty(value: Any) -> bool:  # Any: what JSON can spell
    return value is None or value is False or value in ("", [], {})


def _inner(value: Any) -> Any:  # Any: what JSON can spell
    if isinstance(value, Mapping):
        return shown(value)
    if isinstance(value, list):
        return [_inner(member) for member in value]
    return value
