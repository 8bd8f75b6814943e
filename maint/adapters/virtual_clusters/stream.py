"""A body as a stream of raw bytes that says so when it was cut."""

import requests
from urllib3.exceptions import HTTPError

from maint.ports.streams import Cut

BLOCK = 256 * 1024  # bytes


class Streamed:
    """A file or a log under way; implements `ports.Answer`.

    Args:
        answer: its body unread.
        what: it, in words.
    """

    def __init__(self, answer: requests.Response, what: str) -> None:
        self._answer = answer
        self._what = what
        self._count = 0

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes; all that are left when `size` is negative; b'' at the true end.

        Raises:
            Cut: the body was cut.
        """
        if size >= 0:
            return self._block(size)
        parts = []
        while block := self._block(BLOCK):
            parts.append(block)
        return b"".join(parts)

    def _block(self, size: int) -> bytes:
        if size == 0:
            return b""
        try:
            block: bytes = self._answer.raw.read(size, decode_content=True)
        except (HTTPError, OSError):
            self._answer.close()
        else:
            self._count += len(block)
            return block
        raise Cut(f"{self._what} was cut off after {self._count} bytes", hint="ask again")
