"""Judge the input for the wizard that makes an ECS cluster, before it is typed in."""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from maint.checks.check import BEFORE_INSTALL, FAIL, RUNNING, Check, Verdict, held
from maint.checks.disks import not_alone
from maint.checks.facts import TRY, HostFacts, NotApplicable, SiteFacts, names_of
from maint.checks.thresholds import threshold
from maint.model.fleet import State
from maint.model.json import Json

KEYS: Mapping[str, str] = {
    "type": "always `ecs`",
    "install": "`internet`, or the URL of a custom repository",
    "name": "the new cluster's name",
    "base_cluster": "the base cluster that it belongs to, as the manager knows it",
    "hosts": "all its hosts",
    "docker_server": "the one host with the image registry",
    "server": "the one host with the Kubernetes server",
    "agents": "the hosts with Kubernetes agents",
    "image_repository": "`embedded`, or the registry's address",
    "docker_dir": "folder for images",
    "data_dir": "folder for block storage",
    "local_path_dir": "folder for local volumes",
    "docker_size": "least size of the volume for images, such as `300G`; left out where any will do",
    "data_size": "least size of the volume for block storage",
    "local_path_size": "least size of the volume for local volumes",
    "app_domain": "the application domain, below which `*.apps.` must resolve",
    "load_balancer": "address that names below the domain lead to; left out without one",
    "database": "always `embedded`",
}
_SIZES = {"docker_size": "docker_dir", "data_size": "data_dir", "local_path_size": "local_path_dir"}
_OPTIONAL = ("load_balancer", *_SIZES)
_SIZE = re.compile(r"(\d+)([GT])")
_LISTS = ("hosts", "docker_server", "server", "agents")
_IN_NAMES = set("abcdefghijklmnopqrstuvwxyz0123456789.-_")  # of a URL's host, which urllib gives in lower case
Mistake = tuple[str, str]  # what is wrong, and what mends it
_FOLDERS = ("docker_dir", "data_dir", "local_path_dir")
QUESTIONS = {
    "plan_folders": "for d in $maint_folders; do if [ -d $d ]; then"
    ' echo "$d $(findmnt -no TARGET --target $d) $(df -Pk $d | sed -n 2p)"; else echo "$d missing"; fi; done; true',
    "plan_repository": '[ -n "$maint_repository" ] || exit 0; h=${maint_repository% *}; p=${maint_repository#* };'
    f'{TRY} echo "status=$?"',
}


@Check(
    id="ecs.plan", profiles="", severity=FAIL, asks=("plan_folders", "plan_repository", "wildcard"), source="FX",
    phases=(RUNNING, BEFORE_INSTALL),
    expected="all of the wizard's input complete, consistent and true of the hosts",
    why="The wizard finds out half an hour later, and leaves half a cluster behind.",
    remedy="mend the plan, or the hosts; `maint help checks` describes the file",
).cross_rule  # fmt: skip
def _judged(site: SiteFacts) -> Mapping[str, Verdict]:
    plan = site.setting.plan
    if plan is None:
        raise NotApplicable("no --plan was given")
    wrong = [*_form(plan), *_roles(plan), *_folders(plan), *_domain(plan, site), *_against_manager(plan, site)]
    wrong += _against_hosts(plan, site)
    mend = dict.fromkeys(mend for _, mend in wrong)  # where two mistakes go by one change, it is told once
    found = {"": held(not wrong, "; ".join(words for words, _ in wrong) or "complete and consistent", "; ".join(mend))}
    untried = [host.name for host in site.answering("plan_repository") if "tool=none" in host.lines("plan_repository")]
    if not wrong and untried:
        found["repository"] = Verdict(State.ERROR, f"neither nc nor bash to try the repository on {', '.join(untried)}")
    if not wrong and site.manager.reason:
        found["manager"] = Verdict(State.ERROR, f"the manager's API did not answer: {site.manager.reason}")
    return found


def names(plan: Mapping[str, Json], key: str) -> list[str]:
    """Return a list of names of the plan; one name counts as a list of one."""
    value = plan.get(key)
    if isinstance(value, str):
        return [value]
    return [str(item) for item in value] if isinstance(value, Sequence) else []


def names_below(plan: Mapping[str, Json]) -> str:
    """Return the domain whose names must resolve: `apps.` before the one that the wizard is given."""
    domain = str(plan.get("app_domain") or "")
    return domain if not domain or domain.startswith("apps.") else f"apps.{domain}"


