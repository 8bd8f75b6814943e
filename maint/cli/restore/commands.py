"""`maint restore`: plan and run the way from an empty manager back to a snapshot."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import msgspec
import typer

from maint.cli.connection_options import MANAGER
from maint.cli.flags import Flags, command
from maint.cli.no_safety_net import NoSafetyNet, lifted
from maint.errors import MaintError, Unfinished
from maint.model.json import Json

group = typer.Typer(no_args_is_help=True, help="From an empty manager back to a snapshot.")
SnapshotOption = Annotated[str, typer.Option("--snapshot", help="Its id; else the newest restorable one.")]
ClusterOption = Annotated[
    list[str] | None, typer.Option("--cluster", help="Bring back only this cluster, which the manager lacks.")
]
MapOption = Annotated[
    list[str] | None, typer.Option("--map-host", help="OLD=NEW: a host that has become another machine.")
]
RaceOption = Annotated[
    bool, typer.Option("--accept-dag-race", help="Bring back DAGs too that may run before they are paused.")
]
GoneOption = Annotated[
    bool, typer.Option("--source-gone", help="Although a virtual cluster's source still answers: it does no harm.")
]
AloneOption = Annotated[
    bool, typer.Option("--manager-only", help="Bring back the manager, and leave virtual clusters as they are.")
]
WindowOption = Annotated[
    bool, typer.Option("--open-window", help="Take the safety export through the redaction window.")
]


@command(group, "plan", MANAGER)
def plan(
    flags: Flags,
    snapshot: SnapshotOption = "",
    cluster: ClusterOption = None,
    map_host: MapOption = None,
    open_window: WindowOption = False,
    accept_dag_race: RaceOption = False,
    source_gone: GoneOption = False,
    manager_only: AloneOption = False,
    no_safety_net: NoSafetyNet = None,
) -> int:
    """Show what a restore would do, in which order, what it would meet, and what would be lost."""
    from dataclasses import replace

    from maint.cli.configless import insist_on_manager
    from maint.cli.restore.preview import restore_preview
    from maint.cli.run_playbook import carry_out

    insist_on_manager(flags.way)
    asked = _Asked(
        snapshot, tuple(cluster or ()), tuple(map_host or ()), open_window, accept_dag_race, source_gone, manager_only
    )
    name, given = _playbook(flags, asked)
    with _way_round():
        return carry_out(replace(lifted(flags, no_safety_net), dry_run=True), name, given, beside=restore_preview)


@command(group, "run", MANAGER)
def run(
    flags: Flags,
    snapshot: SnapshotOption = "",
    planned: Annotated[
        str, typer.Option("--plan", help="Only if the plan still has this digest; or a saved plan.")
    ] = "",
    cluster: ClusterOption = None,
    map_host: MapOption = None,
    open_window: WindowOption = False,
    accept_dag_race: RaceOption = False,
    source_gone: GoneOption = False,
    manager_only: AloneOption = False,
    then_start: Annotated[
        bool, typer.Option("--then-start", help="Start agents, monitors and the clusters after it.")
    ] = False,
    no_safety_net: NoSafetyNet = None,
) -> int:
    """Bring a manager back to a snapshot's configuration, or clusters back to a manager, and prove that it is so."""
    from maint.cli.configless import insist_on_manager
    from maint.cli.expected_plan import expected_digest
    from maint.cli.restore.preview import restore_preview
    from maint.cli.run_playbook import carry_out

    insist_on_manager(flags.way)
    expect = expected_digest(planned)
    asked = _Asked(
        snapshot, tuple(cluster or ()), tuple(map_host or ()), open_window, accept_dag_race, source_gone, manager_only
    ).or_as_in(planned)
    name, given = _playbook(flags, asked)

    def start() -> int:
        clusters = list(asked.clusters) or _clusters(flags, str(given["snapshot"]))
        return carry_out(flags, "start-platform", {"clusters": clusters}) if then_start and not flags.dry_run else 0

    try:
        with _way_round():
            code = carry_out(lifted(flags, no_safety_net), name, given, expect=expect, beside=restore_preview)
    except Unfinished:  # a virtual cluster is made in a platform that runs
        start()
        raise
    return code or start()


@contextmanager
def _way_round() -> Iterator[None]:
    """Where a virtual cluster stands in the way of a plan, say how the manager comes back meanwhile."""
    try:
        yield
    except MaintError as error:
        if error.lane:
            error.hint = f"{error.hint or 'mend it'}; meanwhile `--manager-only` brings the manager back"
        raise


class _Asked(msgspec.Struct, frozen=True):
    """What the operator wants restored."""

    snapshot: str
    clusters: tuple[str, ...]
    map_hosts: tuple[str, ...]
    open_window: bool
    accept_dag_race: bool
    source_gone: bool
    manager_only: bool

    def or_as_in(self, planned: str) -> "_Asked":
        """Return what a saved plan was made for, where nothing else is said; whatever differs makes it stale."""
        from maint.cli.expected_plan import planned_for

        given = planned_for(planned)
        return _Asked(
            self.snapshot or str(given.get("snapshot") or ""),
            self.clusters or _texts(given.get("clusters")),
            self.map_hosts or _texts(given.get("map_hosts")),
            self.open_window or bool(given.get("open_window")),
            self.accept_dag_race or bool(given.get("accept_dag_race")),
            self.source_gone or bool(given.get("source_gone")),
            self.manager_only or given.get("virtual_clusters") == [],
        )


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list | tuple) else ()


def _playbook(flags: Flags, asked: _Asked) -> tuple[str, dict[str, Json]]:
    """Return the playbook for what was asked, and its parameters; the snapshot by its whole id, so that plans agree."""
    from maint.cli.open_site import opened
    from maint.restore.select_snapshot import chosen

    with opened(flags, warn_of_window=False) as (site, _):
        snapshot = chosen(site, asked.snapshot).id
    given: dict[str, Json] = {"snapshot": snapshot, "map_hosts": list(asked.map_hosts)}
    given["open_window"] = asked.open_window
    if asked.clusters:
        return "restore-cluster", {**given, "clusters": list(asked.clusters)}
    given |= {"accept_dag_race": asked.accept_dag_race, "source_gone": asked.source_gone}
    return "disaster-recovery", {**given, "virtual_clusters": []} if asked.manager_only else given


def _clusters(flags: Flags, snapshot: str) -> list[str]:
    """Return the clusters that a snapshot holds."""
    from maint.cli.open_site import opened
    from maint.restore.select_snapshot import chosen
    from maint.snapshots.verify import verdict_of

    with opened(flags) as (site, _):
        return list(verdict_of(site, chosen(site, snapshot)).summary.clusters)
