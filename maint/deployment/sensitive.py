"""What marks a value of a deployment document as secret, and whether the server redacted the secrets (M7.1)."""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

from maint.deployment.reducer import Fields
from maint.deployment.secret_index import SecretIndex
from maint.model.formatting import show_count
from maint.model.snapshot import Finding, Redaction

Item: TypeAlias = tuple[object, object, object]  # a config item: its name, its value, its flag `sensitive`
# What holds a list `items` of config items; and the lists whose elements do, the form of API 2.
ITEM_HOLDERS = frozenset({"config", "managerSettings", "allHostsConfig"})
ITEM_HOLDER_LISTS = frozenset({"roleTypeConfigs"})
REDACTED = "REDACTED"
# Fields that are secret wherever they stand: of users (M7.2) and of peers.
SECRET_FIELDS = frozenset({"password", "pwHash", "pwSalt"})
_SHOWN = 3

_SECRET = (
    r"pass(?:word|wd|phrase|code)|secret|(?:^|_)pw(?:$|_)|token$|credentials?$|private_?key$|api_?key$|access_?key$"
)
# Names that speak about a secret without being one: where it lies, how long it lasts, that a warning is suppressed.
_ABOUT = (
    r"suppression|_(?:path|file|location|dir|url|user|username|type|algorithm|enabled|interval|length|lifetime"
    r"|expiry|policy|name|script|provider)$"
)

# A fingerprint of ours, stars or dots, the word in another spelling.
_MASK = r"fp:[0-9a-f]{16}|[*•]{3,}|\W?(?i:redacted)\W?"
_MASKS = frozenset("f*•rR<[({")


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
    return isinstance(value, str) and value[:1] in _MASKS and bool(re.fullmatch(_MASK, value))


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

    def items(self, items: Iterable[Item], plain: int = 0) -> None:
        """Take config items, and the number of further ones that say themselves to be no secret."""
        self._items += plain
        self.flagged = self.flagged or plain > 0
        for name, value, flag in items:
            self._items += 1
            if isinstance(flag, bool):
                self.flagged = True
                if not flag and value != REDACTED:  # what most are
                    continue
            if value == REDACTED and hidden(name, value, flag):
                self._secret += 1
                self._hide(str(name))
            elif flag is True or sensitive(name, flag):
                self._secret += 1
                self._show(name, value)

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

    def finding(self, redaction: Redaction, hidden_accounts: int) -> Finding:
        """Say it in words."""
        how = "" if self.flagged else "; judged by names and values, this API version flags nothing"
        if redaction is Redaction.NONE:
            return Finding("redaction", True, f"{show_count(self.readable, 'secret')} readable, none redacted{how}")
        if redaction is Redaction.UNKNOWN:
            return Finding("redaction", None, f"nothing in it tells whether it is redacted: no secret anywhere{how}")
        parts = []
        if self.hidden:
            more = ", …" if self.hidden > _SHOWN else ""
            word = f"the word {REDACTED}{' or another mask' if self._masked else ''}"
            names = f"{', '.join(self._names)}{more}"
            parts.append(f"{self.hidden} {'secret is' if self.hidden == 1 else 'secrets are'} {word} ({names})")
        if hidden_accounts:
            parts.append(f"{hidden_accounts} account{'s' * (hidden_accounts > 1)} without password hash")
        return Finding("redaction", False, "; ".join(parts) + how)

    def _hide(self, name: str) -> None:
        self.hidden += 1
        if len(self._names) < _SHOWN and name not in self._names:
            self._names.append(name)

    def _show(self, name: object, value: object) -> None:
        if masked(value):
            self._masked = True
            self._hide(str(name))
        elif value not in (None, "", REDACTED):
            self.readable += 1
            self._remember(value)

    def _remember(self, value: object) -> None:
        if self._secrets is not None:
            self._secrets.add(str(value))
