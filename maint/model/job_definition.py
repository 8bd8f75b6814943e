"""A job's definition: what a client may send of it, and its normal form, in which two of them can be compared."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from maint.model.json import Json
from maint.model.virtual_cluster import Object, part_of

ZERO_TIME = "0001-01-01T00:00:00Z"

# Set by the server, never sent back (contract section 4.2).
_SERVERS = frozenset({"created", "modified", "lastUsed", "latestRunInfo"})
_SCHEDULES = frozenset({"user", "nextExecution", "pausedUponCreation"})
_RESOURCES = frozenset({"created", "modified", "lastUsed", "status", "signature", "pythonEnvInfo", "files"})
_TIMES = ("start", "end")

# What every server keeps (seed document); other keys may be dropped by one that is older than they are.
_KNOWN = frozenset(
    {
        *("name", "type", "mounts", "resourceName", "hidden", "pythonEnv", "pythonVersion", "retentionPolicy"),
        *(
            "spark",
            "file",
            "className",
            "args",
            "conf",
            "logLevel",
            "pyFiles",
            "jars",
            "files",
            "pythonEnvResourceName",
        ),
        *("driverMemory", "driverCores", "executorMemory", "executorCores", "airflow", "dagFile"),
        *("schedule", "enabled", "cronExpression", "start", "end", "catchup", "dependsOnPast", "paused"),
    }
)

UNSCHEDULED: Object = {
    "enabled": False,
    "paused": True,
    "catchup": False,
    "dependsOnPast": False,
    "cronExpression": "",
    "start": "",
    "end": "",
}
"""What a client sends for a spark job without a schedule (seed document, "schedule object")."""


def sendable_job(raw: Object) -> dict[str, Json]:
    """Return what may be sent to create a job again, unknown keys included.

    An airflow job goes without a schedule: its DAG file is the truth for it (contract section 4.4).
    """
    kept = {key: value for key, value in raw.items() if key not in _SERVERS}
    if raw.get("type") == "airflow":
        kept.pop("schedule", None)
        kept["airflow"] = {key: value for key, value in part_of(raw, "airflow").items() if key != "dagID"}
    elif "schedule" in kept:
        schedule = part_of(raw, "schedule")
        kept["schedule"] = {key: value for key, value in schedule.items() if key not in _SCHEDULES}
    return kept


def sendable_resource(raw: Object) -> dict[str, Json]:
    """Return what may be sent to create a resource again, unknown keys included."""
    kept = {key: value for key, value in raw.items() if key not in _RESOURCES}
    return {"hidden": False, "type": "files", **kept}


def normal_job(raw: Object, *, pauses: bool = True) -> dict[str, Json]:
    """Return the form in which two definitions are equal when they mean the same.

    What the server adds is left out, and so is what says nothing: empty texts, empty lists and `false` count as
    absent, but for `schedule.enabled`, which is printed (contract section 3.2). Times are brought to one spelling.

    Args:
        raw: a job as it was sent or received.
        pauses: whether it counts that a schedule is paused.
    """
    normal = _solid(sendable_job(raw))
    mounts = normal.get("mounts")
    if isinstance(mounts, list):
        normal["mounts"] = [_normal_mount(mount) for mount in mounts]
    if raw.get("type") != "airflow":
        schedule = _normal_schedule(part_of(raw, "schedule"), pauses=pauses)
        normal["schedule"] = schedule
    return normal


def normal_resource(raw: Object) -> dict[str, Json]:
    """Return the form in which two resources are equal when they were made alike; files do not count."""
    normal = {"type": "files", **_solid(sendable_resource(raw))}
    environment = normal.get("pythonEnv")
    if isinstance(environment, dict):
        environment.pop("type", None)  # returned, and only ever repeats the resource's own type (contract section 5.4)
    return _solid(normal)


def covers(live: Json, wanted: Json) -> bool:
    """Whether a normal form holds all of another one, as far as a server can be asked to.

    It may have added defaults of its own, and dropped keys that it does not know (contract section 3.1).
    """
    if isinstance(wanted, Mapping):
        return isinstance(live, Mapping) and all(
            covers(live.get(key), value) for key, value in wanted.items() if key in live or key in _KNOWN
        )
    return live == wanted


def same_time(text: str) -> str:
    """Return a time in one spelling, whichever of the API's four forms it has (contract section 3.2).

    What is no time stays as it is; Go's zero time is no time at all, and becomes the empty text.
    """
    if not text or text == ZERO_TIME:
        return ""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError):
            moment = read(text)
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return aware.astimezone(UTC).isoformat()
    return text


def _normal_schedule(raw: Object, *, pauses: bool) -> dict[str, Json]:
    schedule = _solid({key: value for key, value in raw.items() if key not in _SCHEDULES})
    for key in _TIMES:
        if isinstance(schedule.get(key), str):
            schedule[key] = same_time(str(schedule[key]))
    enabled = raw.get("enabled") is True
    if not pauses or not enabled:  # paused says nothing of what is not on
        schedule.pop("paused", None)
    return {**_solid(schedule), "enabled": enabled}


def _normal_mount(mount: Json) -> Json:
    if isinstance(mount, Mapping) and str(mount.get("dirPrefix", "")).strip("/") == "":
        return {key: value for key, value in mount.items() if key != "dirPrefix"}
    return mount


def _solid(raw: Object) -> dict[str, Json]:
    """Return an object without what says nothing, however deep it lies."""
    found = {key: _inner(value) for key, value in raw.items()}
    return {key: value for key, value in found.items() if not _says_nothing(value)}


def _inner(value: Json) -> Json:
    if isinstance(value, Mapping):
        return _solid(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_inner(item) for item in value]
    return "" if value == ZERO_TIME else value


def _says_nothing(value: Json) -> bool:
    return value is None or value is False or (isinstance(value, str | Sequence | Mapping) and len(value) == 0)
