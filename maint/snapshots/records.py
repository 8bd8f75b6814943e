"""What happened to a snapshot after it was taken: signed files beside the snapshots, only ever added.

Named `<site>/records/<time>-<kind>-<id>.json`, the signature in `….json.sig`, which is written first.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from maint.errors import WorkFailed
from maint.model.json import Json
from maint.ports import Sight, Site
from maint.snapshots.ids import show_time, stamp

FORMAT = "maint-record/1"
LARGEST = 1024 * 1024


class Record(msgspec.Struct, frozen=True):
    """One entry: what kind of happening, to which snapshot, when, and what is told of it."""

    kind: str
    snapshot: str
    site: str
    at: datetime
    facts: Mapping[str, Json] = {}


class _Read(msgspec.Struct, frozen=True):
    format: Literal["maint-record/1"]
    kind: str
    snapshot: str
    site: str
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    facts: dict[str, Any]  # Any: whatever JSON holds


def write_record(site: Site, record: Record) -> str:
    """Sign and store a record; return its name."""
    content = {
        "format": FORMAT,
        "kind": record.kind,
        "snapshot": record.snapshot,
        "site": record.site,
        "at": show_time(record.at),
        "facts": dict(record.facts),
    }
    raw = (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
    name = f"{record.site}/records/{stamp(record.at)}-{record.kind}-{record.snapshot}.json"
    for path, written in ((f"{name}.sig", site.sign.sign(raw)), (name, raw)):
        with site.store.create(path) as file:
            file.write(written)
    return name


def read_records(sight: Sight) -> Iterator[Record]:
    """Yield all records of the site that are signed by a trusted key, in order of time; others count for nothing."""
    prefix = f"{sight.settings.name}/records"
    for name in sight.store.names(prefix):
        if name.endswith(".json") and (record := _read(sight, name)) is not None:
            yield record


def _read(sight: Sight, name: str) -> Record | None:
    """Return a record; None where it is damaged, unsigned, or has been given another name or site."""
    try:
        raw, signature = _content(sight, name), _content(sight, f"{name}.sig")
        sight.sign.verify(raw, signature)
        read = msgspec.json.decode(raw, type=_Read)
    except (FileNotFoundError, WorkFailed, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    place = f"{sight.settings.name}/records/{stamp(read.at)}-{read.kind}-{read.snapshot}.json"
    if name != place or read.site != sight.settings.name:
        return None
    return Record(read.kind, read.snapshot, read.site, read.at, read.facts)


def _content(sight: Sight, name: str) -> bytes:
    with sight.store.open(name) as file:
        return file.read(LARGEST)
