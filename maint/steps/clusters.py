"""Clusters: start, stop and delete them; only the services' states are believed (contract sections 5 and 6)."""

from collections.abc import Generator, Iterable

from maint.config.strict import did_you_mean
from maint.errors import AnswerMissing, Refused, TimedOut, WorkFailed
from maint.model.manager import Cluster, Command
from maint.model.plan import Action, Effect
from maint.ports import ManagerSight, Sight, Site, Work
from maint.steps.commands import finish, patiently, pauses
from maint.steps.step import Arguments, Progress, Step, done, unchanged

_LIMIT = 3600.0  # seconds; stopping a base cluster takes minutes, and no upper bound is published
_SETTLE = 120.0  # seconds that states may lag behind a finished command


class ClusterArguments(Arguments):
    """Which cluster."""

    cluster: str


class NoArguments(Arguments):
    """Nothing to say."""


def resolve(manager: ManagerSight, name: str) -> Cluster:
    """Return a cluster by its name or its display name (contract section 5).

    Raises:
        Refused: there is none.
    """
    clusters = manager.clusters()
    for matches in ([c for c in clusters if c.name == name], [c for c in clusters if c.display_name == name]):
        if len(matches) == 1:
            return matches[0]
    known = [cluster.name for cluster in clusters]
    guess = did_you_mean(name, known)
    raise Refused(
        f"the manager has no cluster {name!r}",
        detail=[f"it has {', '.join(known) or 'none'}"],
        hint=f"did you mean {guess!r}?" if guess else "`maint cluster list` shows what there is",
    )


def restless(manager: ManagerSight, cluster: str) -> list[str]:
    """Return the services of a cluster that are not at rest, with their states."""
    return [f"{service.name} is {service.state}" for service in manager.services(cluster) if not service.at_rest]