def folders(plan: Mapping[str, Json] | None) -> list[str]:
    """Return the folders of the plan that are usable as words of a command."""
    values = [str((plan or {}).get(key) or "") for key in _FOLDERS]
    return [value for value in values if value.startswith("/") and not set(value) & set(" \t\n*?[]'\"\\$`;&|<>()")]


def repository(plan: Mapping[str, Json] | None) -> str:
    """Return host and port of the plan's custom repository with a blank between; nothing where it names none."""
    try:
        url = urlsplit(str((plan or {}).get("install") or ""))
        port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    except ValueError:
        return ""
    name = url.hostname or ""
    return f"{name} {port}" if port and name and not set(name) - _IN_NAMES else ""


def _form(plan: Mapping[str, Json]) -> Iterator[Mistake]:
    yield from ((f"unknown key {key}", f"take {key} out of the plan") for key in plan if key not in KEYS)
    missing = (key for key in KEYS if key not in _OPTIONAL and not plan.get(key))
    yield from ((f"{key} is missing", f"name {key} in the plan ({KEYS[key]})") for key in missing)
    if str(plan.get("type", "ecs")).lower() not in ("ecs", "experience_cluster"):
        yield f"type is {plan['type']}, not ecs", "write `type: ecs`"
    install = str(plan.get("install", "internet"))
    if install != "internet" and not repository(plan):
        mend = "write `install: internet`, or the http or https URL of the repository"
        yield f"install is {install}: neither `internet` nor the URL of a repository", mend
    texts = (key for key in plan if key in KEYS and key not in _LISTS)
    odd = (key for key in texts if not isinstance(plan[key] or "", str))
    yield from ((f"{key} is not a text", f"write {key} as one text") for key in odd)
    for key in (key for key in _SIZES if _least(plan, key) is None):
        yield f"{key} {plan[key]!r} is not a size such as 300G", f"write {key} as a number with G or T"
    if (database := str(plan.get("database") or "embedded").lower()) != "embedded":
        yield (
            f"an external {database} database is not supported for this type of cluster",
            "write `database: embedded`",
        )


def _least(plan: Mapping[str, Json], key: str) -> int | None:
    """Return a size in GiB, 0 where none is asked for, None where it is not one."""
    found = _SIZE.fullmatch(str(plan.get(key) or "0G"))
    return int(found[1]) * {"G": 1, "T": 1024}[found[2]] if found else None


def _roles(plan: Mapping[str, Json]) -> Iterator[Mistake]:
    hosts = names(plan, "hosts")
    twice = (host for host in dict.fromkeys(hosts) if hosts.count(host) > 1)
    yield from ((f"{host} stands twice", f"name {host} once under hosts") for host in twice)
    for role in ("docker_server", "server"):
        found = names(plan, role)
        if plan.get(role) and len(found) != 1:
            yield f"{role} names {len(found)} hosts, not one", f"name one host as {role}"
    if plan.get("agents") is not None and not names(plan, "agents"):
        yield "there is no agent", "name hosts under agents"
    for role in ("docker_server", "server", "agents"):
        for host in (host for host in names(plan, role) if host not in hosts):
            yield f"{role} {host} is none of the hosts", f"name {host} under hosts, too"


def _folders(plan: Mapping[str, Json]) -> Iterator[Mistake]:
    usable = folders(plan)
    for key in _FOLDERS:
        value = str(plan.get(key) or "")
        if value and value not in usable:
            mend = f"give {key} an absolute path without blanks and signs of the shell"
            yield f"{key} {value!r} is not a plain absolute path", mend
    for one in usable:
        within = (other for other in usable if other.startswith(one.rstrip("/") + "/"))
        yield from ((f"{other} lies inside {one}", f"choose a folder outside {one} for {other}") for other in within)
    twice = (one for one in dict.fromkeys(usable) if usable.count(one) > 1)
    yield from ((f"{one} is used twice", f"choose another folder for one use of {one}") for one in twice)


