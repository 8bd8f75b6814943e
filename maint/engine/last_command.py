"""The command that was given last, until its run begins: after a kill before that, nothing of it can be resumed."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from maint.files import keep_record, kept_record, remove
from maint.model.formatting import show_time

_FILE = "asked.json"  # in a site's state folder


class Asked(msgspec.Struct, frozen=True):
    """A command that is still planned, or ended before its run began, and when it was given."""

    command: str
    at: str


def note(state: Path, command: str, now: datetime) -> None:
    """Remember a command, where the state folder is there and ours: a command that only reads need not own it."""
    with suppress(OSError):
        if state.is_dir():
            keep_record(state / _FILE, Asked(command, show_time(now)), durable=False)


def last(state: Path) -> Asked | None:
    """Return the command that was given last, where no run has begun since then."""
    return kept_record(state / _FILE, Asked)


def forget(state: Path) -> None:
    """Forget it: a run has begun, or it asks for none."""
    with suppress(OSError):
        remove(state / _FILE)
