"""What is going to be done, as data: Actions in a Plan whose digest pins it down, and the events as they run."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum, StrEnum

import msgspec
from msgspec.structs import asdict

from maint.errors import Position
from maint.model.json import Json, digest


class Effect(IntEnum):
    """How much an action can hurt; the order is the order of harm."""

    READ = 0
    CHANGE = 1
    DESTROY = 2


class Phase(StrEnum):
    """When an action's turn comes."""

    MAIN = "main"
    ON_FAILURE = "on_failure"
    FINALLY = "finally"


class Retry(msgspec.Struct, frozen=True):
    """How often a reading action is tried, and how long to wait in between (seconds)."""

    attempts: int = 1
    pause: float = 5.0
    backoff: float = 1.0  # how much longer each pause is than the one before
    longest: float = 300.0

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON; what older versions did not know stands there only where it says something."""
        more: dict[str, Json] = {"backoff": self.backoff, "longest": self.longest} if self.backoff != 1 else {}
        return {"attempts": self.attempts, "pause": self.pause, **more}


class Action(msgspec.Struct, frozen=True):
    """One thing to do."""

    name: str  # the step's name in the playbook
    kind: str  # the step kind that carries it out, such as `cluster.stop`
    target: str  # such as `cluster base`
    effect: Effect
    summary: str  # one line for the operator
    arguments: Mapping[str, Json] = {}  # never a secret
    late: Sequence[str] = ()  # names of arguments that are still templates, to be filled from registered values
    scope: Mapping[str, Json] = {}  # the playbook's parameters, kept for `late` and `when`
    undo: str | None = None  # how to take it back by hand
    facts: Mapping[str, Json] = {}  # what was true when this was planned; part of the plan's fingerprint
    confirm: str | None = None  # the name that the operator must repeat before a DESTROY
    phase: Phase = Phase.MAIN
    when: str | None = None  # an expression over registered values that must hold
    register: str | None = None  # the name under which the result is kept
    timeout: float | None = None  # seconds
    retry: Retry = Retry()  # how often it is tried; more than once only for READ
    lane: str = ""  # what it belongs to, such as one of several virtual clusters; where it fails, other lanes go on
    within: str = ""  # the included playbook it comes from, as its place in the plan; empty: the outermost
    shown: Sequence[str] = ()  # lines for the reader of the plan, such as what a file loses; never on disk
    seen: str = ""  # those words of `summary` that an earlier action on the same may make untrue; never on disk
    idle: bool = False  # whether nothing was to be done when this was planned; never on disk
    until: str | None = None  # an expression over `result` that must hold before it ends; only for READ
    max_fail: int | None = None  # how many hosts of the run may fail: it goes on without them
    mends: str = ""  # of steps that follow: the included playbook of which one must have failed, as in `within`

    @property
    def follows(self) -> str:
        """When it is carried out, in words for the plan; empty for what is done in its turn."""
        if self.phase is Phase.MAIN:
            return ""
        return f"{self.phase.value}, where it fails" if self.mends else self.phase.value

    def inside(self, playbook: str) -> bool:
        """Return whether it comes from an included playbook, or from one that this includes."""
        return bool(playbook) and f"{self.within}/".startswith(f"{playbook}/")

    def to_json(self) -> dict[str, Json]:
        """Return the action as JSON; `Action.from_json` reads it back."""
        found = asdict(self)
        del found["shown"], found["seen"], found["idle"]
        for key in ("until", "max_fail", "mends"):  # which older versions did not know
            if found[key] in (None, ""):
                del found[key]
        for key in ("arguments", "scope", "facts"):
            found[key] = dict(found[key])
        spelled = {"effect": self.effect.name, "phase": self.phase.value, "retry": self.retry.to_json()}
        return {**found, **spelled, "late": list(self.late)}

    @staticmethod
    def from_json(value: Mapping[str, object]) -> "Action":
        """Read back what `to_json` wrote; ValueError, KeyError or TypeError where it is not one."""
        fields = dict(value)
        _refuse_other(fields, str, "name", "kind", "target", "summary")
        _refuse_other(fields, Mapping, "arguments", "scope", "facts")
        _refuse_other(fields, list, "late")
        fields["effect"] = Effect[str(fields["effect"])]
        fields["phase"] = Phase(str(fields["phase"]))
        fields["retry"] = Retry(**fields["retry"])  # type: ignore[arg-type]  # written by to_json
        return Action(**fields)  # type: ignore[arg-type]  # written by to_json


class Plan(msgspec.Struct, frozen=True):
    """All that a run will do, in order."""

    source: str  # the playbook's name
    site: str
    parameters: Mapping[str, Json]  # the values the playbook was planned with; never a secret
    actions: Sequence[Action]
    locks: bool = True  # whether carrying it out takes the site's lock
    limit: Sequence[str] = ()  # the hosts and groups that the operator limited it to

    @property
    def effect(self) -> Effect:
        """The worst effect of all actions."""
        return max((action.effect for action in self.actions), default=Effect.READ)

    @property
    def idle(self) -> bool:
        """Whether no action has anything to do, so that none makes work for another; what only reads always has."""
        return all(action.idle for action in self.actions)

    @property
    def confirm(self) -> str | None:
        """The name that a DESTROY in this plan asks for; None, the site's, where lanes would ask for several."""
        asking = [action for action in self.actions if action.effect is Effect.DESTROY and action.confirm]
        return asking[0].confirm if len({action.lane for action in asking}) == 1 else None

    @property
    def one_off(self) -> bool:
        """Whether a command named the steps itself: such a plan is called after its command, `vc job run`."""
        return " " in self.source

    @property
    def fingerprint(self) -> str:
        """A digest of the facts that the plan was made from."""
        return digest([dict(action.facts) for action in self.actions])

    @property
    def digest(self) -> str:
        """A digest of everything that will be done, and of the facts it rests on."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, Json]:
        """Return the plan as journals keep it: without the limit, which its actions show; `Plan.from_json` reads it."""
        return {
            "source": self.source,
            "site": self.site,
            "parameters": dict(self.parameters),
            "locks": self.locks,
            "actions": [action.to_json() for action in self.actions],
        }

    @staticmethod
    def from_json(value: Mapping[str, object]) -> "Plan":
        """Read back what `to_json` wrote; ValueError, KeyError or TypeError where it is not one."""
        fields = dict(value)
        _refuse_other(fields, str, "source", "site")
        _refuse_other(fields, Mapping, "parameters")
        _refuse_other(fields, list, "limit", "actions")
        fields["actions"] = tuple(Action.from_json(item) for item in fields["actions"])  # type: ignore[attr-defined]  # written by to_json
        return Plan(**fields)  # type: ignore[arg-type]  # written by to_json


def _refuse_other(fields: Mapping[str, object], shape: type, *names: str) -> None:
    if wrong := [name for name in names if name in fields and not isinstance(fields[name], shape)]:
        raise ValueError(f"{', '.join(wrong)}: no {shape.__name__}")


class ParameterType(StrEnum):
    """What a parameter may hold."""

    STRING = "string"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    DURATION = "duration"
    LIST = "list"


class ParameterSource(StrEnum):
    """The lists of a site that may fill a parameter where nothing is given."""

    VIRTUAL_CLUSTERS = "virtual_clusters"
    USERS = "users"


class Parameter(msgspec.Struct, frozen=True):
    """Something that the operator may set."""

    name: str
    type: ParameterType
    help: str
    default: Json
    required: bool
    source: ParameterSource | None = None


class StepText(msgspec.Struct, frozen=True):
    """One step as written; `do` names a step kind, `include` another playbook, and only one of them is set."""

    name: str
    at: Position
    do: str | None
    include: str | None
    arguments: Mapping[str, Json] = {}
    argument_places: Mapping[str, Position] = {}
    when: str | None = None
    register: str | None = None
    timeout: float | None = None
    retry: Retry = Retry()
    until: str | None = None
    each: Json = None
    apart: bool = False  # each item in a lane of its own
    serial: int | str | None = None  # hosts, or items, at a time: a number, or a part such as "25%"
    max_fail: int | str | None = None
    phase: Phase = Phase.MAIN


class Playbook(msgspec.Struct, frozen=True):
    """An ordered list of steps with its parameters."""

    name: str
    summary: str
    parameters: Sequence[Parameter]
    steps: Sequence[StepText]
    text: str

    def parameter(self, name: str) -> Parameter | None:
        """Return a parameter by name, None where there is none."""
        return next((item for item in self.parameters if item.name == name), None)


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


class Trouble(str):
    """Words of a run that belong to no action, on what went wrong and fails nothing: quiet does not silence them."""

    __slots__ = ()


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
