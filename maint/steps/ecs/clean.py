"""Clean the hosts of a stopped ECS cluster (M6.1, steps 3 to 5), restart them, and see that nothing is left."""

import shlex
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

import msgspec

from maint.errors import CannotReach, Refused, TimedOut, WorkFailed
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.manager import PARCELS, Cluster
from maint.model.plan import Action, Effect
from maint.ports import ShellSight, Sight, Site, Work
from maint.steps.ecs.survey import (
    BIN,
    PACKAGE,
    Ecs,
    Removal,
    Survey,
    changed,
    ecs_cluster,
    judge_paths,
    or_only_the_api,
    paths_of,
    planned,
    refuse_running,
    refuse_strangers,
    removals_on,
    still_mounted,
    survey_host,
    to_unmount,
)
from maint.steps.guards import contents_proof, contents_words, keep, plan_to_keep, prove_cluster, prove_contents
from maint.steps.hosts.fan_out import (
    SHELL,
    ask_script,
    error_text,
    host_list,
    map_hosts,
    map_hosts_now,
    output_of,
    run_script,
    script,
    texts,
)
from maint.steps.manager.clusters import (
    ClusterArguments,
    DeleteArguments,
    carried,
    named,
    own_id,
    proof_words,
    proven,
    refuse_made_anew,
)
from maint.steps.manager.commands import wait_until
from maint.steps.step import Progress, Step, done, unchanged

