"""Known secrets, held in memory only: where they occur inside other text, and that text with fingerprints instead."""

from collections.abc import Callable, Iterator

# A short password (`hive`, `admin`) is also a part of ordinary paths and names, so it counts as a whole word only; one
# of three characters or fewer never: hiding every `sys` would leave nothing to read, and hide what can be guessed.
_GRAM = 4  # characters that an index entry is made of, and the shortest secret looked for
_LONG = 8  # from here on a secret counts inside words too
_MARK = b"\xff"
_CROWD = 4096  # bytes; longer strings of rests would take ever longer to search and to extend


# A large export holds hundreds of thousands of secrets, so they lie packed: the rests of those that begin alike are one
# string of bytes, between marks that no UTF-8 holds; where very many begin alike, they are kept by length.
class SecretIndex:
    """A set of secrets, found by their first four characters."""

    def __init__(self) -> None:
        self._index: dict[str, bytes] = {}
        self._crowded: dict[str, dict[int, set[str]]] = {}

    def add(self, secret: str) -> None:
        """Take a secret; too short ones are not looked for."""
        if len(secret) < _GRAM:
            return
        gram = secret[:_GRAM]
        entry = b"%b%b%b" % (_MARK, secret[_GRAM:].encode(errors="surrogatepass"), _MARK)
        there = self._index.get(gram)
        if there is None:
            self._index[gram] = entry
        elif entry not in there:
            if len(there) < _CROWD:
                self._index[gram] = there + entry[1:]
            else:
                self._crowded.setdefault(gram, {}).setdefault(len(secret), set()).add(secret)

    def found(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each occurrence in a text, left to right, the longest first, never overlapping."""
        at, last = 0, len(text) - _GRAM
        index = self._index
        while at <= last:
            length = self._match(text, at) if text[at : at + _GRAM] in index else 0
            if length:
                yield at, at + length
            at += length or 1

    def masked(self, text: str, fingerprint: Callable[[str], str]) -> str:
        """Return a text with the fingerprint of each known secret in its place."""
        pieces, at = [], 0
        for start, end in self.found(text):
            pieces += [text[at:start], fingerprint(text[start:end])]
            at = end
        return "".join(pieces) + text[at:]

    def noting(self, fingerprint: Callable[[str], str]) -> Callable[[str], str]:
        """Return a fingerprint that adds every secret which it is asked for."""

        def noted(value: str) -> str:
            self.add(value)
            return fingerprint(value)

        return noted

    def _match(self, text: str, at: int) -> int:
        # 0 where no secret stands here.
        gram = text[at : at + _GRAM]
        rests = self._index[gram][1:-1].split(_MARK)
        lengths = [_GRAM + len(one) for rest in rests if text.startswith(one := _text(rest), at + _GRAM)]
        for length, secrets in self._crowded.get(gram, {}).items():
            if text[at : at + length] in secrets:
                lengths.append(length)
        return max((length for length in lengths if _counts(text, at, length)), default=0)


def _text(rest: bytes) -> str:
    return rest.decode(errors="surrogatepass")


def _counts(text: str, at: int, length: int) -> bool:
    if length >= _LONG:
        return True
    before, after = text[at - 1 : at] if at else "", text[at + length : at + length + 1]
    return not before.isalnum() and not after.isalnum()
