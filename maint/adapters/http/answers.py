"""HTTP answers: read whole or in pieces within limits, decoded strictly, quoted without the secrets of this run."""

import json
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

import requests
from msgspec import Struct
from urllib3.exceptions import DecodeError, HTTPError

from maint.adapters.http.request import BLOCK, MOST
from maint.errors import CannotReach, WorkFailed
from maint.model.formatting import show_count, show_size, whole_number
from maint.model.json import Json
from maint.model.secret import scrub
from maint.ports.streams import Cut

_DEPTH = 100  # levels; the deepest real answers have about ten
_DIGITS = 24  # of an integer; the longest real ones have 64 bits
_SHORT = 1 << 16  # bytes; no error is longer
_STREAMED = 1 << 34  # bytes of an answer that is read piece by piece, where nobody has said how many there are
_SHOWN = 2000  # characters of a server's words
_BLANK = b" \t\r\n"
_MARK = b"\xef\xbb\xbf"  # a byte order mark, which some proxies add


class NoAnswer(CannotReach):
    """The connection stood, and no whole answer came; `words` is the short form, `late` means a time-out."""

    words = "no answer"
    late = False


TOO_LARGE = (
    "the server, or what stands in front of it, takes no body as large: raise that limit (`client_max_body_size` of an"
    " nginx), then run it again"
)


class Reply(Struct, frozen=True):
    """An answer that was read whole."""

    status: int
    content: bytes
    retry_after: str = ""  # what the server says of when to ask again
    date: str = ""  # when it answered, by its own clock and in its words

    @property
    def good(self) -> bool:
        """Whether it is one of success; any 2xx is."""
        return 200 <= self.status < 300

    @property
    def redirects(self) -> bool:
        """Whether it points elsewhere; no redirect is ever followed."""
        return 300 <= self.status < 400

    @property
    def title(self) -> str:
        """The status as people know it, such as `404 Not Found`."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)

    @property
    def message(self) -> str | None:
        """The text of an error in the server's own form, causes included; None where the body is something else."""
        try:
            return message_in(parse(self.content))
        except ValueError:
            return None


def message_in(value: Json) -> str | None:
    """Return the text of an error in the server's own form; None where it is none."""
    if not isinstance(value, Mapping) or not isinstance(value.get("message"), str):
        return None
    causes = value.get("causes")
    further = [cause for cause in causes if isinstance(cause, str)] if isinstance(causes, list) else []
    return scrub("; ".join((str(value["message"]), *further)))[:_SHOWN]


def read_reply(answer: requests.Response) -> Reply:
    """Return an answer with its whole body (bytes, unpacked); NoAnswer: it was cut, or did not end in time."""
    parts: list[bytes] = []
    count = 0
    cut, late = "", False
    try:
        while block := answer.raw.read(BLOCK, decode_content=True):
            parts.append(block)
            count += len(block)
            if count > MOST:
                answer.close()
                raise WorkFailed(
                    f"{answer.url.partition('?')[0]}: the answer is longer than {show_size(MOST)}, and was not read",
                    hint="is this the right server? no answer of this kind is so long",
                )
    except (HTTPError, OSError) as error:
        late = _late(error)
        cut = "the answer did not end in time" if late else "the answer was cut off"
    if cut:  # raised here, since the frames below hold the credentials
        answer.close()
        failure = NoAnswer(
            f"{answer.url.partition('?')[0]}: {cut}",
            hint="`maint site status` shows whether it answers now; where a proxy stands between, look at its limits",
        )
        failure.words, failure.late = cut, late
        raise failure
    answer.raw.release_conn()
    return Reply(
        answer.status_code, b"".join(parts), answer.headers.get("Retry-After", ""), answer.headers.get("Date", "")
    )


def parse(content: bytes) -> Json:
    """Return JSON, integers exact (M7.3); ValueError where it is not, or has endless numbers or deep nesting."""
    try:
        value = json.loads(
            content.decode("utf-8-sig"), parse_int=_integer, parse_float=_float, parse_constant=_constant
        )
    except RecursionError:
        raise ValueError(_DEEP) from None
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEPTH):
        level = _inner(level)
    if level:
        raise ValueError(_DEEP)
    return cast(Json, value)


def decode(content: bytes, what: str, proxy: str) -> Json:
    """Return an answer's JSON; `what` is the call in words, `proxy` the hint where a page came instead."""
    try:
        return parse(content)
    except ValueError as error:
        why = f" that can be used: {error}" if str(error) in _UNUSABLE else ""
    raise WorkFailed(
        f"{what}: the answer is not JSON{why}", detail=(f"it begins with {beginning(content)!r}",), hint=proxy
    )


def unexpected(what: str, wanted: str, value: Json) -> WorkFailed:
    """Return the failure of JSON of another shape than was `wanted`, such as `a list under "items"`."""
    came = f"an object with {', '.join(map(repr, list(value)[:5]))}" if isinstance(value, Mapping) and value else ""
    return WorkFailed(
        f"{what}: the answer is not what was expected: {wanted}",
        detail=(scrub(f"it is {came or _kind(value)}")[:_SHOWN],),
        hint="is this the right server, and is there a proxy in front of it? an empty list was not assumed",
    )


