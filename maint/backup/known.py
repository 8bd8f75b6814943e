"""Known secrets, held in memory only, and where they occur inside other text.

Which occurrences count: a secret of eight characters or more anywhere in a text; one of four to seven only as a
whole word, because short passwords (`hive`, `admin`) are also parts of ordinary paths and names; one of three or
fewer never, because hiding every `sys` would leave nothing to read and hide nothing that could not be guessed.
"""

from collections.abc import Iterator

GRAM = 4  # characters that an index entry is made of, and the shortest secret looked for
LONG = 8  # from here on a secret counts inside words too


class Known:
    """A set of secrets, indexed by their first four characters."""

    def __init__(self) -> None:
        self._index: dict[str, str | tuple[str, ...]] = {}

    def add(self, secret: str) -> None:
        """Take a secret; too short ones are not looked for."""
        if len(secret) < GRAM:
            return
        gram = secret[:GRAM]
        there = self._index.setdefault(gram, secret)
        if isinstance(there, str):
            if there != secret:
                self._index[gram] = (there, secret)
        elif secret not in there:
            self._index[gram] = (*there, secret)

    def found(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each occurrence in a text, left to right, the longest first, never overlapping."""
        at, last = 0, len(text) - GRAM
        index = self._index
        while at <= last:
            secrets = index.get(text[at : at + GRAM])
            length = _match(text, at, secrets) if secrets else 0
            if length:
                yield at, at + length
            at += length or 1


def _match(text: str, at: int, secrets: str | tuple[str, ...]) -> int:
    candidates = (secrets,) if isinstance(secrets, str) else secrets
    fitting = [len(one) for one in candidates if text.startswith(one, at) and _counts(text, at, len(one))]
    return max(fitting, default=0)


def _counts(text: str, at: int, length: int) -> bool:
    if length >= LONG:
        return True
    before, after = text[at - 1 : at] if at else "", text[at + length : at + length + 1]
    return not before.isalnum() and not after.isalnum()
