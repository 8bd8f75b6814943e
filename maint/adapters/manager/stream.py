"""A long JSON answer as a stream of raw bytes that says so when it was cut (contract section 7)."""

import requests
from urllib3.exceptions import DecodeError, HTTPError

from maint.errors import CannotReach, WorkFailed

BLOCK = 256 * 1024  # bytes
_BLANK = b" \t\r\n"
_MARK = b"\xef\xbb\xbf"  # a byte order mark, which some proxies add


class Streamed:
    """An answer's body under way; implements `ports.Answer`.

    Without a length and without chunks a cut cannot be seen on the wire; the last byte of a JSON object shows it then.

    Args:
        answer: its body unread.
        what: the body in words, such as `the export`.
    """

    def __init__(self, answer: requests.Response, what: str) -> None:
        self._answer = answer
        self._what = what
        self._count = 0
        self._begun = False
        self._last = b""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes; b'' at the true end.

        Raises:
            CannotReach: the body was cut.
            WorkFailed: it is not JSON, or empty.
        """
        block = self._block(BLOCK if size < 0 else size)
        if size < 0:
            parts = [block]
            while block:
                parts.append(block := self._block(BLOCK))
            return b"".join(parts)
        return block

    def close(self) -> None:
        """Let go of the connection."""
        self._answer.close()

    def _block(self, size: int) -> bytes:
        if size == 0:
            return b""
        try:
            block: bytes = self._answer.raw.read(size, decode_content=True)
        except DecodeError:
            raise self._cut("its compression is damaged") from None
        except (HTTPError, OSError) as error:
            late = isinstance(error, TimeoutError) or "timed out" in str(error)
            raise self._cut("nothing more came in time" if late else "the connection ended early") from None
        self._look(block)
        return block

    def _look(self, block: bytes) -> None:
        self._count += len(block)
        text = block.strip(_BLANK)
        if not self._begun and text:
            self._begun = True
            if not text.removeprefix(_MARK).lstrip(_BLANK).startswith(b"{"):
                raise self._no_json(text)
        if text:
            self._last = text[-1:]
        if not block:
            if not self._begun:
                raise WorkFailed(f"{self._what} is empty", hint="does the account have the role Full Administrator?")
            if self._last != b"}":
                raise self._cut("it does not end as JSON does")

    def _cut(self, why: str) -> CannotReach:
        came = max(self._count, self._answer.raw.tell())  # the last bytes came, and were never handed out
        self.close()
        return CannotReach(f"{self._what} was cut off after {came} bytes: {why}", hint="ask again")

    def _no_json(self, text: bytes) -> WorkFailed:
        self.close()
        kind = self._answer.headers.get("Content-Type", "no content type")
        return WorkFailed(
            f"{self._what} is not JSON ({kind})",
            detail=(f"it begins with {text[:40].decode('utf-8', 'replace')!r}",),
            hint="is there a proxy or a login page between us and the manager?",
        )
