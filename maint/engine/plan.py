"""Make a plan of a playbook, or of steps that a command names, by looking only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace
from pydantic import ValidationError

from maint.config.error_messages import typed, words_of
from maint.engine.hosts import HostLimit, batches, share
from maint.engine.journal import RunState
from maint.engine.load import Library
from maint.engine.parameters import convert, render
from maint.engine.past_runs import follows, history, restored, told, unreadable
from maint.engine.read_step import is_template
from maint.errors import Invalid, MaintError, Refused, UnknownName, UsageError
from maint.model.formatting import meant
from maint.model.json import Json
from maint.model.plan import Action, Effect, Parameter, ParameterSource, Phase, Plan, Playbook, StepText
from maint.ports import Sight
from maint.render import expression, holds, template
from maint.restore.conflicts import recovery_source
from maint.restore.select_snapshot import chosen
from maint.steps.registry import STEPS
from maint.steps.step import WAIVER, Arguments, Step

Lister = Callable[[Sight, Mapping[str, Json]], Sequence[str]]


def kept_clusters(sight: Sight, values: Mapping[str, Json]) -> Sequence[str]:
    """Return the virtual clusters that the config names and that come back with the snapshot of `snapshot`."""
    known = [one.name for one in sight.settings.virtual_clusters]
    if not known:
        return ()
    snapshot = chosen(sight, str(values.get("snapshot") or ""))
    return [name for name in known if recovery_source(sight, snapshot, name) is not None]


def cluster_users(sight: Sight, values: Mapping[str, Json]) -> Sequence[str]:
    """Return the users that the config gives the virtual cluster of the parameter `vc`."""
    return [user.name for user in sight.settings.virtual_cluster(str(values.get("vc") or "")).users]


LISTS: dict[ParameterSource, Lister] = {
    ParameterSource.VIRTUAL_CLUSTERS: kept_clusters,
    ParameterSource.USERS: cluster_users,
}


_OF = " of "  # stands between a part and its whole


def make_plan(
    playbook: Playbook,
    given: Mapping[str, Json],
    sight: Sight,
    library: Library,
    waived: str = "",
    only: Sequence[str] = (),
) -> Plan:
    """Return what a playbook would do on a site.

    Args:
        waived: why the backup guards of all guarded steps are lifted; empty: they are not.
        only: hosts and groups of hosts; steps that name hosts leave out all others.

    Raises:
        Invalid: a parameter is missing, unknown or of the wrong type.
        Refused: a step kind sees that it must not be done, or not while another run is unfinished.
        UsageError: `only` names what the config does not have, or leaves nothing.
    """
    planner = _Planner(sight, library, waived, HostLimit.of(sight, only))
    values = planner.filled(playbook, given)
    actions = list(planner.steps(playbook, values, _Frame()))
    planner.limit.refuse_nothing(playbook.name)
    return replace(_whole(playbook.name, values, _ordered(actions), sight), limit=list(only))


class AdhocStep(msgspec.Struct, frozen=True):
    """One step that a command names itself, outside a playbook: what users typed is never a template."""

    name: str  # what it does, for people
    kind: str
    arguments: Mapping[str, Json]
    phase: Phase = Phase.MAIN
    timeout: float | None = None  # seconds that it may take


def plan_of(source: str, lines: Sequence[AdhocStep], sight: Sight) -> Plan:
    """Return what steps that a command (`source`) names itself would do; what users typed is never a template."""
    actions = []
    for line in lines:
        kind = STEPS[line.kind]
        for action in kind.plan(typed(kind.arguments, line.arguments), sight):
            actions.append(replace(action, name=line.name, phase=line.phase, timeout=line.timeout))
    return _whole(source, {}, _ordered(actions), sight)


def _ordered(actions: Sequence[Action]) -> Sequence[Action]:
    return [one for phase in Phase for one in actions if one.phase is phase]


def _whole(source: str, values: Mapping[str, Json], actions: Sequence[Action], sight: Sight) -> Plan:
    locks = any(STEPS[action.kind].locks for action in actions)
    plan = Plan(source, sight.settings.name, values, tuple(_as_earlier_steps_leave_it(actions, sight)), locks)
    refuse_conflicting(plan, sight.settings.state)
    return plan


def _as_earlier_steps_leave_it(actions: Sequence[Action], sight: Sight) -> Iterator[Action]:
    """Yield the actions; none tells of what is there now where an earlier one changes that."""
    last: dict[object, int] = {}  # what was changed, and by which step last
    noted = 0  # so many steps
    for index, action in enumerate(actions):
        if action.seen:
            for number, earlier in enumerate(actions[noted:index], noted + 1):
                last |= dict.fromkeys(_changed(earlier, sight) if earlier.effect is not Effect.READ else (), number)
            noted = index
            if by := max(last.get(place, 0) for place in _seen(action, sight)):
                words = action.summary.replace(action.seen, f"as step {by} leaves it", 1)
                action = replace(action, summary=words, effect=max(action.effect, Effect.CHANGE))
        yield action


def _seen(action: Action, sight: Sight) -> Iterator[object]:
    """Yield what another action may have changed of what this one has seen: itself, its parts, what it is a part of."""
    about, name = _about(action, sight), action.target.removeprefix("cluster ")
    yield from [(about[0], "all"), (*about, "is", action.target), (*about, "part of", name)]
    yield from [(*about, "named", whole) for whole in _wholes(action.target)]


def _changed(action: Action, sight: Sight) -> Iterator[object]:
    """Yield what an action changes, as `_seen` asks for it."""
    about, name = _about(action, sight), action.target.removeprefix("cluster ")
    yield from [(*about, "is", action.target), (*about, "named", name)]
    yield from [(*about, "part of", whole) for whole in _wholes(action.target)]
    if action.effect is Effect.DESTROY and action.target.startswith("manager "):  # all that it manages
        yield about[0], "all"


def _about(action: Action, sight: Sight) -> tuple[str | None, str]:
    """Return the virtual cluster and the setting that an action is about; not a setting's, but the state of a thing."""
    cluster = action.arguments.get("vc")
    name = action.arguments.get("name") if action.kind.startswith("config.") else None
    return sight.settings.virtual_cluster(cluster).name if isinstance(cluster, str) else None, repr(name)


