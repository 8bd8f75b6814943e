"""One backup: what was kept, how it was judged, and what became of it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from maint.model.json import Json

FORMAT = "maint-snapshot/1"


class Purpose(StrEnum):
    """Why a snapshot was taken; a safety one is never a default and never counted by guards."""

    BACKUP = "backup"
    SAFETY = "safety"


class Redaction(StrEnum):
    """What the values of an export show (M7.1)."""

    NONE = "none"  # every secret is readable
    REDACTED = "redacted"  # at least one secret is the word REDACTED, or the users' hashes are missing
    UNKNOWN = "unknown"  # nothing in it tells


class Trust(StrEnum):
    """What a verification says."""

    VERIFIED = "verified"
    FAILED = "failed"
    NOT_VERIFIED = "not verified"


class Part(msgspec.Struct, frozen=True):
    """One stored file: size and SHA-256 as stored, and (`content_…`) of what is inside, unpacked."""

    name: str
    bytes: int
    sha256: str
    content_bytes: int
    content_sha256: str
    restorable: bool = False


class StoredFile(msgspec.Struct, frozen=True):
    """A file of a virtual cluster as it lies in the store, once for all snapshots that list it."""

    id: str  # as documents name it
    bytes: int
    sha256: str
    sealed_as: str = ""  # the id under which it lies, where it was encrypted anew

    @property
    def place(self) -> str:
        """The id under which it lies in the store."""
        return self.sealed_as or self.id


class ClusterSummary(msgspec.Struct, frozen=True):
    """What a snapshot tells of one virtual cluster."""

    name: str  # as the config calls it
    base_url: str
    jobs: int = 0
    resources: int = 0
    files: int = 0
    bytes: int = 0  # of all files
    problems: Sequence[str] = ()  # what could not be read, in words
    doubt: str = ""  # why what was found is not taken for the truth


class Finding(msgspec.Struct, frozen=True):
    """One rule of restorability and what it found; `passed` None means that it could not tell."""

    rule: str
    passed: bool | None
    words: str


class Judgement(msgspec.Struct, frozen=True):
    """What the stream showed while it was captured (verification levels 2 and 3)."""

    redaction: Redaction
    flagged: bool  # whether config items carry `sensitive`
    hash_rule: bool | None  # whether the rule M7.3 fits the login just used; None: cannot tell
    counts: Mapping[str, int]
    findings: Sequence[Finding] = ()


class Snapshot(msgspec.Struct, frozen=True):
    """One backup; it exists only if its manifest exists."""

    id: str
    site: str
    taken_at: datetime
    purpose: Purpose
    restorable: bool
    parts: Sequence[Part]
    versions: Mapping[str, str]  # manager, api, tool
    judgement: Judgement
    account: str = ""  # the account that took it
    uncovered: Sequence[str] = ()  # what the export cannot hold, in words
    host_files: Mapping[str, Json] = {}  # path → what was seen on the manager host
    recipients: Sequence[str] = ()
    manager: str = ""  # host name of the manager it came from
    manager_files: Sequence[str] = ()  # paths of what the part with the manager's own files holds
    healed_from: Mapping[str, str] = {}  # where a healed one comes from: redacted, from, at
    rekeyed_from: Mapping[str, str] = {}  # of what it is the same, encrypted for other recipients: snapshot, at
    virtual_clusters: Sequence[ClusterSummary] = ()
    objects: Sequence[StoredFile] = ()  # the files of its virtual clusters

    def has(self, name: str) -> bool:
        """Tell whether there is a part of that name."""
        return any(part.name == name for part in self.parts)

    def part(self, name: str) -> Part:
        """Return a part by name; KeyError when there is none."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)
