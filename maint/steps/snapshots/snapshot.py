"""Snapshots as steps: take one, or require that a restorable one is at hand before anything is destroyed."""

from collections.abc import Generator, Iterable, Sequence
from typing import Literal

from pydantic import Field

from maint.config.fields import Limit
from maint.deployment.judge import only_redacted
from maint.errors import WorkFailed
from maint.model.formatting import show_counts, show_size
from maint.model.java_options import PATH, UNIT
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.snapshot import Purpose, Redaction, Snapshot
from maint.ports import Sight, Site, Work
from maint.snapshots.capture import NOTE, committed, described, forget_taken, recipients_of, taken_once
from maint.snapshots.extra_parts import TRUSTSTORE_RULE, lacking
from maint.snapshots.manifest import new_id
from maint.snapshots.replicate import replicate
from maint.snapshots.virtual_clusters.capture import NOTHING, Asked, take_alone
from maint.snapshots.virtual_clusters.document import part_name
from maint.snapshots.virtual_clusters.verify import doubts
from maint.steps.guards import cluster_proof
from maint.steps.manager.clusters import resolve
from maint.steps.manager.server import redaction_switches
from maint.steps.manager.window import open_elsewhere
from maint.steps.step import Arguments, NoArguments, Progress, Step, done
from maint.steps.virtual_clusters.step import VcArguments, VcStep

_REDACTED = (
    "`maint backup create --open-window` takes a restorable one; "
    "`backup.on_redacted: accept` in the config is content with redacted ones"
)


_RESTART = (
    f"`maint backup create --open-window` restarts it and takes a restorable one, or `systemctl restart {UNIT}` there"
    " before the next"
)


class TakeArguments(Arguments):
    """Why, and whether only an unredacted export will do."""

    purpose: Literal["backup", "safety"] = Field("backup", description="`backup`, or `safety`: never chosen by itself")
    unredacted: bool = Field(False, description="fail unless the snapshot is restorable")
    accept_empty: bool = Field(
        False, description="virtual clusters hold what is found, however little it is (`maint help vc-backup`)"
    )


