"""`maint backup verify`: prove that a snapshot is what it says."""

from typing import Annotated

from maint.cli.after_run import after_run
from maint.cli.backup.drill import rehearse
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import MANAGER, WORKS, Flags, argument, option
from maint.cli.screen import Screen
from maint.engine.lock import site_lock
from maint.errors import Invalid, PartlyDone, WorkFailed
from maint.model.snapshot import Purpose, Trust
from maint.snapshots.catalogue import entries, find_id
from maint.snapshots.verify import record
from maint.snapshots.verify import verify as verify_snapshot


@command(MANAGER, example="maint backup verify 20260102T --level 3", several=WORKS)
def verify(
    flags: Flags,
    snapshot: Annotated[str, argument("Its id or the beginning of it; else the newest.")] = "",
    level: Annotated[
        int | None,
        option("--level", "1 bytes, 2 contents, 3 restorability, 4 drill; else 3 at most.", min=1, max=4),
    ] = None,
) -> int:
    """Verify a snapshot and keep the result; unreadable means failed."""
    if level == 4:
        return rehearse(flags, snapshot, {})
    # What a machine without a config finds is signed by a key that nobody else trusts, so it is shown and not kept.
    configured = not flags.connection.replaces_config
    deepest = 3 if configured or flags.connection.password else 2  # level 3 asks whether the manager's password fits
    with opened(flags) as (site, screen):
        found = find_id(site, snapshot) if snapshot else _newest(site)
        if flags.dry_run:
            screen.emit(
                {"snapshot": found, "level": level or deepest}, f"would verify {found} to level {level or deepest}"
            )
            return 0
        return _verified(site, screen, found, level or deepest, keep=configured)


def _verified(site: ConfiguredSite, screen: Screen, found: str, level: int, *, keep: bool) -> int:
    """Verify one snapshot, keep the record unless told otherwise, show it.

    Raises:
        WorkFailed: it failed.
        PartlyDone: it could not be told to that depth.
    """
    with site_lock(site.state, site.settings.name, "backup verify", site.clock):
        judged = verify_snapshot(site, found, level)
        if keep:
            record(site, judged)
            after_run(site, screen)
    screen.emit({"verification": judged.to_json()}, f"{found}: {judged.words}")
    if judged.result is Trust.FAILED:
        detail = [f"{finding.rule}: {finding.words}" for finding in judged.failures]
        raise WorkFailed(f"snapshot {found} is not sound", detail=detail, hint="`maint backup list` shows others")
    if judged.proven and judged.doubts:
        hint = "take the backup again; where there really is so little, with `--accept-empty`"
        raise PartlyDone(f"snapshot {found} holds what is not taken for the truth", detail=judged.doubts, hint=hint)
    if judged.result is Trust.NOT_VERIFIED:
        hint = "verify it on a machine that has the private key"
        raise PartlyDone(f"snapshot {found} could only be verified to level {judged.depth} of {level}", hint=hint)
    return 0


def _newest(site: ConfiguredSite) -> str:
    known = entries(site)
    if not known:
        raise Invalid(f"there is no snapshot of {site.settings.name} yet", hint="`maint backup create` takes one")
    backups = [one for one in known if one.snapshot is None or one.snapshot.purpose is Purpose.BACKUP]
    return (backups or known)[-1].id
