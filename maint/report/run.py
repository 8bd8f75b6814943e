"""Reports of runs in Markdown and HTML; notices in words, as JSON, and as chat tools want them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec

from maint import files
from maint.model.formatting import show_duration, tell_times
from maint.model.json import Json, as_json
from maint.model.notice import Notice
from maint.model.plan import Plan, RanHook
from maint.render import from_file
from maint.report.recovery import Moment

FORMATS = {"json": "notice.json.j2", "slack": "notice-slack.json.j2", "teams": "notice-teams.json.j2"}


class ReportedAction(msgspec.Struct, frozen=True):
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


class ReportedAttempt(msgspec.Struct, frozen=True):
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
    lines: Sequence[ReportedAction]
    left: Sequence[str]  # what remains to be done, one line each
    lists: Mapping[str, Sequence[str]]  # what a comparison counted, one by one, under a heading each
    waived: str = ""  # why the backup guards were lifted
    version: str = ""  # of maint that began it
    attempts: Sequence[ReportedAttempt] = ()  # the first, and each that took it up
    hooks: Sequence[RanHook] = ()
    back: Sequence[Back] = ()  # of a run that brings several parts back, how each came

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        plan = {"playbook": self.plan.source, "site": self.plan.site, "digest": self.plan.digest}
        actions = [{**as_json(line), "seconds": _seconds(line)} for line in self.lines]
        rest = {key: value for key, value in as_json(self).items() if key not in ("plan", "lines", "waived")}
        return {"id": self.id, **plan, **rest, "actions": actions, "no_safety_net": self.waived}


def _seconds(line: ReportedAction) -> float | None:
    """Return how long an action took, in seconds; None where it has not ended."""
    if not (line.began and line.at) or line.at < line.began:
        return None
    return round((_time(line.at) - _time(line.began)).total_seconds(), 3)


class Bar(msgspec.Struct, frozen=True):
    """What is drawn of an action that ended, or of a time when nobody was at work, in percent of the time of work."""

    name: str
    seconds: float
    kind: str  # the action's outcome, or `pause`
    start: float
    length: float


def bars(report: RunReport) -> Sequence[Bar]:
    """Return a bar for each action that ended and for each pause, in their order; a pause takes no room."""
    ends = [(_time(one.ended or one.heard or one.began), _time(then.began)) for one, then in pairwise(report.attempts)]
    idle = [(stopped, again) for stopped, again in ends if again > stopped]

    def worked(at: datetime) -> float:
        """Return the seconds of work before a time."""
        rested = sum((min(at, again) - stopped).total_seconds() for stopped, again in idle if at > stopped)
        return (at - _time(report.started)).total_seconds() - rested

    timed = [(line, took) for line in report.lines if (took := _seconds(line)) is not None]
    found = [(worked(_time(one.began)), worked(_time(one.at)), one.name, took, one.outcome) for one, took in timed]
    if not found:
        return []
    pauses = [(worked(at), worked(at), "Nobody was at work", (then - at).total_seconds(), "pause") for at, then in idle]
    found = sorted([*pauses, *found], key=lambda one: one[0])
    first, whole = found[0][0], max(max(one[1] for one in found) - found[0][0], 0.001)
    return [
        Bar(name, seconds, kind, round(100 * (at - first) / whole, 2), round(max(100 * (end - at) / whole, 0.5), 2))
        for at, end, name, seconds, kind in found
    ]


def _time(at: str) -> datetime:
    return datetime.fromisoformat(at)


def _moment(report: RunReport, at: str) -> Moment:
    """Return a time of a run in words, how long after its beginning, with the exact one beside."""
    if not at:
        return Moment("")
    then, begun = _time(at).astimezone(UTC), _time(report.started)
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


def text_of(notice: Notice) -> str:
    """Return a notice in words, as in a mail."""
    return from_file("notice.txt.j2", {"notice": notice, "when": tell_times(notice.at)})


def body_of(format_: str, notice: Notice) -> bytes:
    """Return what is posted for a notice in one of `FORMATS`."""
    text = text_of(notice)
    below = text.removeprefix(notice.title).lstrip()  # where the title stands by itself
    values = {"notice": notice, "event": notice.to_json(), "text": text, "below": below}
    return from_file(FORMATS[format_], values).encode()
