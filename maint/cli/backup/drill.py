"""`maint backup drill`: rehearse the restore of a snapshot, and tell what came of it."""

from collections.abc import Mapping

from maint.cli.backup.rehearsal import LabRehearsal
from maint.cli.composition import ConfiguredSite
from maint.cli.flags import Flags
from maint.cli.lab.switches import behaviours
from maint.cli.open_site import opened
from maint.cli.schedule.metrics import publish
from maint.cli.screen import Screen
from maint.engine.lock import site_lock
from maint.errors import WorkFailed
from maint.restore.drill import Drilled, drill
from maint.restore.select_snapshot import chosen
from maint.snapshots.catalogue import newest_restorable


def run(flags: Flags, wanted: str, switches: list[str]) -> int:
    """Drill a snapshot that was named, else the newest restorable one."""
    answers = behaviours(switches)
    with opened(flags) as (site, screen):
        return rehearsed(site, screen, wanted, answers)


def rehearsed(site: ConfiguredSite, screen: Screen, wanted: str, answers: Mapping[str, str]) -> int:
    """Drill under the site's lock and show the result.

    Raises:
        WorkFailed: it did not pass.
    """
    rehearsal = LabRehearsal(site.settings, site.secrets, site.clock, screen.warn, answers)
    with site_lock(site.state, site.settings.name, "backup drill", site.clock):
        snapshot = chosen(site, wanted) if wanted else newest_restorable(site)
        steps = drill(site, rehearsal, snapshot)
        while True:
            try:
                screen.say(next(steps))
            except StopIteration as end:
                found: Drilled = end.value
                break
        publish(site, screen)
    screen.emit({"drill": found.to_json()}, _table(found))
    if not found.passed:
        raise WorkFailed(
            f"the drill of snapshot {found.snapshot} failed: {found.reason}",
            detail=list(found.detail),
            hint="this snapshot would not come back as it is: `maint backup create --open-window`, then drill again",
        )
    return 0


def _table(found: Drilled) -> str:
    lines = [f"{phase.name:<10}{phase.seconds:9.2f} s" for phase in found.phases]
    if found.rto_seconds is not None:
        lines.append(f"{'in all':<10}{found.rto_seconds:9.2f} s to the configuration read back, in a rehearsal")
    return "\n".join([*lines, f"snapshot {found.snapshot}: {found.reason}"])
