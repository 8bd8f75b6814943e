"""Clusters: start, stop and delete them; only the services' states are believed (M5, M6)."""

import re
from collections.abc import Generator, Iterable, Mapping
from shlex import quote
from typing import TypeVar

from pydantic import Field

from maint.errors import AnswerMissing, CannotReach, Invalid, Refused, WorkFailed
from maint.model.formatting import show_count, unknown
from maint.model.json import Json
from maint.model.manager import Cluster, Place
from maint.model.plan import Action, Effect
from maint.model.snapshot import Snapshot
from maint.ports import ManagerSight, Sight, Site, Work
from maint.ports.hosts import configured_as
from maint.restore.select_snapshot import GUARDED, chosen
from maint.steps import guards
from maint.steps.hosts.fan_out import error_text
from maint.steps.manager.commands import Mover, missing, move, wait_until
from maint.steps.step import Arguments, Progress, Step, done, unchanged
from maint.steps.virtual_clusters.init_host import GROUP, SETUP, address_of

_SETTLE = 120.0  # seconds that the list of clusters may lag behind a deletion


class ClusterArguments(Arguments):
    """Which cluster."""

    cluster: str = Field(description="name or display name")


class StopArguments(ClusterArguments, guards.Proven):
    """Which cluster, and how old the proof may be that it can come back."""


class StopAllArguments(guards.Proven):
    """The snapshot that is about to be put over the server, where there is one (see `guards`)."""

    snapshot: str | None = Field(None, description="the snapshot about to be put, which is proof by itself")


class DeleteArguments(ClusterArguments, guards.Proven, guards.SafetyArguments):
    """Which cluster, how old the proof may be, and how the present state is kept."""


C = TypeVar("C", bound=ClusterArguments)


def resolve(manager: ManagerSight, name: str) -> Cluster:
    """Return a cluster by its name or its display name (M5), or raise UnknownName."""
    clusters = manager.clusters()
    for matches in ([c for c in clusters if c.name == name], [c for c in clusters if c.display_name == name]):
        if len(matches) == 1:
            return matches[0]
    known = [cluster.name for cluster in clusters]
    raise unknown(f"the manager has no cluster {name!r}", name, known, "`maint cluster list` shows what there is")


def states_of(manager: ManagerSight, cluster: str) -> dict[str, str]:
    """Return the states of a cluster's services, by their names."""
    return {service.name: service.state for service in manager.services(cluster)}


def restless(manager: ManagerSight, cluster: str) -> list[str]:
    """Return the services of a cluster that are not at rest, with their states."""
    return missing(states_of(manager, cluster), "stop")


def own_id(cluster: Cluster) -> dict[str, Json]:
    """Return, for a plan, what tells a cluster from one that is made anew under its name; nothing where none tells."""
    return {"uuid": cluster.uuid} if cluster.uuid else {}


def refuse_namesake(action: Action, cluster: Cluster, work: Work) -> None:
    """Refuse a cluster that was made anew since the plan: a run may be taken up long after."""
    planned = action.facts.get("uuid")
    if planned and cluster.uuid and planned != cluster.uuid:
        raise Refused(
            f"cluster {cluster.name} is another one than the plan was made for: somebody has made it anew since",
            detail=[GUARDED],
            hint=f"look whose it is; `maint playbook dismiss {work.run} --reason WORDS` ends this run",
        )


def refuse_made_anew(action: Action, manager: ManagerSight, work: Work, name: str = "") -> Cluster | None:
    """Return an action's cluster as the manager lists it, None where it is gone; refuses as `refuse_namesake`.

    Args:
        name: its name; empty: the action's argument `cluster`.
    """
    wanted = name or action.arguments["cluster"]
    found = next((cluster for cluster in manager.clusters() if cluster.name == wanted), None)
    if found is not None:
        refuse_namesake(action, found, work)
    return found


