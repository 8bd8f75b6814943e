"""The last lease taken over from another machine, remembered until the journal and a notice tell of it."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from maint.engine.lease import Row
from maint.files import keep_record, kept_record

_NAME = "takeover.json"


class Takeover(msgspec.Struct, frozen=True):
    """The last one."""

    at: datetime
    holder: str  # who held it, for what
    playbook: str  # what it worked at
    run: str  # its run, "" where it had none yet
    number: int
    journaled: bool = False
    told: bool = False

    @property
    def words(self) -> str:
        """What happened, in one sentence."""
        return f"the lease was not given back, and was taken over; it was held by {self.holder}"


def keep(state: Path, row: Row, now: datetime) -> None:
    """Keep that the lease was taken from the holder of this row."""
    playbook = row.claim.doing.partition(",")[0].removeprefix("playbook ")
    _write(state, Takeover(now, str(row.claim), playbook, row.claim.run, row.number))


def last(state: Path) -> Takeover | None:
    """Return the last one, None where there was none, or where what is kept is damaged."""
    return kept_record(state / _NAME, Takeover)


def mark(state: Path, one: Takeover, **done: bool) -> None:
    """Note that the journal has it (`journaled`), or that those who are to be told were (`told`), unless it is over."""
    known = last(state)
    if known is not None and (known.at, known.number) == (one.at, one.number):
        _write(state, msgspec.structs.replace(known, **done))


def _write(state: Path, one: Takeover) -> None:
    with suppress(OSError):  # what is told twice, or not, keeps nobody from working
        keep_record(state / _NAME, one)
