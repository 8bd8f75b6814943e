"""Restore onto other machines: rewrite what a deployment says about its hosts (M8.3).

That is host ids, names and addresses, and the md5 of a host id, in which generated role names and the names of
internal users end (M7.2). Other text that names an old host is left as it is, and reported.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence

import msgspec

from maint.deployment.document import Document, items_of, services_of, text_of
from maint.deployment.normalize import identity
from maint.errors import Refused, UsageError
from maint.model.formatting import unknown
from maint.model.manager import Host

_LONGEST_NAME = 64  # characters; a generated role name is cut to them
_FEWEST_HEX = 8  # of an md5 that tell a cut one from a word
_RENAMED = {"hostId": "id", "hostname": "name", "ipAddress": "address"}


class HostChange(msgspec.Struct, frozen=True):
    """One host of a snapshot and the machine that takes its place."""

    old_id: str
    old_name: str
    old_address: str
    new_id: str
    new_name: str
    new_address: str


def changes_of(wishes: Sequence[str], document: Document, server: Sequence[Host]) -> tuple[HostChange, ...]:
    """Return what `OLD=NEW` texts mean for a document; NEW is known to the server, or is `id:name:address`.

    Raises:
        UsageError: a text is not OLD=NEW; UnknownName: OLD or NEW is unknown, or several have that name.
        Refused: two hosts would become one.
    """
    changes = tuple(_change(wish, items_of(document.get("hosts")), server) for wish in wishes)
    _refuse_mergers(changes, items_of(document.get("hosts")))
    return changes


def _change(wish: str, hosts: Sequence[Document], server: Sequence[Host]) -> HostChange:
    old, equals, new = wish.partition("=")
    if not equals or not old or not new:
        raise UsageError(f"--map-host {wish!r} is not OLD=NEW", hint="OLD=NEW, or OLD=id:name:address")
    found = [host for host in hosts if old in (text_of(host, "hostId"), text_of(host, "hostname"))]
    if len(found) != 1:
        names = [text_of(host, "hostname") for host in hosts]
        words = f"the snapshot has {'no host' if not found else f'{len(found)} hosts'} {old!r}"
        raise unknown(words, old, names, "name one of them, by host name or host id")
    now = _new(new, server)
    host_id, name, address = (text_of(found[0], key) for key in _RENAMED)
    return HostChange(host_id, name, address, now.host_id, now.hostname, now.address)


def _new(text: str, server: Sequence[Host]) -> Host:
    parts = text.split(":", 2)
    if len(parts) == 3 and all(parts):
        return Host(*parts)
    found = [host for host in server if text in (host.host_id, host.hostname)]
    if len(found) == 1:
        return found[0]
    words = f"the manager knows {'no host' if not found else f'{len(found)} hosts'} {text!r}"
    known = [host.hostname for host in server]
    raise unknown(words, text, known, "let its agent report to the manager first, or write OLD=id:name:address")


def _refuse_mergers(changes: Sequence[HostChange], hosts: Sequence[Document]) -> None:
    moved = {change.old_id for change in changes}
    staying = [host for host in hosts if text_of(host, "hostId") not in moved]
    seen = {text_of(host, key) for host in staying for key in ("hostId", "hostname")}
    for change in changes:
        twice = {change.new_id, change.new_name} & seen
        if twice or [one.old_id for one in changes].count(change.old_id) > 1:
            raise Refused(
                f"two hosts would become one: {change.old_name} → {change.new_name}",
                detail=[f"{name} is taken already" for name in sorted(twice)],
                hint="give each host of the snapshot a machine of its own",
            )
        seen |= {change.new_id, change.new_name}


def rewrite(document: Document, changes: Sequence[HostChange]) -> None:
    """Rewrite a document in place."""
    if changes:
        _Rewriter(document, changes).walk(document)


class _Rewriter:
    def __init__(self, document: Document, changes: Sequence[HostChange]) -> None:
        self._by_id = {change.old_id: change for change in changes}
        self._by_name = {change.old_name: change for change in changes}
        self._tails = {_md5(change.old_id): _md5(change.new_id) for change in changes}
        self._tails |= self._cut_names(document)
        spellings = sorted(map(re.escape, self._tails), key=len, reverse=True)
        self._pattern = re.compile(rf"(?:{'|'.join(spellings)})(?![0-9A-Za-z])")

    def walk(self, node: object, key: str = "") -> None:
        """Rewrite an object or list, and all that it holds."""
        if isinstance(node, dict):
            change = self._by_id.get(text_of(node, "hostId"))
            if change is None and key == "hostRef" and "hostId" not in node:
                change = self._by_name.get(text_of(node, "hostname"))
            for name, value in node.items():
                if change is not None and name in _RENAMED:
                    node[name] = getattr(change, f"new_{_RENAMED[name]}")
                elif isinstance(value, str):
                    node[name] = self._text(value)
                else:
                    self.walk(value, name)
        elif isinstance(node, list):
            for index, value in enumerate(node):
                if isinstance(value, str):
                    node[index] = self._text(value)
                else:
                    self.walk(value)

    def _text(self, text: str) -> str:
        return self._pattern.sub(lambda found: self._tails[found[0]], text) if len(text) > _FEWEST_HEX else text

    def _cut_names(self, document: Document) -> dict[str, str]:
        """Return the role names that were cut to fit, old → new: they end in the beginning of an md5."""
        renamed = {}
        for service in services_of(document):
            for role in items_of(service.get("roles")):
                change = self._by_id.get(text_of(role.get("hostRef"), "hostId"))
                name = text_of(role, "name")
                head, _, tail = name.rpartition("-")
                cut = len(name) == _LONGEST_NAME and _FEWEST_HEX <= len(tail) < 32
                if change is not None and cut and _md5(change.old_id).startswith(tail):
                    renamed[name] = f"{head}-{_md5(change.new_id)[: len(tail)]}"
        return renamed


def leftovers(document: Document, changes: Sequence[HostChange]) -> list[str]:
    """Return the places of a rewritten document whose text still names an old host; never the text itself."""
    pairs = (
        (getattr(one, f"old_{what}"), getattr(one, f"new_{what}")) for one in changes for what in _RENAMED.values()
    )
    words = {old for old, new in pairs if old and old != new}
    if not words:
        return []
    spellings = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w.-])(?:{spellings})(?![\w-]|\.\w)")
    return list(dict.fromkeys(_naming(document, (), pattern)))


def _naming(node: object, path: tuple[str, ...], pattern: re.Pattern[str]) -> Iterator[str]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name not in _RENAMED:
                yield from _naming(value, path if name in ("items", "value") else (*path, name), pattern)
    elif isinstance(node, list):
        for value in node:
            label = identity(value) if isinstance(value, dict) else ""
            yield from _naming(value, (*path, label) if label else path, pattern)
    elif isinstance(node, str) and pattern.search(node):
        yield "/".join(path)


def _md5(host_id: str) -> str:
    return hashlib.md5(host_id.encode(), usedforsecurity=False).hexdigest()
