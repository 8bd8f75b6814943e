"""Put a snapshot's deployment in place of what is there, add some of its clusters, or compare it with what is there."""

from collections.abc import Generator, Iterable, Sequence

from pydantic import Field

from maint.deployment.compare import Comparison, compare, masked
from maint.deployment.normalize import Tree
from maint.deployment.secrets import SecretIndex, site_fingerprint
from maint.errors import WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.secret import know_those_in
from maint.model.snapshot import Snapshot
from maint.ports import Sight, Site, Work
from maint.restore.payload import Edit, Outgoing, outgoing, planned_edit, refuse_existing, same_places
from maint.restore.preview import meaning, tree_of_server
from maint.restore.select_snapshot import chosen, manifest_fact, planned
from maint.snapshots.verify import verdict_of
from maint.steps.guards import Kept, keep, plan_to_keep, put_proof
from maint.steps.hosts.selection import require_ssh
from maint.steps.restore.send_deployment import LIMIT, Added, PutOutcome, Replaced, look, send, send_licensed, settled
from maint.steps.step import Arguments, Progress, Step, done, unchanged


class SnapshotArguments(Arguments):
    """Which snapshot; without one, the newest restorable."""

    snapshot: str = Field("", description="which snapshot; empty: the newest restorable one")


class EditedArguments(SnapshotArguments):
    """Which snapshot, and which of its hosts have become others (`OLD=NEW`)."""

    map_hosts: list[str] = Field([], description="hosts that have become others, each `OLD=NEW`")


class PutArguments(EditedArguments, Kept):
    """Which snapshot, which hosts have become others, and how the present state is kept."""


