"""The docker registry of an ECS cluster: stop it, remove it with its volumes and its image (M6.1, step 1)."""

from collections.abc import Generator, Iterable, Mapping, Sequence

import msgspec

from maint.errors import Refused, WorkFailed
from maint.model.json import Json
from maint.model.manager import Cluster
from maint.model.plan import Action, Effect
from maint.ports import ShellSight, Sight, Site, Work
from maint.steps.ecs.cluster import UNCLEANED, ecs_cluster
from maint.steps.guards import keep, plan_to_keep, prove_cluster
from maint.steps.hosts.fan_out import SHELL, host_list, map_hosts, map_hosts_now, output_of, run_script, script
from maint.steps.manager.clusters import DeleteArguments, proof_words, proven
from maint.steps.step import Progress, Step, done, unchanged

DOCKER = "/opt/cloudera/parcels/ECS/docker/docker"
_ABSENT = 5  # status of the script where docker does not answer
_LIMIT = 300.0  # seconds for one host


class Container(msgspec.Struct, frozen=True):
    """A container as `docker ps` shows it."""

    id: str
    image: str
    name: str

    @property
    def is_registry(self) -> bool:
        """Whether it is a registry, by its name or by the last part of its image's name."""
        image = self.image.partition("@")[0].rsplit("/", 1)[-1].partition(":")[0]
        return "registry" in (image, *self.name.split(","))


def containers(shell: ShellSight, host: str) -> Sequence[Container] | None:
    """Return the containers of a host; None where docker does not run, or is not there; WorkFailed on its error."""
    ran = shell.ask(host, SHELL, stdin=script("ecs-registry-list", docker=DOCKER, absent=_ABSENT), timeout=_LIMIT)
    if ran.status == _ABSENT:
        return None
    rows = [line.split("\t") for line in output_of(host, ran).decode("utf-8", "replace").splitlines()]
    return [Container(*row) for row in rows if len(row) == 3]


def registries(shell: ShellSight, host: str) -> Sequence[Container] | None:
    """Return the registry containers of a host; None where docker does not run, or is not there; see `containers`."""
    found = containers(shell, host)
    return None if found is None else [one for one in found if one.is_registry]


class RemoveRegistry(Step[DeleteArguments]):
    """Stop an ECS cluster's registry container and remove it with volumes and image, once a way back is proven."""

    kind = "ecs.registry"
    effect = Effect.DESTROY

    def plan(self, args: DeleteArguments, sight: Sight) -> Iterable[Action]:
        """Plan by asking docker on every host; refuses where one does not answer, and without a proof."""
        ecs = ecs_cluster(sight, args.cluster)
        snapshot = proven(args, sight, ecs.cluster)
        asking = "asking docker on the cluster's hosts"
        found = map_hosts_now(sight, ecs.hosts, lambda host: containers(sight.shell, host) or (), asking, UNCLEANED)
        shown = [f"{one.name} ({one.image}) on {host}" for host in found for one in found[host] if one.is_registry]
        others = [f"{one.name} ({one.image}) on {host}" for host in found for one in found[host] if not one.is_registry]
        words = f"remove the registry container {', '.join(shown)}" if shown else "no registry container is there"
        words += (
            f"; WARNING: docker's folders go later, and with them the data of {', '.join(others)}" if others else ""
        )
        hosts: dict[str, Json] = {
            host: msgspec.to_builtins([one for one in found[host] if one.is_registry]) for host in found
        }
        yield self.action(
            f"hosts of cluster {ecs.cluster.name}",
            f"{words}{proof_words(args, snapshot)}{plan_to_keep(sight, args)}",
            {**args.model_dump(), **identity(ecs.cluster), "hosts": hosts},
            undo="an installation of the cluster makes a new registry",
            facts={"cluster": ecs.cluster.name, "hosts": hosts, "proof": snapshot},
            confirm=ecs.cluster.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Nothing starts unless all hosts answer; then the guards, then the containers that the plan names."""
        hosts = hosts_of(action)
        planned = {host: msgspec.convert(value, list[Container]) for host, value in hosts.items()}
        asking = "asking docker on the cluster's hosts"
        found = yield from map_hosts(site, list(hosts), lambda host: registries(site.shell, host), asking)
        strangers = [f"{one.name} on {host}" for host in hosts for one in found[host] or () if one not in planned[host]]
        if strangers:
            raise Refused("docker shows a registry that the plan does not name", detail=strangers, hint=PLAN_ANEW)
        yield from prove_cluster(action, site, cluster_of(action))
        kept = yield from keep(action, site, work)
        # An earlier attempt may have removed the container and not yet its image, which `docker ps` no longer tells.
        yield from self._remove(
            site, {host: planned[host] for host in hosts if planned[host] and found[host] is not None}
        )
        there = [host for host in hosts if found[host]]
        return done(f"registry removed from {host_list(there)}; {kept}") if there else unchanged(f"no registry; {kept}")

    def _remove(self, site: Site, found: Mapping[str, Sequence[Container]]) -> Generator[str, None, None]:
        def remove(host: str) -> None:
            removing = script("ecs-registry-remove", docker=DOCKER, containers=msgspec.to_builtins(found[host]))
            run_script(site.shell, host, removing, timeout=_LIMIT)
            if registries(site.shell, host):
                raise WorkFailed(
                    f"{host}: docker still shows the registry",
                    hint="remove the container by hand (`docker rm -f`), then `maint playbook resume`",
                )

        yield from map_hosts(site, list(found), remove, "removing the registry")


PLAN_ANEW = "look at what changed on these hosts, then plan anew: `maint cluster delete NAME`"


def identity(cluster: Cluster) -> dict[str, Json]:
    """Return a cluster as arguments from which `cluster_of` makes it again: later it is gone from the manager."""
    return {
        "cluster": cluster.name,
        "display_name": cluster.display_name,
        "type": cluster.type,
        "version": cluster.version,
    }


def cluster_of(action: Action) -> Cluster:
    """Return the cluster of an action's arguments."""
    return Cluster(*(str(action.arguments[key]) for key in ("cluster", "display_name", "type", "version")))


def hosts_of(action: Action) -> Mapping[str, Json]:
    """Return what an action's arguments say about each host."""
    hosts = action.arguments["hosts"]
    return hosts if isinstance(hosts, Mapping) else {}
