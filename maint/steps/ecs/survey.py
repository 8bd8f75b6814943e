"""An ECS cluster as the manager knows it; what of it is on its hosts, and what of that may go (M6.1, steps 3 to 5)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

import msgspec

from maint.config.schema import HostSettings
from maint.errors import Refused, WorkFailed
from maint.model.json import Json
from maint.model.manager import PARCELS, Cluster, Host, Place, Service
from maint.model.plan import Action
from maint.ports import ManagerSight, ShellSight, Sight, Work
from maint.ports.hosts import configured_as
from maint.ports.manager_host import WHO, Itself
from maint.steps.hosts.fan_out import ask_script, map_hosts_now, require_ssh, script
from maint.steps.manager.clusters import refuse_made_anew, resolve, restless

BIN = f"{PARCELS}/ECS/bin"
PACKAGE = "iscsi-initiator-utils"
_BEGIN, _END = b"maint-ecs 1\0", b"end\0"
LISTED = (
    "/var/lib/longhorn", "/var/lib/calico", "/var/lib/docker", "/var/lib/docker_server", "/var/log/pods",
    "/var/log/containers", "/run/containerd", "/run/docker", "/run/longhorn-iscsi.lock", "/etc/docker", "/etc/iscsi",
    "/opt/containerd", "/opt/cni", "/run/k3s", "/var/lib/rancher", "/var/lib/kubelet",
)  # fmt: skip
UNMOUNTED = ("/var/lib/kubelet", "/var/lib/k3s")  # what is mounted below goes first
# Folders that a system needs; neither they nor what holds one of them is ever removed or emptied.
_SYSTEM = frozenset((
    "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/lost+found", "/media", "/mnt", "/opt",
    "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/var",
    "/var/cache", "/var/lib", "/var/log", "/var/run", "/var/spool", "/var/tmp", "/opt/cloudera/parcels",
    "/etc/cloudera-scm-agent", "/etc/cloudera-scm-server", "/var/lib/cloudera-scm-agent",
    "/var/lib/cloudera-scm-server", "/var/log/cloudera-scm-agent", "/var/log/cloudera-scm-server",
))  # fmt: skip
# Nothing inside these is data of a cluster, whatever a setting or a link says.
_CLOSED = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/sbin", "/sys", "/usr",
    "/opt/cloudera", "/var/lib/cloudera-scm-agent", "/var/lib/cloudera-scm-server", "/var/lib/rpm", "/var/lib/dnf",
    "/var/lib/systemd", "/var/lib/pgsql", "/var/lib/mysql", "/var/log/cloudera-scm-agent",
    "/var/log/cloudera-scm-server", "/var/log/journal",
)  # fmt: skip
# File systems that containers bring along, and that hold nothing when the containers are gone.
_CONTAINERS = r"overlay|tmpfs|nsfs|proc|sysfs|mqueue|cgroup2?|devpts|fuse\.fuse-overlayfs"
_ODD = r"[\x00-\x1f\x7f]"
# Settings that name a data directory, by type of service.
_DATA = {"DOCKER": ("defaultDataPath",), "ECS": ("defaultDataPath", "lsoDataPath")}


def or_only_the_api(mend: str, cluster: str) -> str:
    """Return what to mend before a cluster's hosts are cleaned, or, before anything has begun, what does without."""
    return f"{mend}; or only the API calls: `maint cluster delete {quote(cluster)} --api-only`"


class Ecs(msgspec.Struct, frozen=True):
    """An ECS cluster."""

    cluster: Cluster
    hosts: Sequence[str]  # the names that the config gives its hosts
    data: Mapping[str, str]  # its data directories by the setting that names them, such as `ecs.lsoDataPath`
    others: Mapping[str, str]  # further settings that hold a path; what they name is left alone
    # hosts that carry roles of other clusters or of the management service too, and whose
    shared: Mapping[str, Sequence[str]]


def ecs_cluster(sight: Sight, name: str) -> Ecs:
    """Return an ECS cluster by name or display name; Refused where it is not one, or the config lacks SSH or hosts."""
    cluster = resolve(sight.manager, name)
    if not cluster.is_ecs:
        raise Refused(
            f"cluster {cluster.name} is not an ECS cluster ({cluster.type or 'of no type'}, {cluster.version})",
            hint=f"`maint cluster delete {quote(cluster.name)}` takes the playbook that fits",
        )
    require_ssh(sight, f"the hosts of cluster {cluster.name} (or not: --api-only)")
    services, hosts = sight.manager.services(cluster.name), sight.manager.hosts()
    settings = dict(_settings(sight.manager, cluster.name, services))
    wanted = {f"{service.name}.{key}" for service in services for key in _DATA.get(service.type, ())}
    data = {key: value for key, value in settings.items() if key in wanted and value}
    others = {key: value for key, value in settings.items() if key not in wanted and value.startswith("/")}
    shared = _shared(sight.settings.hosts, hosts, cluster.name)
    configured = _configured(sight, cluster, services, hosts)
    refuse_strangers(sight, configured, hosts, cluster=cluster.name)
    return Ecs(cluster, configured, data, others, shared)


