"""Turn a deployment into a tree in which order has no meaning: everything is found by its name or id.

Lists become mappings by identity, config items become `name → value`, and secrets become fingerprints on the way,
so that no comparison ever holds one.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from hashlib import sha256
from typing import TypeAlias

from maint.deployment.json_reducer import Fields, Rules, reduced
from maint.deployment.sensitive import REDACTED, SECRET_FIELDS, sensitive

Tree: TypeAlias = "str | dict[str, Tree]"
HOLDERS = ("config", "managerSettings", "allHostsConfig", "roleTypeConfigs[]")  # of lists of config items
LONGEST = 1000  # characters of a value that are held; of a longer one the digest is
_DIGITS = 40  # before or after the point, up to which a number is written out


class Hidden(str):
    """The word REDACTED in the place of a secret."""

    __slots__ = ()


class Items(dict[str, Tree]):
    """What was a list, or an object with `items`: its elements by identity.

    Attributes:
        fields: the keys of what stood beside `items`, and is not an element.
    """

    fields: frozenset[str] = frozenset()


class Configuration(dict[str, Tree]):
    """The tree of a whole document.

    Attributes:
        hides: whether a `Hidden` is in it.
    """

    hides: bool = True


_HIDDEN = Hidden(REDACTED)


def normalize(blocks: Iterable[bytes], fingerprint: Callable[[str], str], longest: int = LONGEST) -> Configuration:
    """Return the tree of a deployment document.

    Args:
        blocks: the document.
        fingerprint: what stands for a secret.
        longest: characters of a value that are held; see `shortened`.

    Raises:
        WorkFailed: it is not JSON, not complete, or not a deployment.
    """
    builder = _Builder(fingerprint, longest)
    with uncollected():
        root = reduced(blocks, builder.rules())
    assert isinstance(root, dict)  # the rule of every object returns one
    tree = Configuration(root)
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


class _Builder:
    def __init__(self, fingerprint: Callable[[str], str], longest: int) -> None:
        self._fingerprint, self._longest = fingerprint, longest
        self._texts: dict[str, str] = {}  # one copy of each name and short value, of which documents repeat few
        self.hides = False

    def rules(self) -> Rules:
        return Rules({}, {f"{holder}.items[]": self._setting for holder in HOLDERS}, otherwise=self._object)

    def _setting(self, item: Fields) -> tuple[str, str]:
        name, value, flag = str(item.get("name")), item.get("value"), item.get("sensitive")
        if value == REDACTED and flag is not False:
            return self._once(name), self._hidden()
        return self._once(name), self._secret(value) if sensitive(name, flag) else self._text(value)

    def _object(self, fields: Fields) -> dict[str, Tree]:
        tree: dict[str, Tree] = {}
        for key, value in fields.items():
            if value is None:
                continue  # absent and null are the same (M2.3)
            if key in SECRET_FIELDS:
                tree[self._once(key)] = self._secret(value)
            elif isinstance(value, str):
                tree[self._once(key)] = self._text(value)
            elif isinstance(value, list):
                tree[self._once(key)] = self._list(value)
            else:
                tree[self._once(key)] = value if isinstance(value, dict) else self._text(value)
        items = tree.get("items")
        return _with_fields(items, tree) if isinstance(items, Items) and type(fields["items"]) is list else tree

    def _list(self, elements: Sequence[object]) -> Items:
        items = Items()
        for element in elements:
            name, value = self._named(element)
            items[name if name not in items else _free(name, items)] = value
        return items

    def _named(self, element: object) -> tuple[str, Tree]:
        if isinstance(element, tuple):
            return element  # a setting
        if isinstance(element, dict):
            return self._once(identity(element)), element
        text = self._text(list(self._list(element)) if isinstance(element, list) else element)
        return text, text

    def _hidden(self) -> Hidden:
        self.hides = True
        return _HIDDEN

    def _secret(self, value: object) -> str:
        return self._hidden() if value == REDACTED else self._fingerprint(_spell(value))

    def _text(self, value: object) -> str:
        text = value if isinstance(value, str) else _spell(value)
        return self._once(text) if len(text) <= self._longest else shortened(text, self._fingerprint)

    def _once(self, text: str) -> str:
        return self._texts.setdefault(text, text)


def _with_fields(items: Items, tree: dict[str, Tree]) -> Items:
    """Return the items of an object with what stands beside them."""
    beside = [(_free(key, items) if key in items else key, value) for key, value in tree.items() if value is not items]
    items.update(beside)
    items.fields = frozenset(key for key, _ in beside)
    return items


def _free(name: str, items: Mapping[str, Tree]) -> str:
    """Return another name: what is there twice must not look as if it were there once."""
    number = 2
    while (key := f"{name} ({number})") in items:
        number += 1
    return key


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value.normalize():f}" if abs(value.adjusted()) < _DIGITS else str(value)
    return "" if value is None else str(value)


def shortened(text: str, fingerprint: Callable[[str], str]) -> str:
    """Return what stands for a text that is too long to be shown; keyed, since a secret in it must not be guessed."""
    return f"{len(text)} characters, {fingerprint(sha256(text.encode(errors='surrogatepass')).hexdigest())}"


def identity(element: Mapping[str, object]) -> str:
    """Return what an object in a list is known by.

    Parcels are a multiset: the same product and version is listed once per stage (M7.2).
    """
    if "product" in element:
        return " ".join(str(element.get(key, "")) for key in ("product", "version", "stage"))
    cluster = element.get("clusterRef")
    if "roleConfigGroupRefs" in element and isinstance(cluster, dict):  # a host template
        return f"{cluster.get('clusterName')} {element.get('name')}"
    for key in ("hostId", "name", "roleType", "roleConfigGroupName", "clusterName", "id", "uuid", "displayName"):
        if isinstance(value := element.get(key), str):
            return value
    return " ".join(f"{key}={value}" for key, value in sorted(element.items()) if isinstance(value, str))
