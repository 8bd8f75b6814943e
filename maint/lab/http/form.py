"""Read one part of a multipart form, as it comes."""

import re
from collections.abc import Iterable, Iterator

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