class TakeSnapshot(Step[TakeArguments]):
    """Export the deployment into the store: sealed, signed, judged, read back. Redacted ones are audit-only."""

    kind = "snapshot.take"
    effect = Effect.READ
    stores = True

    def plan(self, args: TakeArguments, sight: Sight) -> Iterable[Action]:
        recipients_of(sight)
        yield self.action(
            f"store {sight.store.location}",
            f"export the deployment of {sight.settings.manager.host} into {sight.store.location}",
            args.model_dump(),
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        purpose = Purpose(str(action.arguments["purpose"]))
        snapshot = yield from taken_once(site, work, purpose, accept_empty=action.arguments.get("accept_empty") is True)
        others = open_elsewhere(site) if purpose is Purpose.BACKUP else ()
        yield from (f"WARNING: {line}" for line in others)
        words = "; ".join([described(snapshot), *others])
        if action.arguments["unredacted"] and not snapshot.restorable:
            forget_taken(work)  # else a run that is taken up, once its reason is mended, would judge this one again
            raise _unrestorable(site, snapshot, words)
        accepted = (
            only_redacted(snapshot.judgement)
            and site.settings.backup is not None
            and site.settings.backup.on_redacted == "accept"
        )
        partly = purpose is Purpose.BACKUP and not snapshot.restorable and not accepted
        if purpose is Purpose.BACKUP and (without := lacking(site.settings, snapshot)):
            words, partly = f"{words}; without {', '.join(without)}, which the config demands", True
        if lacks := [*_doubted_password(snapshot), *shortcomings(snapshot)]:
            words, partly = "; ".join([words, *lacks]), True
        value: dict[str, Json] = {"id": snapshot.id, "restorable": snapshot.restorable}
        if partly and only_redacted(snapshot.judgement) and (waiting := _waiting_for_restart(site)):
            return done("; ".join([words, *waiting]), value, partly=True, hint=_RESTART)
        return done(words, value, partly=partly, hint=_hint(snapshot))


def _waiting_for_restart(site: Site) -> Sequence[str]:
    return [
        f"{PATH} on {one.host} has redaction switched off, and {UNIT} was not restarted since"
        for one in redaction_switches(site)
        if one.written and one.running is False
    ]


def _unrestorable(site: Site, snapshot: Snapshot, words: str) -> WorkFailed:
    # Redacted all the same, or against another rule.
    if only_redacted(snapshot.judgement):
        seen, hint = _who_redacts(site)
        return WorkFailed(
            "the export is not restorable although the redaction window is open", detail=[words, *seen], hint=hint
        )
    return WorkFailed(
        "the export is not restorable: redacted or not, the manager's data does not hang together"
        if snapshot.judgement.redaction is Redaction.REDACTED
        else "the export is not restorable: its secrets can be read, but the manager's data does not hang together",
        detail=[words],
        hint=_broken_hint(snapshot),
    )


def _who_redacts(site: Site) -> tuple[Sequence[str], str]:
    """Ask each server that the config names how it runs; return what was seen, and what to do."""
    running = {one.host: one.running for one in redaction_switches(site)}
    hiding = [host for host, off in running.items() if off is False]
    if hiding:
        words = [
            f"the server on {host} still runs with redaction: it has not read its options since" for host in hiding
        ]
        return words, f"`systemctl restart {UNIT}` there, then take the export again"
    doubtful = [host for host, off in running.items() if off is None]
    if doubtful:
        words = [f"how the server on {host} runs could not be told" for host in doubtful]
        return words, f"see whether {UNIT} there was restarted since the window opened; see `maint help redaction`"
    hint = f"name the server that answers at {site.settings.manager.host} under `hosts:`; see `maint help redaction`"
    return ["all servers that the config names run without redaction: another one has answered"], hint


def _doubted_password(snapshot: Snapshot) -> Sequence[str]:
    found = (one for one in snapshot.judgement.findings if one.rule == TRUSTSTORE_RULE and one.passed is None)
    return [f"left out: {one.words}" for one in found]


def _hint(snapshot: Snapshot) -> str:
    if snapshot.restorable and _doubted_password(snapshot):
        return "`maint host check --check tls.truststore` tries it again, and says what mends it"
    lacking_hint = _lacking_hint(snapshot)
    if snapshot.restorable:
        return lacking_hint
    hint = _REDACTED if only_redacted(snapshot.judgement) else _broken_hint(snapshot)
    return f"{hint}; {lacking_hint}" if lacking_hint else hint


def _broken_hint(snapshot: Snapshot) -> str:
    return f"`maint backup show {snapshot.id}` names each broken rule: mend that in the manager, then export again"


class RequireArguments(Arguments):
    """How old the snapshot may be, and the cluster it must hold."""

    max_age: Limit = Field(description="how old it may be")
    cluster: str = Field("", description="the cluster that is about to go")


class RequireBackup(Step[RequireArguments]):
    """Refuse to go on unless a restorable snapshot, young enough, passes verification to level 3."""

    kind = "backup.require"
    effect = Effect.READ

    def plan(self, args: RequireArguments, sight: Sight) -> Iterable[Action]:
        """Plan the proof; refuses here already where no snapshot gives it."""
        cluster = resolve(sight.manager, args.cluster) if args.cluster else None
        judged = cluster_proof(sight, cluster, args.max_age)
        yield self.action(
            f"snapshot {judged.snapshot}",
            f"prove that snapshot {judged.snapshot} can be restored",
            {"max_age": args.max_age, "cluster": cluster.name if cluster else ""},
            facts={"snapshot": judged.snapshot},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        name, max_age = str(action.arguments["cluster"]), float(str(action.arguments["max_age"]))
        yield "verifying the snapshot that is to prove it"
        judged = cluster_proof(site, resolve(site.manager, name) if name else None, max_age)
        return done(f"snapshot {judged.snapshot}: {judged.words}", {"snapshot": judged.snapshot})


class CopySnapshots(Step[NoArguments]):
    """Copy to every further store what it lacks, bytes as stored, and verify each copy; nothing without `copies`."""

    kind = "snapshot.copy"
    effect = Effect.READ
    stores = True

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        copies = list(sight.settings.backup.copies) if sight.settings.backup else []
        if copies:
            words = f"copy what is missing to {', '.join(copies)}, and verify the copies"
            yield self.action(f"store {sight.store.location}", words)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Copy; a store that is down is reported, and tried again by the next run."""
        problems = yield from replicate(site)
        yield from problems
        if problems:
            return done("; ".join(problems), partly=True, hint="the next run tries these copies again")
        return done("the copies hold every snapshot of the first store")


def _lacking_hint(snapshot: Snapshot) -> str:
    """Return what to do about what of virtual clusters is missing, or not taken for the truth; empty: nothing is."""
    unread = [one.name for one in snapshot.virtual_clusters if one.problems]
    lines = ["what could not be read is tried again by the next backup"] if unread else []
    out = [name for name in unread if not snapshot.has(part_name(name))]
    lines += [f"`maint vc status --vc {name}` shows whether it can be reached" for name in out]
    if doubts(snapshot):
        lines += ["where there really is so little, `--accept-empty` says that it is so"]
    return "; ".join(lines)


class TakeClusterArguments(VcArguments):
    """Why, and whether what is found is true however little it is."""

    purpose: Literal["backup", "safety"] = Field("backup", description="`backup`, or `safety`: never chosen by itself")
    accept_empty: bool = Field(False, description="it holds what is found, however little it is")


class TakeCluster(VcStep[TakeClusterArguments]):
    """Read a virtual cluster's jobs, resources and files into the store: sealed, signed, held against signatures."""

    kind = "vc.take"
    effect = Effect.READ
    stores = True

    def plan(self, args: TakeClusterArguments, sight: Sight) -> Iterable[Action]:
        settings = sight.settings.virtual_cluster(args.vc)
        recipients_of(sight)
        words = f"read {settings.base_url} into {sight.store.location}"
        yield self.action(f"virtual cluster {settings.name}", words, {**args.model_dump(), "vc": settings.name})

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        purpose = Purpose(str(action.arguments["purpose"]))
        accepted = action.arguments["accept_empty"] is True
        taken = yield from alone_once(site, work, str(action.arguments["vc"]), purpose, accept_empty=accepted)
        lacks = bool(shortcomings(taken))
        return done(snapshot_line(taken), {"id": taken.id}, partly=lacks, hint=_lacking_hint(taken))


def alone_once(
    site: Site, work: Work, name: str, purpose: Purpose, *, accept_empty: bool, asked: Asked = NOTHING
) -> Generator[str, None, Snapshot]:
    """Take a snapshot of one virtual cluster, unless an earlier attempt of this action committed a sound one."""
    if (found := committed(site, work, purpose)) is not None:
        return found
    snapshot_id = new_id(site.clock.now())
    work.note(NOTE, snapshot_id)
    recipients = recipients_of(site)
    taken = yield from take_alone(
        site, name, recipients, purpose=purpose, accept_empty=accept_empty, snapshot_id=snapshot_id, asked=asked
    )
    return taken.snapshot


def snapshot_line(snapshot: Snapshot) -> str:
    """Return a snapshot of virtual clusters alone in one line."""
    held = [
        f"{one.name}: {show_counts(job=one.jobs, resource=one.resources, file=one.files)} of {show_size(one.bytes)}"
        for one in snapshot.virtual_clusters
    ]
    return "; ".join([f"snapshot {snapshot.id}", *held, *shortcomings(snapshot)])


def shortcomings(snapshot: Snapshot) -> Sequence[str]:
    """Return what of virtual clusters is missing from a snapshot, or not taken for the truth."""
    missing = [f"virtual cluster {one.name}: {words}" for one in snapshot.virtual_clusters for words in one.problems]
    return [*missing, *doubts(snapshot)]