class _Switch(Step[C]):
    """What starting and stopping share: one command towards one state."""

    effect = Effect.CHANGE
    verb: str
    opposite: str

    def plan(self, args: C, sight: Sight) -> Iterable[Action]:
        """Plan one command; the name is resolved once, here."""
        cluster = resolve(sight.manager, args.cluster)
        yield self.switch(cluster, missing(states_of(sight.manager, cluster.name), self.verb))

    def switch(
        self, cluster: Cluster, lacking: list[str], guard: Mapping[str, Json] | None = None, proof: str = ""
    ) -> Action:
        """Return the action for one cluster; `guard` are the arguments of its guard, `proof` what it found."""
        words = show_count(len(lacking), "service") if lacking else "nothing to do"
        return self.action(
            f"cluster {cluster.name}",
            f"{self.verb} cluster {cluster.name} ({words}){proof}",
            {"cluster": cluster.name, **(guard or {})},
            undo=f"`maint cluster {self.opposite} {quote(cluster.name)}`",
            facts={
                "cluster": cluster.name,
                "moves": bool(lacking),
                **({"proof": proof} if proof else {}),
                **own_id(cluster),
            },
            seen=words,
            idle=not lacking,
        )

    def guard(self, action: Action, site: Site) -> Generator[str, None, None]:
        yield from ()

    def _guarded(self, action: Action, site: Site, work: Work) -> Generator[str, None, None]:
        refuse_namesake(action, resolve(site.manager, str(action.arguments["cluster"])), work)
        yield from self.guard(action, site)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        manager, name = site.manager, str(action.arguments["cluster"])
        mover = Mover(
            site,
            Place(name),
            lambda verb: manager.place_command(Place(name), verb),
            lambda: states_of(manager, name),
            lambda: self._guarded(action, site, work),
        )
        return (yield from move(work, mover, self.verb))


class StopCluster(_Switch[StopArguments]):
    """Stop a cluster and wait until every service is STOPPED or NA, once it is proven that it can come back."""

    kind = "cluster.stop"
    verb, opposite = "stop", "start"

    def plan(self, args: StopArguments, sight: Sight) -> Iterable[Action]:
        """Plan one command; refuses here already where nothing proves that the cluster can come back."""
        cluster = resolve(sight.manager, args.cluster)
        running = restless(sight.manager, cluster.name)
        proof = proof_words(args, proven(args, sight, cluster)) if running else ""
        yield self.switch(cluster, running, args.model_dump(include={"max_age", "no_safety_net"}), proof)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        name = str(action.arguments["cluster"])
        if all(cluster.name != name for cluster in site.manager.clusters()):
            return unchanged(f"cluster {name} is gone already")
        return (yield from super().apply(action, site, work))

    def guard(self, action: Action, site: Site) -> Generator[str, None, None]:
        yield from guards.prove_cluster(action, site, resolve(site.manager, str(action.arguments["cluster"])))


class StartCluster(_Switch[ClusterArguments]):
    """Start a cluster and wait until every service is STARTED or NA."""

    kind = "cluster.start"
    verb, opposite = "start", "stop"


class StopAllClusters(Step[StopAllArguments]):
    """Stop every cluster that still runs, each as `cluster.stop` does; a snapshot about to be put is proof."""

    kind = "clusters.stop"
    effect = Effect.CHANGE

    def plan(self, args: StopAllArguments, sight: Sight) -> Iterable[Action]:
        """Plan one `cluster.stop` for each cluster that runs: the server may not do it on a restore (M14 U17)."""
        running = [(one, restless(sight.manager, one.name)) for one in sight.manager.clusters()]
        running = [(cluster, services) for cluster, services in running if services]
        put = chosen(sight, args.snapshot).id if running and args.snapshot is not None else ""
        if put and not args.no_safety_net:
            guards.put_proof(sight, put)
        guard = args.model_dump(include={"max_age", "no_safety_net"}) | ({"snapshot": put} if put else {})
        for cluster, services in running:
            snapshot = "" if args.no_safety_net else put or proven(args, sight, cluster)
            yield StopCluster().switch(cluster, services, guard, proof_words(args, snapshot))


