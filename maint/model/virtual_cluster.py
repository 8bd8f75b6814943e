"""A virtual cluster's nouns: jobs, resources, files and runs, each around the object that the API sent.

The object is kept as it came (`raw`), so that keys that nobody knows yet are carried through (contract section 4.2).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from maint.model.json import Json

Object = Mapping[str, Json]

SUCCEEDED = "succeeded"
FINAL = frozenset({SUCCEEDED, "failed", "killed", "unknown"})
"""The states in which a run has ended (contract section 6.3); any other word means that it still goes."""

READY = "ready"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{2,29}")


def is_cluster_name(text: str) -> bool:
    """Whether a text may name a virtual cluster: 3 to 30 letters, digits and hyphens, a letter first (contract 8)."""
    return _NAME.fullmatch(text) is not None


def text_of(raw: Object, key: str) -> str:
    """Return a text of an object; what is left out is the empty one (contract section 3.2)."""
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
    """A text of an object, as an attribute of what stands around it; what is left out is the empty one.

    Args:
        key: where it stands in the object.
        otherwise: what being left out means.
    """

    def __init__(self, key: str, otherwise: str = "") -> None:
        self._key, self._otherwise = key, otherwise

    def __get__(self, owner: Named, kind: type) -> str:
        """Return the text."""
        return text_of(owner.raw, self._key) or self._otherwise


def number_of(raw: Object, key: str) -> int:
    """Return a whole number of an object, also where it came as a text; 0 where it is left out, or none."""
    value = raw.get(key)
    if isinstance(value, str) and value.isdecimal():
        return int(value)
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
    """SHA-1 of its content, in hex (contract section 5.3)."""

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
    """`ready`, or how far its build is (contract section 5.4)."""

    signature = Text("signature")
    """The signature over all files; empty where there are none."""

    @property
    def files(self) -> Sequence[File]:
        """Its files, where they were asked for."""
        return tuple(File(item) for item in _items(self.raw, "files"))

    def file(self, path: str) -> File | None:
        """Return one of the files that were asked for, None where there is none of that path."""
        return next((file for file in self.files if file.path == path), None)


class Job(msgspec.Struct, frozen=True):
    """A definition of what can be run."""

    raw: Object

    name = Text("name")
    """Its name."""

    type = Text("type")
    """`spark` or `airflow`."""

    @property
    def mounts(self) -> Sequence[str]:
        """The names of what it mounts: resources, or git repositories (contract section 4.3)."""
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
        """Its number; it only ever grows (contract section 6.2)."""
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


def signature_of(content: bytes) -> str:
    """Return the signature of a file's content (contract section 5.3)."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def joint_signature(files: Iterable[tuple[str, str]]) -> str:
    """Return a resource's signature from paths and signatures of its files; empty for none (contract section 5.3)."""
    ordered = [signature for _, signature in sorted(files, key=lambda pair: pair[0].encode())]
    return hashlib.sha1("".join(ordered).encode(), usedforsecurity=False).hexdigest() if ordered else ""
