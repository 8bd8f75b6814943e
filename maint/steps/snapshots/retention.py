"""Retention as steps: hold a snapshot, release it, and prune those that nothing keeps."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date, datetime

from pydantic import Field, field_validator

from maint.config.paths import user
from maint.errors import Invalid, Refused, StoreFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.snapshots import prune, records
from maint.snapshots.catalogue import committed_ids, entries, find_id, sweep
from maint.snapshots.holds import add_hold, end_of, release_holds
from maint.snapshots.in_progress import refuse_clock_ahead
from maint.snapshots.retention_policy import Retention
from maint.snapshots.virtual_clusters.blobs import collect, unused
from maint.steps.hosts.fan_out import texts
from maint.steps.step import Arguments, Progress, Step, done, unchanged

_SHOWN = 10


class PruneArguments(Arguments):
    """What the operator says beside the policy."""

    thaw: str = Field("", description="why to prune although a backup is doubtful or a restore unfinished")
    damaged: bool = Field(False, description="whether old snapshots that cannot be believed may go too")


class PruneSnapshots(Step[PruneArguments]):
    """Remove the snapshots that neither the policy, nor the floor, nor a hold keeps."""

    kind = "snapshot.prune"
    effect = Effect.CHANGE

    def plan(self, args: PruneArguments, sight: Sight) -> Iterable[Action]:
        """Plan the removal of what has no reason to stay; refuses while the latest backup is doubtful."""
        _refuse_lost(sight, args.thaw)
        decided, left = _verdict(sight, thaw=args.thaw, damaged=args.damaged), prune.leftovers(sight)
        going, all_ = list(decided.removed), len(decided.decisions)
        summary = (
            f"remove {len(going)} of {show_count(all_, 'snapshot')}: {', '.join(going)}"
            if going
            else f"nothing: {show_count(all_, 'snapshot')} to keep"
        )
        if left:
            summary += f"; finish the removal of {', '.join(left)}"
        behind = bool(sight.settings.backup and sight.settings.backup.copies and prune.pruned(sight))
        if behind:
            summary += "; remove from the copies what was pruned before"
        if believed := prune.doubted(entries(sight), sight.clock.now()) if args.thaw else "":
            summary += f"; believe {believed} from now on, which is doubted"
        files = unused(sight, going)
        if files.names:
            summary += (
                f"; remove {show_count(len(files.names), 'file')} of virtual clusters that no snapshot needs then"
            )
        elif files.waits:
            summary += f"; files of virtual clusters stay for now: {files.waits}"
        yield self.action(
            _place(sight),
            summary,
            {"remove": going, "thaw": args.thaw, "damaged": args.damaged},
            effect=Effect.CHANGE if going or left or behind or believed or files.names else Effect.READ,
            facts={"kept": list(decided.kept), "removed": going, **({"believed": believed} if believed else {})},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        thaw, damaged = str(action.arguments["thaw"]), bool(action.arguments["damaged"])
        _refuse_another(action, site)
        finished, removed = prune.clean_up(site), list[str]()
        planned = texts(action.arguments["remove"])
        decided = prune.by_id(_verdict(site, thaw=thaw, damaged=damaged))
        if going := [one for one in planned if one in decided]:
            sweep(site)  # what a backup that filled the disk left may be all the room that is needed
            with _telling_need():
                refuse_clock_ahead(site)
            _refuse_lost(site, thaw)
            yield from prune.insist_on_the_floor(site)
            decided = prune.by_id(_verdict(site, thaw=thaw, damaged=damaged))  # reading that may have taken hours
        for snapshot_id in (one for one in going if one in decided):
            if held := prune.held_since(site, snapshot_id):
                yield f"{snapshot_id} stays: {held}"
                continue
            with _telling_need():
                prune.remove(site, snapshot_id, decided[snapshot_id])
            removed.append(snapshot_id)
            yield f"removed {snapshot_id}: {'; '.join(decided[snapshot_id])}"
        if believed := str(action.facts.get("believed", "")):
            with _telling_need():
                records.write_record(site, records.THAW, believed, {"reason": thaw, "by": user()})
            yield f"{believed} is believed from now on: {thaw}"
        files = yield from collect(site)
        problems = yield from prune.follow(site)
        words = f"{len(removed)} removed" + (f", {show_count(len(finished), 'removal')} finished" if finished else "")
        words += f", {show_count(files, 'file')} of virtual clusters" if files else ""
        value: dict[str, Json] = {"removed": [*finished, *removed], "files": files}
        if problems:
            return done("; ".join([words, *problems]), value, partly=True)
        return done(words, value) if removed or finished or files or believed else unchanged("nothing to remove", value)

    def waits_for_restores(self, action: Action) -> bool:
        """Wait, unless the operator said otherwise."""
        return not action.arguments["thaw"]


@contextmanager
def _telling_need() -> Iterator[None]:
    try:
        yield
    except StoreFailed as failure:
        need = "1 MB and a few inodes free are enough, for the signed record that comes before each removal"
        failure.detail = (*failure.detail, f"where the store is full: {need}")  # not every store tells that it is
        raise


def _refuse_another(action: Action, site: Site) -> None:
    """Refuse in a run that is taken up where the config names another store by then: nobody agreed to that one."""
    if action.target != _place(site):
        raise Refused(
            f"this run prunes {action.target}, and the config names {_place(site)} by now",
            hint="let the config name that one again; or `maint playbook dismiss RUN --reason WORDS`, and prune anew",
        )


def _place(sight: Sight) -> str:
    return f"store {sight.store.location}"


def _refuse_lost(sight: Sight, thaw: str) -> None:
    records.insist_there(sight)
    if not thaw and (gone := records.lost(sight)):
        raise Refused(
            f"nothing is removed now: {sight.store.location} has lost {show_count(len(gone), 'record')}",
            detail=[*gone[:_SHOWN], "holds, and what verifications had found, may be lost with them"],
            hint="look at that store; hold anew what must stay (`maint backup hold`), then `maint backup list "
            "--rebuild` verifies all and lets pruning go on; or say why it is well: --thaw REASON",
        )


def _verdict(sight: Sight, *, thaw: str, damaged: bool) -> Retention:
    doubt = None if thaw else prune.doubt(entries(sight), sight.clock.now())
    if doubt:
        raise Refused(
            f"nothing is removed now: {doubt}",
            detail=["older snapshots may be the only way back"],
            hint="look at it (`maint backup list`), take another one (with `--accept-empty` where virtual clusters "
            "really hold so little), or say why it is well: --thaw REASON",
        )
    return prune.verdict(sight, thaw=True, damaged=damaged)


class ReleaseArguments(Arguments):
    """Which snapshot, and why."""

    snapshot: str = Field(description="which one")
    reason: str = Field(description="why")


class HoldArguments(ReleaseArguments):
    """Which snapshot, why, and until when."""

    until: str = Field("", description="last day of the hold, such as 2027-06-30")

    @field_validator("until")
    @classmethod
    def _is_a_day(cls, text: str) -> str:
        end_of_hold(text)
        return text


class HoldSnapshot(Step[HoldArguments]):
    """Keep a snapshot from being pruned, for a reason, until a day or until it is released."""

    kind = "snapshot.hold"
    effect = Effect.READ
    stores = True

    def plan(self, args: HoldArguments, sight: Sight) -> Iterable[Action]:
        snapshot_id, until = find_id(sight, args.snapshot), end_of_hold(args.until)
        insist_on_reason(args.reason)
        if until is not None and until <= sight.clock.now():
            raise Invalid(f"the day {args.until} has passed", hint="--until takes the last day of the hold")
        end = f" until the end of {args.until}" if until else ""
        yield self.action(
            f"snapshot {snapshot_id}", f"hold {snapshot_id}{end}: {args.reason}", _named(args, snapshot_id)
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        yield "signing the hold"
        snapshot_id, reason = str(action.arguments["snapshot"]), str(action.arguments["reason"])
        until = end_of_hold(str(action.arguments["until"]))
        known = next((one.holds for one in entries(site) if one.id == snapshot_id), None)
        if known is None:
            raise _gone(snapshot_id)
        if any((one.reason, one.until) == (reason, until) for one in known):
            return unchanged(f"{snapshot_id} is held already: {reason}", {"id": snapshot_id})
        add_hold(site, snapshot_id, reason, until, user())
        if snapshot_id not in committed_ids(site):  # another machine was removing it
            raise _gone(snapshot_id)
        return done(f"{snapshot_id} is held: {reason}", {"id": snapshot_id})


class ReleaseSnapshot(Step[ReleaseArguments]):
    """End all holds of a snapshot; the next pruning judges it like any other."""

    kind = "snapshot.release"
    effect = Effect.READ
    stores = True

    def plan(self, args: ReleaseArguments, sight: Sight) -> Iterable[Action]:
        snapshot_id = find_id(sight, args.snapshot)
        insist_on_reason(args.reason)
        yield self.action(f"snapshot {snapshot_id}", f"release {snapshot_id}: {args.reason}", _named(args, snapshot_id))

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        yield "signing the release"
        snapshot_id, reason = str(action.arguments["snapshot"]), str(action.arguments["reason"])
        if not any(one.holds for one in entries(site) if one.id == snapshot_id):
            return unchanged(f"{snapshot_id} is not held", {"id": snapshot_id})
        release_holds(site, snapshot_id, reason, user())
        return done(f"{snapshot_id} is released: {reason}", {"id": snapshot_id})


def _gone(snapshot_id: str) -> Invalid:
    return Invalid(f"snapshot {snapshot_id} is gone", hint="maint backup list")


def _named(args: ReleaseArguments, snapshot_id: str) -> dict[str, str]:
    return {**args.model_dump(), "snapshot": snapshot_id}


def insist_on_reason(reason: str) -> None:
    """Raise Invalid where a reason says nothing."""
    if not reason.strip():
        raise Invalid("a reason is needed", hint="--reason tells the next operator")


def end_of_hold(text: str) -> datetime | None:
    """Return the end of a day given as 2027-06-30, None where none is; ValueError for any other text."""
    if not text:
        return None
    try:
        return end_of(date.fromisoformat(text))
    except ValueError:
        raise ValueError(f"{text!r} is not a day; write it as 2027-06-30") from None
    except OverflowError:
        raise ValueError(f"{text!r} is the end of the calendar; leave it out for a hold without end") from None
