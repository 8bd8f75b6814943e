"""The command that was given last, until its run begins: after a kill before that, nothing of it can be resumed."""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from maint.errors import NotWritten
from maint.files import keep_record, kept_record, remove, visible
from maint.model.formatting import show_time

_FILE = "asked.json"  # in a site's state folder


class Asked(msgspec.Struct, frozen=True):
    """A command that is still planned, or ended before its run began, and when it was given; "" where nobody knows."""

    command: str
    at: str


def note(state: Path, command: str, now: datetime) -> None:
    """Remember a command, where the state folder is there and ours: a command that only reads need not own it."""
    if not visible(state):
        return
    path = state / _FILE
    with suppress(OSError):
        try:
            keep_record(path, Asked(command, show_time(now)), durable=False)
        except NotWritten:  # a full disk may have room for a name
            path.touch(0o600)


def last(state: Path) -> Asked | None:
    """Return the command that was given last, where no run has begun since then."""
    path = state / _FILE
    return kept_record(path, Asked) or (Asked("", "") if visible(path) else None)


def forget(state: Path) -> None:
    """Forget it: a run has begun, or it asks for none."""
    with suppress(OSError):
        remove(state / _FILE)
