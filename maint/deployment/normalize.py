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
from typing import cast

from maint.deployment.json_reducer import Fields, Rules, fold
from maint.deployment.records import (
    Config,
    Decoded,
    Group,
    Host,
    Item,
    Role,
    Unparsed,
    UnsetType,
    Unsplit,
    decode,
    plain,
    split,
)
from maint.deployment.sensitive import REDACTED, SECRET_FIELDS, sensitive
from maint.deployment.tree import Clear, Items, Mark, Pool, Tree, Unread, UnreadItems, add

_DIGITS = 40  # before or after the point, up to which a number is written out
LONGEST = 1000  # characters of a value that are held; of a longer one the digest is


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
        pool: given, lists of roles and groups stay unread until someone opens them; share it with the other document.
        longest: characters of a value that are held; see `shortened`.

    Raises:
        WorkFailed: it is not JSON, not complete, or no deployment.
    """
    with uncollected():
        rules = _Builder(fingerprint, pool, longest).rules()
        root = fold(blocks, rules, pool.take, pool.kinds) if pool else fold(blocks, rules)
    assert isinstance(root, dict)  # the rule of every object returns one
    return root


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
    def __init__(self, fingerprint: Callable[[str], str], pool: Pool | None, longest: int) -> None:
        self._fingerprint, self._longest = fingerprint, longest
        self._pool = pool or Pool()
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

    def _objects(self, elements: Decoded | Sequence[Unsplit]) -> Iterator[dict[str, Tree]]:
        for element in elements:
            if isinstance(element, Unsplit):
                yield self._pool.list(element, self._elements, self._opened)
            elif isinstance(element, Role):
                yield self._role(element)
            elif isinstance(element, Group):
                yield self._group(element)
            elif isinstance(element, Host):
                yield self._host(element)
            else:
                yield self._object(plain([element])[0])

    def _elements(self, whole: Unsplit) -> Iterator[tuple[str, Tree]]:
        """Yield the elements of an unread list with their names, unread where that can be."""
        if (found := split(whole)) is not None:
            for element in found:
                yield element.name, Unread(self._pool.element(element), self._opened)
        elif (decoded := decode(whole.kind, whole.content)) is not None:
            yield from map(self._named, self._objects(decoded))
        else:
            yield from self._followed(whole.kind, whole.content).items()

    def _followed(self, kind: bytes, content: bytes) -> Items:
        """Read a list by its events."""
        root = fold(iter([b'{"%b":%b}' % (kind, content)]), self.rules())
        assert isinstance(root, dict)
        return cast(Items, root[kind.decode()])

    def _opened(self, element: Unparsed) -> dict[str, Tree]:
        found = decode(element.kind, b"[%b]" % element.content)
        if found is not None:
            return next(self._objects(found))
        (tree,) = self._followed(element.kind, b"[%b]" % element.content).values()
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

    def _host(self, host: Host) -> dict[str, Tree]:
        hidden = self._hidden
        tree: dict[str, Tree] = {}
        for key in ("hostId", "ipAddress", "hostname", "rackId"):
            if isinstance(value := getattr(host, key), str):
                tree[key] = self._text(value)
        self._config(host.config, tree)
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
        add(found, map(self._named_value, config.items))

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
        if len(elements) == 1 and isinstance(elements[0], UnreadItems):
            return elements[0]
        items = Items()
        for element in elements:
            if isinstance(element, UnreadItems):  # a part of a list too long to be taken at once
                add(items, self._elements(element.whole))
            else:
                add(items, iter([self._named(element)]))
        return items

    def _named(self, element: object) -> tuple[str, Tree]:
        if isinstance(element, _Setting):
            return element.name, element.value
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
