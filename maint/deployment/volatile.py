"""What changes in a deployment without anyone's doing, and why a comparison passes over it."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec


class Volatile(msgspec.Struct, frozen=True):
    """A place that may differ: the last segments of a path; `/` first means the whole path."""

    path: str
    reason: str

    def covers(self, path: Sequence[str]) -> bool:
        """Tell whether a path, or something it lies in, ends in this place."""
        whole = self.path.startswith("/")
        pattern = self.path.strip("/").split("/")
        starts = range(1) if whole else range(len(path) - len(pattern) + 1)
        return any(_fits(pattern, path[start : start + len(pattern)]) for start in starts)


def _fits(pattern: Sequence[str], path: Sequence[str]) -> bool:
    return len(pattern) == len(path) and all(map(fnmatchcase, path, pattern))


_STATE = "a state, not a setting; read-only (contract section 7.2)"
_SELF = "the server writes it by itself, nobody sets it"

VOLATILE: tuple[Volatile, ...] = (
    Volatile("/timestamp", "the time of the export; ignored on input (contract section 7)"),
    Volatile("/versionInfo/build*", "how the release was built; only its version counts"),
    Volatile("/versionInfo/gitHash", "how the release was built; only its version counts"),
    Volatile("/versionInfo/snapshot", "how the release was built; only its version counts"),
    Volatile("/managerSettings/CLUSTER_STATS_START", _SELF),
    Volatile("/managerSettings/PUBLIC_CLOUD_STATUS", _SELF),
    Volatile("/users/__cloudera_internal_user__*/pwHash", "renewed whenever the management service restarts"),
    Volatile("/users/__cloudera_internal_user__*/pwSalt", "renewed whenever the management service restarts"),
    Volatile("roles/*/config/role_jceks_password", "renewed whenever the role restarts"),
    Volatile("uuid", "given by the server; names are the identity"),
    Volatile("hostRef/hostname", "follows from the hostId (unknown U15)"),
    Volatile("clusterRef/displayName", "follows from the cluster's name (unknown U15)"),
    Volatile("replicationSchedules/*/nextRun", _STATE),
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