def beginning(content: bytes) -> str:
    """Return how a body begins, for people."""
    return scrub(content[:400].decode("utf-8", "replace"))[:40]


class Streamed:
    """A body under way; implements `ports.Answer`.

    Args:
        is_object: it must be a JSON object, whose last byte shows a cut where neither length nor chunks do (M7).
        empty: the hint for an empty body; only where it must be an object.
        keys: of which a short object has at least one; else it is another one, such as an error.
        most: bytes that it has, as the server said before; None where it did not.
    """

    def __init__(
        self,
        answer: requests.Response,
        what: str,
        *,
        is_object: bool = False,
        empty: str = "",
        keys: Collection[str] = (),
        most: int | None = None,
    ) -> None:
        self._answer = answer
        self._what = what
        self._is_object = is_object
        self._empty = empty
        self._most = _STREAMED if most is None else most
        self._count = 0
        self._begun = False
        self._last = b""
        self._keys = frozenset(keys)
        self._short: bytes | None = b"" if keys else None  # all that came, None once it is too long for an error

    @property
    def length(self) -> int | None:
        """How many bytes there are in all, None where that is not said of what is not packed."""
        said = str(self._answer.headers.get("Content-Length", ""))
        return None if "Content-Encoding" in self._answer.headers else whole_number(said)

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes, all that are left when negative; b'' at the true end, else `Cut`."""
        if size >= 0:
            return self._block(size)
        parts = []
        while block := self._block(BLOCK):
            parts.append(block)
        return b"".join(parts)

    def close(self) -> None:
        self._answer.close()

    def _block(self, size: int) -> bytes:
        if size == 0:
            return b""
        try:
            block: bytes = self._answer.raw.read(size, decode_content=True)
        except DecodeError:
            raise self._cut("its compression is damaged") from None
        except (HTTPError, OSError) as error:
            cut = self._cut("nothing more came in time" if _late(error) else "the connection ended early")
            cut.late = _late(error)
            raise cut from None
        self._count += len(block)
        if self._count > self._most:
            self.close()
            raise WorkFailed(
                f"{self._what} is longer than {show_size(self._most)}, and was not read to its end",
                hint="is this the right server? no answer of this kind is so long"
                if self._most == _STREAMED
                else "it is said to be so long: was it replaced meanwhile? Try again",
            )
        if self._is_object:
            self._look(block)
        return block

    def _look(self, block: bytes) -> None:
        text = block.strip(_BLANK)
        if not self._begun and text:
            self._begun = True
            if not text.removeprefix(_MARK).lstrip(_BLANK).startswith(b"{"):
                raise self._no_object(text)
        if text:
            self._last = text[-1:]
        if self._short is not None:
            self._short = self._short + block if self._count <= _SHORT else None
        if not block:
            if not self._begun:
                raise WorkFailed(f"{self._what} is empty", hint=self._empty)
            if self._last != b"}":
                raise self._cut("it does not end as JSON does")
            if self._short is not None:
                self._judge(self._short)

    def _judge(self, content: bytes) -> None:
        with suppress(ValueError):  # what is no JSON after all has none of the keys
            value = parse(content)
            if isinstance(value, Mapping) and not self._keys.isdisjoint(value):
                return
            if words := message_in(value):
                status = self._answer.status_code
                raise WorkFailed(f"{self._what} says, with {status}: {words}", hint="mend what it names")
        raise WorkFailed(
            f"{self._what} is JSON of another kind",
            detail=(f"it begins with {beginning(content)!r}",),
            hint="is there a proxy or a login page between us and the server?",
        )

    def _cut(self, why: str) -> Cut:
        came = max(self._count, self._answer.raw.tell())  # the last bytes came, and were never handed out
        self.close()
        return Cut(f"{self._what} was cut off after {show_count(came, 'byte')}: {why}", hint="ask again")

    def _no_object(self, text: bytes) -> WorkFailed:
        self.close()
        kind = self._answer.headers.get("Content-Type", "no content type")
        return WorkFailed(
            f"{self._what} is not JSON ({kind})",
            detail=(f"it begins with {beginning(text)!r}",),
            hint="is there a proxy or a login page between us and the server?",
        )


_DEEP, _HUGE = "it is nested too deeply", "a number is too long"
_UNUSABLE = (_DEEP, _HUGE)


def _inner(outer: list[Any]) -> list[Any]:
    found = (one.values() if isinstance(one, dict) else one for one in outer)
    return [inner for values in found for inner in values if isinstance(inner, dict | list)]


def _late(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or "timed out" in str(error)


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(_HUGE)
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(_HUGE)
    return value


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _kind(value: Json) -> str:
    if isinstance(value, str):
        return "a text"
    return {dict: "an empty object", list: "a list", type(None): "null"}.get(type(value), "a number or a truth value")
