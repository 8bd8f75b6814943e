"""Ids of snapshots: they sort by time, and their end keeps two of one millisecond apart."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

_TIME = re.compile(r"\d{8}T\d{6}\.\d{3}Z")
PATTERN = re.compile(rf"{_TIME.pattern}-[0-9a-f]{{4}}")


def new_id(now: datetime, chance: Callable[[int], bytes]) -> str:
    """Return an id such as `20261121T021500.123Z-4f3a`."""
    return f"{stamp(now)}-{chance(2).hex()}"


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


def show_time(time: datetime) -> str:
    """Return a time as JSON carries it, such as `2026-11-21T02:15:00.123Z`."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
