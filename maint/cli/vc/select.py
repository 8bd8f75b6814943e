"""Which virtual cluster a command works on, and how what it shows is shown."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from maint.cli.flags import Flags
from maint.errors import UsageError
from maint.model.json import Json
from maint.model.virtual_cluster import is_cluster_name

if TYPE_CHECKING:
    from maint.adapters.virtual_clusters.client import VirtualClusterClient
    from maint.cli.composition import ConfiguredSite
    from maint.cli.screen import Screen
    from maint.engine.adhoc import AdhocStep
    from maint.engine.journal import RunState
    from maint.model.plan import Plan

Vc = Annotated[str, typer.Option("--vc", help="Which virtual cluster; may be left out when one is configured.")]
_before = ""


def remember(vc: str) -> None:
    """Keep what stood before the verb, for the command that follows."""
    global _before  # typer offers no other way from a callback to a command
    _before = vc


def chosen(vc: str) -> str:
    """Return the name that was given, before or after the verb; empty where none was.

    Raises:
        UsageError: no virtual cluster can have it (contract section 8).
    """
    name = vc or _before
    if name and not is_cluster_name(name):
        raise UsageError(
            f"--vc {name!r}: a virtual cluster's name has 3 to 30 letters, digits and hyphens, and a letter first",
            hint="it is the `name` under `virtual_clusters:` of the config",
        )
    return name


def ready(flags: Flags) -> Flags:
    """Return the flags as commands on virtual clusters use them.

    Raises:
        UsageError: `--insecure` was given.
    """
    if flags.insecure:
        raise UsageError("--insecure is not for virtual clusters", hint="name the authority under `ca:`")
    return replace(flags, vendor=True)


@contextmanager
def reading(flags: Flags, vc: str) -> Iterator[tuple["VirtualClusterClient", "Screen"]]:
    """Yield a virtual cluster to look at, and the screen; `--timeout` bounds the whole command."""
    from maint.cli.open_site import limit_of, opened

    name = chosen(vc)
    with opened(ready(flags)) as (site, screen), site.clock.limit(limit_of(flags)):
        yield site.virtual_cluster(name), screen


def show(flags: Flags, screen: "Screen", key: str, value: Json, table: str) -> None:
    """Show objects: as told by -o, else as a table on a terminal, else as the documented client prints them."""
    if flags.output or os.environ.get("MAINT_OUTPUT") or sys.stdout.isatty():
        screen.emit({key: value}, table)
    else:
        screen.raw(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def warn_of_blindness(screen: "Screen", cluster: "VirtualClusterClient") -> None:
    """Say that a user who sees nothing at all may lack a role: lists are empty then, not refused."""
    from maint.steps.virtual_clusters.smoke import role_hint, sees_nothing

    if sees_nothing(cluster):
        screen.warn(f"there is not one job and not one resource to be seen: {role_hint(cluster.settings)}")


def describe(value: Mapping[str, Json]) -> str:
    """Return an object for people: its keys, a line each."""
    from maint.cli.screen import table

    rows = [
        [key, item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)] for key, item in value.items()
    ]
    return table(["KEY", "VALUE"], rows)


def act(
    flags: Flags,
    source: str,
    lines: Callable[["ConfiguredSite", "Screen"], Sequence["AdhocStep"]],
    after: Callable[["ConfiguredSite", "Screen", "RunState"], None] | None = None,
) -> int:
    """Plan steps, show them, ask, and carry them out.

    Args:
        flags: the common flags.
        source: the command, for the journal.
        lines: makes the steps.
        after: told how the run went, whatever became of it.

    Returns:
        The exit code.
    """
    from maint.cli.open_site import opened
    from maint.cli.run_playbook import follow, prepared
    from maint.engine import journal
    from maint.engine.adhoc import plan_of

    with opened(ready(flags)) as (site, screen):

        def make() -> "Plan":
            return plan_of(source, lines(site, screen), site)

        agreed = prepared(flags, site, screen, make)
        if agreed is None:
            return 0
        session, plan = agreed
        try:
            return follow(site, screen, session, plan)
        finally:
            if after and session.run_id:
                after(site, screen, journal.find(site.state, session.run_id))


def step(
    flags: Flags,
    source: str,
    name: str,
    kind: str,
    arguments: Mapping[str, Json],
    after: Callable[["ConfiguredSite", "Screen", "RunState"], None] | None = None,
) -> int:
    """Plan one step, show it, ask, and carry it out; see `act`."""
    from maint.engine.adhoc import AdhocStep

    return act(flags, source, lambda *_: [AdhocStep(name, kind, arguments)], after)
