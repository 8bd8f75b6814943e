"""Snapshots as steps: take one, or require that a restorable one is at hand before anything is destroyed."""

import os
from collections.abc import Iterable
from datetime import timedelta

from maint.backup.catalogue import entries, load
from maint.backup.ids import new_id
from maint.backup.parts import DEPLOYMENT
from maint.backup.take import recipients_of, take
from maint.backup.verify import verify
from maint.errors import Refused, WorkFailed
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.snapshot import Purpose, Redaction, Snapshot, Trust
from maint.model.units import show_duration, show_size
from maint.ports import Sight, Site, Work
from maint.steps.step import Arguments, Progress, Step, done


class TakeArguments(Arguments):
    """Why, and whether only an unredacted export will do."""

    purpose: str = Purpose.BACKUP.value
    unredacted: bool = False


class TakeSnapshot(Step[TakeArguments]):
    """Takes a snapshot."""

    kind = "snapshot.take"
    help = "Export the deployment into the store: sealed, signed, judged, read back. Redacted ones are audit-only."
    effect = Effect.READ
    arguments = TakeArguments

    def plan(self, args: TakeArguments, sight: Sight) -> Iterable[Action]:
        """Plan the export."""
        purposes = [purpose.value for purpose in Purpose]
        if args.purpose not in purposes:
            raise Refused(f"a snapshot's purpose is one of {', '.join(purposes)}", hint="`backup` is the usual one")
        recipients_of(sight)
        yield self.action(
            f"store {sight.store.location}",
            f"export the deployment of {sight.settings.manager.host} into {sight.store.location}",
            {"purpose": args.purpose, "unredacted": args.unredacted},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Take it, unless an earlier life of the run has committed it already."""
        purpose = Purpose(str(action.arguments["purpose"]))
        snapshot = _committed(site, work)
        if snapshot is None:
            snapshot_id = new_id(site.clock.now(), os.urandom)
            work.note("snapshot", snapshot_id)
            taken = yield from take(site, purpose=purpose, snapshot_id=snapshot_id)
            snapshot = taken.snapshot
            if taken.verification.result is Trust.FAILED:
                raise WorkFailed(
                    f"snapshot {snapshot.id} is stored, and is not sound", detail=[taken.verification.words]
                )
        words = _words(snapshot)
        if action.arguments["unredacted"] and not snapshot.restorable:
            raise WorkFailed(
                "the export is not restorable although the redaction window is open",
                detail=[words],
                hint="another server of this manager may have answered; see `maint help redaction`",
            )
        accepted = site.settings.backup is not None and site.settings.backup.on_redacted == "accept"
        partly = purpose is Purpose.BACKUP and not snapshot.restorable and not accepted
        value: dict[str, Json] = {"id": snapshot.id, "restorable": snapshot.restorable}
        return done(words, value, partly=partly)


def _committed(site: Site, work: Work) -> Snapshot | None:
    noted = work.noted("snapshot")
    if not isinstance(noted, str):
        return None
    try:
        snapshot = load(site, noted)
    except WorkFailed:
        return None
    return snapshot if verify(site, noted, 2).result is not Trust.FAILED else None


def _words(snapshot: Snapshot) -> str:
    size = show_size(snapshot.part(DEPLOYMENT).content_bytes)
    if snapshot.restorable:
        return f"snapshot {snapshot.id}: {size}, restorable"
    why = "the manager redacts its API" if snapshot.judgement.redaction is Redaction.REDACTED else "it breaks a rule"
    problems = "; ".join(finding.words for finding in snapshot.judgement.findings if finding.passed is False)
    return f"snapshot {snapshot.id}: {size}, audit-only, cannot be restored: {why}" + (
        f" ({problems})" if problems else ""
    )


class RequireArguments(Arguments):
    """How old the snapshot may be, and the cluster it must hold."""

    max_age: float | str
    cluster: str = ""


class RequireBackup(Step[RequireArguments]):
    """Guards a destruction."""

    kind = "backup.require"
    help = "Refuse to go on unless a restorable snapshot, young enough, passes verification to level 3."
    effect = Effect.READ
    arguments = RequireArguments

    def plan(self, args: RequireArguments, sight: Sight) -> Iterable[Action]:
        """Plan the proof; refuses here already where no snapshot is young enough."""
        limit = float(args.max_age)
        snapshot = _young(sight, limit)
        yield self.action(
            f"snapshot {snapshot.id}",
            f"prove that snapshot {snapshot.id} can be restored",
            {"snapshot": snapshot.id, "max_age": limit},
            facts={"snapshot": snapshot.id},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Verify to level 3."""
        snapshot = str(action.arguments["snapshot"])
        yield f"verifying {snapshot}"
        judged = verify(site, snapshot, 3)
        if judged.result is not Trust.VERIFIED:
            raise Refused(
                f"snapshot {snapshot} is not proven restorable, so nothing is destroyed",
                detail=[judged.words],
                hint="`maint backup create --open-window` takes another one",
            )
        return done(judged.words, {"snapshot": snapshot})


def _young(sight: Sight, limit: float) -> Snapshot:
    offered = [entry.snapshot for entry in entries(sight) if entry.offered and entry.snapshot is not None]
    if not offered:
        raise Refused(
            "there is no restorable snapshot, so nothing is destroyed",
            detail=[f"looked in {sight.store.location}"],
            hint="`maint backup create --open-window` takes one",
        )
    newest = offered[-1]
    age = sight.clock.now() - newest.taken_at
    if age > timedelta(seconds=limit):
        raise Refused(
            f"the newest restorable snapshot {newest.id} is {show_duration(age.total_seconds())} old, "
            f"and {show_duration(limit)} is allowed",
            hint="`maint backup create --open-window` takes a fresh one",
        )
    return newest
