"""Tell by the values of an export whether the server redacted it (contract section 7.1)."""

from collections.abc import Sequence

from maint.deployment.json_reducer import Fields
from maint.deployment.records import Item, text
from maint.deployment.secret_index import Known
from maint.deployment.sensitive import REDACTED, hidden, masked, plainly_readable, readable, sensitive
from maint.model.snapshot import Finding, Redaction

SHOWN = 3


class Redactions:
    """Counts secrets, and how many of them are the word REDACTED.

    Where a document carries no flags, names tell what is secret; and there the word REDACTED counts on any item:
    one that was really set to it is not worth caring about. A flag that denies it is not believed against the name.
    """

    def __init__(self, known: Known | None) -> None:
        self._known = known
        self._items = 0
        self._secret = 0
        self._names: list[str] = []
        self._masked = False
        self.flagged = False
        self.hidden = 0
        self.readable = 0

    def item(self, item: Fields) -> None:
        """Take one config item."""
        self._items += 1
        name, value, flag = item.get("name"), item.get("value"), item.get("sensitive")
        if isinstance(flag, bool):
            self.flagged = True
        if value == REDACTED and hidden(name, value, flag):
            self._secret += 1
            self._hide(str(name))
        elif sensitive(name, flag):
            self._secret += 1
            self._show(name, value)

    def items(self, items: Sequence[Item]) -> None:
        """Take config items that were decoded whole; see `item`."""
        doubtful = [item for item in items if item.sensitive is not False or item.value == REDACTED]  # few
        plain = [item.value for item in doubtful if item.sensitive is True and plainly_readable(item.value)]
        self.flagged = self.flagged or bool(plain) or len(doubtful) < len(items)
        self._items += len(items) - len(doubtful) + len(plain)
        self._secret += len(plain)
        self.readable += len(plain)
        if self._known is not None:
            for value in plain:
                self._known.add(str(value))
        if len(plain) == len(doubtful):
            return
        for item in doubtful:
            if not (item.sensitive is True and plainly_readable(item.value)):
                flag = item.sensitive if isinstance(item.sensitive, bool) else None
                self.item({"name": text(item.name), "value": text(item.value), "sensitive": flag})

    def peer(self, peer: Fields) -> None:
        """Take one replication peer, whose password is never flagged."""
        if peer.get("password") == REDACTED or masked(peer.get("password")):
            self._hide(f"password of peer {peer.get('name')}")
        elif readable(peer.get("password")):
            self._remember(peer["password"])

    def counts(self) -> dict[str, int]:
        """Return how many config items there are, how many of them secret, and how many secrets redacted."""
        return {"items": self._items, "sensitive": self._secret, "redacted": self.hidden}

    def finding(self, redaction: Redaction, hidden_accounts: int) -> Finding:
        """Say it in words."""
        how = "" if self.flagged else "; told by names and values, this API version flags nothing"
        if redaction is Redaction.NONE:
            return Finding("redaction", True, f"{self.readable} secrets readable, none redacted{how}")
        if redaction is Redaction.UNKNOWN:
            return Finding("redaction", None, f"nothing in it tells whether it is redacted: no secret anywhere{how}")
        parts = []
        if self.hidden:
            more = ", …" if self.hidden > SHOWN else ""
            more_words = " or another mask" if self._masked else ""
            parts.append(f"{self.hidden} secrets are the word {REDACTED}{more_words} ({', '.join(self._names)}{more})")
        if hidden_accounts:
            parts.append(f"{hidden_accounts} account{'s' * (hidden_accounts > 1)} without password hash")
        return Finding("redaction", False, "; ".join(parts) + how)

    def _hide(self, name: str) -> None:
        self.hidden += 1
        if len(self._names) < SHOWN and name not in self._names:
            self._names.append(name)

    def _show(self, name: object, value: object) -> None:
        if readable(value):
            self.readable += 1
            self._remember(value)
        elif masked(value):
            self._masked = True
            self._hide(str(name))

    def _remember(self, value: object) -> None:
        if self._known is not None:
            self._known.add(str(value))
