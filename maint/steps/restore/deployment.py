"""Put a snapshot's deployment in place of what is there, add some of its clusters, or compare it with what is there."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from shlex import quote
from typing import Protocol

import msgspec
from pydantic import Field

from maint.deployment.compare import Comparison, compare, masked
from maint.deployment.normalize import Tree
from maint.deployment.secrets import SecretIndex, site_fingerprint
from maint.errors import AnswerMissing, CannotReach, Invalid, LoginRefused, NotUp, Refused, Transient, WorkFailed
from maint.model.formatting import show_count, show_duration, show_size, show_time
from maint.model.java_options import UNIT
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.secret import know_those_in
from maint.model.snapshot import Snapshot
from maint.ports import Body, Sight, Site, Work
from maint.restore.payload import Edit, Outgoing, outgoing, planned_edit, refuse_existing, same_places
from maint.restore.preconditions import insist_same_server, running_server
from maint.restore.preview import meaning, tree_of_server
from maint.restore.select_snapshot import GUARDED, chosen, manifest_fact, planned
from maint.retry import looks
from maint.snapshots.parts import metered
from maint.snapshots.verify import verdict_of
from maint.steps.guards import SafetyArguments, keep, plan_to_keep, put_proof
from maint.steps.hosts.fan_out import require_ssh
from maint.steps.manager.clusters import restless
from maint.steps.manager.commands import polls
from maint.steps.manager.server import START_LIMIT, has_restarted, invocations, restart_and_wait
from maint.steps.step import Arguments, Progress, Step, done, unchanged


class PutOutcome(StrEnum):
    """What became of a deployment that was sent."""

    APPLIED = "applied"
    NEVER = "can no longer arrive"
    OPEN = "may still arrive"


class Evidence(Protocol):
    """What tells, by reading, whether a deployment has been applied."""

    def before(self, sight: Sight) -> dict[str, Json]:
        """Return what must be known before anything is sent, so that a later look can tell."""

    def there(self, sight: Sight, before: dict[str, Json]) -> bool:
        """Look; whether the deployment is in force."""


class Seen(msgspec.Struct, frozen=True):
    """What a read of the present deployment shows, held against the one that is wanted."""

    comparison: Comparison
    bootstrap: bool

    @property
    def same(self) -> bool:
        """Whether nothing comparable differs."""
        return self.comparison.same

    @property
    def proves(self) -> bool:
        """Whether it proves that the present deployment is the wanted one, secrets and all."""
        return self.same and not self.comparison.not_comparable and not self.bootstrap


def look(sight: Sight, wanted: dict[str, Tree]) -> Seen:
    """Read the present deployment and hold it against the wanted tree."""
    sight.manager.forget_login()
    account = sight.manager.log_in()
    return Seen(compare(wanted, tree_of_server(sight)), account.bootstrap)


class Replaced:
    """Evidence that a whole deployment replaced what was there, atomically: all or nothing (M8)."""

    def __init__(self, wanted: dict[str, Tree]) -> None:
        self.wanted = wanted

    def before(self, sight: Sight) -> dict[str, Json]:
        """Return how the present deployment differs from the wanted one."""
        seen = look(sight, self.wanted)
        return {"same": seen.same, "bootstrap": seen.bootstrap, "differences": len(seen.comparison.differences)}

    def there(self, sight: Sight, before: dict[str, Json]) -> bool:
        """Look whether it is in force."""
        seen = look(sight, self.wanted)
        # The bootstrap account may still be let in: the restored one's password can be the factory's.
        if (before["bootstrap"] and not seen.bootstrap) or seen.proves:
            return True
        had, has = before["differences"], len(seen.comparison.differences)
        return isinstance(had, int) and has < had and 2 * has <= had


class Added:
    """Evidence that clusters were added: none of them was there before, and the call is atomic."""

    def __init__(self, clusters: Sequence[str]) -> None:
        self._clusters = frozenset(clusters)

    def before(self, sight: Sight) -> dict[str, Json]:
        """Return nothing: the sender has made sure that they are not there."""
        return {}

    def there(self, sight: Sight, before: dict[str, Json]) -> bool:
        """Look whether the clusters are there."""
        sight.manager.forget_login()
        return self._clusters <= {cluster.name for cluster in sight.manager.clusters()}


def baseline(site: Site, evidence: Evidence) -> dict[str, Json]:
    """Return what must be known about the server before anything is sent, so that a later look can tell."""
    return {**evidence.before(site), "servers": invocations(site) if site.settings.ssh else {}}


def put_outcome(site: Site, work: Work, evidence: Evidence) -> PutOutcome:
    """Return what became of the deployment that this action sent, in this attempt or an earlier one.

    Args:
        work: holds `before` (see `baseline`), `refused` (the server's own no) and `restarted since`.
    """
    before = work.noted("before")
    assert isinstance(before, dict)  # written before anything was sent
    try:
        there = evidence.there(site, before)
    except LoginRefused:
        raise
    except (CannotReach, Transient):
        return PutOutcome.OPEN
    if there:
        return PutOutcome.APPLIED
    # A server may commit at the closing brace, and goes on when its client is gone: time alone proves nothing.
    over = any(work.noted(key) is not None for key in ("refused", "restarted since"))
    return PutOutcome.NEVER if over or _restarted(site, before) else PutOutcome.OPEN


def _restarted(site: Site, before: dict[str, Json]) -> bool:
    # What the server had not committed by a restart is rolled back.
    known = before["servers"]
    if not isinstance(known, dict) or not known or not site.settings.ssh:
        return False
    try:
        now = invocations(site)
    except (CannotReach, WorkFailed, Invalid):
        return False
    return all(has_restarted(known.get(host), words) for host, words in now.items())


def await_outcome(site: Site, work: Work, evidence: Evidence, patience: float) -> Generator[str, None, PutOutcome]:
    """Look until it is settled, or until patience (seconds) is at its end: then it may still arrive."""
    for _ in looks(site.clock, patience, polls()):
        decided = put_outcome(site, work, evidence)
        if decided is not PutOutcome.OPEN:
            return decided
        yield (
            "looking whether the deployment was applied; it may still be under way, "
            f"and is looked for {show_duration(patience)} at most"
        )
    return PutOutcome.OPEN


LIMIT = 3600.0  # seconds; the call has no progress and big sites take long (M14 U16)
ANSWER = "applied"  # what `maint playbook resume --set` answers where nobody else can tell
_SETTLING = "restart to settle"  # the note about the restart after which nothing sent before it can arrive
_LICENSED = "restart for the licence"  # the note about the restart after which a licence counts
PATIENCE = 30.0  # seconds to look at least for a deployment whose answer is missing
_STANDING = {PutOutcome.NEVER: "was not applied", PutOutcome.OPEN: "was not applied so far"}


def settled(site: Site, work: Work, out: Outgoing, evidence: Evidence) -> Generator[str, None, PutOutcome]:
    """Return what became of what an earlier attempt sent, or refuse: without a restart it may still arrive."""
    yield "an earlier attempt has sent the deployment; looking what became of it"
    decided = yield from await_outcome(site, work, evidence, _patience(out))
    if decided is not PutOutcome.OPEN:
        return decided
    # What was answered about an earlier sending says nothing about this one.
    answer = work.answers.get(ANSWER) if work.noted("asked") else None
    if isinstance(answer, bool):
        return PutOutcome.APPLIED if answer else PutOutcome.NEVER
    yield "it is not there yet and might still arrive; a restart of the server rolls back what is under way"
    try:
        require_ssh(site)
        yield from restart_and_wait(site, work, START_LIMIT, key=_SETTLING)
    except NotUp:  # it was restarted
        raise
    except (CannotReach, WorkFailed, Invalid, Refused) as failure:
        work.note("asked", True)
        failure.needs = (ANSWER,)
        failure.hint = f"mend that, or restart {UNIT} by hand and look whether what was sent is there"
        raise
    work.note("restarted since", True)
    return (yield from await_outcome(site, work, evidence, _patience(out)))


def send(site: Site, work: Work, out: Outgoing, evidence: Evidence, limit: float) -> Generator[str, None, str]:
    """Send a deployment and return how it was found to be in force; when the answer is missing, decide by reading."""
    work.note("before", baseline(site, evidence))
    for key in ("refused", _SETTLING, "restarted since", "asked", _LICENSED):  # they were about what was sent before
        work.note(key, None)
    work.note("sent", show_time(site.clock.now()))
    yield f"sending {show_size(out.length)} of configuration"
    try:
        _put(site, out, limit)
    except AnswerMissing as error:
        yield f"{error.message}; looking whether it was applied"
        decided = yield from await_outcome(site, work, evidence, _patience(out))
        if decided is not PutOutcome.APPLIED:
            raise WorkFailed(
                f"the deployment was sent, no answer says what became of it, and it {_STANDING[decided]}",
                detail=[error.message, *error.detail],
                hint="`maint playbook resume` looks again, and sends it again only when it can no longer arrive",
            ) from error
        return "is in force; the answer was lost, a read shows it applied"
    except (WorkFailed, CannotReach) as error:  # the server's own no, or nothing has left
        work.note("refused", error.message)
        if put_outcome(site, work, evidence) is PutOutcome.APPLIED:
            return f"is in force, although the server answered: {error.message}"
        raise
    site.manager.forget_login()
    return "was applied"


def send_licensed(site: Site, work: Work, out: Outgoing, evidence: Evidence, limit: float) -> Generator[str, None, str]:
    """Send as `send` does; where a licence counts only after a restart (M9, M14 U19), restart once and send again."""
    try:
        return (yield from send(site, work, out, evidence, limit))
    except WorkFailed as error:
        lacking = work.noted("refused") is not None and "licens" in error.message.lower()
        if not lacking or not _licensed(site):
            raise
        yield f"{error.message}; a licence is installed, and may count only after a restart of the server"
    yield from restart_and_wait(site, work, START_LIMIT, key=_LICENSED)
    return (yield from send(site, work, out, evidence, limit))


def _licensed(site: Site) -> bool:
    with suppress(CannotReach, WorkFailed):  # what the server answered to the sending is the failure
        return site.manager.license() is not None
    return False


def _put(site: Site, out: Outgoing, limit: float) -> None:
    api = int(out.snapshot.versions["api"].lstrip("v"))
    with out.open(site) as stream:
        body = Body(metered(site, "sending the deployment", stream.read, out.length), out.length)
        answer = site.manager.put_deployment(body, api=api, delete_current=out.whole, timeout=limit)
    try:
        while answer.read(1 << 18):
            pass
    except (CannotReach, WorkFailed) as error:  # cut off, or somebody else's page: the manager's own word is missing
        raise AnswerMissing(error.message, whole=True, detail=error.detail, hint=error.hint) from error


def _patience(out: Outgoing) -> float:
    # Large deployments take long.
    return PATIENCE + out.length / 100_000


class SnapshotArguments(Arguments):
    """Which snapshot; without one, the newest restorable."""

    snapshot: str = Field("", description="which snapshot; empty: the newest restorable one")


class EditedArguments(SnapshotArguments):
    """Which snapshot, and which of its hosts have become others (`OLD=NEW`)."""

    map_hosts: list[str] = Field([], description="hosts that have become others, each `OLD=NEW`")


class PutDeploymentArguments(EditedArguments, SafetyArguments):
    """Which snapshot, which hosts have become others, and how the present state is kept."""


class PutDeployment(Step[PutDeploymentArguments]):
    """Replace the manager's whole configuration by a snapshot's, sent once, decided by reading."""

    kind = "deployment.put"
    effect = Effect.DESTROY
    restores = True

    def plan(self, args: PutDeploymentArguments, sight: Sight) -> Iterable[Action]:
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
        _refuse_found(action, site, work)
        kept = yield from _guard(action, site, work, out.snapshot)
        return done(f"snapshot {name} {(yield from send_licensed(site, work, out, evidence, limit))}; {kept}")


def _refuse_found(action: Action, site: Site, work: Work) -> None:
    """Refuse to replace what nobody agreed to lose, or what runs: a run may be taken up long after its plan."""
    planned_clusters = action.facts.get("clusters")
    there = [cluster.name for cluster in site.manager.clusters()]
    if new := [name for name in there if isinstance(planned_clusters, list) and name not in planned_clusters]:
        raise Refused(
            f"the manager holds what the plan does not name: cluster {', '.join(new)}",
            detail=["somebody has made it since, and it would be lost", GUARDED],
            hint=f"to replace it all the same: `maint playbook dismiss {work.run} --reason WORDS`, then begin anew",
        )
    if running := {name: found for name in there if (found := restless(site.manager, name))}:
        stop = ", ".join(f"`maint cluster stop {quote(name)}`" for name in running)
        raise Refused(
            "clusters that are about to be replaced are not at rest",
            detail=[*(f"{name}: {one}" for name, found in running.items() for one in found), GUARDED],
            hint=f"{stop}, then again",
        )


class AddArguments(EditedArguments, SafetyArguments):
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
            undo="; ".join(f"`maint cluster delete {quote(name)}`" for name in edit.choice.clusters),
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
        kept = yield from _guard(action, site, work, out.snapshot)
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


def _guard(action: Action, site: Site, work: Work, snapshot: Snapshot) -> Generator[str, None, str]:
    yield f"proving that snapshot {snapshot.id} can be restored"
    yield put_proof(site, snapshot.id).words
    insist_same_server(snapshot, running_server(site))
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
