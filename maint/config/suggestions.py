"""Suggest what was probably meant, and name a place as people write it."""

import difflib
from collections.abc import Iterable
from typing import TypeAlias

from maint.errors import UnknownName
from maint.model.formatting import show_some

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead to a part of a document."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like the given one, or None where none is like it.

    A host's short name means the host, whatever else is spelled like it.
    """
    spelled = {item.lower(): item for item in known}
    full = [item for item in spelled if word and item.startswith(f"{word.lower()}.")]
    if len(full) == 1:
        return spelled[full[0]]
    close = difflib.get_close_matches(word.lower(), spelled, n=1, cutoff=0.6)
    return spelled[close[0]] if close else None


def meant(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a word that is not known: the one that is most like it, or what to do otherwise."""
    guess = did_you_mean(word, list(known))
    return f"did you mean {guess!r}?" if guess else otherwise


def unknown(words: str, name: str, known: Iterable[str], otherwise: str) -> UnknownName:
    """Return the failure for a name that is not known, with what there is."""
    known = sorted(known)
    detail = f"there is {show_some(known, 12) or 'none'}"
    return UnknownName(words, name, detail=[detail], hint=meant(name, known, otherwise))


def dotted(path: KeyPath) -> str:
    """Return a path as people write it, such as `sites.prod.hosts[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
