"""Turn a deployment into a tree in which order has no meaning: everything is found by its name or id."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from operator import itemgetter
from typing import Any, TypeAlias

import msgspec

from maint.deployment.document import spell_plain
from maint.deployment.reader import CONTAINERS, Number, Object, read_into, too_deep
from maint.deployment.secrets import ITEM_HOLDER_LISTS, ITEM_HOLDERS, REDACTED, SECRET_FIELDS, sensitive
from maint.deployment.secrets_in_text import veiled

Tree: TypeAlias = "str | dict[str, Tree]"
LONGEST = 1000  # characters of a value that are held; of a longer one the digest is
_DIGITS = 40  # before or after the point, up to which a number is written out


class Hidden(str):
    """The word REDACTED in the place of a secret."""

    __slots__ = ()


class Items(dict[str, Tree]):
    """What was a list, or an object with `items`: its elements by identity."""

    fields: frozenset[str] | None = None  # the keys of what stood beside `items`, not of an element; None for a list

    def add(self, name: str, value: Tree) -> str:
        """Add an element, return its key: what is there twice must not look as if it were there once."""
        key, number = name, 2
        while key in self:
            key, number = f"{name} ({number})", number + 1
        self[key] = value
        return key


class Configuration(dict[str, Tree]):
    """The tree of a whole document."""

    hides: bool = True  # whether a `Hidden` is in it


_HIDDEN = Hidden(REDACTED)


def normalize(blocks: Iterable[bytes], fingerprint: Callable[[str], str]) -> Configuration:
    """Return the tree of a document, longer values as digests; `WorkFailed` where it is not a deployment."""
    builder = Builder(fingerprint)
    with uncollected():
        return builder.tree_of(blocks)


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the collector of circles from walking again and again over growing trees, which have none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Open:
    # An object or list that comes member by member.
    __slots__ = ("holds_items", "key", "plain", "tree")

    def __init__(self, key: str, tree: dict[str, Tree], *, holds_items: bool = False, plain: Any = None) -> None:
        self.key, self.tree = key, tree
        self.holds_items = holds_items  # of an object: its `items` are settings
        self.plain = plain  # for what is not taken apart: the object or list itself


class _Settings(Items):
    # The list `items` of what holds config items.
    pass


# Secrets become fingerprints on the way, so that no comparison ever holds one.
class Builder:
    """A target that makes the tree of a document."""

    whole: frozenset[str] = frozenset()  # the lists whose elements are not taken apart, however long

    def __init__(self, fingerprint: Callable[[str], str], longest: int = LONGEST) -> None:
        self.fingerprint, self.longest = fingerprint, longest
        self._open: list[_Open] = []
        self._tree = Configuration()
        self._hides = False

    def tree_of(self, blocks: Iterable[bytes]) -> Configuration:
        """Return the tree of a document; `WorkFailed` where it is not one."""
        try:
            read_into(self, blocks, pairs=False)
        except RecursionError:
            raise too_deep() from None
        self._tree.hides = self._hides
        return self._tree

    def value(self, key: str, value: Any) -> None:
        """Take a member of what was begun, or the whole document."""
        if not self._open:
            self._tree = Configuration(self._fields(value, holds_items=False))
            return
        top = self._open[-1]
        if top.plain is not None:
            top.plain.append(value) if isinstance(top.plain, list) else top.plain.update({key: value})
        elif isinstance(top.tree, Items):
            self._into_list([value], top.tree, top.key)
        else:
            self._into(top.tree, [(key, value)], holds_items=top.holds_items)

    def begin(self, key: str, bracket: str) -> None:
        """Take the beginning of an object or list; what stands where a text should, or is one setting, stays whole."""
        top = self._open[-1] if self._open else _Open("", {})
        in_list, an_object = isinstance(top.tree, Items), bracket == "{"
        odd = key in SECRET_FIELDS or isinstance(top.tree, _Settings) or (in_list and not an_object)
        odd = odd or (in_list and top.key in self.whole)
        if top.plain is not None or odd:
            self._open.append(_Open(key, {}, plain={} if an_object else []))
        elif an_object:
            holds_items = top.key in ITEM_HOLDER_LISTS if in_list else key in ITEM_HOLDERS
            self._open.append(_Open(key, {}, holds_items=holds_items))
        else:
            self._open.append(_Open(key, _Settings() if top.holds_items and key == "items" else Items()))

    def end(self) -> None:
        """Take the end of what was begun last."""
        ended = self._open.pop()
        if ended.plain is not None:
            self.value(ended.key, ended.plain)
            return
        tree = ended.tree if isinstance(ended.tree, Items) else _with_fields(ended.tree)
        if not self._open:
            self._tree = Configuration(tree)
        elif isinstance(above := self._open[-1].tree, Items):
            above.add(identity(tree), tree)
        else:
            above[ended.key] = tree

    def _fields(self, fields: Object, *, holds_items: bool) -> dict[str, Tree]:
        tree: dict[str, Tree] = {}
        self._into(tree, fields.items(), holds_items=holds_items)
        return _with_fields(tree) if "items" in tree else tree

    def _into(self, tree: dict[str, Tree], fields: Iterable[tuple[str, Any]], *, holds_items: bool) -> None:
        for key, value in fields:
            if value is None:
                continue  # absent and null are the same (M2.3)
            if key in SECRET_FIELDS:
                tree[key] = self._secret(value)
            elif isinstance(value, dict):
                tree[key] = self._fields(value, holds_items=key in ITEM_HOLDERS)
            elif isinstance(value, list):
                items = tree[key] = _Settings() if holds_items and key == "items" else Items()
                self._into_list(value, items, key)
            else:
                tree[key] = self._text(value)

    def _into_list(self, elements: Iterable[object], items: Items, key: str) -> None:
        settings = isinstance(items, _Settings)
        for element in elements:
            if isinstance(element, dict):
                if settings:
                    self._setting(element, items)
                else:
                    items.add(*self.element(element, key))
            elif element is not None:
                text = self._text(self._names(element) if isinstance(element, list) else element)
                items.add(text, text)

    def element(self, element: Object, key: str) -> tuple[str, Tree]:
        """Return identity and tree of an object in the list of this key."""
        tree = self._fields(element, holds_items=key in ITEM_HOLDER_LISTS)
        return identity(tree), tree

    def _setting(self, element: Object, items: Items) -> None:
        name, value, flag = element.get("name"), element.get("value"), element.get("sensitive")
        key = name if type(name) is str else str(self._reduced(name))
        if value == REDACTED and flag is not False:
            items.add(key, self._hidden())
        else:
            items.add(key, self._secret(value) if sensitive(key, flag) else self._text(value))

    def _names(self, elements: list[object]) -> list[str]:
        items = Items()
        self._into_list(elements, items, "")
        return list(items)

    def _hidden(self) -> Hidden:
        self._hides = True
        return _HIDDEN

    def _secret(self, value: object) -> str:
        return self._hidden() if value == REDACTED else self.fingerprint(self._spell(value))

    def _text(self, value: object) -> str:
        text = veiled(value if type(value) is str else self._spell(value), self.fingerprint)
        return text if len(text) <= self.longest else shortened(text, self.fingerprint)

    def _spell(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, dict | list):
            return str(self._reduced(value))
        if isinstance(value, Number):
            return _written_out(value) if abs(value.adjusted()) < _DIGITS else str(value)
        return "" if value is None else spell_plain(value)

    def _reduced(self, value: object) -> object:
        # What stands where a text should, without secrets.
        if isinstance(value, dict):
            return self._fields(value, holds_items=False)
        return [self._reduced(one) for one in value if one is not None] if isinstance(value, list) else value


def _written_out(number: Number) -> str:
    # With every digit: `normalize` of a Decimal rounds to 28 of them.
    text = f"{number:f}"
    return text.rstrip("0").removesuffix(".") if "." in text else text


def _with_fields(tree: dict[str, Tree]) -> dict[str, Tree]:
    # Return the elements of `items` where that is a list, and beside them what stood beside it.
    items = tree.get("items")
    if not isinstance(items, Items) or items.fields is not None:
        return tree
    items.fields = frozenset([items.add(key, value) for key, value in tree.items() if value is not items])
    return items


def shortened(text: str, fingerprint: Callable[[str], str]) -> str:
    """Return what stands for a text that is too long to be shown; keyed, since a secret in it must not be guessed."""
    return f"{len(text)} characters, {fingerprint(sha256(text.encode(errors='surrogatepass')).hexdigest())}"


def identity(element: Mapping[str, object]) -> str:
    """Return the identity of an object in a list; a parcel is listed once per stage (M7.2)."""
    if "product" in element:
        return " ".join(str(element.get(key, "")) for key in ("product", "version", "stage"))
    cluster = element.get("clusterRef")
    if "roleConfigGroupRefs" in element and isinstance(cluster, dict):  # a host template
        return f"{cluster.get('clusterName')} {element.get('name')}"
    for key in ("hostId", "name", "roleType", "roleConfigGroupName", "clusterName", "id", "uuid", "displayName"):
        if isinstance(value := element.get(key), str):
            return value
    return " ".join(f"{key}={value}" for key, value in sorted(element.items()) if isinstance(value, str))


_FOLDED = frozenset({"roles", "roleConfigGroups", "hosts"})  # the lists that are long
_by_name = itemgetter("name")
_spelled = msgspec.json.Encoder(order="sorted").encode


class Folded(str):
    """The spelling of a role, a group or a host; where two are equal, so are the trees."""

    __slots__ = ()


class Outline:
    """The tree of a document with `Folded` in it."""

    def __init__(self, blocks: Iterable[bytes], fingerprint: Callable[[str], str], longest: int) -> None:
        """Read a document; `WorkFailed` where it is not a deployment. For the rest see `normalize`."""
        with uncollected():
            self.tree: Configuration = _Folder(fingerprint, longest).tree_of(blocks)
        self._builder = Builder(fingerprint, longest)

    def unfolded(self, folded: Folded) -> Tree:
        """Return the tree of what is folded here."""
        return self._builder.element(msgspec.json.decode(folded.encode()), "")[1]


def unfold(before: Outline, after: Outline) -> None:
    """Put trees in the place of what is folded wherever two outlines differ, so that they can be compared."""
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
        return name, Folded(content, "utf-8")

    def _name(self, element: Object) -> str:
        """Return the identity of what is surely known by its hostId or its name, else ""."""
        name = element.get("name") if element.get("hostId") is None else element["hostId"]
        odd = "product" in element or "roleConfigGroupRefs" in element
        if not isinstance(name, str) or len(name) > self.longest or odd:
            return ""
        return veiled(name, self.fingerprint)

    def _content(self, element: Object) -> bytes:
        """Return a spelling that neither order nor secrets change; b"" of what is not of the usual form."""
        if not SECRET_FIELDS.isdisjoint(element):
            return b""
        for key, value in element.items():
            kind = value.__class__
            if kind is dict:
                usual = self._order(value) if key in ITEM_HOLDERS else _only_texts(value)
                if not usual:
                    return b""
            elif kind in CONTAINERS or kind is Number:
                return b""
        try:
            return _spelled(element)
        except (ValueError, OverflowError, TypeError):  # half a surrogate pair, an integer beyond 64 bits, a `Number`
            return b""

    def _order(self, holder: Object) -> bool:
        """Put config items in order, with fingerprints instead of secrets; whether that can be done."""
        items = holder.get("items")
        if items.__class__ is not list or len(holder) != 1:
            return False
        try:
            for item in items:
                name, value, flag = item["name"], item["value"], item.get("sensitive")
                if name.__class__ is not str or value.__class__ is not str or value == REDACTED:
                    return False
                if flag is not False and (flag is True or sensitive(name, flag)):
                    item["value"] = self.fingerprint(value)
        except (KeyError, TypeError):  # one has no name or no value, or is no object
            return False
        items.sort(key=_by_name)
        return True


def _only_texts(fields: Object) -> bool:
    return SECRET_FIELDS.isdisjoint(fields) and {str}.issuperset(map(type, fields.values()))
