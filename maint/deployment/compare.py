"""Compare two deployments by meaning: what differs, what cannot be compared, what only one side's format knows."""

from dataclasses import dataclass, field

from maint.deployment.raw_equality import alike, unlike
from maint.deployment.sensitive import REDACTED, SECRET_FIELDS
from maint.deployment.tree import Clear, Items, Mark, Tree, Unread, UnreadItems, opened, size
from maint.deployment.volatile import reason
from maint.model.json import Json

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place that differs; secrets as fingerprints; None where a side has nothing.

    Attributes:
        steps: the way to it; a name may hold a slash itself.
    """

    steps: Path
    before: str | None
    after: str | None

    @property
    def path(self) -> str:
        """The way as it is shown."""
        return _spell(self.steps)


@dataclass(slots=True)
class Comparison:
    """What a comparison found.

    Attributes:
        differences: real ones.
        not_comparable: places where a side hides the value: neither equal nor different.
        added: fields that only the second side's format has; no difference.
        volatile: how many places differ that always do (see `volatile.py`).
    """

    differences: list[Difference] = field(default_factory=list)
    not_comparable: list[str] = field(default_factory=list)
    added: list[Path] = field(default_factory=list)
    volatile: int = 0

    @property
    def added_keys(self) -> list[str]:
        """The paths of `added`."""
        return [_spell(path) for path in self.added]

    @property
    def same(self) -> bool:
        """Whether nothing differs, as far as it can be seen."""
        return not self.differences

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "differences": [{"path": d.path, "before": d.before, "after": d.after} for d in self.differences],
            "not_comparable": list(self.not_comparable),
            "added_keys": [*self.added_keys],
            "volatile": self.volatile,
        }


def compare(before: dict[str, Tree], after: dict[str, Tree]) -> Comparison:
    """Compare two trees made by `flatten` with the same fingerprint key."""
    result = Comparison()
    _objects(before, after, (), result)
    return result


def _objects(before: dict[str, Tree], after: dict[str, Tree], path: Path, result: Comparison) -> None:
    for key, value in before.items():
        other = after.get(key)
        if other is None:
            _gone(value, (*path, key), result)
        elif not _same(value, other):  # which most of a document is
            _both(value, other, (*path, key), result)
    for key, value in after.items():
        if key not in before:
            _added(value, (*path, key), result, isinstance(after, Items))


def _both(before: Tree, after: Tree, path: Path, result: Comparison) -> None:
    if isinstance(before, UnreadItems) and isinstance(after, UnreadItems):
        _objects(*_apart(before, after), path, result)
    elif isinstance(before, dict) and isinstance(after, dict):
        _objects(opened(before), opened(after), path, result)
    elif _hidden(before) or _hidden(after):
        if not reason(path):
            result.not_comparable.append(_spell(path))
    elif before != after:
        _differ(path, _show(before), _show(after), result)


def _apart(before: UnreadItems, after: UnreadItems) -> tuple[dict[str, Tree], dict[str, Tree]]:
    """Return two lists without what is plainly the same in them; all of them where nothing is plain."""
    plain = unlike(before, after) if before.closed and after.closed else None
    return plain or (opened(before), opened(after))


def _same(before: Tree, after: Tree) -> bool:
    """Tell whether it is plain without a closer look that two places are the same, and hide nothing."""
    if type(before) is str:
        return before == after and type(after) is str
    if isinstance(before, Unread) and isinstance(after, Unread):
        one, other = before.element, after.element
        return one is other or alike(one.content, other.content)
    if isinstance(before, UnreadItems):
        return before is after
    return isinstance(before, Clear) and isinstance(after, Clear) and before == after


def _gone(before: Tree, path: Path, result: Comparison) -> None:
    if _withheld(path):
        _withhold(path, result)
    elif not _empty(before):
        _differ(path, _show(before), None, result)


# What every version of a document may hold: where one lacks it, it has none of them. A list under any other name is
# something that the other side's version does not know.
_COLLECTIONS = frozenset(
    [
        "clusters",
        "services",
        "roles",
        "roleConfigGroups",
        "roleTypeConfigs",
        "config",
        "hosts",
        "users",
        "peers",
        "managementService",
        "managerSettings",
        "allHostsConfig",
        "hostTemplates",
    ]
)


def _added(after: Tree, path: Path, result: Comparison, an_item: bool) -> None:
    """Tell an added element from a field that the other side's format lacks."""
    if _withheld(path):
        _withhold(path, result)
    elif an_item:
        _differ(path, None, _show(after), result)
    elif path[-1] in _COLLECTIONS and isinstance(after, dict) and _holds_items(after):
        _objects({} if not isinstance(after, Items) else Items(), opened(after), path, result)
    elif not _empty(after) and not reason(path):
        result.added.append(path)


def _differ(path: Path, before: str | None, after: str | None, result: Comparison) -> None:
    if reason(path):
        result.volatile += 1
    else:
        result.differences.append(Difference(path, before, after))


def _withhold(path: Path, result: Comparison) -> None:
    if not reason(path):
        result.not_comparable.append(_spell(path))


def _withheld(path: Path) -> bool:
    """Tell whether a field is one that redacting servers leave out (contract section 7.1, unknowns U12 and U13)."""
    users = len(path) == 3 and path[0] == "users" and path[2] in {*SECRET_FIELDS, "pwLogin"}
    return users or (len(path) == 3 and path[0] == "peers" and path[2] in SECRET_FIELDS)


def _hidden(value: Tree) -> bool:
    return isinstance(value, Mark) and value == REDACTED


def _empty(value: Tree) -> bool:
    return all(map(_empty, opened(value).values())) if isinstance(value, dict) else value == ""


def _holds_items(tree: dict[str, Tree]) -> bool:
    children = opened(tree).values()
    return bool(children) and (
        isinstance(tree, Items) or any(_holds_items(child) for child in children if isinstance(child, dict))
    )


def _show(value: Tree) -> str:
    if isinstance(value, dict):
        count = size(value)
        return f"all of it: {count} value{'' if count == 1 else 's'}"
    return value


def _spell(path: Path) -> str:
    return "/".join(path)
