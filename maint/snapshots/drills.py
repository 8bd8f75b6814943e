"""What drills have proven: signed records beside the snapshots, the newest last."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from maint.model.json import Json
from maint.ports import Sight
from maint.snapshots.ids import show_time
from maint.snapshots.records import Record, read_records

KIND = "drill"
PASSED, FAILED = "passed", "failed"


class Drill(msgspec.Struct, frozen=True):
    """One drill as its record tells it.

    Attributes:
        snapshot: the id.
        at: when it ended.
        passed: whether the snapshot came back whole.
        reason: why not, or what was found.
        rto_seconds: from opening the snapshot to the configuration read back; None where it did not get there.
    """

    snapshot: str
    at: datetime
    passed: bool
    reason: str
    rto_seconds: float | None

    def to_json(self, now: datetime) -> dict[str, Json]:
        """Return it as JSON, its age in seconds."""
        return {
            "snapshot": self.snapshot,
            "at": show_time(self.at),
            "age": round((now - self.at).total_seconds(), 3),
            "result": PASSED if self.passed else FAILED,
            "reason": self.reason,
            "rto_seconds": self.rto_seconds,
        }


def drills_in(past: Iterable[Record]) -> Sequence[Drill]:
    """Return the drills among records, in their order."""
    return [_drill(record) for record in past if record.kind == KIND]


def drills(sight: Sight) -> Sequence[Drill]:
    """Return all drills of the site whose records are signed by a trusted key, in order of time."""
    return drills_in(read_records(sight))


def last_good(found: Sequence[Drill]) -> Drill | None:
    """Return the newest drill that passed, None where none did."""
    return next((one for one in reversed(found) if one.passed), None)


def _drill(record: Record) -> Drill:
    seconds = record.facts.get("rto_seconds")
    return Drill(
        record.snapshot,
        record.at,
        record.facts.get("result") == PASSED,
        str(record.facts.get("reason") or ""),
        float(seconds) if isinstance(seconds, int | float) else None,
    )
