"""How the jobs API spells times, and the four ways in which it reads them (J3.2)."""

from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime

ZERO = "0001-01-01T00:00:00Z"


def seconds(moment: datetime) -> str:
    """Return a time to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def milliseconds(moment: datetime) -> str:
    """Return a time to the millisecond, as `schedule.start` has it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def microseconds(moment: datetime) -> str:
    """Return a time to the microsecond, as `nextExecution` has it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def http_date(moment: datetime) -> str:
    """Return a time as HTTP spells it, as `start` of a parsed DAG is."""
    return format_datetime(moment.astimezone(UTC), usegmt=True)


def dag_run(kind: str, moment: datetime) -> str:
    """Return the id of a DAG's run: `scheduled__…` or `manual__…`."""
    return f"{kind}__{moment.astimezone(UTC).isoformat()}"


def read(text: str) -> datetime | None:
    """Return the time that a text spells, None where it is empty or the zero time; else ValueError."""
    if not text or text.startswith("0001-01-01"):
        return None
    if text[0].isalpha():
        return parsedate_to_datetime(text).astimezone(UTC)
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
