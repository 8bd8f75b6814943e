"""Durations as they are written: `90s`, `24h`, or a number of seconds."""

import math
from typing import Final

from maint.model.formatting import parse_duration

DURATION_SCHEMA: Final = {"type": ["string", "number"], "description": "90s, 30m, 24h, 7d, or a number of seconds"}


def seconds(value: object) -> float:
    """Return a duration in seconds.

    Raises:
        ValueError: it is none; the words say what one looks like.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a duration such as 90s, 30m, 24h or 7d, or a number of seconds")
    found = parse_duration(value) if isinstance(value, str) else float(value)
    if not 0 <= found < math.inf:
        raise ValueError("must be a duration of zero or more")
    return found
