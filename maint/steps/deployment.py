"""Put a snapshot's deployment: sent at most once by a run, and never again before it is known not to arrive."""

from collections.abc import Generator, Iterable

from maint.backup.catalogue import find
from maint.backup.flatten import Tree
from maint.backup.parts import DEPLOYMENT, open_deployment
from maint.errors import AnswerMissing, CannotReach, LoginRefused, Refused, WorkFailed
from maint.model.plan import Action, Effect
from maint.model.snapshot import Snapshot
from maint.ports import Body, Sight, Site, Work
from maint.restore.choose import chosen
from maint.steps.applied import Fate, await_fate, baseline, fate, look, tree_of_snapshot
from maint.steps.server import START_LIMIT, await_version, require_ssh, restart
from maint.steps.step import Arguments, Progress, Step, done, unchanged

_LIMIT = 3600.0  # seconds; the call has no progress and big sites take long (contract section 14, U16)
_STANDING = {Fate.NEVER: "was not applied", Fate.OPEN: "was not applied so far"}


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
            if (yield from self._settled(site, work, snapshot, wanted, limit)) is Fate.APPLIED:
                return done(f"snapshot {snapshot.id} is in force: it was applied although its answer was lost")
            yield "it was not applied and can no longer arrive; sending it again"
        elif look(site, wanted).proves:
            return unchanged(f"the present configuration is that of snapshot {snapshot.id} already")
        return (yield from self._send(site, work, snapshot, wanted, limit))

    def _settled(
        self, site: Site, work: Work, snapshot: Snapshot, wanted: dict[str, Tree], limit: float
    ) -> Generator[str, None, Fate]:
        """Say what became of what an earlier life sent; a restart makes sure that it can no longer arrive."""
        decided = yield from await_fate(site, work, wanted, limit, _patience(snapshot))
        if decided is Fate.OPEN:
            yield "it is not there yet and might still arrive; a restart of the server rolls back what is under way"
            yield from restart(site, work, "restart to settle")
            yield from await_version(site, START_LIMIT)
            decided = yield from await_fate(site, work, wanted, limit, limit)
        return decided

    def _send(self, site: Site, work: Work, snapshot: Snapshot, wanted: dict[str, Tree], limit: float) -> Progress:
        work.note("before", baseline(site, wanted))
        work.note("last block", None)
        work.note("refused", None)
        work.note("sent", site.clock.now().isoformat())
        size = snapshot.part(DEPLOYMENT).content_bytes
        yield f"sending {size} bytes"
        try:
            self._put(site, work, snapshot, limit)
        except AnswerMissing as error:
            yield f"{error.message}; looking whether it was applied"
            decided = yield from await_fate(site, work, wanted, limit, _patience(snapshot))
            if decided is not Fate.APPLIED:
                raise WorkFailed(
                    f"the deployment was sent, its answer never came, and it {_STANDING[decided]}",
                    detail=[error.message, *error.detail],
                    hint="`maint playbook resume` looks again, and sends it again only when it can no longer arrive",
                ) from error
            return done(f"snapshot {snapshot.id} is in force; the answer was lost, a read shows it applied")
        except (WorkFailed, LoginRefused) as error:
            work.note("refused", error.message)
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


def _patience(snapshot: Snapshot) -> float:
    """Return for how many seconds to look for a deployment whose answer is missing: large ones take long."""
    return 30.0 + snapshot.part(DEPLOYMENT).content_bytes / 100_000