DOCKER = f"{PARCELS}/ECS/docker/docker"
_ABSENT = 5  # status of the script where docker does not answer
_REGISTRY_LIMIT = 300.0  # seconds for one host


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
    ran = shell.ask(
        host, SHELL, stdin=script("ecs-registry-list", docker=DOCKER, absent=_ABSENT), timeout=_REGISTRY_LIMIT
    )
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
        hint = or_only_the_api("mend these hosts", ecs.cluster.name)
        found = map_hosts_now(sight, ecs.hosts, lambda host: containers(sight.shell, host) or (), asking, hint)
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
            facts={"cluster": ecs.cluster.name, "hosts": hosts, "proof": snapshot, **own_id(ecs.cluster)},
            confirm=ecs.cluster.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Nothing starts unless all hosts answer; then the guards, then the containers that the plan names."""
        hosts = hosts_of(action)
        refuse_made_anew(action, site.manager, work)
        refuse_strangers(site, list(hosts))
        planned = {host: msgspec.convert(value, list[Container]) for host, value in hosts.items()}
        asking = "asking docker on the cluster's hosts"
        found = yield from map_hosts(site, list(hosts), lambda host: registries(site.shell, host), asking)
        strangers = [f"{one.name} on {host}" for host in hosts for one in found[host] or () if one not in planned[host]]
        if strangers:
            what = "docker shows a registry that the plan does not name"
            raise Refused(what, detail=strangers, hint=_plan_anew(action))
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
            run_script(site.shell, host, removing, timeout=_REGISTRY_LIMIT)
            if registries(site.shell, host):
                raise WorkFailed(
                    f"{host}: docker still shows the registry",
                    hint="remove the container by hand (`docker rm -f`), then `maint playbook resume`",
                )

        yield from map_hosts(site, list(found), remove, "removing the registry")


def _plan_anew(action: Action) -> str:
    name = shlex.quote(str(action.arguments["cluster"]))
    return f"look at what changed on these hosts, then plan anew: `maint cluster delete {name}`"


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


_LIMIT = 900.0  # seconds for scripts and packages on one host
_REMOVING = 7200.0  # seconds for removing folders on one host


class CleanHosts(Step[DeleteArguments]):
    """End rke2 on an ECS cluster's hosts, take iSCSI off, unmount and remove its folders, once a way back is proven."""

    kind = "ecs.clean"
    effect = Effect.DESTROY

    def plan(self, args: DeleteArguments, sight: Sight) -> Iterable[Action]:
        """Plan every path on every host; refuses where one must not go, where a host is silent, and without a proof."""
        ecs = ecs_cluster(sight, args.cluster)
        snapshot = proven(args, sight, ecs.cluster)
        paths = paths_of(ecs)
        contents = contents_proof(sight, args)
        proofs = f"{proof_words(args, snapshot)}{contents_words(sight, args, contents)}"
        proofs += carried(sight, ecs.cluster, args)
        removals = removals_on(sight, ecs, paths)
        hosts: dict[str, Json] = msgspec.to_builtins(removals)
        words = f"end rke2, remove {PACKAGE}, unmount what pods hold, and remove {_removal_words(removals)}"
        yield self.action(
            f"hosts of cluster {ecs.cluster.name}",
            f"{words}{_beside(ecs)}{proofs}{plan_to_keep(sight, args)}",
            {**args.model_dump(), **identity(ecs.cluster), "paths": paths, "hosts": hosts, **named(contents)},
            undo="what lies in these folders does not come back; the cluster is installed anew",
            facts={
                "cluster": ecs.cluster.name,
                "hosts": hosts,
                "data": dict(ecs.data),
                "proof": snapshot,
                **own_id(ecs.cluster),
                **named(contents),
            },
            confirm=ecs.cluster.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look again, prove again, then one part after the other; whatever fails on a host ends the run there."""
        hosts, paths = (
            {host: planned(value) for host, value in hosts_of(action).items()},
            texts(action.arguments["paths"]),
        )
        refuse_running(action, site.manager, work)
        refuse_strangers(site, list(hosts))
        surveys = yield from _surveys(site, list(hosts), paths, "looking at the folders of the cluster's hosts")
        _refuse_changed(action, hosts, surveys)
        yield from prove_cluster(action, site, cluster_of(action))
        yield from prove_contents(action, site, work)
        kept = yield from keep(action, site, work)
        yield from _ended(site, work, surveys)
        off = [host for host, survey in surveys.items() if survey.package or survey.iscsid]
        yield from _run_everywhere(site, off, script("ecs-iscsi", package=PACKAGE), f"taking {PACKAGE} off")
        surveys = yield from _surveys(site, list(hosts), paths, "looking at what is mounted")
        yield from _unmounted(site, surveys)
        surveys = yield from _surveys(site, list(hosts), paths, "looking at what is left")
        _refuse_changed(action, hosts, surveys)
        count = yield from _removed(site, work, hosts, surveys)
        return done(f"{show_count(count, 'path')} removed on {host_list(list(hosts))}; {kept}")


def _removal_words(removals: Mapping[str, Sequence[Removal]]) -> str:
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, listed in removals.items():
        groups.setdefault(tuple(one.words for one in listed), []).append(host)
    return "; ".join(f"on {', '.join(hosts)}: {', '.join(paths) or 'nothing'}" for paths, hosts in groups.items())


def _beside(ecs: Ecs) -> str:
    others = ", ".join(f"{key}={value}" for key, value in ecs.others.items())
    left = f"; left alone, though a setting names it: {others}" if others else ""
    shared = [f"{host} carries roles of {' and '.join(owners)} too" for host, owners in ecs.shared.items()]
    left += f"; WARNING: {', '.join(shared)}" if shared else ""
    return left if ecs.data else f"{left}; WARNING: the manager names no data directory of this cluster"


def _refuse_changed(action: Action, hosts: Mapping[str, Sequence[Removal]], surveys: Mapping[str, Survey]) -> None:
    problems: list[str] = []
    for host, survey in surveys.items():
        removals, reasons = judge_paths(survey.found, survey.mounts)
        problems += [f"{host}: {words}" for words in (*reasons, *changed(hosts[host], removals))]
    if problems:
        what = "the hosts are not as the plan says, so nothing is removed"
        raise Refused(what, detail=problems, hint=_plan_anew(action))


def _surveys(
    site: Site, hosts: Sequence[str], paths: Sequence[str], asking: str
) -> Generator[str, None, dict[str, Survey]]:
    return (yield from map_hosts(site, hosts, lambda host: survey_host(site.shell, host, paths), asking))


def _ended(site: Site, work: Work, surveys: Mapping[str, Survey]) -> Generator[str, None, None]:
    # rke2's own scripts run where no earlier attempt has run both; they stay, being the parcel's.
    ended = texts(work.noted("rke2 ended"))
    left = [host for host, survey in surveys.items() if survey.scripts and host not in ended]

    def note(host: str) -> None:
        ended.append(host)
        work.note("rke2 ended", list(ended))

    yield from _run_everywhere(site, left, script("ecs-rke2", bin=BIN), "ending rke2", note)


def _run_everywhere(
    site: Site, hosts: Sequence[str], words: bytes, doing: str, note: Callable[[str], object] = str
) -> Generator[str, None, None]:
    yield from map_hosts(
        site, hosts, lambda host: run_script(site.shell, host, words, timeout=_LIMIT), doing, done=note
    )


def _unmounted(site: Site, surveys: Mapping[str, Survey]) -> Generator[str, None, None]:
    # What pods held, and what containers left behind below the folders that go.
    targets = {host: to_unmount(survey.found, survey.mounts) for host, survey in surveys.items()}

    def unmount(host: str) -> None:
        run_script(site.shell, host, script("ecs-unmount", targets=targets[host]), timeout=_LIMIT)

    yield from map_hosts(site, [host for host in surveys if targets[host]], unmount, "unmounting what pods held")


def _removed(
    site: Site, work: Work, hosts: Mapping[str, Sequence[Removal]], surveys: Mapping[str, Survey]
) -> Generator[str, None, int]:
    # Nothing goes on any host while something is mounted below it.
    now = {host: judge_paths(survey.found, survey.mounts)[0] for host, survey in surveys.items()}
    held = [f"{host}: {words}" for host, survey in surveys.items() for words in still_mounted(now[host], survey.mounts)]
    if held:
        hint = "end what holds it and unmount it, then `maint playbook resume`"
        raise WorkFailed("something is still mounted below what is to be removed", detail=held, hint=hint)
    paths = [found.path for survey in surveys.values() for found in survey.found]

    def remove(host: str) -> None:
        removing = script("ecs-remove", removals=msgspec.to_builtins(now[host]))
        run_script(site.shell, host, removing, timeout=work.timeout or _REMOVING)
        left = judge_paths(survey_host(site.shell, host, list(dict.fromkeys(paths))).found, surveys[host].mounts)[0]
        if standing := [one.words for one in left if not one.volume]:
            raise WorkFailed(
                f"{host}: still there: {', '.join(standing)}",
                hint="see what still uses them (`fuser -vm`, `mount`), then `maint playbook resume`",
            )

    yield from map_hosts(site, [host for host in hosts if now[host]], remove, "removing the cluster's folders")
    return sum(len(listed) for listed in now.values())


_BOOT = b"cat /proc/sys/kernel/random/boot_id"


class RebootHosts(Step[ClusterArguments]):
    """Start the hosts of an ECS cluster anew, each once, and wait until they answer."""

    kind = "ecs.reboot"
    effect = Effect.CHANGE

    def plan(self, args: ClusterArguments, sight: Sight) -> Iterable[Action]:
        """Plan the hosts; the cluster itself is gone when their turn comes."""
        ecs = ecs_cluster(sight, args.cluster)
        yield self.action(
            f"hosts of cluster {ecs.cluster.name}",
            f"reboot {', '.join(ecs.hosts)}",
            {"cluster": ecs.cluster.name, "hosts": list(ecs.hosts)},
            facts={"cluster": ecs.cluster.name, "hosts": list(ecs.hosts), **own_id(ecs.cluster)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        hosts = texts(action.arguments["hosts"])
        refuse_running(action, site.manager, work)
        refuse_strangers(site, hosts)
        before = work.noted("boots")
        if not isinstance(before, Mapping):
            before = yield from map_hosts(site, hosts, lambda host: boot_of(site.shell, host), "asking for their boot")
            work.note("boots", before)
        old = {host: str(before[host]) for host in hosts}
        now = _boots(site, hosts)
        still = [host for host in hosts if now[host] == old[host]]
        for host in still:
            yield f"rebooting {host}"
            _reboot(site, host)

        def away() -> list[str]:
            return [host for host, boot in _boots(site, hosts).items() if boot in ("", old[host])]

        hint = "look at them, then `maint playbook resume`"
        yield from wait_until(site.clock, work.timeout or _LIMIT, away, "hosts are not back", hint)
        return done(f"{host_list(still)} rebooted") if still else unchanged("all of them were rebooted already")


def boot_of(shell: ShellSight, host: str) -> str:
    """Return the id of the boot that a host is in."""
    return ask_script(shell, host, _BOOT).decode("ascii", "replace").strip()


def _boots(site: Site, hosts: Sequence[str]) -> dict[str, str]:
    # A host that does not answer now has no entry.
    def ask(host: str) -> str:
        try:
            return boot_of(site.shell, host)
        except (CannotReach, TimedOut):
            return ""

    return map_hosts_now(site, hosts, ask, "asking for their boot")


def _reboot(site: Site, host: str) -> None:
    try:
        ran = site.shell.run(host, "systemctl reboot", timeout=60.0)
    except (CannotReach, TimedOut):
        return  # the connection goes down with the host; whether it is back is looked at
    if ran.status > 0 and ran.status != 255:  # below 0, the host's going down has killed it
        raise WorkFailed(
            f"{host} could not be rebooted",
            detail=[error_text(ran)],
            hint="reboot it by hand, then `maint playbook resume`",
        )


class VerifyGone(Step[ClusterArguments]):
    """See that the manager lists an ECS cluster no more, and that nothing of it is left on its hosts."""

    kind = "ecs.verify"
    effect = Effect.READ

    def plan(self, args: ClusterArguments, sight: Sight) -> Iterable[Action]:
        ecs = ecs_cluster(sight, args.cluster)
        paths = paths_of(ecs)
        volumes = {
            host: [one.path for one in listed if one.volume and one.form != "link"]
            for host, listed in removals_on(sight, ecs, paths).items()
        }
        hosts: dict[str, Json] = {host: list(kept) for host, kept in volumes.items()}
        yield self.action(
            f"cluster {ecs.cluster.name}",
            f"see that nothing of it is left on {', '.join(ecs.hosts)}",
            {"cluster": ecs.cluster.name, "paths": paths, "hosts": hosts},
            facts={"cluster": ecs.cluster.name, "hosts": list(ecs.hosts)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        name, hosts = str(action.arguments["cluster"]), hosts_of(action)
        refuse_strangers(site, list(hosts))
        left = [f"the manager lists {one.name}" for one in site.manager.clusters() if one.name == name]
        paths = texts(action.arguments["paths"])
        found = yield from map_hosts(
            site, list(hosts), lambda host: _left(site, host, paths, texts(hosts[host])), "looking for what is left"
        )
        left += [f"{host}: {words}" for host, listed in found.items() for words in listed]
        if left:
            hint = "remove it by hand, then `maint playbook resume`"
            raise WorkFailed(f"something of cluster {name} is left", detail=left, hint=hint)
        return done(f"nothing of cluster {name} is left on {host_list(list(hosts))}, nor in the manager")


def _left(site: Site, host: str, paths: Sequence[str], volumes: Sequence[str]) -> list[str]:
    survey = survey_host(site.shell, host, paths)
    left = [one.words for one in judge_paths(survey.found, survey.mounts)[0] if one.path not in volumes]
    left += [f"{path} is not empty" for path in volumes if _holds_something(site.shell, host, path)]
    left += [f"{one.name} ({one.image}) is a registry container" for one in registries(site.shell, host) or ()]
    return left + (["the package of iSCSI is installed"] if survey.package else [])


def _holds_something(shell: ShellSight, host: str, path: str) -> bool:
    return bool(ask_script(shell, host, f"find {shlex.quote(path)} -mindepth 1 -maxdepth 1".encode()).strip())
