"""A virtual cluster's nouns, each around the object as the API sent it (`raw`), unknown keys included (J4.2)."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

import msgspec

from maint.model.formatting import whole_number
from maint.model.json import Json

Object = Mapping[str, Json]

SUCCEEDED = "succeeded"
FINAL = frozenset({SUCCEEDED, "failed", "killed", "unknown"})
"""The states in which a run has ended (J6.3); any other word means that it still goes."""

READY = "ready"
_NAME = r"[A-Za-z][A-Za-z0-9-]{2,29}"


def is_cluster_name(text: str) -> bool:
    """Whether a text may name a virtual cluster: 3 to 30 letters, digits and hyphens, a letter first (J8)."""
    return re.fullmatch(_NAME, text) is not None


def text_of(raw: Object, key: str) -> str:
    """Return a text of an object; what is left out is the empty one (J3.2)."""
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def part_of(raw: Object, key: str) -> Object:
    """Return an object within an object, an empty one where there is none."""
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


class Named(Protocol):
    """Something around the object that the API sent."""

    @property
    def raw(self) -> Object:
        """The object."""


class Text:
    """A text of an object, by its key, as an attribute of what stands around it; left out, it means `otherwise`."""

    def __init__(self, key: str, otherwise: str = "") -> None:
        self._key, self._otherwise = key, otherwise

    def __get__(self, owner: Named, kind: type) -> str:
        return text_of(owner.raw, self._key) or self._otherwise


def number_of(raw: Object, key: str) -> int:
    """Return a whole number of an object, also where it came as a text; 0 where it is left out, or none."""
    value = raw.get(key)
    if isinstance(value, str):
        value = whole_number(value)
    return value if isinstance(value, int) else 0


def _items(raw: Object, key: str) -> Sequence[Object]:
    value = raw.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(item for item in value if isinstance(item, Mapping))


class File(msgspec.Struct, frozen=True):
    """A file of a resource."""

    raw: Object

    path = Text("path")
    """Its path within the resource, folders with `/`."""

    signature = Text("signature")
    """SHA-1 of its content, in hex (J5.3)."""

    @property
    def size(self) -> int:
        """Bytes; left out when there are none."""
        return number_of(self.raw, "sizeBytes")


class Resource(msgspec.Struct, frozen=True):
    """A container of files, or a Python environment."""

    raw: Object

    name = Text("name")
    """Its name."""

    type = Text("type", otherwise="files")
    """`files`, which may be left out, `python-env`, or a newer word."""

    status = Text("status")
    """`ready`, or how far its build is (J5.4)."""

    signature = Text("signature")
    """The signature over all files; empty where there are none."""

    @property
    def files(self) -> Sequence[File]:
        """Its files, where they were asked for."""
        return tuple(File(item) for item in _items(self.raw, "files"))

    def file(self, path: str) -> File | None:
        """Return one of the files that were asked for, None where there is none of that path."""
        return next((file for file in self.files if file.path == path), None)

    @property
    def partly_listed(self) -> bool:
        """Whether its signature, where it has one, speaks of other files than those that were shown (J5.3)."""
        return bool(self.signature) and self.signature != joint_signature(
            (one.path, one.signature) for one in self.files
        )


class Job(msgspec.Struct, frozen=True):
    """A definition of what can be run."""

    raw: Object

    name = Text("name")
    """Its name."""

    type = Text("type")
    """`spark` or `airflow`."""

    @property
    def mounts(self) -> Sequence[str]:
        """The names of what it mounts: resources, or git repositories (J4.3)."""
        return tuple(text_of(item, "resourceName") for item in _items(self.raw, "mounts"))

    @property
    def schedule(self) -> Object:
        """Its schedule, an empty object where it has none."""
        return part_of(self.raw, "schedule")

    @property
    def paused(self) -> bool:
        """Whether its schedule is paused; left out means that it is not."""
        return self.schedule.get("paused") is True

    @property
    def scheduled(self) -> bool:
        """Whether a schedule is on."""
        return self.schedule.get("enabled") is True

    @property
    def file(self) -> str:
        """The application or DAG file."""
        return text_of(part_of(self.raw, "spark"), "file") or text_of(part_of(self.raw, "airflow"), "dagFile")


class Run(msgspec.Struct, frozen=True):
    """One execution of a job."""

    raw: Object

    @property
    def id(self) -> int:
        """Its number; it only ever grows (J6.2)."""
        return number_of(self.raw, "id")

    job = Text("job")
    """The job's name."""

    user = Text("user")
    """Whose run it is."""

    status = Text("status")
    """The server's word for how it is."""

    @property
    def ended(self) -> bool:
        """Whether it will not change any more."""
        return self.status in FINAL


def is_name(text: str) -> bool:
    """Whether a job or a resource can be called so: in an address, `.` and `..` lead elsewhere on the way."""
    return text not in ("", ".", "..")


def is_file_path(path: str) -> bool:
    """Whether a text can be the path of a file in a resource."""
    return all(map(is_name, path.split("/")))


