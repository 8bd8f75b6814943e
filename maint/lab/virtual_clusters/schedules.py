"""When schedules fire (contract on the jobs API, sections 4.4 and 7)."""

from datetime import datetime

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import cron, times


def pause(job: Doc) -> None:
    """Pause a job's schedule."""
    job.setdefault("schedule", {"enabled": False})["paused"] = True


def unpause(job: Doc) -> None:
    """Let a job's schedule go on; what was due meanwhile becomes due now."""
    job.setdefault("schedule", {"enabled": False})["paused"] = False


def due(job: Doc, now: datetime) -> datetime | None:
    """Return the logical date of the run that a schedule asks for now, None for none.

    A start that lies in the past makes the last closed interval due at once, even without catch-up; `@once` is due
    at once (section 4.4).
    """
    schedule, inner = job.get("schedule") or {}, job.get("_") or {}
    expression = schedule.get("cronExpression", "")
    if not schedule.get("enabled") or schedule.get("paused") or not expression:
        return None
    start = times.read(schedule.get("start") or job["created"])
    end = times.read(schedule.get("end", ""))
    last = times.read(inner.get("last", ""))
    recurring = cron.parse(expression)
    if recurring is None:
        return None if last or not start or start > now else start
    logical = _logical(recurring, now, start, last, bool(schedule.get("catchup")))
    if logical is None or (start and logical < start) or (end and logical > end) or (last and logical <= last):
        return None
    return logical


def _logical(
    recurring: cron.Cron, now: datetime, start: datetime | None, last: datetime | None, catchup: bool
) -> datetime | None:
    if not catchup or (start is None and last is None):
        return cron.last_interval(recurring, now)
    # Every interval since the start, one after the other.
    first = recurring.until(start) if start and last is None else None
    logical = first if first is not None and first == start else recurring.after(last or start or now)
    ends = recurring.after(logical) if logical else None
    return logical if ends and ends <= now else None


def fired(job: Doc, logical: datetime) -> None:
    """Note that a run was started for a logical date."""
    job.setdefault("_", {})["last"] = times.microseconds(logical)


def next_execution(schedule: Doc, now: datetime, *, logical: bool) -> str:
    """Return `nextExecution`, "" where a schedule does not recur.

    Args:
        logical: tell the logical date of the next run, which lies one interval before the run itself (section 7).
    """
    recurring = cron.parse(schedule.get("cronExpression", "")) if schedule.get("enabled") else None
    if recurring is None:
        return ""
    start, end = times.read(schedule.get("start", "")), times.read(schedule.get("end", ""))
    found = recurring.after(max(now, start) if start else now)
    if found is None or (end and found > end):
        return ""
    return times.microseconds((recurring.until(now) or found) if logical else found)
