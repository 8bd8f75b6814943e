"""Turn a deployment into a tree in which order has no meaning: everything is found by its name or id."""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from hashlib import sha256
from typing import TypeAlias

from maint.deployment.document import Document, parse, spell_plain
from maint.deployment.json_reducer import too_deep
from maint.deployment.sensitive import ITEM_HOLDER_LISTS, ITEM_HOLDERS, REDACTED, SECRET_FIELDS, sensitive

Tree: TypeAlias = "str | dict[str, Tree]"
LONGEST = 1000  # characters of a value that are held; of a longer one the digest is
_DIGITS = 40  # before or after the point, up to which a number is written out


class Hidden(str):
    """The word REDACTED in the place of a secret."""

    __slots__ = ()


class Items(dict[str, Tree]):
    """What was a list, or an object with `items`: its elements by identity."""

    fields: frozenset[str] = frozenset()  # the keys of what stood beside `items`, and is not an element

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


def normalize(blocks: Iterable[bytes], fingerprint: Callable[[str], str], longest: int = LONGEST) -> Configuration:
    """Return the tree of a document, longer values as digests; `WorkFailed` where it is not a deployment."""
    builder = _Builder(fingerprint, longest)
    try:
        with uncollected():
            tree = Configuration(builder.fields(parse(b"".join(blocks)), holds_items=False))
    except RecursionError:
        raise too_deep() from None
    tree.hides = builder.hides
    return tree


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


# Secrets become fingerprints on the way, so that no comparison ever holds one.
class _Builder:
    def __init__(self, fingerprint: Callable[[str], str], longest: int) -> None:
        self._fingerprint, self._longest = fingerprint, longest
        self.hides = False

    def fields(self, fields: Document, *, holds_items: bool) -> dict[str, Tree]:
        tree: dict[str, Tree] = {}
        for key, value in fields.items():
            if value is None:
                continue  # absent and null are the same (M2.3)
            if key in SECRET_FIELDS:
                tree[key] = self._secret(value)
            elif type(value) is str:
                tree[key] = self._text(value)
            elif type(value) is dict:
                tree[key] = self.fields(value, holds_items=key in ITEM_HOLDERS)
            elif type(value) is list:
                settings = holds_items and key == "items"
                tree[key] = (
                    self._settings(value) if settings else self._list(value, hold_items=key in ITEM_HOLDER_LISTS)
                )
            else:
                tree[key] = self._text(value)
        items = tree.get("items")
        return _with_fields(items, tree) if isinstance(items, Items) and type(fields["items"]) is list else tree

    def _settings(self, elements: Sequence[object]) -> Items:
        items = Items()
        for element in elements:
            if not isinstance(element, dict):
                self._add(element, items)
                continue
            name, value, flag = element.get("name"), element.get("value"), element.get("sensitive")
            key = name if type(name) is str else str(self._reduced(name))
            if value == REDACTED and flag is not False:
                items.add(key, self._hidden())
            else:
                items.add(key, self._secret(value) if sensitive(key, flag) else self._text(value))
        return items

    def _list(self, elements: Sequence[object], *, hold_items: bool = False) -> Items:
        items = Items()
        for element in elements:
            self._add(element, items, holds_items=hold_items)
        return items

    def _add(self, element: object, items: Items, *, holds_items: bool = False) -> None:
        if isinstance(element, dict):
            tree = self.fields(element, holds_items=holds_items)
            items.add(identity(tree), tree)
        elif element is not None:
            text = self._text(list(self._list(element)) if isinstance(element, list) else element)
            items.add(text, text)

    def _hidden(self) -> Hidden:
        self.hides = True
        return _HIDDEN

    def _secret(self, value: object) -> str:
        return self._hidden() if value == REDACTED else self._fingerprint(self._spell(value))

    def _text(self, value: object) -> str:
        text = value if type(value) is str else self._spell(value)
        return text if len(text) <= self._longest else shortened(text, self._fingerprint)

    def _spell(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, dict | list):
            return str(self._reduced(value))
        if isinstance(value, Decimal):
            return f"{value.normalize():f}" if abs(value.adjusted()) < _DIGITS else str(value)
        return "" if value is None else spell_plain(value)

    def _reduced(self, value: object) -> object:
        # What stands where a text should, without secrets.
        if isinstance(value, dict):
            return self.fields(value, holds_items=False)
        return [self._reduced(one) for one in value if one is not None] if isinstance(value, list) else value


def _with_fields(items: Items, tree: dict[str, Tree]) -> Items:
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
