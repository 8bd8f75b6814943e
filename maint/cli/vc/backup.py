"""`maint vc backup`, `drift` and `restore`: a virtual cluster into a snapshot, held against it, and back."""

from typing import Annotated

import msgspec
from msgspec.structs import asdict

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import GUARDS, VC, DagRace, Flags, argument, option
from maint.cli.run_playbook import carry_out, run_steps
from maint.cli.screen import Screen, table
from maint.cli.vc.select import chosen, ready
from maint.engine import journal
from maint.engine.plan import AdhocStep
from maint.errors import Differences
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.restore.conflicts import chosen_cluster
from maint.snapshots.virtual_clusters.document import drift_of
from maint.snapshots.virtual_clusters.verify import read_document

SnapshotOption = Annotated[str, option("--snapshot", "Its id or the beginning of it; else the newest that holds it.")]


@command(VC)
def backup(
    flags: Flags,
    accept_empty: Annotated[bool, option("--accept-empty", "It holds what is found, however little it is.")] = False,
) -> int:
    """Take a backup of one virtual cluster alone: jobs, resources, and every file held against its signature."""
    return carry_out(flags, "backup-virtual-cluster", {"vc": chosen(flags), "accept_empty": accept_empty})


@command(VC)
def drift(
    flags: Flags,
    snapshot: SnapshotOption = "",
    exit_code: Annotated[bool, option("--exit-code", "End with 8 when something differs.")] = False,
) -> int:
    """Show what differs between a snapshot and the live virtual cluster; no file is downloaded, no value shown."""
    name = chosen(flags)
    with opened(ready(flags)) as (site, screen):
        cluster = site.virtual_cluster(name)
        held = chosen_cluster(site, snapshot, cluster.settings.name)
        found = drift_of(read_document(site, held, cluster.settings.name), cluster)
        listed: list[Json] = [one.to_json() for one in found]
        rows = [[one.what, one.name, one.change, one.property or "-"] for one in found]
        screen.emit(
            {"virtual_cluster": cluster.settings.name, "snapshot": held.id, "differences": listed},
            table(["WHAT", "NAME", "CHANGE", "PROPERTY"], rows) if found else "",
        )
        words = show_count(len(found), "difference") if found else "nothing differs"
        screen.say(f"{words} (snapshot {held.id}, live {cluster.settings.base_url})")
        return Differences.exit_code if exit_code and found else 0


class RestoreRequest(msgspec.Struct, frozen=True):
    """What is brought back, and what is done where something stands in the way."""

    snapshot: SnapshotOption = ""
    on_conflict: Annotated[str, option("--on-conflict", "Where a name is taken: refuse, skip, rename or replace.")] = (
        "refuse"
    )
    accept_dag_race: DagRace = False
    source_gone: Annotated[bool, option("--source-gone", "Although the source still answers: it does no harm.")] = False


@command(VC, GUARDS)
def restore(flags: Flags, request: RestoreRequest) -> int:
    """Bring a virtual cluster's resources and jobs back, schedules paused; asks for the virtual cluster's name."""
    return carry_out(flags, "restore-virtual-cluster", {"vc": chosen(flags), **asdict(request)})


@command(VC)
def undo(flags: Flags, run: Annotated[str, argument("The run that deleted: its id or the beginning of it.")]) -> int:
    """Bring back the jobs, resources, files and certificates that a run removed or replaced; schedules stay paused."""

    def lines(site: ConfiguredSite, _: Screen) -> list[AdhocStep]:
        given: dict[str, Json] = {"vc": chosen(flags), "run": journal.find(site.state, run).id}
        return [AdhocStep("Bring it back", "vc.undo", given)]

    return run_steps(ready(flags), "vc undo", lines)