def refuse_running(action: Action, manager: ManagerSight, work: Work) -> None:
    """Refuse while an action's cluster runs, naming the services that are not at rest, or was made anew; one gone from
    the manager does not run.
    """
    if (found := refuse_made_anew(action, manager, work)) is None:
        return
    if running := restless(manager, found.name):
        hint = f"`maint cluster stop {quote(found.name)}`, then `maint playbook resume`"
        raise Refused(f"cluster {found.name} is not at rest, so its hosts are left alone", detail=running, hint=hint)


def refuse_strangers(
    sight: Sight, names: Sequence[str], listed: Sequence[Host] | None = None, *, cluster: str = ""
) -> None:
    """Refuse where an address of the config leads to another machine than the host that the manager knows by that name.

    A host is known by a name that it calls itself, or by an address of one of its interfaces.

    Args:
        listed: the hosts as the manager lists them, where that is known already.
        cluster: the one whose plan is being made; "" once it is carried out: some hosts may be half clean by then.
    """

    def way(mend: str) -> str:
        return or_only_the_api(mend, cluster) if cluster else f"{mend}, then `maint playbook resume`"

    asking, hint = "asking the cluster's hosts who they are", way("mend these hosts")
    answers = map_hosts_now(sight, names, lambda name: ask_script(sight.shell, name, WHO), asking, hint)
    hosts = listed or sight.manager.hosts()
    known = {name: host for host in hosts for name in configured_as(sight.settings.hosts, host)}
    strangers: list[str] = []
    for name, answer in answers.items():
        itself, host = Itself.of(answer.decode("utf-8", "replace")), known.get(name)
        if host is not None and not itself.is_one(host.hostname, host.address):
            words = f"calls itself {itself.words}, not {host.hostname} ({host.address})"
            strangers.append(f"{name}: what answers there {words}")
    if strangers:
        raise Refused(
            "an address of the config leads to a machine that is not the cluster's host, so nothing is done",
            detail=strangers,
            hint=way("set `address` and `port` right under `hosts:`"),
        )


def _configured(sight: Sight, cluster: Cluster, services: Sequence[Service], hosts: Sequence[Host]) -> Sequence[str]:
    # Each host of the cluster must have one name in the config, and only one.
    known = {host.host_id: host for host in hosts}
    roles = [role for service in services for role in sight.manager.roles(Place(cluster.name, service.name))]
    ids = dict.fromkeys(role.host_id for role in roles if role.host_id)
    ids |= dict.fromkeys(host.host_id for host in known.values() if host.cluster == cluster.name)
    strangers: list[str] = []
    found: list[str] = []
    for host_id in ids:
        matches = configured_as(sight.settings.hosts, known[host_id]) if host_id in known else []
        alone = len(matches) == 1 and matches[0] not in found
        strangers += [] if alone else [_described(host_id, known.get(host_id), matches)]
        found += matches
    if strangers or not found:
        raise Refused(
            f"not every host of cluster {cluster.name} can be worked on",
            detail=strangers or ["the manager names no host of it"],
            hint=or_only_the_api("list each under `hosts:`, then `maint host trust`", cluster.name),
        )
    return sorted(set(found))


def _shared(configured: Sequence[HostSettings], hosts: Sequence[Host], cluster: str) -> Mapping[str, Sequence[str]]:
    found: dict[str, Sequence[str]] = {}
    for host in hosts:
        others = [owner for owner in host.owners if owner != cluster]
        if others and cluster in host.owners:
            found |= dict.fromkeys(configured_as(configured, host), others)
    return found


def _described(host_id: str, host: Host | None, matches: Sequence[str]) -> str:
    if host is None:
        return f"host {host_id}: the manager has roles on it, and does not list it"
    words = f"is {' and '.join(matches)} in the config, as another one may be" if matches else "is not in the config"
    return f"host {host.hostname} ({host.address}) {words}"


def _settings(manager: ManagerSight, cluster: str, services: Sequence[Service]) -> Iterator[tuple[str, str]]:
    # What is not set has its default.
    for service in services:
        for one in manager.settings_of(Place(cluster, service.name)):
            value = one.default if one.value is None else one.value
            if value is not None and one.sensitive is not True:
                yield f"{service.name}.{one.name}", value


