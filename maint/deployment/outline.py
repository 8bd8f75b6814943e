"""The tree of a large document in little memory: digests stand for roles, config groups and hosts until they differ."""

import zlib
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from operator import attrgetter, itemgetter

import msgspec

from maint.deployment.normalize import Builder, Configuration, Tree, uncollected
from maint.deployment.reader import CONTAINERS, Number, Object
from maint.deployment.sensitive import ITEM_HOLDERS, REDACTED, SECRET_FIELDS, sensitive

_FOLDED = frozenset({"roles", "roleConfigGroups", "hosts"})  # the lists that are long
_TOGETHER = 256  # contents that are compressed at a time
_spelled = msgspec.json.Encoder(order="sorted").encode


class Folded(str):
    """The digest of a role, a group or a host; where two are equal, so are the trees."""

    __slots__ = ("place",)
    place: int  # of what it stands for, among all that is folded in its document


class Outline:
    """A target that makes the tree of a document with `Folded` in it, and keeps what is folded in a twentieth of it."""

    def __init__(self, blocks: Iterable[bytes], fingerprint: Callable[[str], str], longest: int) -> None:
        """Read a document; `WorkFailed` where it is not a deployment. For the rest see `normalize`."""
        folder = _Folder(fingerprint, longest)
        with uncollected():
            self.tree: Configuration = folder.tree_of(blocks)
        folder.compress()
        self._packed = folder.packed
        self._builder = Builder(fingerprint, longest)

    def unfolded(self, wanted: Iterable[Folded]) -> dict[int, Tree]:
        """Return the trees of what is folded here, by their places."""
        found: dict[int, Tree] = {}
        contents: list[bytes] = []
        at = -1
        for digest in sorted(wanted, key=attrgetter("place")):
            if digest.place // _TOGETHER != at:
                at = digest.place // _TOGETHER
                contents = zlib.decompress(self._packed[at]).split(b"\n")
            found[digest.place] = self._builder.element(msgspec.json.decode(contents[digest.place % _TOGETHER]), "")[1]
        return found


def unfold(before: Outline, after: Outline) -> None:
    """Put trees in the place of the digests wherever two outlines differ, so that they can be compared."""
    wanted: tuple[list[Folded], list[Folded]] = ([], [])
    _unsettled(before.tree, after.tree, wanted)
    for outline, folded in zip((before, after), wanted, strict=True):
        if folded:
            _put(outline.tree, outline.unfolded(folded))


def _unsettled(before: Tree, after: Tree, wanted: tuple[list[Folded], list[Folded]]) -> None:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if value != (other := after.get(key, "")):
                _unsettled(value, other, wanted)
        for key in after.keys() - before.keys():
            _unsettled("", after[key], wanted)
        return
    for tree, folded in zip((before, after), wanted, strict=True):
        if isinstance(tree, Folded):
            folded.append(tree)
        elif isinstance(tree, dict):
            for value in tree.values():
                _unsettled(value, "", (folded, []))


def _put(tree: dict[str, Tree], found: Mapping[int, Tree]) -> None:
    for key, value in tree.items():
        if isinstance(value, dict):
            _put(value, found)
        elif isinstance(value, Folded) and value.place in found:
            tree[key] = found[value.place]


class _Folder(Builder):
    whole = _FOLDED

    def __init__(self, fingerprint: Callable[[str], str], longest: int) -> None:
        super().__init__(fingerprint, longest)
        self._contents: list[bytes] = []
        self.packed: list[bytes] = []

    def element(self, element: Object, key: str) -> tuple[str, Tree]:
        if key not in _FOLDED or not (name := self._name(element)) or not (content := self._content(element)):
            return super().element(element, key)
        digest = Folded(blake2b(content, digest_size=16).hexdigest())
        digest.place = len(self.packed) * _TOGETHER + len(self._contents)
        self._contents.append(content)
        if len(self._contents) == _TOGETHER:
            self.compress()
        return name, digest

    def compress(self) -> None:
        self.packed.append(zlib.compress(b"\n".join(self._contents), 1))
        self._contents.clear()

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
