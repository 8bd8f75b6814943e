"""The tree of a large document: digests stand for roles, config groups and hosts until they differ."""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from operator import itemgetter

import msgspec

from maint.deployment.normalize import Builder, Configuration, Tree, uncollected
from maint.deployment.reader import CONTAINERS, Number, Object
from maint.deployment.sensitive import ITEM_HOLDERS, REDACTED, SECRET_FIELDS, sensitive

_FOLDED = frozenset({"roles", "roleConfigGroups", "hosts"})  # the lists that are long
_spelled = msgspec.json.Encoder(order="sorted").encode


class Folded(str):
    """The digest of a role, a group or a host; where two are equal, so are the trees."""

    __slots__ = ("content",)
    content: bytes  # what it stands for, spelled


class Outline:
    """The tree of a document with `Folded` in it."""

    def __init__(self, blocks: Iterable[bytes], fingerprint: Callable[[str], str], longest: int) -> None:
        """Read a document; `WorkFailed` where it is not a deployment. For the rest see `normalize`."""
        with uncollected():
            self.tree: Configuration = _Folder(fingerprint, longest).tree_of(blocks)
        self._builder = Builder(fingerprint, longest)

    def unfolded(self, folded: Folded) -> Tree:
        """Return the tree of what is folded here."""
        return self._builder.element(msgspec.json.decode(folded.content), "")[1]


def unfold(before: Outline, after: Outline) -> None:
    """Put trees in the place of the digests wherever two outlines differ, so that they can be compared."""
    _unfold(before, before.tree, after, after.tree)


def _unfold(before: Outline, mine: dict[str, Tree], after: Outline, other: dict[str, Tree]) -> None:
    for key in mine.keys() | other.keys():
        old, new = mine.get(key, ""), other.get(key, "")
        if old == new:
            continue
        for outline, tree, value in ((before, mine, old), (after, other, new)):
            if isinstance(value, Folded):
                tree[key] = outline.unfolded(value)
        _unfold(before, old if isinstance(old, dict) else {}, after, new if isinstance(new, dict) else {})


class _Folder(Builder):
    whole = _FOLDED

    def element(self, element: Object, key: str) -> tuple[str, Tree]:
        if key not in _FOLDED or not (name := self._name(element)) or not (content := self._content(element)):
            return super().element(element, key)
        digest = Folded(blake2b(content, digest_size=16).hexdigest())
        digest.content = content
        return name, digest

    def _name(self, element: Object) -> str:
        """Return the identity of what is surely known by its hostId or its name, else ""."""
        name = element.get("name") if element.get("hostId") is None else element["hostId"]
        odd = "product" in element or "roleConfigGroupRefs" in element
        return name if isinstance(name, str) and len(name) <= self.longest and not odd else ""

    def _content(self, element: Object) -> bytes:
        """Return a spelling that neither order nor secrets change; b"" of what is not of the usual form."""
        for key, value in element.items():
            kind = value.__class__
            if kind is dict and key in ITEM_HOLDERS:
                usual = self._order(value)
            elif kind is dict:
                usual = SECRET_FIELDS.isdisjoint(value) and all(inner.__class__ is str for inner in value.values())
            else:
                usual = kind not in CONTAINERS and kind is not Number and key not in SECRET_FIELDS
            if not usual:
                return b""
        try:
            return _spelled(element)
        except (ValueError, OverflowError):  # half a surrogate pair, an integer beyond 64 bits
            return b""

    def _order(self, holder: Object) -> bool:
        """Put config items in order, with fingerprints instead of secrets; whether that can be done."""
        items = holder.get("items")
        if items.__class__ is not list or len(holder) != 1 or not all(one.__class__ is dict for one in items):
            return False
        for item in items:
            name, value, flag = item.get("name"), item.get("value"), item.get("sensitive")
            if name.__class__ is not str or value.__class__ is not str or value == REDACTED:
                return False
            if flag is not False and sensitive(name, flag):
                item["value"] = self.fingerprint(value)
        items.sort(key=itemgetter("name"))
        return True
