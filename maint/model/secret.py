"""A secret value that cannot be printed, logged or serialised by accident, and a scrubber for words from outside."""

import json
import re
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar
from urllib.parse import quote

T = TypeVar("T", str, bytes)
MASK = "•••"  # stands where a secret is
_SHORTEST = 4  # characters: a shorter text would turn up in words by chance
_LONG_LINE = 16  # characters from which on a line of a secret is one by itself
_PUBLIC = ("admin",)  # the factory password, which half of a manager's messages hold as a name
_PRIVATE = re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{20,}", re.IGNORECASE)  # told by its form, also by who never read it
_KNOWN: set[str] = set()
_SENT: list[Callable[[str, Callable[[str], str]], str]] = []


def know(value: str) -> None:
    """Have a secret replaced in all words that pass `scrub` from now on, however it is spelt there."""
    lines = [line.strip() for line in value.splitlines()]
    texts = [value.strip(), *(line for line in lines if len(lines) > 1 and len(line) >= _LONG_LINE)]
    for text in texts:
        if len(text) >= _SHORTEST and text not in _PUBLIC:
            in_json = (json.dumps(text, ensure_ascii=narrow)[1:-1] for narrow in (True, False))
            _KNOWN.update((text, quote(text, safe=""), *in_json))


def know_those_in(masked: Callable[[str, Callable[[str], str]], str]) -> None:
    """Have the secrets of a document that is about to be sent replaced, too; `masked` does so in a text."""
    _SENT[:] = [masked]  # of the latest one; they are too many to be kept one by one


def scrub(words: str) -> str:
    """Return words from outside without any secret that this process knows, age key, or half of a character."""
    clean = _PRIVATE.sub(MASK, words.encode("utf-8", "replace").decode())
    for masked in _SENT:
        clean = masked(clean, lambda text: text if text in _PUBLIC else MASK)
    for text in sorted(_KNOWN.copy(), key=len, reverse=True):
        clean = clean.replace(text, MASK)
    return clean


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
