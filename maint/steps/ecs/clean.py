"""Clean the hosts of a stopped ECS cluster: rke2, iSCSI, mounts, folders (contract section 6.1, steps 3 to 5)."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from maint.errors import Refused, WorkFailed
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.ecs.cluster import Ecs, ecs_cluster, refuse_running
from maint.steps.ecs.paths import Removal, changed, judged, still_mounted, to_unmount
from maint.steps.ecs.registry import PLAN_ANEW, cluster_of, hosts_of, identity
from maint.steps.ecs.survey import BIN, PACKAGE, Survey, paths_of, planned, removals_on, surveyed
from maint.steps.guards import keep, plan_to_keep, prove_cluster
from maint.steps.hosts.fan_out import folded, on_each, texts, told
from maint.steps.hosts.script import script
from maint.steps.manager.clusters import DeleteArguments, proof_words, proven
from maint.steps.step import Progress, Step, done

_LIMIT = 900.0  # seconds for scripts and packages on one host
_REMOVING = 7200.0  # seconds for removing folders on one host


class CleanHosts(Step[DeleteArguments]):
    """Cleans all hosts of a cluster, each part on all of them before the next begins."""

    kind = "ecs.clean"
    help = (
        "End rke2 on an ECS cluster's hosts, take iSCSI off, unmount and remove its folders, once a way back is proven."
    )
    effect = Effect.DESTROY
    arguments = DeleteArguments

    def plan(self, args: DeleteArguments, sight: Sight) -> Iterable[Action]:
        """Plan every path on every host; refuses where one must not go, where a host is silent, and without a proof."""
        ecs = ecs_cluster(sight, args.cluster)
        snapshot = proven(args, sight, ecs.cluster)
        paths = paths_of(ecs)
        removals = removals_on(sight, ecs.hosts, paths)
        hosts: dict[str, Json] = {host: [one.to_json() for one in listed] for host, listed in removals.items()}
        words = f"end rke2, remove {PACKAGE}, unmount what pods hold, and remove {_told(removals)}"
        yield self.action(
            f"hosts of cluster {ecs.cluster.name}",
            f"{words}{_beside(ecs)}{proof_words(args, snapshot)}{plan_to_keep(sight, args)}",
            {**args.model_dump(), **identity(ecs.cluster), "paths": paths, "hosts": hosts},
            undo="what lies in these folders does not come back; the cluster is installed anew",
            facts={"cluster": ecs.cluster.name, "hosts": hosts, "data": dict(ecs.data), "proof": snapshot},
            confirm=ecs.cluster.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Look again, prove again, then one part after the other; whatever fails on a host ends the run there."""
        hosts, paths = (
            {host: planned(value) for host, value in hosts_of(action).items()},
            texts(action.arguments["paths"]),
        )
        refuse_running(site.manager, str(action.arguments["cluster"]))
        surveys = yield from _surveys(site, list(hosts), paths, "looking at the folders of the cluster's hosts")
        _refuse_changed(hosts, surveys)
        yield from prove_cluster(action, site, cluster_of(action))
        kept = yield from keep(action, site, work)
        yield from _ended(site, work, surveys)
        off = [host for host, survey in surveys.items() if survey.package or survey.iscsid]
        yield from _told_all(site, off, script("ecs-iscsi", package=PACKAGE), f"taking {PACKAGE} off")
        surveys = yield from _surveys(site, list(hosts), paths, "looking at what is mounted")
        yield from _unmounted(site, surveys)
        surveys = yield from _surveys(site, list(hosts), paths, "looking at what is left")
        _refuse_changed(hosts, surveys)
        count = yield from _removed(site, work, hosts, surveys)
        return done(f"{count} paths removed on {folded(list(hosts))}; {kept}")


