"""After an ECS cluster is gone: start its hosts anew where asked to, and see that nothing of it is left."""

import shlex
from collections.abc import Generator, Iterable, Mapping, Sequence

from maint.errors import CannotReach, TimedOut, WorkFailed
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import ShellSight, Sight, Site, Work
from maint.steps.ecs.cluster import ecs_cluster, refuse_running
from maint.steps.ecs.paths import judged
from maint.steps.ecs.registry import hosts_of, registries
from maint.steps.ecs.survey import paths_of, removals_on, surveyed
from maint.steps.hosts.fan_out import asked, folded, on_each, texts
from maint.steps.manager.clusters import ClusterArguments
from maint.steps.manager.commands import pauses
from maint.steps.step import Progress, Step, done, unchanged

_BOOT = b"cat /proc/sys/kernel/random/boot_id"
_LIMIT = 900.0  # seconds until a host must be back


class RebootHosts(Step[ClusterArguments]):
    """Starts the hosts anew, each once for all lives of a run."""

    kind = "ecs.reboot"
    help = "Start the hosts of an ECS cluster anew, each once, and wait until they answer."
    effect = Effect.CHANGE
    arguments = ClusterArguments

    def plan(self, args: ClusterArguments, sight: Sight) -> Iterable[Action]:
        """Plan the hosts; the cluster itself is gone when their turn comes."""
        ecs = ecs_cluster(sight, args.cluster)
        yield self.action(
            f"hosts of cluster {ecs.cluster.name}",
            f"reboot {', '.join(ecs.hosts)}",
            {"cluster": ecs.cluster.name, "hosts": list(ecs.hosts)},
            facts={"cluster": ecs.cluster.name, "hosts": list(ecs.hosts)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Note which boot each host is in, reboot those that are still in it, and wait for another."""
        hosts = texts(action.arguments["hosts"])
        refuse_running(site.manager, str(action.arguments["cluster"]))
        before = work.noted("boots")
        if not isinstance(before, Mapping):
            before = yield from on_each(site, hosts, lambda host: boot_of(site.shell, host), "asking for their boot")
            work.note("boots", before)
        old = {host: str(before[host]) for host in hosts}
        now = yield from _boots(site, hosts)
        still = [host for host in hosts if now[host] == old[host]]
        for host in still:
            yield f"rebooting {host}"
            _reboot(site, host)
        yield from _await(site, old, work.timeout or _LIMIT)
        return done(f"{folded(still)} rebooted") if still else unchanged("all of them were rebooted already")


def boot_of(shell: ShellSight, host: str) -> str:
    """Return the id of the boot that a host is in."""
    return asked(shell, host, _BOOT).decode("ascii", "replace").strip()


def _boots(site: Site, hosts: Sequence[str]) -> Generator[str, None, dict[str, str]]:
    """Return the boot of each host, nothing for one that does not answer now."""

    def ask(host: str) -> str:
        try:
            return boot_of(site.shell, host)
        except (CannotReach, TimedOut):
            return ""

    return (yield from on_each(site, hosts, ask, "asking for their boot"))


def _reboot(site: Site, host: str) -> None:
    try:
        ran = site.shell.run(host, "systemctl reboot", timeout=60.0)
    except (CannotReach, TimedOut):
        return  # the connection goes down with the host; whether it is back is looked at
    if not ran.ok and ran.status != 255:
        raise WorkFailed(f"{host} could not be rebooted", detail=[ran.err.decode("utf-8", "replace").strip()[-200:]])


def _await(site: Site, before: Mapping[str, str], limit: float) -> Generator[str, None, None]:
    begun = site.clock.monotonic()
    for pause in pauses():
        now = yield from _boots(site, list(before))
        away = [host for host, boot in now.items() if boot in ("", before[host])]
        if not away:
            return
        if site.clock.monotonic() - begun > limit:
            raise TimedOut(
                f"{len(away)} hosts are not back", detail=away, hint="look at them, then `maint playbook resume`"
            )
        yield f"waiting for {folded(away)}"
        site.clock.sleep(pause)


class VerifyGone(Step[ClusterArguments]):
    """Looks whether anything of a cluster is left on its hosts and in the manager."""

    kind = "ecs.verify"
    help = "See that the manager lists an ECS cluster no more, and that nothing of it is left on its hosts."
    effect = Effect.READ
    arguments = ClusterArguments

    def plan(self, args: ClusterArguments, sight: Sight) -> Iterable[Action]:
        """Plan what will be looked for."""
        ecs = ecs_cluster(sight, args.cluster)
        paths = paths_of(ecs)
        volumes = {
            host: [one.path for one in listed if one.volume and one.form != "link"]
            for host, listed in removals_on(sight, ecs.hosts, paths).items()
        }
        hosts: dict[str, Json] = {host: list(kept) for host, kept in volumes.items()}
        yield self.action(
            f"cluster {ecs.cluster.name}",
            f"see that nothing of it is left on {', '.join(ecs.hosts)}",
            {"cluster": ecs.cluster.name, "paths": paths, "hosts": hosts},
            facts={"cluster": ecs.cluster.name, "hosts": list(ecs.hosts)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look, and name all that is left."""
        name, hosts = str(action.arguments["cluster"]), hosts_of(action)
        left = [f"the manager lists {one.name}" for one in site.manager.clusters() if one.name == name]
        paths = texts(action.arguments["paths"])
        found = yield from on_each(
            site, list(hosts), lambda host: _left(site, host, paths, texts(hosts[host])), "looking for what is left"
        )
        left += [f"{host}: {words}" for host, listed in found.items() for words in listed]
        if left:
            hint = "remove it by hand, then `maint playbook resume`"
            raise WorkFailed(f"something of cluster {name} is left", detail=left, hint=hint)
        return done(f"nothing of cluster {name} is left on {folded(list(hosts))}, nor in the manager")


def _left(site: Site, host: str, paths: Sequence[str], volumes: Sequence[str]) -> list[str]:
    survey = surveyed(site.shell, host, paths)
    left = [one.words for one in judged(survey.found, survey.mounts)[0] if one.path not in volumes]
    left += [f"{path} is not empty" for path in volumes if _holds_something(site.shell, host, path)]
    left += [f"{one.name} ({one.image}) is a registry container" for one in registries(site.shell, host) or ()]
    return left + (["the package of iSCSI is installed"] if survey.package else [])


def _holds_something(shell: ShellSight, host: str, path: str) -> bool:
    return bool(asked(shell, host, f"find {shlex.quote(path)} -mindepth 1 -maxdepth 1".encode()).strip())
