"""A secret value that cannot be printed, logged or serialised by accident, and a scrubber for words from outside."""

import json
import re
import sys
from binascii import b2a_base64
from bisect import bisect_right
from collections.abc import Callable, Collection
from typing import Generic, NoReturn, TypeVar

T = TypeVar("T", str, bytes)
MASK = "•••"  # stands where a secret is
_SHORTEST = 4  # characters: a shorter text would turn up in words by chance
_LONG_LINE = 16  # characters from which on a line of a secret is one by itself
_PUBLIC = ("admin",)  # the factory password, which half of a manager's messages hold as a name
_BASE64 = 6  # bytes from which on a text is looked for in base64, too
_NESTED = 3  # escapes within escapes
# What JSON, Python, an address, HTML or a shell writes in the place of a character.
_ESCAPE = re.compile(
    r"(?=[\\%&'+])(?:"  # what each begins with: many times as fast on what holds few
    r"(?i:(?P<utf16>(?:\\+u[0-9a-f]{4})+)|(?P<utf8>(?:\\+x[0-9a-f]{2})+|(?:%(?:25)*[0-9a-f]{2})+)"
    r"|&(?:amp;)*(?:(?P<entity>amp|lt|gt|quot|apos)|#(?P<decimal>[0-9]{1,7})|#x(?P<hexadecimal>[0-9a-f]{1,6}));)"
    r"|(?P<quote>'\"'\"'|'\\+'')|\\+(?P<letter>[nrt])|(?P<mark>\\+)|(?P<space>\+))"
)
_MEANT = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "n": "\n", "r": "\r", "t": "\t"}
_PRIVATE = re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{20,}", re.IGNORECASE)  # told by its form, also by who never read it
_KNOWN: set[str] = set()
_SENT: list[Callable[[str, Callable[[str], str]], str]] = []


def know(value: str) -> None:
    """Have a secret replaced in all words that pass `scrub` from now on, however it is spelt there."""
    lines = [line.strip() for line in value.splitlines()]
    texts = [value.strip(), *(line for line in lines if len(lines) > 1 and len(line) >= _LONG_LINE)]
    kept = [text for text in texts if len(text) >= _SHORTEST and text not in _PUBLIC]
    contents = [content for text in kept if len(content := text.encode("utf-8", "replace")) >= _BASE64]
    packed = [b2a_base64(content + end).decode().rstrip("=\n") for content in contents for end in (b"", b"\n")]
    # Hidden as a whole: what ends in a backslash, or begins with a quote, would leave a half escape in JSON.
    in_json = [json.dumps(text, ensure_ascii=narrow)[1:-1] for text in kept for narrow in (True, False)]
    _KNOWN.update((*kept, *packed, *in_json))


def know_those_in(masked: Callable[[str, Callable[[str], str]], str]) -> None:
    """Have the secrets of a document that is about to be sent replaced, too; `masked` does so in a text."""
    _SENT[:] = [masked]  # of the latest one; they are too many to be kept one by one


def scrub(words: str) -> str:
    """Return words from outside without any secret that this process knows, age key, or half of a character."""
    clean = _PRIVATE.sub(MASK, words.encode("utf-8", "replace").decode())
    for masked in _SENT:
        clean = masked(clean, lambda text: text if text in _PUBLIC else MASK)
    known = sorted(_KNOWN.copy(), key=len, reverse=True)
    for text in known:
        clean = clean.replace(text, MASK)
    if not _ESCAPE.search(clean):
        return clean
    plain = _unescaped(clean)
    texts = {text for one in known if len(text := _unescaped(one)) >= _SHORTEST and text in plain}
    return "\n".join(_without_escaped(line, texts) for line in clean.split("\n")) if texts else clean


def _without_escaped(line: str, texts: Collection[str]) -> str:
    """Return a line without any of the texts, which are unescaped, in whatever spelling."""
    plain = _unescaped(line)
    found = [text for text in texts if text in plain]
    if plain == line or not found:
        return line
    plain, followed = line, list[_Escapes]()
    for _ in range(_NESTED):
        plain, escapes = _followed(plain)
        followed.append(escapes)
    spans = [at.span() for text in found for at in re.finditer(re.escape(text), plain)]
    for escapes in reversed(followed):
        spans = [(escapes.place(start)[0], escapes.place(end - 1)[1]) for start, end in spans]
    pieces, end = [], 0
    for start, stop in sorted(spans):
        if start >= end:
            pieces += [line[end:start], MASK]
        end = max(end, stop)
    return "".join(pieces) + line[end:]


def _unescaped(text: str) -> str:
    for _ in range(_NESTED):
        text, count = _ESCAPE.subn(_meant, text)
        if not count:
            break
    return text


class _Escapes:
    """Where the escapes of a text stood, and where what they mean stands in it once it is unescaped, in their order."""

    __slots__ = ("begun", "end", "ended", "start")

    def __init__(self) -> None:
        from array import array  # a long line holds millions; few words hold any

        self.start, self.end = array("q"), array("q")  # in the text
        self.begun, self.ended = array("q"), array("q")  # in the unescaped one

    def place(self, at: int) -> tuple[int, int]:
        """Return where in the text a character of the unescaped one comes from: where that begins, and ends."""
        before = bisect_right(self.begun, at) - 1
        if before < 0:
            return at, at + 1
        if at < self.ended[before]:
            return self.start[before], self.end[before]
        place = self.end[before] + at - self.ended[before]
        return place, place + 1


def _followed(text: str) -> tuple[str, _Escapes]:
    """Return a text unescaped once, and what was unescaped in it."""
    escapes, shift = _Escapes(), 0

    def follow(found: re.Match[str]) -> str:
        nonlocal shift
        meant, (start, end) = _meant(found), found.span()
        escapes.start.append(start)
        escapes.end.append(end)
        escapes.begun.append(start + shift)
        shift += len(meant) - (end - start)
        escapes.ended.append(end + shift)
        return meant

    return _ESCAPE.sub(follow, text), escapes


def _meant(found: re.Match[str]) -> str:
    kind, text = str(found.lastgroup), found[0]
    if kind in ("utf16", "utf8"):
        codes = bytes.fromhex(re.sub(r"(?i)\\+[ux]|%(?:25)*(?=[0-9a-f]{2})", "", text))
        return codes.decode("utf-16-be" if kind == "utf16" else "utf-8", "replace")
    if kind in ("decimal", "hexadecimal"):
        code = int(found[kind], 10 if kind == "decimal" else 16)
        return chr(code) if code <= sys.maxunicode else text
    named = {"quote": "'", "mark": "", "space": " "}
    return named[kind] if kind in named else _MEANT[found[kind].lower()]


class _Hidden(Generic[T]):
    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value: T = value

    def reveal(self) -> T:
        """Return the value itself; call it only where it leaves for its destination, or is judged."""
        return self._value

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not serialised")


class Secret(_Hidden[str]):
    """Holds a text that only `reveal` gives back."""

    __slots__ = ()

    def __init__(self, value: str) -> None:
        super().__init__(value)
        know(value)


class SecretBytes(_Hidden[bytes]):
    """Holds bytes that only `reveal` gives back: a keytab, a key."""

    __slots__ = ()
