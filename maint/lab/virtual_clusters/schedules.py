"""When schedules fire (J4.4 and J7)."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import times

ONCE = "@once"
_WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_HORIZON = 366 * 9  # days: a 29th of February is found even across 2100
_DAY, _MINUTE = timedelta(days=1), timedelta(minutes=1)


class Cron(msgspec.Struct, frozen=True):
    """When something recurs."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool  # a day counts when one of its two fields matches, as cron has it when both are given

    def after(self, moment: datetime) -> datetime | None:
        """Return the first match after a time, None where there is none."""
        first = (moment + _MINUTE).replace(second=0, microsecond=0)
        return next((match for match in self._matches(first, 1) if match >= first), None)

    def until(self, moment: datetime) -> datetime | None:
        """Return the last match at or before a time, None where there is none."""
        return next((match for match in self._matches(moment, -1) if match <= moment), None)

    def _matches(self, moment: datetime, step: int) -> Iterator[datetime]:
        # From a day on, later ones for 1, earlier ones for -1.
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        for number in range(_HORIZON):
            yield from self._of_day(day + step * number * _DAY)[::step]

    def _of_day(self, day: datetime) -> list[datetime]:
        if not self._is_day(day):
            return []
        return [day.replace(hour=hour, minute=minute) for hour in self.hours for minute in self.minutes]

    def _is_day(self, day: datetime) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and ((of_month or of_week) if self.either_day else (of_month and of_week))


def parse_cron(text: str) -> Cron | None:
    """Return what a cron expression means, None for `@once` and no expression; else ValueError."""
    if text in ("", ONCE):
        return None
    fields = _WORDS.get(text, text).split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{text}]")
    minutes, hours = _field(fields[0], 0, 59), _field(fields[1], 0, 23)
    days, months = _field(fields[2], 1, 31), _field(fields[3], 1, 12, _MONTHS)
    weekdays = frozenset(number % 7 for number in _field(fields[4], 0, 7, _DAYS))
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    return Cron(tuple(minutes), tuple(hours), frozenset(days), frozenset(months), weekdays, either)


def last_interval(cron: Cron, now: datetime) -> datetime | None:
    """Return when the last interval began that has ended by now; it runs at its end (J4.4)."""
    end = cron.until(now.astimezone(UTC))
    return cron.until(end - _MINUTE) if end else None


def _field(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> list[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = low if span == "*" else _number(first, names)
        end = high if span == "*" or (slash and not dash) else _number(last if dash else first, names)
        stride = _number(step, ()) if slash else 1
        if not (low <= begin <= end <= high and stride > 0):
            raise ValueError(f"{part!r} is out of the range {low} to {high}")
        found.update(range(begin, end + 1, stride))
    return sorted(found)


def _number(text: str, names: tuple[str, ...]) -> int:
    lowered = text.lower()
    if lowered and lowered in names:
        return names.index(lowered)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"failed to parse a number from {text!r}")
    return int(text)


def pause(job: Doc) -> None:
    """Pause a job's schedule."""
    job.setdefault("schedule", {"enabled": False})["paused"] = True


def unpause(job: Doc) -> None:
    """Let a job's schedule go on; what was due meanwhile becomes due now."""
    job.setdefault("schedule", {"enabled": False})["paused"] = False


def due(job: Doc, now: datetime) -> datetime | None:
    """Return the logical date of the run that a schedule asks for now, None for none."""
    # A start in the past makes the last closed interval due at once, even without catch-up; so is `@once` (J4.4).
    schedule, inner = job.get("schedule") or {}, job.get("_") or {}
    expression = schedule.get("cronExpression", "")
    if not schedule.get("enabled") or schedule.get("paused") or not expression:
        return None
    start = times.read(schedule.get("start") or job["created"])
    end = times.read(schedule.get("end", ""))
    last = times.read(inner.get("last", ""))
    recurring = parse_cron(expression)
    if recurring is None:
        return None if last or not start or start > now else start
    logical = _logical(recurring, now, start, last, bool(schedule.get("catchup")))
    if logical is None or (start and logical < start) or (end and logical > end) or (last and logical <= last):
        return None
    return logical


def _logical(
    recurring: Cron, now: datetime, start: datetime | None, last: datetime | None, catchup: bool
) -> datetime | None:
    if not catchup or (start is None and last is None):
        return last_interval(recurring, now)
    # Every interval since the start, one after the other.
    first = recurring.until(start) if start and last is None else None
    logical = first if first is not None and first == start else recurring.after(last or start or now)
    ends = recurring.after(logical) if logical else None
    return logical if ends and ends <= now else None


def fired(job: Doc, logical: datetime) -> None:
    """Note that a run was started for a logical date."""
    job.setdefault("_", {})["last"] = times.microseconds(logical)


def next_execution(schedule: Doc, now: datetime, *, logical: bool) -> str:
    """Return `nextExecution`, "" where nothing recurs; `logical`: one interval before the run itself (J7)."""
    recurring = parse_cron(schedule.get("cronExpression", "")) if schedule.get("enabled") else None
    if recurring is None:
        return ""
    start, end = times.read(schedule.get("start", "")), times.read(schedule.get("end", ""))
    found = recurring.after(max(now, start) if start else now)
    if found is None or (end and found > end):
        return ""
    return times.microseconds((recurring.until(now) or found) if logical else found)
