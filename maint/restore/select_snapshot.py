"""Which snapshot a restore means: the one that was named, else the newest restorable one."""

from maint.errors import Refused, WorkFailed
from maint.model.snapshot import Redaction, Snapshot
from maint.ports import Sight
from maint.snapshots.catalogue import find, newest_restorable

GUARDED = "exit code 5: a guard said no, and nothing was destroyed"  # what every refusal says of its exit code


def chosen(sight: Sight, wanted: str) -> Snapshot:
    """Return the snapshot to restore.

    Args:
        sight: the site.
        wanted: its id or the beginning of it; empty for the newest restorable one.

    Raises:
        Refused: it must never be restored, or its manifest cannot be believed.
        Invalid: there is none of that id.
    """
    snapshot = _found(sight, wanted) if wanted else newest_restorable(sight)
    if snapshot.restorable:
        return snapshot
    if snapshot.judgement.redaction is Redaction.REDACTED:
        raise Refused(
            f"snapshot {snapshot.id} is redacted: its secrets are the word REDACTED, and restoring it would break all",
            detail=[GUARDED],
            hint="`maint backup list` shows the restorable ones, `maint backup create --open-window` takes one; "
            "where nothing but redacted ones exists: `maint help heal`",
        )
    problems = [finding.words for finding in snapshot.judgement.findings if finding.passed is not True]
    raise Refused(
        f"snapshot {snapshot.id} is not restorable",
        detail=[*problems, GUARDED],
        hint="`maint backup list` shows others",
    )


def _found(sight: Sight, wanted: str) -> Snapshot:
    try:
        return find(sight, wanted)
    except WorkFailed as error:
        raise Refused(
            f"snapshot {wanted} must not be restored: its manifest cannot be believed",
            detail=[error.message, *error.detail, GUARDED],
            hint="choose a sound one from `maint backup list`",
        ) from error