class _Switch(Step[ClusterArguments]):
    """What starting and stopping share: one command towards one state."""

    arguments = ClusterArguments
    effect = Effect.CHANGE
    verb: str
    opposite: str
    moving: str  # the state of a service that is on its way
    wanted: str

    def missing(self, manager: ManagerSight, cluster: str) -> list[str]:
        """Return the services that are not yet where they should be, with their states."""
        raise TypeError(f"{self.kind} wants no state")

    def plan(self, args: ClusterArguments, sight: Sight) -> Iterable[Action]:
        """Plan one command; the name is resolved once, here."""
        yield self.switch(resolve(sight.manager, args.cluster), sight)

    def switch(self, cluster: Cluster, sight: Sight) -> Action:
        """Return the action for one cluster."""
        missing = self.missing(sight.manager, cluster.name)
        return self.action(
            f"cluster {cluster.name}",
            f"{self.verb} cluster {cluster.name} ({f'{len(missing)} services' if missing else 'nothing to do'})",
            {"cluster": cluster.name},
            undo=f"maint cluster {self.opposite} {cluster.name}",
            facts={"cluster": cluster.name, "moves": bool(missing)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Send the command once, wait for it, and believe the services' states."""
        name = str(action.arguments["cluster"])
        if not self.missing(site.manager, name):
            return unchanged(f"cluster {name} is {self.wanted} already")
        limit = work.timeout or _LIMIT
        sent = self._sent(name, site, work)
        finished = (yield from finish(site.manager, site.clock, sent, limit)) if sent else None
        missing = self.missing(site.manager, name)
        if finished is not None and finished.success is False and missing:
            raise WorkFailed(
                f"the manager did not {self.verb} cluster {name}",
                detail=[finished.reason, *missing],
                hint="mend what it names, then `maint playbook resume`",
            )
        yield from self._settle(name, site, _SETTLE if finished else limit)
        return done(f"cluster {name} is {self.wanted}")

    def _sent(self, name: str, site: Site, work: Work) -> Command | None:
        """Return the command under way: the one an earlier life sent, else a new one; None: only states tell."""
        noted = work.noted("command")
        if isinstance(noted, int):
            return site.manager.command(noted)
        if any(service.state == self.moving for service in site.manager.services(name)):
            return None
        try:
            command = site.manager.cluster_command(name, self.verb)
        except AnswerMissing:
            return None
        if command.active:
            work.note("command", command.id)
        return command

    def _settle(self, name: str, site: Site, limit: float) -> Generator[str, None, None]:
        """Wait until the services are where they should be."""
        begun = site.clock.monotonic()
        for pause in pauses():
            missing = yield from patiently(site.clock, lambda: self.missing(site.manager, name))
            if not missing:
                return
            if site.clock.monotonic() - begun > limit:
                hint = "look at the manager, then `maint playbook resume`"
                raise TimedOut(f"cluster {name} is not {self.wanted}", detail=missing, hint=hint)
            yield f"waiting for {len(missing)} services"
            site.clock.sleep(pause)


class StopCluster(_Switch):
    """Stops all services of a cluster."""

    kind = "cluster.stop"
    help = "Stop a cluster and wait until every service is STOPPED or NA."
    verb, opposite, moving, wanted = "stop", "start", "STOPPING", "stopped"

    def missing(self, manager: ManagerSight, cluster: str) -> list[str]:
        """Return the services that still run."""
        return restless(manager, cluster)


class StartCluster(_Switch):
    """Starts all services of a cluster."""

    kind = "cluster.start"
    help = "Start a cluster and wait until every service is STARTED or NA."
    verb, opposite, moving, wanted = "start", "stop", "STARTING", "started"

    def missing(self, manager: ManagerSight, cluster: str) -> list[str]:
        """Return the services that do not run yet."""
        return [f"{s.name} is {s.state}" for s in manager.services(cluster) if s.state not in ("STARTED", "NA")]


class StopAllClusters(Step[NoArguments]):
    """Stops whatever still runs; the server may or may not do it by itself on a restore (contract section 14, U17)."""

    kind = "clusters.stop"
    help = "Stop every cluster that still runs, each as `cluster.stop` does."
    effect = Effect.CHANGE
    arguments = NoArguments

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        """Plan one `cluster.stop` for each cluster that runs."""
        for cluster in sight.manager.clusters():
            if restless(sight.manager, cluster.name):
                yield StopCluster().switch(cluster, sight)


class DeleteCluster(Step[ClusterArguments]):
    """Deletes a stopped cluster; the call is synchronous (contract section 6)."""

    kind = "cluster.delete"
    help = "Delete a cluster that is at rest and that nothing hangs on."
    effect = Effect.DESTROY
    arguments = ClusterArguments

    def plan(self, args: ClusterArguments, sight: Sight) -> Iterable[Action]:
        """Plan the deletion; refuses while compute clusters or data contexts hang on the cluster."""
        cluster = resolve(sight.manager, args.cluster)
        refuse_dependants(sight.manager, cluster)
        services = len(sight.manager.services(cluster.name))
        beside = ecs_beside(sight.manager, cluster)
        yield self.action(
            f"cluster {cluster.name}",
            f"delete cluster {cluster.name} with {services} services{beside}",
            {"cluster": cluster.name},
            undo="restore the snapshot that the first step names (`maint restore run`)",
            facts={"cluster": cluster.name, "services": services, "type": cluster.type},
            confirm=cluster.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Delete once, then believe the list of clusters."""
        name, manager = str(action.arguments["cluster"]), site.manager
        found = [cluster for cluster in manager.clusters() if cluster.name == name]
        if not found:
            return unchanged(f"cluster {name} is gone already")
        refuse_dependants(manager, found[0])
        if running := restless(manager, name):
            hint = f"`maint cluster stop {name}`, then `maint playbook resume`"
            raise Refused(f"cluster {name} is not at rest", detail=running, hint=hint)
        yield f"deleting cluster {name}"
        try:
            manager.delete_cluster(name)
        except AnswerMissing:
            yield "the answer did not come; looking whether the cluster is gone"
        yield from self._gone(name, site)
        return done(f"cluster {name} is deleted; its hosts stay registered, its data stays on their disks")

    def _gone(self, name: str, site: Site) -> Generator[str, None, None]:
        begun = site.clock.monotonic()
        for pause in pauses():
            if all(cluster.name != name for cluster in site.manager.clusters()):
                return
            if site.clock.monotonic() - begun > _SETTLE:
                hint = "look at the manager's log, then `maint playbook resume`"
                raise WorkFailed(f"cluster {name} is still there", hint=hint)
            yield f"cluster {name} is still listed"
            site.clock.sleep(pause)


def refuse_dependants(manager: ManagerSight, cluster: Cluster) -> None:
    """Refuse while compute clusters or data contexts hang on a base cluster (contract section 6, U22).

    Raises:
        Refused: naming them.
    """
    if cluster.type not in ("BASE_CLUSTER", ""):
        return
    compute = [other.name for other in manager.clusters() if other.type == "COMPUTE_CLUSTER"]
    contexts = manager.data_contexts(cluster.name)
    if compute or contexts:
        detail = [f"compute cluster {name}" for name in compute] + [f"data context {name}" for name in contexts]
        raise Refused(
            f"other things hang on cluster {cluster.name}",
            detail=detail,
            hint="delete the compute clusters, then the data contexts, then this one",
        )


def ecs_beside(manager: ManagerSight, cluster: Cluster) -> str:
    """Return a warning where a data-services cluster would lose the base cluster it works with, else nothing."""
    if cluster.is_ecs:
        return ""
    beside = [other.name for other in manager.clusters() if other.is_ecs]
    return f"; WARNING: {', '.join(beside)} works with it and will not work without it" if beside else ""
