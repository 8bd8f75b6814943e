"""Requests and responses as every server of the lab has them, forms, errors, and the table that finds what answers."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, BinaryIO, ClassVar, Generic, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

JSON, TEXT, BYTES = "application/json", "text/plain; charset=utf-8", "application/octet-stream"


class Request(msgspec.Struct, frozen=True):
    """A request; a server adds what it knows of who sent it, and the body."""

    method: str
    path: str  # without the query
    query: Mapping[str, Sequence[str]] = {}  # all values of each name
    headers: Mapping[str, str] = {}  # by lower-case name
    parts: Mapping[str, str] = {}  # values of the path's placeholders
    content: bytes = b""  # the whole body

    @property
    def call(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def bearer(self) -> str:
        """The token that the request carries, "" for none."""
        kind, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if kind.lower() == "bearer" else ""

    def word(self, name: str, default: str = "") -> str:
        """Return a value of the query, the first where there are several."""
        return (self.query.get(name) or [default])[0]

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean of the query; any case counts."""
        return self.word(name, str(default)).lower() in ("true", "1")


class Response(msgspec.Struct, frozen=True):
    """What is sent back: a value as the server prints it, a text, or a stream."""

    status: int = 200
    value: Any = None  # Any: what JSON can spell
    text: bytes | None = None  # the bare body
    content_type: str = JSON
    headers: Mapping[str, str] = {}
    reason: str | None = None  # beside the status, where it is not the usual one
    stream: BinaryIO | None = None  # a body of `length` bytes, sent piece by piece
    length: int = 0
    delay: float = 0.0  # seconds before its first byte
    drops: float = 0.0  # seconds that its body takes to leave, in small pieces
    damage: str = ""  # "flip": its last byte is wrong, "cut": it ends in the middle, "short": so, with a proper end
    lost: bool = False  # the connection ends without this answer
    remark: str = ""  # for the record of requests

    def printed(self, dumps: Callable[[Any], bytes]) -> "Response":  # Any: what JSON can spell
        """Return the same with its value as text too, so that later changes of the value do not reach it."""
        return self if self.text is not None or self.value is None else replace(self, text=dumps(self.value))


class ApiError(Exception):
    """An answer that is an error, in the server's spelling; `more` stands in its object, the remark in the record."""

    fixed: ClassVar[Mapping[str, str]] = {}  # what every such object begins with

    def __init__(
        self, status: int, message: str, *, headers: Mapping[str, str] | None = None, remark: str = "", **more: object
    ) -> None:
        super().__init__(message)
        self.message = message
        value = {**self.fixed, "message": message, **more}
        self.response = Response(status, value, headers=headers or {}, remark=remark)


T = TypeVar("T")
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


class Routes(Generic[T]):
    """The calls of a server; `{name}` is one word of the path, `{name:a|b}` one of these, `{name*}` all the rest."""

    def __init__(self, calls: Mapping[str, T]) -> None:
        self.table = {_pattern(spelled): route for spelled, route in calls.items()}

    def find(self, method: str, path: str) -> tuple[T, dict[str, str]] | None:
        """Return what answers a call, and the values of its placeholders, decoded."""
        for pattern, route in self.table.items():
            found = pattern.fullmatch(f"{method} {path}")
            if found:
                return route, {name: unquote(value) for name, value in found.groupdict().items()}
        return None

    def methods(self, path: str) -> list[str]:
        return [method for method in _METHODS if self.find(method, path)]


def _pattern(spelled: str) -> re.Pattern[str]:
    split = re.split(r"\{(\w+)(\*|:[\w|]+)?\}", spelled)
    words = (".+" if kind == "*" else (kind or ":[^/]+")[1:] for kind in split[2::3])
    named = (f"(?P<{name}>{word})" for name, word in zip(split[1::3], words, strict=True))
    return re.compile("".join(part for pair in zip_longest(map(re.escape, split[::3]), named) for part in pair if part))


_BOUNDARY = re.compile(r'boundary="?([^";,]{1,200})"?', re.IGNORECASE)
_HEAD = 1 << 14


class BadForm(ValueError):
    """It is not a form with a part of that name, or it ended early."""


class _Pieces:
    """Bytes that come in pieces, looked through for marks."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._held = b""

    def until(self, mark: bytes) -> Iterator[bytes]:
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
        found = b""
        for piece in self.until(mark):
            found += piece
            if len(found) > _HEAD:
                raise BadForm("the head of a part is too long")
        return found

    def peek(self, count: int) -> bytes:
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
    source = _Pieces(pieces)
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