def _told(removals: Mapping[str, Sequence[Removal]]) -> str:
    """Return what goes from which host; hosts that lose the same stand together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, listed in removals.items():
        groups.setdefault(tuple(one.words for one in listed), []).append(host)
    return "; ".join(f"on {', '.join(hosts)}: {', '.join(paths) or 'nothing'}" for paths, hosts in groups.items())


def _beside(ecs: Ecs) -> str:
    """Return what the operator should know about data directories and hosts."""
    others = ", ".join(f"{key}={value}" for key, value in ecs.others.items())
    left = f"; left alone, though a setting names it: {others}" if others else ""
    shared = [f"{host} carries roles of {' and '.join(owners)} too" for host, owners in ecs.shared.items()]
    left += f"; WARNING: {', '.join(shared)}" if shared else ""
    return left if ecs.data else f"{left}; WARNING: the manager names no data directory of this cluster"


def _refuse_changed(hosts: Mapping[str, Sequence[Removal]], surveys: Mapping[str, Survey]) -> None:
    """Refuse where anything that would go is not what the plan says, or must not go (any more)."""
    problems: list[str] = []
    for host, survey in surveys.items():
        removals, reasons = judged(survey.found, survey.mounts)
        problems += [f"{host}: {words}" for words in (*reasons, *changed(hosts[host], removals))]
    if problems:
        raise Refused("the hosts are not as the plan says, so nothing is removed", detail=problems, hint=PLAN_ANEW)


def _surveys(
    site: Site, hosts: Sequence[str], paths: Sequence[str], asking: str
) -> Generator[str, None, dict[str, Survey]]:
    return (yield from on_each(site, hosts, lambda host: surveyed(site.shell, host, paths), asking))


def _ended(site: Site, work: Work, surveys: Mapping[str, Survey]) -> Generator[str, None, None]:
    """Run rke2's own scripts where no earlier attempt has run both; they stay, being the parcel's."""
    ended = texts(work.noted("rke2 ended"))
    left = [host for host, survey in surveys.items() if survey.scripts and host not in ended]

    def note(host: str) -> None:
        ended.append(host)
        work.note("rke2 ended", list(ended))

    yield from _told_all(site, left, script("ecs-rke2", bin=BIN), "ending rke2", note)


def _told_all(
    site: Site, hosts: Sequence[str], words: bytes, doing: str, note: Callable[[str], object] = str
) -> Generator[str, None, None]:
    yield from on_each(site, hosts, lambda host: told(site.shell, host, words, timeout=_LIMIT), doing, done=note)


def _unmounted(site: Site, surveys: Mapping[str, Survey]) -> Generator[str, None, None]:
    """Unmount what pods held, and what containers left behind below the folders that go."""
    targets = {host: to_unmount(survey.found, survey.mounts) for host, survey in surveys.items()}

    def unmount(host: str) -> None:
        told(site.shell, host, script("ecs-unmount", targets=targets[host]), timeout=_LIMIT)

    yield from on_each(site, [host for host in surveys if targets[host]], unmount, "unmounting what pods held")


def _removed(
    site: Site, work: Work, hosts: Mapping[str, Sequence[Removal]], surveys: Mapping[str, Survey]
) -> Generator[str, None, int]:
    """Remove what the plan names and is still there; nothing on any host while something is mounted below it."""
    now = {host: judged(survey.found, survey.mounts)[0] for host, survey in surveys.items()}
    held = [f"{host}: {words}" for host, survey in surveys.items() for words in still_mounted(now[host], survey.mounts)]
    if held:
        hint = "end what holds it and unmount it, then `maint playbook resume`"
        raise WorkFailed("something is still mounted below what is to be removed", detail=held, hint=hint)
    paths = [found.path for survey in surveys.values() for found in survey.found]

    def remove(host: str) -> None:
        removing = script("ecs-remove", removals=[one.to_json() for one in now[host]])
        told(site.shell, host, removing, timeout=work.timeout or _REMOVING)
        left = judged(surveyed(site.shell, host, list(dict.fromkeys(paths))).found, surveys[host].mounts)[0]
        if standing := [one.words for one in left if not one.volume]:
            raise WorkFailed(f"{host}: still there: {', '.join(standing)}")

    yield from on_each(site, [host for host in hosts if now[host]], remove, "removing the cluster's folders")
    return sum(len(listed) for listed in now.values())
