"""Turn a deployment into a tree in which order has no meaning: everything is found by its name or id.

Lists become mappings by identity, config items become `name → value`, and secrets become fingerprints on the way,
so that no comparison ever holds one.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from itertools import groupby, islice
from typing import TypeAlias, cast

from maint.backup.elements import (
    Config,
    Elements,
    Group,
    Item,
    Role,
    Unparsed,
    UnsetType,
    decode,
    items_of,
    plain,
    split,
)
from maint.backup.fold import Fields, Rules, fold
from maint.backup.marks import REDACTED, SECRET_FIELDS, sensitive

_BATCH = 200  # elements that are decoded at once
_DIGITS = 40  # before or after the point, up to which a number is written out
LONGEST = 1000  # characters of a value that are held; of a longer one the digest is


class Mark(str):
    """The fingerprint of a secret, or the word REDACTED in its place."""

    __slots__ = ()


class Items(dict[str, "Tree"]):
    """What was a list: its elements by identity."""


class Clear(dict[str, "Tree"]):
    """An object in which nothing is hidden, so that two that are equal need no closer look."""

    __slots__ = ()


class Unread(dict[str, "Tree"]):
    """A role or group that is empty until it is opened: of most, it only matters that both sides have the same.

    Attributes:
        element: its bytes, secrets and all; it never leaves memory.
    """

    __slots__ = ("_open", "element")

    def __init__(self, element: Unparsed, open_it: Callable[[Unparsed], dict[str, "Tree"]]) -> None:
        super().__init__()
        self.element = element
        self._open: Callable[[Unparsed], dict[str, Tree]] | None = open_it

    @property
    def closed(self) -> bool:
        """Whether nobody has opened it."""
        return self._open is not None

    def open(self) -> None:
        """Read it, once."""
        if self._open is not None:
            self.update(self._open(self.element))
            self._open = None


class Pool:
    """Elements that two documents share: equal ones are one object, and are read once.

    Most lists of two exports that are days apart are the same to the byte: these are not even split again.
    """

    def __init__(self) -> None:
        self._elements: dict[Unparsed, Unparsed] = {}
        self._lists: dict[bytes, Elements | list[Unparsed] | None] = {}

    def take(self, kind: bytes, content: bytes) -> Elements | list[Unparsed] | None:
        """Return the elements of a list, as `elements.split` does."""
        if kind == b"items":
            return split(kind, content)
        digest = sha256(content).digest()
        if digest not in self._lists:
            found = split(kind, content)
            one = self._elements.setdefault
            self._lists[digest] = [one(e, e) for e in found] if found and isinstance(found[0], Unparsed) else found
        return self._lists[digest]


Tree: TypeAlias = "str | dict[str, Tree]"


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    value: str


def flatten(
    blocks: Iterator[bytes], fingerprint: Callable[[str], str], pool: Pool | None = None, longest: int = LONGEST
) -> dict[str, Tree]:
    """Return the tree of a deployment document.

    Args:
        blocks: the document.
        fingerprint: what stands for a secret.
        pool: given, roles and groups stay `Unread` until someone opens them; share it with the other document.
        longest: characters of a value that are held; see `shortened`.

    Raises:
        WorkFailed: it is not JSON, not complete, or no deployment.
    """
    with _uncollected():
        root = fold(blocks, _Builder(fingerprint, longest).rules(), pool.take if pool else None)
    assert isinstance(root, dict)  # the rule of every object returns one
    return root


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the collector of circles from walking again and again over a growing tree, which has none."""
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
        self._objects_seen: dict[tuple[object, ...], dict[str, Tree]] = {}
        self._hidden = 0  # how many values the document hides, so far

    def rules(self) -> Rules:
        settings = ("config", "managerSettings", "allHostsConfig", "roleTypeConfigs[]")
        return Rules(
            {},
            {f"{holder}.items[]": self._setting for holder in settings},
            otherwise=self._object,
            whole={self._setting: self._settings, self._object: self._objects},
        )

    def _settings(self, items: list[Item]) -> Iterator[_Setting]:
        for item in items:
            yield _Setting(*self._named_value(item))

    def _objects(self, elements: Elements | list[Unparsed]) -> Iterator[dict[str, Tree]]:
        for element in elements:
            if isinstance(element, Role):
                yield self._role(element)
            elif isinstance(element, Group):
                yield self._group(element)
            elif isinstance(element, Unparsed):
                yield Unread(element, self._opened)
            else:
                yield self._object(plain([element])[0])

    def _opened(self, element: Unparsed) -> dict[str, Tree]:
        found = decode(element.kind, b"[%b]" % element.content)
        if found is not None:
            return next(self._objects(found))
        root = fold(iter([b'{"%b":[%b]}' % (element.kind, element.content)]), self.rules())
        assert isinstance(root, dict)
        (tree,) = root[element.kind.decode()].values()
        return cast(dict[str, Tree], tree)

    def _role(self, role: Role) -> dict[str, Tree]:
        hidden = self._hidden
        tree: dict[str, Tree] = {}
        if isinstance(role.name, str):
            tree["name"] = role.name if len(role.name) <= self._longest else self._text(role.name)
        if isinstance(role.type, str):
            tree["type"] = self._text(role.type)
        if host := role.hostRef:
            tree["hostRef"] = self._shared("hostId", host.hostId, "hostname", host.hostname)
        self._config(role.config, tree)
        if group := role.roleConfigGroupRef:
            tree["roleConfigGroupRef"] = self._shared("roleConfigGroupName", group.roleConfigGroupName)
        return tree if self._hidden > hidden else Clear(tree)

    def _group(self, group: Group) -> dict[str, Tree]:
        hidden = self._hidden
        tree: dict[str, Tree] = {}
        for key in ("name", "displayName", "roleType"):
            if isinstance(value := getattr(group, key), str):
                tree[key] = self._text(value)
        if isinstance(group.base, bool):
            tree["base"] = self._text(group.base)
        if owner := group.serviceRef:
            tree["serviceRef"] = self._shared("clusterName", owner.clusterName, "serviceName", owner.serviceName)
        self._config(group.config, tree)
        return tree if self._hidden > hidden else Clear(tree)

    def _shared(self, *fields: object) -> dict[str, Tree]:
        """Return a small object, the same one whenever it says the same: documents repeat few of them very often."""
        if fields not in self._objects_seen:
            pairs = zip(fields[::2], fields[1::2], strict=True)
            self._objects_seen[fields] = {str(key): self._text(value) for key, value in pairs if isinstance(value, str)}
        return self._objects_seen[fields]

    def _config(self, config: Config | UnsetType, tree: dict[str, Tree]) -> None:
        if isinstance(config, UnsetType):
            return
        if isinstance(config.items, UnsetType):
            tree["config"] = {}
            return
        tree["config"] = found = Items()
        for item in config.items:
            name, value = self._named_value(item)
            found[_free(name, found)] = value

    def _named_value(self, item: Item) -> tuple[str, str]:
        """Return what `_setting` makes of an item, sooner."""
        name, value, flag = item.name, item.value, item.sensitive
        if not isinstance(name, str) or not isinstance(value, str) or len(value) > self._longest:
            setting = self._setting(plain([item])[0])
            return setting.name, setting.value
        name = self._texts.setdefault(name, name)
        if flag is False:  # most are
            return name, self._texts.setdefault(value, value)
        if value == REDACTED:
            self._hidden += 1
            return name, Mark(REDACTED)
        return name, self._secret(value) if sensitive(name, flag) else self._texts.setdefault(value, value)

    def _setting(self, item: Fields) -> _Setting:
        name, value, flag = str(item.get("name")), item.get("value"), item.get("sensitive")
        text = self._text(value)
        if value == REDACTED and flag is not False:
            self._hidden += 1
            text = Mark(REDACTED)
        elif sensitive(name, flag):
            text = self._secret(value)
        return _Setting(self._once(name), text)

    def _object(self, fields: Fields) -> dict[str, Tree]:
        tree: dict[str, Tree] = {}
        for key, value in fields.items():
            if value is None:
                continue  # absent and null are the same (contract section 2.3)
            if key in SECRET_FIELDS:
                tree[self._once(key)] = self._secret(value)
            elif key == "items" and isinstance(value, list):
                tree = Items({**tree, **self._list(value)})
            else:
                tree[self._once(key)] = self._value(value)
        return tree

    def _value(self, value: object) -> Tree:
        if isinstance(value, list):
            return self._list(value)
        return value if isinstance(value, dict) else self._text(value)

    def _list(self, elements: Sequence[object]) -> Items:
        items = Items()
        for element in elements:
            name, value = self._named(element)
            items[_free(name, items)] = value
        return items

    def _named(self, element: object) -> tuple[str, Tree]:
        if isinstance(element, _Setting):
            return element.name, element.value
        if isinstance(element, Unread):
            return element.element.name, element
        if isinstance(element, dict):
            return self._once(identity(element)), element
        text = self._text(list(self._list(element)) if isinstance(element, list) else element)
        return text, text

    def _secret(self, value: object) -> Mark:
        return Mark(REDACTED if value == REDACTED else self._fingerprint(self._spell(value)))

    def _text(self, value: object) -> str:
        text = self._spell(value)
        return self._once(text) if len(text) <= self._longest else shortened(text, self._fingerprint)

    def _once(self, text: str) -> str:
        return self._texts.setdefault(text, text)

    @staticmethod
    def _spell(value: object) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, Decimal):
            return f"{value.normalize():f}" if abs(value.adjusted()) < _DIGITS else str(value)
        return "" if value is None else str(value)


