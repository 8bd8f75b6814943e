"""The records of a run as it happens: a run is a stream of events and nothing else."""

from datetime import datetime
from enum import StrEnum

import msgspec

from maint.model.json import Json


class Outcome(StrEnum):
    """How an action ended."""

    DONE = "done"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"
    FAILED = "failed"
    WAITING = "waiting"  # for a person; the run is taken up afterwards


class Happening(StrEnum):
    """The three kinds of event."""

    STARTED = "started"
    PROGRESSED = "progressed"
    FINISHED = "finished"


class Event(msgspec.Struct, frozen=True):
    """One thing that happened to one action."""

    time: datetime  # UTC
    index: int  # the action's place in the plan, from 0
    what: Happening
    detail: str = ""  # words for the operator
    outcome: Outcome | None = None  # only when finished
    value: Json = None  # what the step registered; only when finished; never a secret
    partly: bool = False  # done, but not all that was hoped for; only when finished


class Result(msgspec.Struct, frozen=True):
    """What a step gives back when it ends without failing."""

    outcome: Outcome
    detail: str = ""
    value: Json = None
    partly: bool = False  # done, but not all that was hoped for: the run exits 7
    hint: str = ""  # what to do about the rest, when partly done


class RanHook(msgspec.Struct, frozen=True):
    """A program of the site that ran around a run."""

    hook: str  # before_run, after_run or on_failure
    command: str
    problem: str  # "" where it ended well
    at: str
