"""The manifest of a snapshot, read strictly: promised fields with their types, keys once; further keys may come."""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from maint.errors import WorkFailed
from maint.model.formatting import show_time
from maint.model.json import Json
from maint.model.snapshot import (
    FORMAT,
    ClusterSummary,
    Finding,
    Judgement,
    Part,
    Purpose,
    Redaction,
    Snapshot,
    StoredFile,
)

MANIFEST = "manifest.json"
# What to do about one that is damaged.
ANOTHER = "`maint backup verify` tells which snapshots and copies are whole: take one of those"
SIGNATURE = "manifest.json.sig"
LARGEST = 16 * 1024 * 1024  # bytes of a manifest that are read; thousands of parts fit


def damaged(words: str) -> WorkFailed:
    """Return that something of a snapshot is not what it should be; another one, or a copy, may be."""
    return WorkFailed(words, hint=ANOTHER)


_TIME = re.compile(r"\d{8}T\d{6}\.\d{3}Z")
PATTERN = re.compile(rf"{_TIME.pattern}-[0-9a-f]{{4}}")


def new_id(now: datetime) -> str:
    """Return an id such as `20261121T021500.123Z-4f3a`."""
    return f"{stamp(now)}-{os.urandom(2).hex()}"


def stamp(now: datetime) -> str:
    """Return a time as it stands in ids and in names of records."""
    utc = now.astimezone(UTC)
    return f"{utc:%Y%m%dT%H%M%S}.{utc.microsecond // 1000:03d}Z"


def time_of(snapshot_id: str) -> datetime:
    """Return the time in an id; ValueError when it is none."""
    text = snapshot_id.partition("-")[0]
    if not _TIME.fullmatch(text):
        raise ValueError("this does not begin with a time as ids have it")
    return datetime.fromisoformat(text)


def is_id(text: str) -> bool:
    """Tell whether a folder's name is the id of a snapshot."""
    if not PATTERN.fullmatch(text):
        return False
    try:
        time_of(text)
    except ValueError:
        return False
    return True


Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0)]
PartName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?\Z")]


class _Part(Struct, frozen=True):
    name: PartName
    bytes: Count
    sha256: Digest
    content_bytes: Count
    content_sha256: Digest
    restorable: bool = False


class _Finding(Struct, frozen=True):
    rule: str
    passed: bool | None
    words: str


class _Judgement(Struct, frozen=True):
    redaction: Literal["none", "redacted", "unknown"]
    flagged: bool
    hash_rule: bool | None
    counts: dict[str, Count]
    findings: list[_Finding]


class _Cluster(Struct, frozen=True):
    name: str
    base_url: str
    jobs: Count
    resources: Count
    files: Count
    bytes: Count
    problems: list[str]
    doubt: str


class _StoredFile(Struct, frozen=True):
    id: Digest
    bytes: Count
    sha256: Digest
    sealed_as: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""


class _Manifest(Struct, frozen=True):
    format: Literal["maint-snapshot/1"]
    id: Annotated[str, Meta(pattern=f"^{PATTERN.pattern}\\Z")]
    site: str
    taken_at: Annotated[datetime, Meta(tz=True)]
    purpose: Literal["backup", "safety"]
    restorable: bool
    parts: list[_Part]
    versions: dict[str, str]
    judgement: _Judgement
    account: str = ""
    uncovered: list[str] = []
    host_files: dict[str, Any] = {}  # Any: whatever JSON holds
    recipients: list[str] = []
    manager: str = ""
    manager_files: list[str] = []
    healed_from: dict[str, str] = {}
    rekeyed_from: dict[str, str] = {}
    virtual_clusters: list[_Cluster] = []
    objects: list[_StoredFile] = []


def encode(snapshot: Snapshot) -> bytes:
    """Return the bytes of a manifest."""
    return (json.dumps(to_json(snapshot), indent=2, ensure_ascii=False) + "\n").encode()


