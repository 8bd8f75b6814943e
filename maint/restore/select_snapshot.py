"""Which snapshot a restore means: the one that was named, else the newest restorable one."""

from maint.deployment.json_events import blocks
from maint.deployment.json_reducer import Fields, Rules, drop, reduced
from maint.errors import Refused, WorkFailed
from maint.model.snapshot import Redaction, Snapshot
from maint.ports import Sight
from maint.snapshots.catalogue import find, newest_restorable
from maint.snapshots.parts import REDACTED_COPY, stored

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


def clusters_in(sight: Sight, snapshot: Snapshot) -> frozenset[str]:
    """Return the names and display names of the clusters in a snapshot; verify it before they are believed.

    Raises:
        WorkFailed: the copy is damaged, or no deployment.
    """
    path = f"{snapshot.site}/{snapshot.id}/{REDACTED_COPY}"
    with stored(sight.store, path) as (file, _), sight.seal.decompress(file) as stream:
        found = reduced(blocks(stream.read), Rules({"": _clusters, "clusters[]": _names}, otherwise=drop))
    assert isinstance(found, frozenset)  # what the root's rule returns
    return found


def _names(cluster: Fields) -> tuple[object, object]:
    return cluster.get("name"), cluster.get("displayName")


def _clusters(deployment: Fields) -> frozenset[str]:
    pairs = deployment.get("clusters") or ()
    return frozenset(str(name) for pair in pairs for name in pair if name)