def _wholes(target: str) -> Sequence[str]:
    """Return the names of what a target is a part of, such as the cluster of a service."""
    return [target[at + len(_OF) :] for at in range(len(target)) if target.startswith(_OF, at)]


def parameters(playbook: Playbook, given: Mapping[str, Json]) -> dict[str, Json]:
    """Return all parameters of a playbook with their values."""
    names = [item.name for item in playbook.parameters]
    for name in given:
        if name not in names:
            hint = meant(name, names, f"it has {', '.join(names) or 'none'}")
            raise Invalid(f"playbook {playbook.name!r} has no parameter {name!r}", hint=hint)
    missing = [item.name for item in playbook.parameters if item.required and given.get(item.name) is None]
    if missing:
        hint = " ".join(f"--set {name}=…" for name in missing)
        raise Invalid(f"playbook {playbook.name!r} needs {', '.join(missing)}", hint=f"give {hint}")
    return {
        item.name: item.default if given.get(item.name) is None else _converted(playbook.name, item, given[item.name])
        for item in playbook.parameters
    }


def _converted(playbook: str, item: Parameter, value: Json) -> Json:
    try:
        return convert(item.type, value)
    except Invalid as error:
        hint = f"`maint playbook show {playbook}` lists the parameters with their types"
        raise Invalid(f"parameter {item.name}: {error.message}", hint=hint) from None


class _Frame(msgspec.Struct, frozen=True):
    """Where steps stand: in which phase, in which lane, in which included playbook."""

    phase: Phase = Phase.MAIN
    lane: str = ""
    within: str = ""
    mends: str = ""