def shortened(text: str, fingerprint: Callable[[str], str]) -> str:
    """Return what stands for a text that is too long to be shown; keyed, since a secret in it must not be guessed."""
    return f"{len(text)} characters, {fingerprint(sha256(text.encode(errors='surrogatepass')).hexdigest())}"


def identity(element: dict[str, Tree]) -> str:
    """Return what an object in a list is known by.

    Parcels are a multiset: the same product and version is listed once per stage (contract section 7.2).
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


def _free(name: str, items: Items) -> str:
    """Return a key that is not taken: what is there twice must not look as if it were there once."""
    if name not in items:
        return name
    number = 2
    while (key := f"{name} ({number})") in items:
        number += 1
    return key


def size(tree: Tree) -> int:
    """Return how many values a tree holds."""
    return sum(size(child) for child in opened(tree).values()) if isinstance(tree, dict) else 1


def opened(tree: dict[str, Tree]) -> dict[str, Tree]:
    """Return an object, read if it was not."""
    if isinstance(tree, Unread):
        tree.open()
    return tree


def unread_secrets(*trees: dict[str, Tree]) -> Iterator[str]:
    """Yield the secrets of all elements that nobody has opened, those of equal ones once."""
    closed = {child.element: child for tree in trees for child in _closed(tree)}
    children = sorted(closed.values(), key=lambda child: child.element.kind)
    for kind, group in groupby(children, key=lambda child: child.element.kind):
        while batch := list(islice(group, _BATCH)):
            found = decode(kind, b"[%b]" % b",".join([child.element.content for child in batch]))
            if found is None:
                for child in batch:
                    child.open()  # whoever makes its fingerprints meets its secrets
            else:
                yield from _secrets(cast(list[Role | Group], found))


def _closed(tree: dict[str, Tree]) -> Iterator[Unread]:
    for child in tree.values():
        if isinstance(child, Unread) and child.closed:
            yield child
        elif isinstance(child, dict):
            yield from _closed(child)


def _secrets(elements: list[Role | Group]) -> Iterator[str]:
    for element in elements:
        for item in items_of(element):
            if item.sensitive is not False and isinstance(item.value, str) and sensitive(item.name, item.sensitive):
                yield item.value
