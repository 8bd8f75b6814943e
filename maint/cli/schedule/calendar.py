"""When a scheduled backup runs: `--at` and `--every` as systemd and as cron spell them."""

import re

import msgspec

from maint.errors import UsageError
from maint.model.formatting import parse_duration

USUAL = "02:15"
_AT = re.compile(r"(?:(Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?([01]\d|2[0-3]):([0-5]\d)")
_MOST_JITTER = 900.0


class Calendar(msgspec.Struct, frozen=True):
    """A rhythm: systemd's `OnCalendar`, the five fields of cron, and how far runs may be spread (seconds)."""

    systemd: str
    cron: str
    jitter: float


def calendar(at: str, every: str, jitter: str = "") -> Calendar:
    """Return the rhythm that the operator asks for; both left out is every day at 02:15.

    Args:
        at: a time of day such as `02:15` or `Sun 02:15`.
        every: a duration that divides an hour or a day evenly, such as `30m`, `6h` or `24h`.
        jitter: how far runs may be spread; a tenth of the time between two, at most 15m, when left out.

    Raises:
        UsageError: one of them makes no sense, or both are given.
    """
    if at and every:
        raise UsageError("--at and --every exclude each other", hint="--at 02:15, or --every 6h")
    on, cron, period = _every(every) if every else _at(at or USUAL)
    return Calendar(on, cron, _seconds("--jitter", jitter) if jitter else min(_MOST_JITTER, period / 10))


def _at(text: str) -> tuple[str, str, float]:
    found = _AT.fullmatch(text)
    if not found:
        raise UsageError(f"--at {text!r} is no time of day", hint="such as --at 02:15 or --at 'Sun 02:15'")
    day, hour, minute = found.groups()
    on = f"{day} *-*-* {hour}:{minute}:00" if day else f"*-*-* {hour}:{minute}:00"
    return on, f"{int(minute)} {int(hour)} * * {day or '*'}", 604800.0 if day else 86400.0


def _every(text: str) -> tuple[str, str, float]:
    seconds = _seconds("--every", text)
    minutes, rest = divmod(seconds, 60)
    hours = minutes / 60
    if not rest and minutes and minutes < 60 and 60 % minutes == 0:
        return f"*-*-* *:00/{minutes:.0f}:00", f"*/{minutes:.0f} * * * *", seconds
    if hours in (1, 2, 3, 4, 6, 8, 12):
        return f"*-*-* 00/{hours:.0f}:00:00", f"0 */{hours:.0f} * * *", seconds
    if hours == 24:
        return _at(USUAL)
    raise UsageError(
        f"--every {text} does not divide an hour or a day evenly",
        hint="such as 15m, 30m, 1h, 6h, 12h or 24h; for once a week: --at 'Sun 02:15'",
    )


def _seconds(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None
