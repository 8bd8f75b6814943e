"""`maint backup drill`: rehearse the restore of a snapshot, and show the result."""

from collections.abc import Mapping
from typing import Annotated

from maint.cli.after_run import followed, planned
from maint.cli.backup.rehearsal import LabRehearsal
from maint.cli.command import command
from maint.cli.lab.switches import switches_of
from maint.cli.open_site import opened
from maint.cli.options import WORKS, Flags, argument, option
from maint.engine.shared_runs import at_work
from maint.errors import WorkFailed
from maint.restore.drill import Drilled
from maint.restore.drill import drill as rehearse_restore
from maint.restore.select_snapshot import chosen
from maint.snapshots.catalogue import newest_restorable


@command(several=WORKS)
def drill(
    flags: Flags,
    snapshot: Annotated[str, argument("Its id or the beginning of it; else the newest restorable.")] = "",
    switch: Annotated[
        list[str] | None, option("--switch", "NAME=VALUE: a behaviour of the throw-away manager.")
    ] = None,
) -> int:
    """Rehearse a restore in a throw-away manager: send, restart, read back, compare, measure, and keep the evidence."""
    return rehearse(flags, snapshot, switches_of(switch or ()))


def rehearse(flags: Flags, wanted: str, switches: Mapping[str, str]) -> int:
    """Drill a snapshot, else the newest restorable one, under the site's lock; WorkFailed: it did not pass."""
    with opened(flags) as (site, screen):
        with planned(site, screen, "backup drill", dry_run=flags.dry_run):
            snapshot = chosen(site, wanted) if wanted else newest_restorable(site)
        if flags.dry_run:
            words = f"would restore snapshot {snapshot.id} into a throw-away manager, and record how that went"
            screen.emit({"snapshot": snapshot.id}, words)
            return 0
        rehearsal = LabRehearsal(site.settings, site.secrets, site.clock, screen.warn, switches)
        with followed(site, screen, "backup drill") as begin, at_work(site, "backup drill", screen.say):
            begin()
            found = screen.follow(rehearse_restore(site, rehearsal, snapshot))
            screen.emit({"drill": found.to_json()}, _table(found))
            if not found.passed:
                raise WorkFailed(
                    f"the drill of snapshot {found.snapshot} failed: {found.reason}",
                    detail=list(found.detail),
                    hint="it would not come back as it is: `maint backup create --open-window`, then drill again",
                )
    return 0


def _table(found: Drilled) -> str:
    lines = [f"{phase.name:<10}{phase.seconds:9.2f} s" for phase in found.phases]
    if found.rto_seconds is not None:
        lines.append(f"{'in all':<10}{found.rto_seconds:9.2f} s to the configuration read back, in a rehearsal")
    return "\n".join([*lines, f"snapshot {found.snapshot}: {found.reason}"])
