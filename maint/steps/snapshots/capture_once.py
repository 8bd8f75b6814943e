"""Take a snapshot once for all lives of a run: what an earlier life has committed is not taken again."""

import os
from collections.abc import Generator

from maint.errors import WorkFailed
from maint.model.formatting import show_size
from maint.model.snapshot import Purpose, Redaction, Snapshot
from maint.ports import Site, Work
from maint.snapshots.capture import take
from maint.snapshots.catalogue import load
from maint.snapshots.ids import new_id
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.verify import verify

_NOTE = "snapshot"  # the id, written down before anything is stored
_SOUND = 2  # the level to which what was just stored must be proven


def taken_once(
    site: Site, work: Work, purpose: Purpose, *, accept_empty: bool = False
) -> Generator[str, None, Snapshot]:
    """Take a snapshot, unless an earlier life of this action has committed one; it is sound to level 2.

    Raises:
        WorkFailed: the export was cut, or what is stored does not open, parse and count as it should.
    """
    found = committed(site, work)
    if found is not None:
        return found
    snapshot_id = new_id(site.clock.now(), os.urandom)
    work.note(_NOTE, snapshot_id)
    taken = yield from take(site, purpose=purpose, accept_empty=accept_empty, snapshot_id=snapshot_id)
    if taken.verification.depth < _SOUND:
        raise WorkFailed(
            f"snapshot {taken.snapshot.id} is stored, and is not sound",
            detail=[taken.verification.words],
            hint="look at the health of the store, then `maint playbook resume`",
        )
    return taken.snapshot


def committed(site: Site, work: Work) -> Snapshot | None:
    """Return the snapshot that an earlier life of this action has committed, None where there is no sound one."""
    noted = work.noted(_NOTE)
    if not isinstance(noted, str):
        return None
    try:
        snapshot = load(site, noted)
    except WorkFailed:
        return None
    return snapshot if verify(site, noted, _SOUND).depth >= _SOUND else None


def described(snapshot: Snapshot) -> str:
    """Return a snapshot in one line: its id, size and worth."""
    size = show_size(snapshot.part(DEPLOYMENT).content_bytes)
    if snapshot.restorable:
        return f"snapshot {snapshot.id}: {size}, restorable"
    broken = [finding for finding in snapshot.judgement.findings if finding.passed is False]
    if snapshot.judgement.redaction is Redaction.REDACTED:
        why = "the manager redacts its API: "
        broken = [finding for finding in broken if finding.rule == "redaction"]  # the other rules break in its wake
    else:
        why = "it breaks a rule: " if broken else "nothing in it tells that its secrets are readable"
    return f"snapshot {snapshot.id}: {size}, audit-only, cannot be restored: {why}" + "; ".join(f.words for f in broken)