class Mount(msgspec.Struct, frozen=True):
    """A file system: where it is mounted, and of which kind."""

    target: str
    kind: str


class Found(msgspec.Struct, frozen=True):
    """What a host says about one path."""

    path: str  # as M6.1 or a setting spells it
    form: str  # none, folder, file or link
    real: str  # where it leads, without links; empty where a link leads nowhere


class Removal(msgspec.Struct, frozen=True):
    """What goes from a host."""

    path: str  # as M6.1 or a setting spells it
    form: str  # folder, file or link
    real: str  # the path itself, without links on the way, or a link's target; empty for a link that leads nowhere
    volume: str  # the file system of a volume of its own, which is emptied only; empty where it is not one

    @property
    def words(self) -> str:
        """What the plan says."""
        way = f" -> {self.real}" if self.real not in ("", self.path) else " -> nowhere" if not self.real else ""
        return f"{self.path}{way}{f' (a volume of its own, {self.volume}: emptied)' if self.volume else ''}"


def spelled(path: str) -> str:
    """Return a path of a setting in its one spelling; ValueError, with the reason, for what must never be removed."""
    if re.search(_ODD, path):
        raise ValueError("holds a control character or a line break")
    if not path.startswith("/"):
        raise ValueError("is not absolute")
    if any(part in (".", "..") for part in path.split("/")):
        raise ValueError("holds `.` or `..`")
    return "/" + "/".join(part for part in path.split("/") if part)


def judge_paths(found: Sequence[Found], mounts: Sequence[Mount]) -> tuple[list[Removal], list[str]]:
    """Return what would be removed from a host, and reasons to remove nothing at all."""
    removals: list[Removal] = []
    problems: list[str] = []
    unmounted = {one.real for one in found if one.path in UNMOUNTED} | set(UNMOUNTED)
    for one in found:
        if one.form == "none" or one.path not in removable([one.path for one in found]):
            continue
        problem = _problem(one, mounts, unmounted) if one.real else ""
        if problem:
            problems.append(f"{one.path}{problem}")
        own = [mount.kind for mount in mounts if mount.target == one.real]
        removals.append(Removal(one.path, one.form, one.real, own[-1] if own else ""))
    return removals, problems


def removable(paths: Sequence[str]) -> list[str]:
    """Return the paths that go themselves; what is only asked about to be unmounted does not."""
    return [path for path in paths if path not in set(UNMOUNTED) - set(LISTED)]


def _problem(found: Found, mounts: Sequence[Mount], unmounted: set[str]) -> str:
    # The words follow the path; empty where it may go.
    way = f" leads to {found.real}, which" if found.real != found.path else ""
    if re.search(_ODD, found.real):
        return f" leads to {found.real!r}, whose name holds a control character"
    if _is_or_holds_system(found.real):
        return f"{way} is a folder of the system"
    if found.form == "file" and found.path not in LISTED:
        return f"{way} is a file, where a folder should be"
    listed = found.path in LISTED and found.form != "link" and found.real == found.path
    if not listed and any(within(found.real, closed) for closed in _CLOSED):
        return f"{way} lies in a folder of the system"
    below = [mount for mount in mounts if within(mount.target, found.real) and mount.target != found.real]
    for mount in below:
        if not (re.fullmatch(_CONTAINERS, mount.kind) or any(within(mount.target, folder) for folder in unmounted)):
            return f"{way} is the parent of a mount point: {mount.target} ({mount.kind})"
    return ""


def still_mounted(removals: Sequence[Removal], mounts: Sequence[Mount]) -> list[str]:
    """Return mount points below what is about to go: nothing is removed while there is one."""
    return [
        f"{mount.target} ({mount.kind}) is mounted below {one.real}"
        for one in removals
        for mount in mounts
        if one.real and mount.target != one.real and within(mount.target, one.real)
    ]


def to_unmount(found: Sequence[Found], mounts: Sequence[Mount]) -> list[tuple[str, bool]]:
    """Return what is to be unmounted, the last mounted first, and whether also while something uses it.

    Below kubelet's folders that is everything: what is in use there goes out of sight, so that nothing in it can be
    removed. Elsewhere it is what containers left behind; what is in use there belongs to somebody, and stops the run.
    """
    kubelets = [one.real for one in found if one.path in UNMOUNTED and one.real]
    others = [one.real for one in found if one.path not in UNMOUNTED and one.real]

    def below(mount: Mount, folders: Sequence[str]) -> bool:
        return any(within(mount.target, folder) and mount.target != folder for folder in folders)

    held = [(mount, below(mount, kubelets)) for mount in reversed(mounts)]
    return [
        (mount.target, of_pods)
        for mount, of_pods in held
        if of_pods or (re.fullmatch(_CONTAINERS, mount.kind) and below(mount, others))
    ]


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder, or lies in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _is_or_holds_system(path: str) -> bool:
    return any(within(system, path) for system in _SYSTEM)