class DeleteCluster(Step[DeleteArguments]):
    """Delete a cluster that is at rest and that nothing hangs on, once it is proven that it can come back."""

    kind = "cluster.delete"
    effect = Effect.DESTROY

    def plan(self, args: DeleteArguments, sight: Sight) -> Iterable[Action]:
        """Plan the deletion; refuses without a proof, and while compute clusters or data contexts hang on it."""
        cluster = resolve(sight.manager, args.cluster)
        refuse_dependants(sight.manager, cluster)
        snapshot = proven(args, sight, cluster)
        services = len(sight.manager.services(cluster.name))
        contents = guards.contents_proof(sight, args) if cluster.is_ecs else {}
        proofs = proof_words(args, snapshot)
        if cluster.is_ecs:
            proofs += guards.contents_words(sight, args, contents) + carried(sight, cluster, args)
        yield self.action(
            f"cluster {cluster.name}",
            f"delete cluster {cluster.name} with {show_count(services, 'service')}"
            f"{dependents_warning(sight.manager, cluster)}{proofs}{guards.plan_to_keep(sight, args)}",
            {**args.model_dump(), "cluster": cluster.name, **named(contents)},
            undo=f"`maint restore run --cluster {quote(cluster.name)} --snapshot {snapshot or 'ID'}`",
            facts={
                "cluster": cluster.name,
                "services": services,
                "type": cluster.type,
                "proof": snapshot,
                **own_id(cluster),
                **named(contents),
            },
            confirm=cluster.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Delete once, in a call that is synchronous (M6), then believe the list of clusters."""
        name, manager = str(action.arguments["cluster"]), site.manager
        if (found := refuse_made_anew(action, manager, work)) is None:
            return unchanged(f"cluster {name} is gone already")
        refuse_dependants(manager, found)
        if running := restless(manager, name):
            hint = f"`maint cluster stop {quote(name)}`, then `maint playbook resume`"
            raise Refused(f"cluster {name} is not at rest", detail=running, hint=hint)
        yield from guards.prove_cluster(action, site, found)
        yield from guards.prove_contents(action, site, work)
        kept = yield from guards.keep(action, site, work)
        yield f"deleting cluster {name}"
        lost: list[str] = []
        try:
            manager.delete_cluster(name)
        except AnswerMissing as failure:
            lost.append(failure.message)
            yield f"{failure.message}; looking whether the cluster is gone"
        yield from wait_until(
            site.clock,
            _SETTLE,
            lambda: [f"cluster {name} is still listed" for one in manager.clusters() if one.name == name],
            "; ".join([*lost, f"cluster {name} is still there"]),
            "look at the manager's log, then `maint playbook resume`",
        )
        return done(f"cluster {name} is deleted; its hosts stay registered, and no disk was touched by it; {kept}")


def refuse_dependants(manager: ManagerSight, cluster: Cluster) -> None:
    """Refuse while compute clusters or data contexts hang on a base cluster (M6, M14 U22), naming them."""
    if cluster.type not in ("BASE_CLUSTER", ""):
        return
    contexts = manager.data_contexts(cluster.name)
    others = [other for other in manager.clusters() if other.name != cluster.name]
    # All hang on the only base there is; with several, those that use contexts of this one.
    alone = not any(other.type in ("BASE_CLUSTER", "") and not other.is_ecs for other in others)
    compute = [one.name for one in others if _computes(one) and (alone or set(one.data_contexts) & set(contexts))]
    if compute or contexts:
        detail = [f"compute cluster {name}" for name in compute] + [f"data context {name}" for name in contexts]
        raise Refused(
            f"other things hang on cluster {cluster.name}",
            detail=detail,
            hint="delete the compute clusters, then the data contexts, then this one",
        )


def _computes(cluster: Cluster) -> bool:
    return cluster.type == "COMPUTE_CLUSTER"


def dependents_warning(manager: ManagerSight, cluster: Cluster) -> str:
    """Return a warning of clusters that would lose, or may lose, the base cluster they work with, else nothing."""
    if cluster.is_ecs or _computes(cluster):
        return ""
    clusters = manager.clusters()
    ecs = [other.name for other in clusters if other.is_ecs]
    words = f"; WARNING: {', '.join(ecs)} works with it and will not work without it" if ecs else ""
    untold = [other.name for other in clusters if _computes(other) and not other.data_contexts]
    if untold:
        words += f"; WARNING: the manager does not say on which base compute cluster {', '.join(untold)} hangs"
    return words


def named(contents: Mapping[str, Snapshot]) -> dict[str, Json]:
    """Return the snapshots that bring virtual clusters back, as an action carries them."""
    return {"virtual_clusters": {name: snapshot.id for name, snapshot in contents.items()}} if contents else {}


def proof_words(args: guards.Proven, snapshot: str) -> str:
    """Return what a plan says about the proof."""
    return f"; proven by snapshot {snapshot}" if snapshot else f"; WARNING: without a proof ({args.no_safety_net})"


def proven(args: guards.Proven, sight: Sight, cluster: Cluster) -> str:
    """Return the snapshot that proves that a cluster can come back; empty where the operator goes without."""
    return "" if args.no_safety_net else guards.cluster_proof(sight, cluster, args.max_age).snapshot


_ASK = f"{SETUP}kubectl get namespaces -o name"
_LIMIT = 60.0  # seconds
_SPACE = r"namespace/dex-(app|base)-([a-z0-9-]+)"


def carried(sight: Sight, cluster: Cluster, args: guards.Guarded) -> str:
    """Return what a plan says of what runs on an ECS cluster, or why nobody can see it.

    Raises:
        Refused: there is a virtual cluster that the config does not name, so no backup of it is asked for; where no
            reason to go on without guards was given.
    """
    names, unseen = _namespaces(sight, cluster)
    if unseen:
        return f"; WARNING: whether it carries virtual clusters that the config does not name cannot be seen: {unseen}"
    found = [match.groups() for name in names.splitlines() if (match := re.fullmatch(_SPACE, name.strip()))]
    known, services = _known(sight), [one for kind, one in found if kind == "base"]
    strangers = [one for kind, one in found if kind == "app" and one not in known]
    if strangers and not args.no_safety_net:
        raise Refused(
            f"cluster {cluster.name} carries virtual clusters that the config does not name, so nothing is destroyed",
            detail=[f"virtual cluster {one} (namespace dex-app-{one})" for one in strangers],
            hint="name each under `virtual_clusters` and take `maint vc backup`; what nobody needs may be deleted in"
            " the vendor's UI, and does not come back; `--no-safety-net REASON` goes without any proof",
        )
    seen = [f"{one} ({known[one]})" for kind, one in found if kind == "app" and one in known]
    words = f"; it carries Data Engineering services: {', '.join(services) or 'none'}"
    words += f"; virtual clusters: {', '.join(seen) or 'none that the config names'}"
    return words + (f"; WARNING: without a backup: {', '.join(strangers)}" if strangers else "")


def _namespaces(sight: Sight, cluster: Cluster) -> tuple[str, str]:
    """Return what kubectl lists on the first master that answers, or else why none does."""
    hosts = [host for host in sight.manager.hosts() if host.cluster == cluster.name]
    masters = {name for host in hosts for name in configured_as(sight.settings.hosts_in(GROUP), host)}
    reason = f"no host of it is in the group {GROUP}" if sight.settings.ssh else "the config has no `ssh`"
    for name in sorted(masters) if sight.settings.ssh else ():
        try:
            ran = sight.shell.ask(name, _ASK, timeout=_LIMIT)
        except (CannotReach, WorkFailed) as failure:
            reason = failure.message
            continue
        if ran.ok:
            return ran.words, ""
        reason = f"{name}: {error_text(ran)}"
    return "", reason


def _known(sight: Sight) -> Mapping[str, str]:
    known: dict[str, str] = {}
    for one in sight.settings.virtual_clusters:
        try:
            known[address_of(one).cluster] = one.name
        except Invalid:  # no address of one that Kubernetes would show
            continue
    return known