class PutDeployment(Step[PutArguments]):
    """Replace the manager's whole configuration by a snapshot's, sent once, decided by reading."""

    kind = "deployment.put"
    effect = Effect.DESTROY
    restores = True

    def plan(self, args: PutArguments, sight: Sight) -> Iterable[Action]:
        require_ssh(sight)
        snapshot = chosen(sight, args.snapshot)
        put_proof(sight, snapshot.id)
        edit = planned_edit(sight, snapshot, (), args.map_hosts)
        clusters = [cluster.name for cluster in sight.manager.clusters()]
        yield self.action(
            f"manager {sight.settings.manager.host}",
            f"replace the whole configuration by snapshot {snapshot.id}{_edits(edit)}"
            f"{_becomes_of(clusters, verdict_of(sight, snapshot).summary.clusters)}{plan_to_keep(sight, args)}",
            {**args.model_dump(), "snapshot": snapshot.id, "edit": edit.to_json()},
            undo="`maint restore run --snapshot ID` with the safety snapshot, where that is restorable",
            facts={**facts_of(sight, snapshot), "clusters": sorted(clusters)},
            confirm=sight.settings.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Send once; when the answer is missing, decide by reading."""
        out = outgoing_of(action, site)
        name, evidence, limit = out.snapshot.id, Replaced(_tree(out, site)), work.timeout or LIMIT
        if work.noted("sent") is not None:
            if (yield from settled(site, work, out, evidence)) is PutOutcome.APPLIED:
                return done(f"snapshot {name} is in force: it was applied although its answer was lost")
            yield "it was not applied and can no longer arrive; sending it again"
        elif look(site, evidence.wanted).proves:
            return unchanged(f"the present configuration is that of snapshot {name} already")
        kept = yield from _guard(action, site, work, name)
        return done(f"snapshot {name} {(yield from send_licensed(site, work, out, evidence, limit))}; {kept}")


class AddArguments(EditedArguments, Kept):
    """Which clusters of which snapshot, which hosts have become others, and how the present state is kept."""

    clusters: list[str] = Field(min_length=1, description="names or display names in the snapshot")


class AddClusters(Step[AddArguments]):
    """Bring back clusters that the manager lacks, from a whole snapshot; refuses what exists there already."""

    kind = "deployment.add"
    effect = Effect.CHANGE
    restores = True

    def plan(self, args: AddArguments, sight: Sight) -> Iterable[Action]:
        """Plan the call; refuses here already where anything of it exists."""
        require_ssh(sight)
        snapshot = chosen(sight, args.snapshot)
        put_proof(sight, snapshot.id)
        edit = planned_edit(sight, snapshot, args.clusters, args.map_hosts)
        assert edit.choice is not None  # clusters were named
        refuse_existing(outgoing(sight, snapshot, edit).tree(sight), tree_of_server(sight))
        names, hosts = ", ".join(edit.choice.clusters), len(edit.choice.hosts)
        yield self.action(
            f"cluster {names}",
            f"add cluster {names} from snapshot {snapshot.id}, with {show_count(hosts, 'host')} that the manager lacks"
            f"{_edits(edit)}{plan_to_keep(sight, args)}",
            {**args.model_dump(), "snapshot": snapshot.id, "edit": edit.to_json()},
            undo="; ".join(f"maint cluster delete {name}" for name in edit.choice.clusters),
            facts=facts_of(sight, snapshot),
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Send once (M8, flag false); whether the clusters are there tells what became of it."""
        out = outgoing_of(action, site)
        assert out.edit.choice is not None  # as planned
        names, limit = out.edit.choice.clusters, work.timeout or LIMIT
        evidence = Added(names)
        if work.noted("sent") is not None:
            if (yield from settled(site, work, out, evidence)) is PutOutcome.APPLIED:
                return done(f"cluster {', '.join(names)} is there: it was added although its answer was lost")
            yield "it was not added and can no longer arrive; sending it again"
        kept = yield from _guard(action, site, work, out.snapshot.id)
        refuse_existing(_tree(out, site), tree_of_server(site))
        how = yield from send(site, work, out, evidence, limit)
        return done(f"cluster {', '.join(names)} of snapshot {out.snapshot.id} {how}; it is not started; {kept}")


def facts_of(sight: Sight, snapshot: Snapshot) -> dict[str, Json]:
    """Return what a restore's plan rests on: the snapshot as signed, and what the server holds now."""
    return {**manifest_fact(snapshot), "present": meaning(tree_of_server(sight)), "release": sight.manager.release()}


def _tree(out: Outgoing, sight: Sight) -> dict[str, Tree]:
    """Return what is sent as a tree; from now on no word of the server shows a secret of it."""
    known = SecretIndex()
    tree = out.tree(sight, known)
    know_those_in(known.masked)
    return tree


def _guard(action: Action, site: Site, work: Work, snapshot: str) -> Generator[str, None, str]:
    yield f"proving that snapshot {snapshot} can be restored"
    yield put_proof(site, snapshot).words
    return (yield from keep(action, site, work))


def outgoing_of(action: Action, sight: Sight) -> Outgoing:
    """Return the document that a planned action sends; Refused where its snapshot must never be restored."""
    return outgoing(sight, planned(sight, action), Edit.from_json(action.arguments["edit"]))


def _becomes_of(there: Sequence[str], coming: Sequence[str]) -> str:
    """Return in words what becomes of the clusters that are there, by what the snapshot holds."""
    kept, lost = [name for name in there if name in coming], [name for name in there if name not in coming]
    words = f"; it takes the place of what is there now: {', '.join(kept)}" if kept else ""
    return f"{words}; lost, since the snapshot lacks it: {', '.join(lost)}" if lost else words


def _edits(edit: Edit) -> str:
    words = [f"; host {change.old_name} becomes {change.new_name}" for change in edit.changes]
    if edit.leftovers:
        words.append(f"; an old host is still named in {show_count(len(edit.leftovers), 'text')}")
    return "".join([*words, *(f"; not brought back: {name}" for name in edit.left_out)])


_SHOWN = 20  # differences named in a message; the value registered holds them all


class CompareArguments(EditedArguments):
    """With which snapshot, which of its hosts have become others, and which clusters alone are compared."""

    clusters: list[str] = Field([], description="only these clusters and what was brought back with them")


class CompareDeployment(Step[CompareArguments]):
    """Read the deployment back and compare it with a snapshot by meaning; differences fail."""

    kind = "deployment.compare"
    effect = Effect.READ

    def plan(self, args: CompareArguments, sight: Sight) -> Iterable[Action]:
        snapshot = chosen(sight, args.snapshot)
        edit, part = planned_edit(sight, snapshot, args.clusters, args.map_hosts), ", ".join(args.clusters)
        yield self.action(
            f"manager {sight.settings.manager.host}",
            f"compare {f'cluster {part}' if part else 'the configuration'} with snapshot {snapshot.id}",
            {"snapshot": snapshot.id, "edit": edit.to_json()},
            facts=manifest_fact(snapshot),
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        snapshot = planned(site, action)
        out = outgoing(site, snapshot, Edit.from_json(action.arguments["edit"]))
        yield "reading the configuration back"
        site.manager.forget_login()
        known = SecretIndex()
        wanted, present = out.tree(site, known), tree_of_server(site, known)
        found = compare(wanted, present if out.whole else same_places(present, wanted))
        found.differences = masked(found.differences, [known], site_fingerprint(site))
        if found.differences:
            places = show_count(len(found.differences), "place")
            raise WorkFailed(
                f"the configuration differs from snapshot {snapshot.id} in {places}",
                detail=[_spelled(found, index) for index in range(min(len(found.differences), _SHOWN))],
                hint="look at these places in the manager",
            )
        return done(_words(found), found.to_json())


def _spelled(found: Comparison, index: int) -> str:
    difference = found.differences[index]
    return f"{difference.path}: {difference.before or 'nothing'} → {difference.after or 'nothing'}"


def _words(found: Comparison) -> str:
    words = ["nothing differs"]
    if found.not_comparable:
        words.append(f"{show_count(len(found.not_comparable), 'value')} not comparable, since the server hides them")
    if found.added_keys:
        words.append(
            f"{show_count(len(found.added_keys), 'key')} that only the server has: {', '.join(found.added_keys[:5])}"
        )
    if found.volatile:
        words.append(f"{show_count(found.volatile, 'volatile value')} passed over")
    return "; ".join(words)
