"""One backup: what was kept, how it was judged, and what became of it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from maint.model.json import Moment

_NAME = r"[^/.\\\0\ud800-\udfff][^/\\\0\ud800-\udfff]*"
STORED_NAME = f"{_NAME}(?:/{_NAME})*"  # folders and name of a file, as every store takes them
TIME = r"\d{8}T\d{6}\.\d{3}Z"
PATTERN = rf"{TIME}-[0-9a-f]{{4}}"  # of an id
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0)]
PartName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")]


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

    name: PartName
    bytes: Count
    sha256: Digest
    content_bytes: Count
    content_sha256: Digest
    restorable: bool = False


class StoredFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of a virtual cluster as it lies in the store, once for all snapshots that list it."""

    id: Digest  # as documents name it
    bytes: Count
    sha256: Digest
    sealed_as: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = (
        ""  # the id under which it lies, where it was encrypted anew
    )

    @property
    def place(self) -> str:
        """The id under which it lies in the store."""
        return self.sealed_as or self.id


class ClusterSummary(msgspec.Struct, frozen=True):
    """What a snapshot tells of one virtual cluster."""

    name: str  # as the config calls it
    base_url: str
    jobs: Count
    resources: Count
    files: Count
    bytes: Count  # of all files
    problems: tuple[str, ...]  # what could not be read, in words
    doubt: str  # why what was found is not taken for the truth


class RuleResult(msgspec.Struct, frozen=True):
    """One rule of restorability and what it found; `passed` None means that it could not tell."""

    rule: str
    passed: bool | None
    words: str


class Judgement(msgspec.Struct, frozen=True):
    """What the stream showed while it was captured (verification levels 2 and 3)."""

    redaction: Redaction
    flagged: bool  # whether config items carry `sensitive`
    hash_rule: bool | None  # whether the rule M7.3 fits the login just used; None: cannot tell
    counts: Mapping[str, Count]
    findings: tuple[RuleResult, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, tag_field="format", tag="maint-snapshot/1"):
    """One backup; it exists only if its manifest exists, which has these fields, in this order."""

    id: Annotated[str, Meta(pattern=f"^{PATTERN}\\Z")]
    site: str
    taken_at: Moment
    purpose: Purpose
    restorable: bool
    manager: str = ""  # host name of the manager it came from
    account: str = ""  # the account that took it
    versions: Mapping[str, str]  # manager, api, tool
    parts: tuple[Part, ...]
    judgement: Judgement
    host_files: Mapping[str, Any] = {}  # path → what was seen on the manager host; Any: whatever JSON holds
    uncovered: tuple[str, ...] = ()  # what the export cannot hold, in words
    recipients: tuple[str, ...] = ()
    manager_files: tuple[str, ...] = ()  # paths of what the part with the manager's own files holds
    healed_from: Mapping[str, str] = {}  # where a healed one comes from: redacted, from, at
    rekeyed_from: Mapping[str, str] = {}  # of what it is the same, encrypted for other recipients: snapshot, at
    virtual_clusters: tuple[ClusterSummary, ...] = ()
    objects: tuple[StoredFile, ...] = ()  # the files of its virtual clusters

    def has(self, name: str) -> bool:
        """Tell whether there is a part of that name."""
        return any(part.name == name for part in self.parts)

    def part(self, name: str) -> Part:
        """Return a part by name; KeyError when there is none."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)
