"""The summary of a site's backups as they were last seen: kept in its state folder, so that a list reads no store."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from maint.model.json import Json, as_json
from maint.snapshots.catalogue import Entry, stored_bytes
from maint.snapshots.prune import damage, newest_good
from maint.snapshots.records import Drill

FILE = "summary.json"  # in a site's state folder


class Summary(msgspec.Struct, frozen=True):
    """What was seen of a site's backups, and when; times as in all JSON, None where there is none."""

    seen: datetime
    snapshots: int
    restorable: int
    damaged: int
    bytes: int
    last_verified: datetime | None
    last_drill: datetime | None

    def to_json(self, now: datetime) -> dict[str, Json]:
        """Return it as JSON, with its age in seconds."""
        return {**as_json(self), "age": round((now - self.seen).total_seconds(), 3)}


def summary_of(known: Sequence[Entry], drill: Drill | None, now: datetime) -> Summary:
    """Return the summary of snapshots; `drill`: the last that passed."""
    newest = newest_good(known, now)
    return Summary(
        seen=now,
        snapshots=len(known),
        restorable=sum(one.offered for one in known),
        damaged=sum(damage(one) is not None for one in known),
        bytes=stored_bytes(known),
        last_verified=newest.taken_at if newest else None,
        last_drill=drill.at if drill else None,
    )
