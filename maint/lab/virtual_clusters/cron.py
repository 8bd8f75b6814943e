"""Cron expressions: five fields or a word such as `@daily`, in UTC (contract on the jobs API, section 7)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

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


@dataclass(frozen=True, slots=True)
class Cron:
    """When something recurs.

    Attributes:
        either_day: whether a day counts when one of its two fields matches, as cron has it when both are given.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool

    def after(self, moment: datetime) -> datetime | None:
        """Return the first match after a time, None where there is none."""
        first = (moment + _MINUTE).replace(second=0, microsecond=0)
        for number in range(_HORIZON):
            day = first.replace(hour=0, minute=0) + number * _DAY
            found = [match for match in self._of_day(day) if match >= first]
            if found:
                return found[0]
        return None

    def until(self, moment: datetime) -> datetime | None:
        """Return the last match at or before a time, None where there is none."""
        for number in range(_HORIZON):
            day = moment.replace(hour=0, minute=0, second=0, microsecond=0) - number * _DAY
            found = [match for match in self._of_day(day) if match <= moment]
            if found:
                return found[-1]
        return None

    def _of_day(self, day: datetime) -> list[datetime]:
        if not self._is_day(day):
            return []
        return [day.replace(hour=hour, minute=minute) for hour in self.hours for minute in self.minutes]

    def _is_day(self, day: datetime) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and ((of_month or of_week) if self.either_day else (of_month and of_week))


def parse(text: str) -> Cron | None:
    """Return what a cron expression means; None for `@once` and for no expression.

    Raises:
        ValueError: it is none.
    """
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
    """Return when the last interval began that has ended by now; it runs at its end (section 4.4)."""
    end = cron.until(now.astimezone(UTC))
    return cron.until(end - _MINUTE) if end else None


def _field(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> list[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = low if span == "*" else _number(first, names)
        end = high if span == "*" or (slash and not dash) else _number(last or first, names)
        stride = int(step) if slash else 1
        if not (low <= begin <= end <= high and stride > 0):
            raise ValueError(f"{part!r} is out of the range {low} to {high}")
        found.update(range(begin, end + 1, stride))
    return sorted(found)


def _number(text: str, names: tuple[str, ...]) -> int:
    lowered = text.lower()
    return names.index(lowered) if lowered and lowered in names else int(text)
