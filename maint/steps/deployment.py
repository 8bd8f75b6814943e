"""Put a snapshot's deployment: sent at most once by a run, and never again before it is known not to arrive."""

from collections.abc import Iterable

from maint.backup.catalogue import find
from maint.backup.flatten import Tree
from maint.backup.parts import DEPLOYMENT, open_deployment
from maint.errors import AnswerMissing, CannotReach, Refused, WorkFailed
from maint.model.plan import Action, Effect
from maint.model.snapshot import Snapshot
from maint.ports import Body, Sight, Site, Work
from maint.restore.choose import chosen
from maint.steps.applied import Fate, await_fate, baseline, fate, look, tree_of_snapshot
from maint.steps.server import require_ssh
from maint.steps.step import Arguments, Progress, Step, done, unchanged

_LIMIT = 3600.0  # seconds; the call has no progress and big sites take long (contract section 14, U16)


class SnapshotArguments(Arguments):
    """Which snapshot; without one, the newest restorable."""

    snapshot: str = ""


class PutDeployment(Step[SnapshotArguments]):
    """Replaces the manager's whole configuration."""

    kind = "deployment.put"
    help = "Replace the manager's whole configuration by a snapshot's, sent once, decided by reading."
    effect = Effect.DESTROY
    arguments = SnapshotArguments

    def plan(self, args: SnapshotArguments, sight: Sight) -> Iterable[Action]:
        """Plan the call, with what it will replace."""
        require_ssh(sight)
        snapshot = chosen(sight, args.snapshot)
        clusters = [cluster.name for cluster in sight.manager.clusters()]
        lost = f"; what is there now is lost: {', '.join(clusters)}" if clusters else ""
        yield self.action(
            f"manager {sight.settings.manager.host}",
            f"replace the whole configuration by snapshot {snapshot.id}{lost}",
            {"snapshot": snapshot.id},
            undo="restore the safety snapshot that the step before took, where it is restorable",
            facts={
                "deployment": snapshot.part(DEPLOYMENT).sha256,
                "clusters": sorted(clusters),
                "release": sight.manager.release(),
            },
            confirm=sight.settings.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Send once; when the answer is missing, decide by reading."""
        snapshot = find(site, str(action.arguments["snapshot"]))
        if not snapshot.restorable:
            raise Refused(f"snapshot {snapshot.id} is not restorable", hint="`maint backup list` shows those that are")
        wanted = tree_of_snapshot(site, snapshot)
        limit = work.timeout or _LIMIT
        if work.noted("sent") is not None:
            yield "an earlier life of this run has sent the deployment; looking what became of it"
            if (yield from await_fate(site, work, wanted, limit)) is Fate.APPLIED:
                return done(f"snapshot {snapshot.id} is in force: it was applied although its answer was lost")
            yield "it was not applied and can no longer arrive; sending it again"
        elif look(site, wanted).proves:
            return unchanged(f"the present configuration is that of snapshot {snapshot.id} already")
        return (yield from self._send(site, work, snapshot, wanted, limit))

    def _send(self, site: Site, work: Work, snapshot: Snapshot, wanted: dict[str, Tree], limit: float) -> Progress:
        work.note("before", baseline(site, wanted))
        work.note("last block", None)
        work.note("sent", site.clock.now().isoformat())
        size = snapshot.part(DEPLOYMENT).content_bytes
        yield f"sending {size} bytes"
        try:
            self._put(site, work, snapshot, limit)
        except AnswerMissing as error:
            yield f"{error.message}; looking whether it was applied"
            decided = yield from await_fate(site, work, wanted, limit)
            if decided is not Fate.APPLIED:
                raise WorkFailed(
                    "the deployment was sent, its answer never came, and it was not applied",
                    detail=[error.message, *error.detail],
                    hint="`maint playbook resume` sends it again: it can no longer arrive by itself",
                ) from error
            return done(f"snapshot {snapshot.id} is in force; the answer was lost, a read shows it applied")
        except WorkFailed as error:
            if fate(site, work, wanted, limit) is Fate.APPLIED:
                return done(f"snapshot {snapshot.id} is in force, although the server answered: {error.message}")
            raise
        site.manager.forget_login()
        return done(f"snapshot {snapshot.id} was applied")

    def _put(self, site: Site, work: Work, snapshot: Snapshot, limit: float) -> None:
        part = snapshot.part(DEPLOYMENT)
        api = int(snapshot.versions["api"].lstrip("v"))
        with open_deployment(site, snapshot) as stream:
            body = Body(stream.read, part.content_bytes, lambda: work.note("last block", site.clock.now().isoformat()))
            answer = site.manager.put_deployment(body, api=api, delete_current=True, timeout=limit)
        try:
            while answer.read(1 << 18):
                pass
        except CannotReach as error:
            raise AnswerMissing(f"the answer was cut off: {error.message}", whole=True) from error
