"""The manifest of a snapshot, read strictly: promised fields with their types, keys once; further keys may come."""

import hashlib
import json
import os
import re
from datetime import UTC, datetime

import msgspec

from maint.errors import OfLaterVersion, WorkFailed
from maint.model.json import Json, as_json
from maint.model.snapshot import PATTERN, TIME, Snapshot

MANIFEST = "manifest.json"
# What to do about one that is damaged.
ANOTHER = "`maint backup verify` tells which snapshots and copies are whole: take one of those"
SIGNATURE = "manifest.json.sig"
UNTRUSTED = "by a key that is not trusted"  # as the check of signatures says it
_FORMAT = re.compile(r"maint-snapshot/([1-9][0-9]{0,8})")
_KNOWN = 1  # the latest format that is read
_LATER = ("rekeyed_from",)  # fields that version 0.1.0 did not know: left out where empty, so that digests stay
LARGEST = 16 * 1024 * 1024  # bytes of a manifest that are read; thousands of parts fit


def damaged(words: str) -> WorkFailed:
    """Return that something of a snapshot is not what it should be; another one, or a copy, may be."""
    return WorkFailed(words, hint=ANOTHER)


def new_id(now: datetime) -> str:
    """Return an id such as `20261121T021500.123Z-4f3a`."""
    return f"{stamp(now)}-{os.urandom(2).hex()}"


def stamp(now: datetime) -> str:
    """Return a time as it stands in ids and in names of records."""
    utc = now.astimezone(UTC)
    return f"{utc:%Y%m%dT%H%M%S}.{utc.microsecond // 1000:03d}Z"


def time_of(snapshot_id: str) -> datetime:
    """Return the time in an id; ValueError when it is not one."""
    text = snapshot_id.partition("-")[0]
    if not re.fullmatch(TIME, text):
        raise ValueError("this does not begin with a time as ids have it")
    return datetime.fromisoformat(text)


def is_id(text: str) -> bool:
    """Tell whether a folder's name is the id of a snapshot."""
    if not re.fullmatch(PATTERN, text):
        return False
    try:
        time_of(text)
    except ValueError:
        return False
    return True


def encode(snapshot: Snapshot) -> bytes:
    """Return the bytes of a manifest."""
    return (json.dumps(to_json(snapshot), indent=2, ensure_ascii=False) + "\n").encode()


def digest(snapshot: Snapshot) -> str:
    """Return the SHA-256 of all that is believed of a manifest."""
    return hashlib.sha256(encode(snapshot)).hexdigest()


def to_json(snapshot: Snapshot) -> dict[str, Json]:
    """Return a snapshot as JSON."""
    return {key: value for key, value in as_json(snapshot).items() if value or key not in _LATER}


def decode(content: bytes) -> Snapshot:
    """Read a manifest.

    Raises:
        OfLaterVersion: it is of a later format.
        WorkFailed: it is not one of this format, with the place.
    """
    try:
        whole = json.loads(content, object_pairs_hook=_no_key_twice)  # decoding would take the last one silently
        _refuse_later(whole)
        read = msgspec.json.decode(content, type=Snapshot)
    except msgspec.ValidationError as problem:
        raise damaged(f"the manifest is damaged: {_words(problem)}") from None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise damaged("the manifest is damaged: it is not JSON") from None
    if "format" not in whole:
        raise damaged("the manifest is damaged: it has no `format`")
    if len({part.name for part in read.parts}) != len(read.parts):
        raise damaged("the manifest is damaged: a part is listed twice")
    return read


def _refuse_later(whole: Json) -> None:
    found = _FORMAT.fullmatch(str(whole.get("format"))) if isinstance(whole, dict) else None
    if found is not None and int(found[1]) > _KNOWN:
        raise OfLaterVersion(
            f"the manifest is of the format {found[0]}, which a later version of maint wrote",
            hint="use that version for it (`maint help install`); this one neither restores nor removes it",
        )


def _words(problem: msgspec.ValidationError) -> str:
    """Return where something is wrong, and what; the decoder quotes no value."""
    what, _, where = str(problem).partition(" - at `$")
    return f"{where.rstrip('`').lstrip('.') or 'the whole'}: {what}"


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise damaged("the manifest is damaged: a key stands in it twice")
    return dict(pairs)