def signature_of(content: bytes) -> str:
    """Return the signature of a file's content (J5.3)."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def joint_signature(files: Iterable[tuple[str, str]]) -> str:
    """Return a resource's signature from paths and signatures of its files; empty for none (J5.3)."""
    ordered = [signature for _, signature in sorted(files, key=lambda pair: pair[0].encode("utf-8", "surrogatepass"))]
    return signature_of("".join(ordered).encode()) if ordered else ""


ZERO_TIME = "0001-01-01T00:00:00Z"

# Set by the server, never sent back (J4.2).
_SERVERS = frozenset({"created", "modified", "lastUsed", "latestRunInfo"})
_SCHEDULES = frozenset({"user", "nextExecution", "pausedUponCreation"})
_RESOURCES = frozenset({"created", "modified", "lastUsed", "status", "signature", "pythonEnvInfo", "files"})
_TIMES = ("start", "end")

# What every server keeps (seed document); other keys may be dropped by one that is older than they are.
_KNOWN = frozenset(
    {
        *("name", "type", "mounts", "resourceName", "hidden", "pythonEnv", "pythonVersion", "retentionPolicy"),
        *("spark", "file", "className", "args", "conf", "logLevel", "pyFiles", "jars", "files"),
        *("pythonEnvResourceName", "driverMemory", "driverCores", "executorMemory", "executorCores"),
        *("airflow", "dagFile", "schedule", "enabled", "cronExpression", "start", "end", "catchup"),
        *("dependsOnPast", "paused"),
    }
)

# What no server adds by itself: these, and further keys that clients send (J4.2, J5.1).
_CLIENTS = _KNOWN | {
    *("numExecutors", "proxyUser", "config", "fileMounts", "runtimeImageResourceName", "workloadCredentials"),
    *("alerting", "dataConnectors", "defaultVariables", "customRuntimeImage", "pyPiMirror", "dirPrefix"),
}
_FREE = frozenset({"conf", "config", "alerting", "defaultVariables", "customRuntimeImage"})  # counted as one value

# What a server may fill in where a client left it out.
_FILLED: Object = {
    "retentionPolicy": "keep_indefinitely",
    "logLevel": "INFO",
    "pythonVersion": "python3",
    "cronExpression": "@once",
    "driverMemory": "1g",
    "driverCores": 1,
    "executorMemory": "1g",
    "executorCores": 1,
}


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
    """Return what may be sent to create a job again, unknown keys included."""
    # An airflow job goes without a schedule: its DAG file is the truth for it (J4.4).
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

    Without what the server adds and what says nothing: empty texts, empty lists and `false` count as absent, but for
    `schedule.enabled` (J3.2). Times have one spelling. With `pauses` it counts that a schedule is paused.
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
        environment.pop("type", None)  # returned, and only ever repeats the resource's own type (J5.4)
    return _solid(normal)


def covers(live: Object, wanted: Object, *, more: bool = False) -> bool:
    """Whether a normal form means the same as another one: what it has more are defaults or unknown keys (J3.1), or,
    with `more`, anything.
    """
    return all(_agree(key, live.get(key), wanted.get(key), more) for key in (wanted if more else {*live, *wanted}))


def _agree(key: str, live: Json, wanted: Json, more: bool) -> bool:
    if isinstance(live, Mapping) and (wanted is None or isinstance(wanted, Mapping)) and (more or key not in _FREE):
        return covers(live, wanted or {}, more=more)
    if live is None:
        return key not in _KNOWN
    return live == wanted or (wanted is None and (key not in _CLIENTS or live == _FILLED.get(key)))


def same_job(live: Job | None, wanted: Object, *, pauses: bool = True) -> bool:
    """Whether a job is there as a definition has it; with `pauses` it counts that a schedule is paused."""
    return live is not None and covers(normal_job(live.raw, pauses=pauses), normal_job(wanted, pauses=pauses))


def landed_job(live: Job | None, sent: Object) -> bool:
    """Whether a definition arrived whose answer was lost, whatever the server fills in."""
    return live is not None and covers(normal_job(live.raw), normal_job(sent), more=True)


def same_resource(live: Resource | None, wanted: Object) -> bool:
    """Whether a resource is there as it is wanted; files do not count."""
    return live is not None and covers(normal_resource(live.raw), normal_resource(wanted))


def dag_schedule(raw: Object) -> Mapping[str, Json]:
    """Return what the server read in a job's DAG file of when it runs, but for times: those may be made up (J4.4)."""
    schedule = _solid(part_of(raw, "schedule")) if raw.get("type") == "airflow" else {}
    return {key: schedule[key] for key in ("cronExpression", "catchup") if key in schedule}


def same_time(text: str) -> str:
    """Return a time in one spelling, whichever of the API's four forms it has (J3.2)."""
    # What is not a time stays as it is; Go's zero time is not one, and becomes the empty text.
    if not text or text == ZERO_TIME:
        return ""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        with suppress(ValueError, TypeError, OverflowError):  # in UTC it may lie beyond the calendar
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
