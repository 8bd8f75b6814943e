"""A virtual cluster's snapshot as a step, and what is said of one that is not whole or not believed."""

import os
from collections.abc import Iterable, Sequence

from pydantic import Field

from maint.errors import Refused, WorkFailed
from maint.model.formatting import show_size
from maint.model.plan import Action, Effect
from maint.model.snapshot import Purpose, Snapshot
from maint.ports import Sight, Site, Work
from maint.snapshots.capture import recipients_of
from maint.snapshots.catalogue import load
from maint.snapshots.manifest import new_id
from maint.snapshots.verify import verify
from maint.snapshots.virtual_clusters.capture import take_alone
from maint.snapshots.virtual_clusters.verify import doubts
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.step import VcArguments, VcStep

LACKING = (
    "what could not be read is tried again by the next backup; "
    "where there really is so little, `--accept-empty` says that it is so"
)
_NOTE = "snapshot"  # the id, written down before anything is stored
_SOUND = 2


class TakeClusterArguments(VcArguments):
    """Why, and whether what is found is true however little it is."""

    purpose: str = Field(Purpose.BACKUP.value, description="`backup`, or `safety`: never chosen by itself")
    accept_empty: bool = Field(False, description="it holds what is found, however little it is")


class TakeCluster(VcStep[TakeClusterArguments]):
    """Takes a snapshot of one virtual cluster alone."""

    kind = "vc.take"
    help = "Read a virtual cluster's jobs, resources and files into the store: sealed, signed, held against signatures."
    effect = Effect.READ
    arguments = TakeClusterArguments

    def plan(self, args: TakeClusterArguments, sight: Sight) -> Iterable[Action]:
        """Plan the reading."""
        settings = sight.settings.virtual_cluster(args.vc)
        if args.purpose not in {purpose.value for purpose in Purpose}:
            raise Refused("a snapshot's purpose is backup or safety", hint="`backup` is the usual one")
        recipients_of(sight)
        words = f"read {settings.base_url} into {sight.store.location}"
        yield self.action(f"virtual cluster {settings.name}", words, {**args.model_dump(), "vc": settings.name})

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Take it, unless an earlier life of the run has committed it already."""
        noted = work.noted(_NOTE)
        if isinstance(noted, str) and (found := _committed(site, noted)) is not None:
            return unchanged(told(found), {"id": found.id})
        snapshot_id = new_id(site.clock.now(), os.urandom)
        work.note(_NOTE, snapshot_id)
        taken = yield from take_alone(
            site,
            str(action.arguments["vc"]),
            recipients_of(site),
            purpose=Purpose(str(action.arguments["purpose"])),
            accept_empty=action.arguments["accept_empty"] is True,
            snapshot_id=snapshot_id,
        )
        lacks = bool(shortcomings(taken.snapshot))
        return done(told(taken.snapshot), {"id": snapshot_id}, partly=lacks, hint=LACKING if lacks else "")


def _committed(site: Site, snapshot_id: str) -> Snapshot | None:
    try:
        snapshot = load(site, snapshot_id)
    except WorkFailed:
        return None
    return snapshot if verify(site, snapshot_id, _SOUND).depth >= _SOUND else None


def told(snapshot: Snapshot) -> str:
    """Return a snapshot of virtual clusters alone in one line."""
    held = [
        f"{one.name}: {one.jobs} jobs, {one.resources} resources, {one.files} files of {show_size(one.bytes)}"
        for one in snapshot.virtual_clusters
    ]
    return "; ".join([f"snapshot {snapshot.id}", *held, *shortcomings(snapshot)])


def shortcomings(snapshot: Snapshot) -> Sequence[str]:
    """Return what of virtual clusters is missing from a snapshot, or not taken for the truth."""
    missing = [f"virtual cluster {one.name}: {words}" for one in snapshot.virtual_clusters for words in one.problems]
    return [*missing, *doubts(snapshot)]