def digest(snapshot: Snapshot) -> str:
    """Return the SHA-256 of all that is believed of a manifest."""
    return hashlib.sha256(encode(snapshot)).hexdigest()


def to_json(snapshot: Snapshot) -> dict[str, Json]:
    """Return a snapshot as JSON."""
    judgement = snapshot.judgement
    return {
        "format": FORMAT,
        "id": snapshot.id,
        "site": snapshot.site,
        "taken_at": show_time(snapshot.taken_at),
        "purpose": snapshot.purpose.value,
        "restorable": snapshot.restorable,
        "manager": snapshot.manager,
        "account": snapshot.account,
        "versions": dict(snapshot.versions),
        "parts": [asdict(part) for part in snapshot.parts],
        "judgement": {
            "redaction": judgement.redaction.value,
            "flagged": judgement.flagged,
            "hash_rule": judgement.hash_rule,
            "counts": dict(judgement.counts),
            "findings": [asdict(finding) for finding in judgement.findings],
        },
        "host_files": dict(snapshot.host_files),
        "uncovered": list(snapshot.uncovered),
        "recipients": list(snapshot.recipients),
        "manager_files": list(snapshot.manager_files),
        "healed_from": dict(snapshot.healed_from),
        **({"rekeyed_from": dict(snapshot.rekeyed_from)} if snapshot.rekeyed_from else {}),
        "virtual_clusters": clusters_json(snapshot.virtual_clusters),
        "objects": [
            {
                "id": one.id,
                "bytes": one.bytes,
                "sha256": one.sha256,
                **({"sealed_as": one.sealed_as} if one.sealed_as else {}),
            }
            for one in snapshot.objects
        ],
    }


def clusters_json(clusters: Sequence[ClusterSummary]) -> list[Json]:
    """Return what the manifest says of virtual clusters as JSON."""
    return [{**asdict(one), "problems": list(one.problems)} for one in clusters]


def decode(content: bytes) -> Snapshot:
    """Read a manifest; WorkFailed where it is not one of this format, with the place."""
    try:
        json.loads(content, object_pairs_hook=_no_key_twice)  # decoding would take the last one silently
        read = msgspec.json.decode(content, type=_Manifest)
    except msgspec.ValidationError as problem:
        raise damaged(f"the manifest is damaged: {_words(problem)}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise damaged("the manifest is damaged: it is not JSON") from None
    if len({part.name for part in read.parts}) != len(read.parts):
        raise damaged("the manifest is damaged: a part is listed twice")
    return _snapshot(read)


def _words(problem: msgspec.ValidationError) -> str:
    """Return where something is wrong, and what; the decoder quotes no value."""
    what, _, where = str(problem).partition(" - at `$")
    return f"{where.rstrip('`').lstrip('.') or 'the whole'}: {what}"


def _snapshot(read: _Manifest) -> Snapshot:
    judged = read.judgement
    return Snapshot(
        id=read.id,
        site=read.site,
        taken_at=read.taken_at,
        purpose=Purpose(read.purpose),
        restorable=read.restorable,
        parts=tuple(Part(**asdict(part)) for part in read.parts),
        versions=dict(read.versions),
        judgement=Judgement(
            redaction=Redaction(judged.redaction),
            flagged=judged.flagged,
            hash_rule=judged.hash_rule,
            counts=dict(judged.counts),
            findings=tuple(Finding(**asdict(finding)) for finding in judged.findings),
        ),
        account=read.account,
        uncovered=tuple(read.uncovered),
        host_files=dict(read.host_files),
        recipients=tuple(read.recipients),
        manager=read.manager,
        manager_files=tuple(read.manager_files),
        healed_from=dict(read.healed_from),
        rekeyed_from=dict(read.rekeyed_from),
        virtual_clusters=tuple(
            ClusterSummary(**{**asdict(one), "problems": tuple(one.problems)}) for one in read.virtual_clusters
        ),
        objects=tuple(StoredFile(**asdict(one)) for one in read.objects),
    )


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise damaged("the manifest is damaged: a key stands in it twice")
    return dict(pairs)
