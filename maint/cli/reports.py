"""Write the report of a run from its journal, and tell where it is."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from maint.cli.restore.recovery_times import back_of, left_of_lanes
from maint.engine.journal import RunState
from maint.model.plan import Action
from maint.report.run import Line, RunReport

_LEFT = {
    "disaster-recovery": (
        "agents, monitors and clusters do not run yet: `maint manager start --cluster NAME`",
        "parcels may have to be distributed and activated again (contract section 8.3)",
        "monitoring history, audit and command history are not part of a configuration backup",
    ),
    "restore-cluster": (
        "the clusters do not run yet: `maint manager start --cluster NAME`",
        "parcels may have to be distributed and activated again (contract section 8.3)",
    ),
    "restore-deployment": (
        "restart the manager server so that its listeners follow the settings: `maint manager tls-switch`",
        "then bring the platform up: `maint manager start --cluster NAME`",
    ),
}


_COUNTED = {
    "not_comparable": "Not comparable: the server hides these values",
    "added_keys": "Keys that only the server has",
}


def report_of(past: RunState) -> RunReport:
    """Return the report that a journal tells."""
    lines = [_line(past, index, action) for index, action in enumerate(past.plan.actions)]
    left = (*_LEFT.get(past.plan.source, ()), *left_of_lanes(past)) if past.state == "done" else ()
    if past.resumable:
        left = (*past.to_do, f"{command_to_resume(past.id, past.needs)} goes on where it stopped")
    return RunReport(
        past.id,
        past.plan,
        past.started,
        past.at,
        past.state,
        past.detail,
        lines,
        left,
        _lists(past),
        waived=str(past.options.get("no_safety_net") or ""),
        back=back_of(past),
    )


def command_to_resume(run: str, needs: Sequence[str]) -> str:
    """Return the command that takes a run up, with what it must be told."""
    return f"`maint playbook resume {run}{''.join(f' --set {key}=…' for key in needs)}`"


def _lists(past: RunState) -> dict[str, list[str]]:
    """Return what comparisons counted, one by one."""
    found: dict[str, list[str]] = {}
    for index, action in enumerate(past.plan.actions):
        result = past.record(index).result
        if action.kind == "deployment.compare" and result is not None and isinstance(result.value, Mapping):
            for key, heading in _COUNTED.items():
                items = result.value.get(key)
                if isinstance(items, list) and items:
                    found[heading] = [str(item) for item in items]
    return found


def _line(past: RunState, index: int, action: Action) -> Line:
    record = past.record(index)
    outcome, detail = "not begun", ""
    if record.result is not None:
        outcome, detail = record.result.outcome.value, record.result.detail
    elif record.begun:
        outcome = "begun"
    partly = record.result is not None and record.result.partly
    return Line(action.name, action.target, action.effect.name, outcome, detail, partly)


def folder(state: Path) -> Path:
    """Return where a site's reports lie."""
    return state / "reports"
