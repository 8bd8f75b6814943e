"""Compare two deployments by meaning: what differs, what cannot be compared, what only one side's format knows."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import msgspec

from maint.deployment.normalize import Configuration, Hidden, Items, Tree, uncollected
from maint.deployment.secrets import SECRET_FIELDS, SecretIndex
from maint.model.formatting import show_count
from maint.model.json import Json

Path = tuple[str, ...]


class Difference(msgspec.Struct, frozen=True):
    """One place that differs; secrets as fingerprints; None where a side has nothing."""

    steps: Path  # the way to it; a name may hold a slash itself
    before: str | None
    after: str | None

    @property
    def path(self) -> str:
        """The way as it is shown."""
        return _spell(self.steps)


class Comparison(msgspec.Struct):
    """What a comparison found."""

    differences: list[Difference] = []
    not_comparable: list[str] = []  # a side hides the value: neither equal nor different
    added: list[Path] = []  # fields that only the second side's format has; not differences
    volatile: int = 0  # how many places differ that always do (see `VOLATILE`)

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
    """Compare two trees made by `normalize` with the same fingerprint key."""
    hides = any(not isinstance(tree, Configuration) or tree.hides for tree in (before, after))
    comparer = _Comparer(hides)
    with uncollected():
        comparer.objects(before, after, ())
    return comparer.result


def masked(
    found: Sequence[Difference], known: Sequence[SecretIndex], fingerprint: Callable[[str], str]
) -> list[Difference]:
    """Return differences with fingerprints instead of known secrets: a text may hold one that is flagged elsewhere."""

    def mask(text: str | None) -> str | None:
        for secrets in known if text else ():
            text = secrets.masked(text or "", fingerprint)
        return text

    return [Difference(one.steps, mask(one.before), mask(one.after)) for one in found]


# What every version of a document may hold: where one lacks it, it has none of them. A list under any other name is
# something that the other side's version does not know.
_COLLECTIONS = frozenset({
    "clusters", "services", "roles", "roleConfigGroups", "roleTypeConfigs", "config", "hosts", "users", "peers",
    "managementService", "managerSettings", "allHostsConfig", "hostTemplates",
})  # fmt: skip


class _Comparer:
    def __init__(self, hides: bool) -> None:
        self._hides = hides  # whether either tree hides a value, so that equal parts have to be looked at too
        self.result = Comparison()

    def objects(self, before: dict[str, Tree], after: dict[str, Tree], path: Path) -> None:
        for key, value in before.items():
            other = after.get(key)
            if other is None:
                self._gone(value, (*path, key))
            elif self._hides or value != other:
                self._both(value, other, (*path, key))
        for key, value in after.items():
            if key not in before:
                self._new(value, (*path, key), isinstance(after, Items) and key not in (after.fields or ()))

    def _both(self, before: Tree, after: Tree, path: Path) -> None:
        if isinstance(before, dict) and isinstance(after, dict):
            self.objects(before, after, path)
        elif isinstance(before, Hidden) or isinstance(after, Hidden):
            self._withhold(path)
        elif before != after:
            self._differ(path, _show(before), _show(after))

    def _gone(self, before: Tree, path: Path) -> None:
        if _withheld(path):
            self._withhold(path)
        elif not _empty(before):
            self._differ(path, _show(before), None)

    def _new(self, after: Tree, path: Path, an_element: bool) -> None:
        # An added element is told apart from a field that the other side's format lacks.
        if _withheld(path):
            self._withhold(path)
        elif an_element:
            self._differ(path, None, _show(after))
        elif path[-1] in _COLLECTIONS and isinstance(after, dict) and _has_items(after):
            self.objects(Items() if isinstance(after, Items) else {}, after, path)
        elif not _empty(after) and not reason(path):
            self.result.added.append(path)

    def _differ(self, path: Path, before: str | None, after: str | None) -> None:
        if reason(path):
            self.result.volatile += 1
        else:
            self.result.differences.append(Difference(path, before, after))

    def _withhold(self, path: Path) -> None:
        if not reason(path):
            self.result.not_comparable.append(_spell(path))


def _withheld(path: Path) -> bool:
    # Redacting servers leave these fields out (M7.1, U12, U13).
    users = len(path) == 3 and path[0] == "users" and path[2] in {*SECRET_FIELDS, "pwLogin"}
    return users or (len(path) == 3 and path[0] == "peers" and path[2] in SECRET_FIELDS)


def _empty(value: Tree) -> bool:
    return all(map(_empty, value.values())) if isinstance(value, dict) else value == ""


def _has_items(tree: dict[str, Tree]) -> bool:
    children = tree.values()
    return bool(children) and (
        isinstance(tree, Items) or any(_has_items(child) for child in children if isinstance(child, dict))
    )


def _size(tree: Tree) -> int:
    return sum(map(_size, tree.values())) if isinstance(tree, dict) else 1


def _show(value: Tree) -> str:
    return f"all of it: {show_count(_size(value), 'value')}" if isinstance(value, dict) else value


def _spell(path: Path) -> str:
    return "/".join(path)


class Volatile(msgspec.Struct, frozen=True):
    """A place that may differ: the last segments of a path; `/` first means the whole path."""

    path: str
    reason: str

    def covers(self, path: Sequence[str]) -> bool:
        """Return whether a path, or something it lies in, ends in this place."""
        whole = self.path.startswith("/")
        pattern = self.path.strip("/").split("/")
        starts = range(1) if whole else range(len(path) - len(pattern) + 1)
        return any(_fits(pattern, path[start : start + len(pattern)]) for start in starts)


def _fits(pattern: Sequence[str], path: Sequence[str]) -> bool:
    return len(pattern) == len(path) and all(map(fnmatchcase, path, pattern))


# What changes in a deployment by itself, and why a comparison passes over it.
_STATE = "a state, not a setting; read-only"  # M7.2
_MACHINE = "what the host's agent reports; read-only"  # M10.1
_SELF = "the server writes it by itself, nobody sets it"

VOLATILE: tuple[Volatile, ...] = (
    Volatile("/timestamp", "the time of the export; ignored on input"),  # M7
    Volatile("/versionInfo/build*", "how the release was built; only its version counts"),
    Volatile("/versionInfo/gitHash", "how the release was built; only its version counts"),
    Volatile("/versionInfo/snapshot", "how the release was built; only its version counts"),
    Volatile("/managerSettings/CLUSTER_STATS_START", _SELF),
    Volatile("/managerSettings/PUBLIC_CLOUD_STATUS", _SELF),
    Volatile("/users/__cloudera_internal_user__*/pwHash", "renewed whenever the management service restarts"),
    Volatile("/users/__cloudera_internal_user__*/pwSalt", "renewed whenever the management service restarts"),
    Volatile("roles/*/config/role_jceks_password", "renewed whenever the role restarts"),
    Volatile("uuid", "given by the server; names are the identity"),
    Volatile("hostRef/hostname", "follows from the hostId"),  # U15
    Volatile("clusterRef/displayName", "follows from the cluster's name"),  # U15
    Volatile("replicationSchedules/*/nextRun", _STATE),
    Volatile("hosts/*/roleRefs", "follows from the roles"),
    *(
        Volatile(f"hosts/*/{field}", _MACHINE)
        for field in ("numCores", "numPhysicalCores", "totalPhysMemBytes", "distribution")
    ),
    *(
        Volatile(field, _STATE)
        for field in (
            "serviceState",
            "roleState",
            "commissionState",
            "healthSummary",
            "healthChecks",
            "entityStatus",
            "configStale",
            "configStalenessStatus",
            "clientConfigStalenessStatus",
            "maintenanceMode",
            "maintenanceOwners",
            "haStatus",
            "zooKeeperServerMode",
            "lastHeartbeat",
            "clusterUrl",
            "hostsUrl",
            "serviceUrl",
            "roleInstancesUrl",
            "roleUrl",
            "hostUrl",
        )
    ),
)


_ANYWHERE = {one.path: one.reason for one in VOLATILE if not one.path.count("/") and "*" not in one.path}
_PLACED = tuple(one for one in VOLATILE if one.path not in _ANYWHERE)
_LAST = tuple(one.path.rpartition("/")[2] for one in _PLACED)


def reason(path: Sequence[str]) -> str | None:
    """Return why a place may differ, None where it may not."""
    for segment in path:
        if segment in _ANYWHERE:
            return _ANYWHERE[segment]
    for one, last in zip(_PLACED, _LAST, strict=True):
        if (last in path or "*" in last) and one.covers(path):
            return one.reason
    return None