def changed(planned: Sequence[Removal], now: Sequence[Removal]) -> list[str]:
    """Return what differs from the plan: what is gone does not count, what appeared or became another thing does."""
    before: Mapping[str, Removal] = {one.path: one for one in planned}
    return [
        f"{one.path} has appeared" if one.path not in before else f"{before[one.path].words} is now {one.words}"
        for one in now
        if before.get(one.path) != one and not _link_left(before.get(one.path), one)
    ]


def _link_left(planned: Removal | None, now: Removal) -> bool:
    # The target of a planned link is gone, the link itself is left.
    return planned is not None and planned.form == now.form == "link" and not now.real


class Survey(msgspec.Struct, frozen=True):
    """What is on one host."""

    found: Sequence[Found]  # each path that was asked about
    mounts: Sequence[Mount]  # what is mounted, in the order in which it was
    scripts: Sequence[str]  # which of rke2's scripts are there
    package: bool  # whether the package of iSCSI is installed
    iscsid: bool  # whether its daemon runs


def paths_of(ecs: Ecs) -> list[str]:
    """Return all paths that are asked about: those of M6.1, and the data directories, or refuse."""
    problems: list[str] = []
    paths = dict.fromkeys([*LISTED, *UNMOUNTED])
    for setting, path in ecs.data.items():
        try:
            paths[spelled(path)] = None
        except ValueError as error:
            problems.append(f"{setting} is {path!r}, which {error}")
    if problems:
        raise Refused(
            f"the data directories of cluster {ecs.cluster.name} cannot be removed as they are set, so nothing is",
            detail=problems,
            hint=or_only_the_api("set them right in the manager", ecs.cluster.name),
        )
    return list(paths)


def survey_host(shell: ShellSight, host: str, paths: Sequence[str]) -> Survey:
    """Ask one host; WorkFailed where its answer is not whole."""
    answer = ask_script(shell, host, script("ecs-survey", paths=list(paths), bin=BIN, package=PACKAGE))
    _, begun, rest = answer.partition(_BEGIN)
    words = rest.removesuffix(_END).split(b"\0")
    if not begun or not rest.endswith(_END) or len(words) != len(paths) * 2 + 5:
        raise WorkFailed(
            f"{host}: what it says about its folders is not whole",
            hint="run it again; where it stays so, look at that host by hand",
        )
    texts = [word.decode("utf-8", "backslashreplace") for word in words]
    found = [Found(path, *texts[2 * n : 2 * n + 2]) for n, path in enumerate(paths)]
    table, scripts, package, iscsid = texts[2 * len(paths) : -1]
    return Survey(found, _mounts(table), scripts.split(), package == "yes", iscsid == "yes")


def removals_on(sight: Sight, ecs: Ecs, paths: Sequence[str]) -> dict[str, list[Removal]]:
    """Return what would go from each host of a cluster.

    Raises:
        CannotReach: a host does not answer: nothing starts then.
        Refused: something would go that must not; each is named.
    """
    asking, way = "looking at the folders of the cluster's hosts", or_only_the_api("mend these hosts", ecs.cluster.name)
    found = map_hosts_now(sight, ecs.hosts, lambda host: survey_host(sight.shell, host, paths), asking, way)
    judgements = {host: judge_paths(survey.found, survey.mounts) for host, survey in found.items()}
    problems = [f"{host}: {problem}" for host, (_, listed) in judgements.items() for problem in listed]
    if problems:
        raise Refused(
            "some of the cluster's folders must not be removed, so nothing is",
            detail=problems,
            hint="set the directory right in the manager, or put the link or the mount right on the host",
        )
    return {host: removals for host, (removals, _) in judgements.items()}


def planned(value: Json) -> list[Removal]:
    """Return what goes from one host, as the arguments of an action have it."""
    return msgspec.convert(value, list[Removal])


def _mounts(table: str) -> list[Mount]:
    rows = [line.split(" ") for line in table.splitlines()]
    return [Mount(_plain(row[1]), row[2]) for row in rows if len(row) > 2]


def _plain(word: str) -> str:
    # In /proc/mounts blanks, tabs, line breaks and backslashes stand in octal.
    return re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), word)
