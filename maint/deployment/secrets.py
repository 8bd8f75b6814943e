"""Secrets of a document: what marks a value as one, whether they are redacted (M7.1), where known ones stand."""

import hashlib
import hmac
import re
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from maint.deployment.reducer import Fields
from maint.model.formatting import show_count
from maint.model.snapshot import Redaction, RuleResult

if TYPE_CHECKING:  # what a document says needs no site, and takes a process that only judges half of the memory
    from maint.ports import Sight

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


Item: TypeAlias = tuple[object, object, object]  # a config item: its name, its value, its flag `sensitive`
# What holds a list `items` of config items; and the lists whose elements do, the form of API 2.
ITEM_HOLDERS = frozenset({"config", "managerSettings", "allHostsConfig"})
ITEM_HOLDER_LISTS = frozenset({"roleTypeConfigs"})
REDACTED = "REDACTED"
# Fields that are secret wherever they stand: of users (M7.2) and of peers.
SECRET_FIELDS = frozenset({"password", "pwHash", "pwSalt"})
_SHOWN = 3

_SECRET = (
    r"pass(?:word|wd|phrase|code)|secret|(?:^|_)pw(?:$|_)|token$|credentials?$|(?:private|api|access)_?key$"
    r"|account_?key"  # of Azure's storage: fs.azure.account.key.ACCOUNT
)
# Names that speak about a secret without being one: where it lies, how long it lasts, that a warning is suppressed.
_ABOUT = (
    r"suppression|_(?:path|file|location|dir|url|user|username|type|algorithm|enabled|interval|length|lifetime"
    r"|expiry|policy|name|script|provider)$"
)

# A fingerprint of ours, stars or dots, the word in another spelling or between marks, a like word in brackets.
_mask = re.compile(
    r"fp:[0-9a-f]{16}|\s*[*•●]{3,}\s*|[\W_]{0,8}(?i:redacted)[\W_]{0,8}"
    r"|\s*[<\[({]+(?i:hidden|masked|protected|removed|sensitive)[>\])}]+\s*"
).fullmatch


# From API 14 on each config item says `sensitive` itself. Before that nothing is flagged, and a peer's password and a
# user's hash never are: there only names say it.
@lru_cache(maxsize=4096)  # a document repeats a few thousand names very often
def secret_name(name: str) -> bool:
    """Return whether the name of a config item is that of a secret."""
    low = name.lower()
    return bool(re.search(_SECRET, low)) and not re.search(_ABOUT, low)


def sensitive(name: object, flag: object) -> bool:
    """Return whether a config item is secret, by its flag or else its name; an unreadable flag counts as yes."""
    if isinstance(flag, bool):
        return flag
    return bool(flag) or (isinstance(name, str) and secret_name(name))


def hidden(name: object, value: object, flag: object) -> bool:
    """Return whether a config item's value stands in a secret's place: the server's REDACTED, or a mask."""
    # A flag does not prove that nothing was hidden: where the name is that of a secret, the word counts.
    if value == REDACTED:
        return flag is not False or (isinstance(name, str) and secret_name(name))
    return masked(value) and sensitive(name, flag)


def readable(value: object) -> bool:
    """Return whether a secret's value is really there: not missing, not empty, nothing that stands in its place."""
    return value is not None and value not in ("", REDACTED) and not masked(value)


def masked(value: object) -> bool:
    """Return whether a value stands in a secret's place, as displays and redacted copies of ours have it."""
    return isinstance(value, str) and _begins_mask(value[:1]) and _mask(value) is not None


def _begins_mask(first: str) -> bool:
    return first in "frR" or not first.isalnum()


# Without flags the word REDACTED counts on any item: one that was really set to it is not worth caring about.
class Redactions:
    """Counts secrets, and how many of them are hidden."""

    def __init__(self, secrets: SecretIndex | None) -> None:
        self._secrets = secrets
        self._items = 0
        self._secret = 0
        self._names: list[str] = []
        self._masked = False
        self.flagged = False
        self.hidden = 0
        self.readable = 0
        self.readable_of_peers = 0

    def items(self, items: Collection[Item], plain: int = 0) -> None:
        """Take config items, and the number of further ones that say themselves that they are not secret."""
        self._items += len(items) + plain
        self.flagged = self.flagged or plain > 0
        for name, value, flag in items:
            if flag is False or flag is True:
                self.flagged = True
            if flag is False and value != REDACTED:  # what most are
                continue
            if value == REDACTED and hidden(name, value, flag):
                self._secret += 1
                self._hide(str(name))
            elif flag is True or sensitive(name, flag):
                self._secret += 1
                if masked(value):
                    self._masked = True
                    self._hide(str(name))
                elif value is not None and value != "":
                    self.readable += 1
                    self._remember(value)

    def peer(self, peer: Fields) -> None:
        """Take one replication peer, whose password is never flagged."""
        if peer.get("password") == REDACTED or masked(peer.get("password")):
            self._hide(f"password of peer {peer.get('name')}")
        elif readable(peer.get("password")):
            self.readable_of_peers += 1
            self._remember(peer["password"])

    def counts(self) -> dict[str, int]:
        """Return how many config items there are, how many of them secret, and how many secrets redacted."""
        return {"items": self._items, "sensitive": self._secret, "redacted": self.hidden}

    def finding(self, redaction: Redaction, hidden_accounts: int) -> RuleResult:
        """Say it in words."""
        how = "" if self.flagged else "; judged by names and values, this API version flags nothing"
        if redaction is Redaction.NONE:
            return RuleResult("redaction", True, f"{show_count(self.readable, 'secret')} readable, none redacted{how}")
        if redaction is Redaction.UNKNOWN:
            return RuleResult("redaction", None, f"nothing in it tells whether it is redacted: no secret anywhere{how}")
        parts = []
        if self.hidden:
            more = ", …" if self.hidden > _SHOWN else ""
            word = f"the word {REDACTED}{' or another mask' if self._masked else ''}"
            names = f"{', '.join(self._names)}{more}"
            parts.append(f"{self.hidden} {'secret is' if self.hidden == 1 else 'secrets are'} {word} ({names})")
        if hidden_accounts:
            parts.append(f"{hidden_accounts} account{'s' * (hidden_accounts > 1)} without password hash")
        return RuleResult("redaction", False, "; ".join(parts) + how)

    def _hide(self, name: str) -> None:
        self.hidden += 1
        if len(self._names) < _SHOWN and name not in self._names:
            self._names.append(name)

    def _remember(self, value: object) -> None:
        if self._secrets is not None:
            self._secrets.add(str(value))


_made = re.compile(r"fp:[0-9a-f]{16}").fullmatch
_LENGTH = 19  # characters of a fingerprint


class Fingerprint:
    """Makes fingerprints: HMAC-SHA256 cut to 64 bits; without the key even a guessed password cannot be tried."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)  # what depends on the key alone is done once

    def __call__(self, value: str) -> str:
        """Return `fp:` and 16 hex digits; a fingerprint stays as it is, so that redacted copies can be compared."""
        if len(value) == _LENGTH and _made(value):
            return value
        made = self._keyed.copy()
        made.update(value.encode(errors="surrogatepass"))
        return f"fp:{made.hexdigest()[:16]}"


def site_fingerprint(sight: "Sight") -> Fingerprint:
    """Return the fingerprints of a site: under its key, read as hex where it is hex, else as it stands."""
    key = sight.fingerprint_key.reveal().strip()
    try:
        return Fingerprint(bytes.fromhex(key))
    except ValueError:
        return Fingerprint(key.encode())
