"""Make a plan of steps that a command names itself, without a playbook: what users typed is never a template."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from maint.engine.run_conflicts import refuse_conflicting
from maint.model.json import Json
from maint.model.plan import Phase, Plan
from maint.ports import Sight
from maint.steps.registry import STEPS


class AdhocStep(msgspec.Struct, frozen=True):
    """One step."""

    name: str  # what it does, for people
    kind: str
    arguments: Mapping[str, Json]
    phase: Phase = Phase.MAIN
    timeout: float | None = None  # seconds that it may take


def plan_of(source: str, lines: Sequence[AdhocStep], sight: Sight) -> Plan:
    """Return what the steps of a command (`source`) would do on a site; Refused where one of them must not be done."""
    actions = []
    for line in lines:
        kind = STEPS[line.kind]
        for action in kind.plan(kind.arguments.model_validate(dict(line.arguments)), sight):
            actions.append(replace(action, name=line.name, phase=line.phase, timeout=line.timeout))
    ordered = [action for phase in Phase for action in actions if action.phase is phase]
    locks = any(STEPS[action.kind].locks for action in ordered)
    plan = Plan(source, sight.settings.name, {}, tuple(ordered), locks)
    refuse_conflicting(plan, sight.settings.state)
    return plan