def _domain(plan: Mapping[str, Json], site: SiteFacts) -> Iterator[Mistake]:
    below, target = names_below(plan), str(plan.get("load_balancer") or "")
    domain, most = below.removeprefix("apps."), threshold("domain.most", site.manager.release)
    if len(domain) > most:
        mend = f"choose an app_domain of {most} characters at most"
        yield f"app_domain has {len(domain)} characters, more than {most}", mend
    record = f"a record *.{below} that leads to {target or 'the ECS server'} (/etc/hosts knows no wildcards)"
    for host in site.answering("wildcard"):
        lines = host.lines("wildcard")
        if not below or f"asked={below}" not in lines:
            continue
        mend = f"give the DNS that {host.name} asks {record}"
        if not lines[1:]:
            yield f"names below {below} do not resolve on {host.name}", mend
        elif target and target not in lines[1:]:
            words = f"names below {below} lead to {', '.join(lines[1:])} on {host.name}, not to {target}"
            yield words, f"{mend}, or correct load_balancer"


def _against_manager(plan: Mapping[str, Json], site: SiteFacts) -> Iterator[Mistake]:
    if site.manager.reason:
        return
    clusters = {str(cluster.get(key)) for cluster in site.manager.clusters for key in ("name", "display")} - {""}
    base, name = str(plan.get("base_cluster") or ""), str(plan.get("name") or "")
    if base and base not in clusters:
        yield f"the manager knows no cluster {base}", f"name one of {', '.join(sorted(clusters))} as base_cluster"
    if name in clusters:
        yield f"there is a cluster {name} already", "choose another name"
    known = {name: host for host in site.manager.hosts for name in (*names_of(host), str(host.get("hostname")))}
    for host in names(plan, "hosts"):
        if host not in known:
            yield f"the manager does not know the host {host}", f"add {host} to the manager (Hosts, Add Hosts)"
        elif cluster := known[host].get("cluster"):
            mend = f"name another host than {host}, or take it out of {cluster} (Hosts, Remove From Cluster)"
            yield f"{host} belongs to the cluster {cluster}", mend


def _against_hosts(plan: Mapping[str, Json], site: SiteFacts) -> Iterator[Mistake]:
    hosts = {host.name: host for host in site.hosts}
    own = {str(host.get("hostname")): names_of(host)[0] for host in site.manager.hosts}
    for name in names(plan, "hosts"):
        host = hosts.get(name) or hosts.get(own.get(name, ""))
        if host is None:
            yield f"{name} is not in the inventory", f"name {name} under `hosts` of the config, and choose it"
        elif not host.reached:
            yield (
                f"{name} was not reached: {host.reason}",
                f"`maint host check --host {name}` tells how {name} is reached",
            )
        else:
            yield from _own_volumes(host, plan)
            yield from _no_repository(host, plan)


def _no_repository(host: HostFacts, plan: Mapping[str, Json]) -> Iterator[Mistake]:
    said = host.lines("plan_repository") if "plan_repository" in host.answers else []
    if "tool=none" not in said and any(line.startswith("status=") and line != "status=0" for line in said):
        place = repository(plan).replace(" ", ":")
        mend = f"open the way from {host.name} to {place}, or correct install"
        yield f"{host.name}: the repository {plan['install']} does not answer", mend


def _own_volumes(host: HostFacts, plan: Mapping[str, Json]) -> Iterator[Mistake]:
    rows = [line.split() for line in host.lines("plan_folders")]
    for row in rows:
        if row[1:] == ["missing"]:
            mend = f"on {host.name}: `mkdir -p {row[0]}`, and mount a volume of its own there"
            yield f"{host.name}: {row[0]} is not there", mend
        if len(row) == 1:
            yield f"{host.name}: findmnt does not say where {row[0]} lies", f"on {host.name}: mount {row[0]}"
    placed = [row for row in rows if len(row) > 1 and row[1] != "missing"]
    for words in not_alone(placed):
        yield f"{host.name}: {words}", f"on {host.name}: mount a volume of its own on each of the three folders"
    sizes = {row[0]: int(row[3]) / (1 << 20) for row in placed if len(row) > 3 and row[3].isdigit()}
    for key, folder in ((key, str(plan.get(folder))) for key, folder in _SIZES.items()):
        if folder in sizes and sizes[folder] < (_least(plan, key) or 0):
            mend = f"on {host.name}: mount a volume of {plan[key]} on {folder}, or lower {key}"
            yield f"{host.name}: {folder} has {sizes[folder]:.0f} GiB, and {key} is {plan[key]}", mend