class _Planner(msgspec.Struct, frozen=True):
    sight: Sight
    library: Library
    waived: str
    limit: HostLimit

    def filled(self, playbook: Playbook, given: Mapping[str, Json]) -> dict[str, Json]:
        """Return all parameters of a playbook with their values; lists that nobody gave come from the site."""
        values = parameters(playbook, given)
        for item in playbook.parameters:
            if item.source is not None and values[item.name] is None:
                values[item.name] = list(LISTS[item.source](self.sight, values))
        return values

    def steps(self, playbook: Playbook, values: Mapping[str, Json], frame: _Frame) -> Iterator[Action]:
        """Plan all steps; an included playbook's steps keep to the phase of the step that includes them."""
        for number, step in enumerate(playbook.steps):
            for turn, scope in enumerate(self._scopes(step, values)):
                lane = str(scope["item"]) if step.apart and not frame.lane else frame.lane
                main = frame.phase is Phase.MAIN
                mends = frame.mends if main or step.phase is not Phase.ON_FAILURE else frame.within
                here = _Frame(step.phase if main else frame.phase, lane, frame.within, mends)
                if step.include is not None:
                    inside = f"{frame.within}/{number}.{turn}"
                    yield from self._included(step, scope, replace(here, within=inside))
                elif step.do is not None:
                    yield from self._planned(STEPS[step.do], step, scope, here)

    def _scopes(self, step: StepText, values: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
        if step.each is None:
            yield dict(values)
            return
        items = render(step.each, values, step.at)
        if not isinstance(items, list):
            raise Invalid(f"`each` wants a list, not {items!r}", at=step.at)
        for item in items if step.serial is None else batches(items, step.serial):
            yield {**values, "item": item}

    def _included(self, step: StepText, scope: Mapping[str, Json], frame: _Frame) -> Iterator[Action]:
        assert step.include is not None
        inner = self.library.load(step.include)
        given = {key: render(value, scope, step.argument_places[key]) for key, value in step.arguments.items()}
        if step.when is not None and not holds(step.when, scope, at=step.at):
            return
        actions = list(self.steps(inner, self.filled(inner, given), frame))
        if frame.phase is not Phase.MAIN or any(one.phase is Phase.MAIN for one in actions):
            yield from actions  # else there is nothing that its other steps would follow

    def _looked(self, kind: Step[Arguments], args: Arguments, frame: _Frame, step: StepText) -> Iterator[Action]:
        try:
            yield from kind.plan(args, self.sight)
        except UnknownName as error:
            for key, value in step.arguments.items():
                if error.name == value or (isinstance(value, list) and error.name in value):
                    at = step.argument_places[key]
                    raise Invalid(error.message, at=at, detail=error.detail, hint=error.hint) from error
            raise
        except UsageError as error:
            if is_template(dict(step.arguments)):
                raise
            # Nothing was filled in: the mistake stands in the playbook.
            raise Invalid(error.message, at=step.at, detail=error.detail, hint=error.hint) from error
        except MaintError as error:
            if isinstance(error, Invalid) and error.at is None:
                error.detail = (*error.detail, f"in step {step.name!r}")
            error.lane = frame.lane
            raise

    def _planned(
        self, kind: Step[Arguments], step: StepText, scope: Mapping[str, Json], frame: _Frame
    ) -> Iterator[Action]:
        late = _late(kind, step, scope)
        when = step.when
        if when is not None and expression(when).names() <= scope.keys():
            if not holds(when, scope, at=step.at):
                return
            when = None
        rendered = {
            key: value if key in late else render(value, scope, step.argument_places[key])
            for key, value in step.arguments.items()
        }
        if self.waived and WAIVER in kind.arguments.model_fields:
            rendered[WAIVER] = self.waived
        given = _validated(kind, rendered, step)
        most = share(step.max_fail, self.limit.hosts_of(given)) if step.max_fail is not None else None
        parts, named = (
            list(self.limit.parts(given, None if step.each is not None else step.serial)),
            _named(step, scope),
        )
        for number, args in enumerate(parts, 1):
            name = f"{named} ({number}/{len(parts)})" if len(parts) > 1 else named
            for action in self._looked(kind, args, frame, step):
                yield replace(
                    action,
                    name=f"{frame.lane}: {name}" if frame.lane else name,
                    phase=frame.phase,
                    lane=frame.lane,
                    within=frame.within,
                    mends=frame.mends,
                    when=when,
                    late=late,
                    scope=scope if late or when or step.until else {},
                    register=step.register,
                    timeout=step.timeout,
                    retry=step.retry,
                    until=step.until,
                    max_fail=most,
                )


def _named(step: StepText, scope: Mapping[str, Json]) -> str:
    """Return the name of a step for people, filled in where the plan knows what it asks for."""
    with suppress(Invalid):  # it chooses nothing, and may stay as it is written
        if is_template(step.name) and (name := template(f" {step.name}")).names() <= scope.keys():  # text, not a value
            return " ".join(str(name.render(scope)).split())
    return step.name


def _late(kind: Step[Arguments], step: StepText, scope: Mapping[str, Json]) -> Sequence[str]:
    """Return the arguments that must wait for registered values."""
    waiting = [
        key
        for key, value in step.arguments.items()
        if key in kind.late
        and isinstance(value, str)
        and is_template(value)
        and not template(value).names() <= scope.keys()
    ]
    return (*waiting, *(key for key in step.arguments if key in kind.expressions))


def _validated(kind: Step[Arguments], values: Mapping[str, Json], step: StepText) -> Arguments:
    try:
        return kind.arguments.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = str(problem["loc"][0]) if problem["loc"] else ""
        at = step.argument_places.get(key, step.at)
        words = words_of(problem, values.get(key))
        hint = (
            "it is filled from parameters: give others by `--set`, or correct it"
            if is_template(step.arguments.get(key) if key else dict(step.arguments))
            else None
        )
        raise Invalid(f"{key}: {words}" if key else words, at=at, hint=hint) from None


def refuse_conflicting(plan: Plan, state: Path, own: str = "") -> None:
    """Refuse a plan that would take what an unfinished restore, other than its own run, may still need.

    A later run that ended well stands for one of which it restored the same. A one-off command is typed again; what it
    has begun to restore from is held.
    """
    if not any(STEPS[action.kind].waits_for_restores(action) for action in plan.actions):
        return
    if rotten := unreadable(state):
        raise Refused(
            f"{plan.source} has to wait: the journal of a run cannot be read",
            detail=["what that run may still need must not go", *(told(path)[0] for path in rotten)],
            hint=told(rotten[0])[1],
        )
    past = _restoring(state, own)
    if past is not None:
        raise Refused(
            f"{plan.source} has to wait: run {past.id} ({past.plan.source}) is {past.state}",
            detail=["what it may still need must not go"],
            hint=f"`maint playbook resume {past.id}` ends it, and so does a newer run of {past.plan.source} that ends"
            f" well; `maint playbook dismiss {past.id} --reason WORDS` gives it up",
        )


def _restoring(state: Path, own: str) -> RunState | None:
    """Return the newest unfinished run that restores, None where all that such runs restore has come back since."""
    ended = list[RunState]()
    for past in reversed(history(state)):
        over = {one for later in ended if follows(later, past) for one in restored(later.plan)}
        if past.id != own and past.resumable and not past.plan.one_off and restored(past.plan) - over:
            return past
        ended += [past] if past.over else []
    return None
