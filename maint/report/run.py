"""The report of a run: Markdown and HTML for people, rendered from the same values as its JSON."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import msgspec

from maint import files
from maint.model.formatting import show_duration
from maint.model.json import Json, as_json
from maint.model.plan import Plan, RanHook
from maint.report.answer import Moment


class Line(msgspec.Struct, frozen=True):
    """One action of a run as the report shows it."""

    name: str
    target: str
    effect: str
    outcome: str
    detail: str
    partly: bool = False  # done, but for what the detail says is left
    at: str = ""  # when it ended
    began: str = ""


class Back(msgspec.Struct, frozen=True):
    """How one part of a platform came back."""

    name: str  # the part, such as a virtual cluster
    state: str  # how far it came
    after: str  # how long after the run began, in words; empty while it has not come back
    told: str  # what was found, in words


class Attempt(msgspec.Struct, frozen=True):
    """One process that worked on the run."""

    began: str
    by: str  # who, as `user@host`
    ended: str  # "" where it was killed
    state: str
    version: str = ""  # of maint; "" where the journal does not say
    heard: str = ""  # when it was last heard of, where it was killed


class RunReport(msgspec.Struct, frozen=True):
    """All that the report of a run says."""

    id: str
    plan: Plan
    started: str
    ended: str
    state: str  # done, failed, interrupted, refused or unfinished
    reason: str  # why it stopped
    lines: Sequence[Line]
    left: Sequence[str]  # what remains to be done, one line each
    lists: Mapping[str, Sequence[str]]  # what a comparison counted, one by one, under a heading each
    waived: str = ""  # why the backup guards were lifted
    version: str = ""  # of maint that began it
    attempts: Sequence[Attempt] = ()  # the first, and each that took it up
    hooks: Sequence[RanHook] = ()
    back: Sequence[Back] = ()  # of a run that brings several parts back, how each came

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        plan = {"playbook": self.plan.source, "site": self.plan.site, "digest": self.plan.digest}
        actions = [{**as_json(line), "seconds": _seconds(line)} for line in self.lines]
        rest = {key: value for key, value in as_json(self).items() if key not in ("plan", "lines", "waived")}
        return {"id": self.id, **plan, **rest, "actions": actions, "no_safety_net": self.waived}


def _seconds(line: Line) -> float | None:
    """Return how long an action took, in seconds; None where it has not ended."""
    if not (line.began and line.at) or line.at < line.began:
        return None
    return round((datetime.fromisoformat(line.at) - datetime.fromisoformat(line.began)).total_seconds(), 3)


def bars(report: RunReport) -> Sequence[Mapping[str, float] | None]:
    """Return where each action lies in the run's time: `start` and `length` in percent; None where it never ended."""
    timed = [line for line in report.lines if _seconds(line) is not None]
    if not timed:
        return [None] * len(report.lines)
    begin = min(datetime.fromisoformat(line.began) for line in timed)
    whole = max((max(datetime.fromisoformat(line.at) for line in timed) - begin).total_seconds(), 0.001)
    return [_bar(line, begin, whole) for line in report.lines]


def _bar(line: Line, begin: datetime, whole: float) -> Mapping[str, float] | None:
    took = _seconds(line)
    if took is None:
        return None
    start = (datetime.fromisoformat(line.began) - begin).total_seconds()
    return {"start": round(100 * start / whole, 2), "length": round(max(100 * took / whole, 0.5), 2)}


def _moment(report: RunReport, at: str) -> Moment:
    """Return a time of a run in words, how long after its beginning, with the exact one beside."""
    if not at:
        return Moment("")
    then, begun = datetime.fromisoformat(at).astimezone(UTC), datetime.fromisoformat(report.started)
    after = (then - begun).total_seconds()
    words = f"{show_duration(after)} after it began" if after > 0 else "at its beginning"
    return Moment(words, f"{then:%Y-%m-%d %H:%M:%S} UTC", then.isoformat())


def write(report: RunReport, folder: Path) -> Mapping[str, Path]:
    """Write the report as Markdown and HTML, private to the owner; return the files by kind."""
    from maint.render import from_file  # what follows a run follows much that has no report

    values: dict[str, object] = {"report": report.to_json(), "bars": bars(report), "moment": partial(_moment, report)}
    paths = {"md": folder / f"{report.id}.md", "html": folder / f"{report.id}.html"}
    for kind, path in paths.items():
        text = from_file(f"run.{kind}.j2", values, html=kind == "html")
        files.replace(path, text.encode())
    return paths
