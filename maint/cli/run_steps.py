"""Carry out steps that a command names itself, outside a playbook: plan, show, ask, run."""

from collections.abc import Callable, Mapping, Sequence

from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import Flags
from maint.cli.run_playbook import follow, prepared
from maint.engine.adhoc import AdhocStep, plan_of
from maint.model.json import Json
from maint.model.plan import Plan


def run_steps(flags: Flags, source: str, lines: Callable[[ConfiguredSite], Sequence[AdhocStep]]) -> int:
    """Plan the steps of a command (`source`), show them, ask, and carry them out; return the exit code."""
    with opened(flags) as (site, screen):

        def make() -> Plan:
            return plan_of(source, lines(site), site)

        agreed = prepared(flags, site, screen, make)
        return follow(site, screen, *agreed) if agreed else 0


def run_step(flags: Flags, source: str, name: str, kind: str, arguments: Mapping[str, Json]) -> int:
    """Do the same with one step."""
    return run_steps(flags, source, lambda _: [AdhocStep(name, kind, arguments)])
