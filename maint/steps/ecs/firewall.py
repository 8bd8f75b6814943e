"""The firewall of an ECS cluster's hosts: keep its rules, let everything through, and the way back (M6.1)."""

import re
from collections.abc import Iterable

from pydantic import Field

from maint.errors import Refused, WorkFailed
from maint.model.formatting import show_count
from maint.model.plan import Action, Effect
from maint.ports import ShellSight, Sight, Site, Work
from maint.steps.ecs.cluster import ecs_cluster, refuse_running
from maint.steps.hosts import undo
from maint.steps.hosts.fan_out import (
    ask_script,
    host_list,
    map_hosts,
    map_hosts_now,
    output_of,
    run_script,
    script,
    texts,
)
from maint.steps.hosts.selection import require_ssh
from maint.steps.manager.clusters import ClusterArguments
from maint.steps.step import Arguments, Progress, Step, done, unchanged

NAME = "iptables"
REPLACED = "iptables, replaced"  # what stood there when kept rules came back
_OTHER = re.compile(rb"^# maint: (iptables-legacy|iptables-nft)\n", re.MULTILINE)
_COUNTED = rb" ?\[\d+:\d+\] ?"  # packets and bytes
_LIMIT = 120.0  # seconds for one host


def rules_of(shell: ShellSight, host: str) -> bytes:
    """Return the rules of a host as `iptables-save` prints them; empty where there is no iptables.

    Those of the back end that plain iptables is not follow a line that names it, where there are any.
    """
    rules = ask_script(shell, host, script("ecs-firewall-save"), timeout=_LIMIT)
    first, *other = _parts(rules)
    return rules if any(beyond_policies(part) for _, part in other) else first[1]


def _parts(rules: bytes) -> list[tuple[str, bytes]]:
    """Return rules by the program that shows them: plain iptables, then the other back end."""
    first, *others = _OTHER.split(rules)
    return [(NAME, first), *zip(map(bytes.decode, others[::2]), others[1::2], strict=True)]


def beyond_policies(rules: bytes) -> list[str]:
    """Return what stands in a firewall beyond chains of the kernel that let everything through."""
    lines = [line.strip() for line in rules.decode("utf-8", "replace").splitlines()]
    return [
        line
        for line in lines
        if line.startswith("-A ") or (line.startswith(":") and line.split()[1:2] not in ([], ["ACCEPT"]))
    ]


class FlushFirewall(Step[ClusterArguments]):
    """Seal the firewall rules of an ECS cluster's hosts in the state folder, then let everything through."""

    kind = "ecs.firewall"
    effect = Effect.DESTROY

    def plan(self, args: ClusterArguments, sight: Sight) -> Iterable[Action]:
        ecs = ecs_cluster(sight, args.cluster)
        found = map_hosts_now(sight, ecs.hosts, lambda host: rules_of(sight.shell, host), "reading firewall rules")
        counts = {host: len(beyond_policies(rules)) for host, rules in found.items()}
        shown = ", ".join(f"{count} on {host}" for host, count in counts.items())
        yield self.action(
            f"hosts of cluster {ecs.cluster.name}",
            f"flush all firewall rules ({shown}; not only the cluster's), kept sealed in the state folder first",
            {"cluster": ecs.cluster.name, "hosts": list(ecs.hosts)},
            undo="`maint playbook run restore-firewall` puts the rules back",
            facts={"cluster": ecs.cluster.name, "hosts": list(ecs.hosts)},
            confirm=ecs.cluster.name,
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Keep first, on all hosts; then flush those that have rules."""
        hosts = texts(action.arguments["hosts"])
        refuse_running(site.manager, str(action.arguments["cluster"]))
        found = yield from map_hosts(site, hosts, lambda host: rules_of(site.shell, host), "reading firewall rules")
        open_, closed = _split(found)
        cut_off = {host: kept for host in closed if (kept := _cut_off(site, host, found[host])) is not None}
        more = [host for host, kept in cut_off.items() if not _own(found[host]) <= kept]
        undo.keep(site, work.run, {host: found[host] for host in more}, REPLACED)
        whole = {host: found[host] for host in closed if host not in cut_off}
        undo.keep(site, work.run, whole, NAME, dict.fromkeys(whole, undo.BEGUN))

        def flush(host: str) -> None:
            run_script(site.shell, host, script("ecs-firewall-flush"), timeout=_LIMIT)
            if left := beyond_policies(rules_of(site.shell, host)):
                raise WorkFailed(
                    f"{host}: {show_count(len(left), 'rule')} left, such as {left[0]}",
                    hint="something on that host puts its rules back: stop it, then `maint playbook resume`",
                )

        _end(site, *open_)
        yield from map_hosts(site, closed, flush, "flushing firewall rules", done=lambda host: _end(site, host))
        if not closed:
            return unchanged(f"no rules on {host_list(open_)}")
        words = f"rules of {host_list(closed)} flushed, and kept for `maint playbook run restore-firewall`"
        if more:
            words += f", which on {host_list(more)} brings back what was kept before an earlier run was cut off"
            words += "; with `--set replaced=true`, what stood there now"
        return done(words)


def _split(found: dict[str, bytes]) -> tuple[list[str], list[str]]:
    closed = [host for host, rules in found.items() if beyond_policies(rules)]
    return [host for host in found if host not in closed], closed


class RestoreArguments(Arguments):
    """Which hosts; all of which rules are kept when left out."""

    hosts: list[str] = Field([], description="these hosts; empty: all of which rules are kept")
    replaced: bool = Field(False, description="the rules that were replaced when others were put back")


class RestoreFirewall(Step[RestoreArguments]):
    """Put the firewall rules back that were kept before they were flushed; rules that stand there are sealed first."""

    kind = "firewall.restore"
    effect = Effect.CHANGE

    def plan(self, args: RestoreArguments, sight: Sight) -> Iterable[Action]:
        """Plan what is kept; refuses a host of which nothing is."""
        require_ssh(sight, "hosts")
        name = REPLACED if args.replaced else NAME
        known = {one.host: one.kept_at for one in undo.records(sight.settings.state) if one.name == name}
        lacking = [host for host in args.hosts if host not in known]
        if lacking or not known:
            raise Refused(
                f"no firewall rules are kept of {', '.join(lacking) or 'any host'}",
                hint=f"rules are kept of {', '.join(sorted(known)) or 'none'}",
            )
        hosts = args.hosts or sorted(known)
        shown = ", ".join(f"{host} (of {known[host]})" for host in hosts)
        live = map_hosts_now(sight, hosts, lambda host: rules_of(sight.shell, host), "reading firewall rules")
        others = [f"{len(found)} on {host}" for host, rules in live.items() if (found := beyond_policies(rules))]
        words = f"put the kept firewall rules back on {shown}"
        if others:
            words += f"; rules that stand there now ({', '.join(others)}) are sealed and REPLACED where they differ"
        yield self.action(
            f"firewall of {', '.join(hosts)}",
            words,
            {"hosts": hosts, "replaced": args.replaced},
            undo="flush them: iptables -P, -F, -X; `maint playbook run restore-firewall --set replaced=true` brings"
            " replaced ones back",
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Load them; what stands there is sealed, once in a run, and replaced."""
        hosts = texts(action.arguments["hosts"])
        name, other = (REPLACED, NAME) if action.arguments.get("replaced") is True else (NAME, REPLACED)
        live = yield from map_hosts(site, hosts, lambda host: rules_of(site.shell, host), "reading firewall rules")
        stale = [host for host in hosts if not _same(live[host], _kept(site, host, name))]
        more = [host for host in stale if not _own(live[host]) <= (_cut_off(site, host, live[host]) or set())]
        undo.keep(site, work.run, {host: live[host] for host in more}, other, dict.fromkeys(more, undo.BEGUN))

        def restore(host: str) -> None:
            rules = _kept(site, host, name)
            for program, part in _parts(rules):
                output_of(host, site.shell.run(host, f"{program}-restore", stdin=part, timeout=_LIMIT))
            if lacking := _own(rules) - _own(rules_of(site.shell, host)):
                raise WorkFailed(
                    f"{host}: {show_count(len(lacking), 'rule')} did not come back, such as"
                    f" {min(lacking).decode('utf-8', 'replace')}",
                    hint="something on that host changes its rules: stop it, then `maint playbook resume`",
                )

        _end(site, *(host for host in hosts if host not in stale))
        yield from map_hosts(site, stale, restore, "putting firewall rules back", done=lambda host: _end(site, host))
        if not stale:
            return unchanged(f"the kept rules stand on {host_list(hosts)}")
        return done(f"rules put back on {host_list(stale)}")


def _kept(site: Site, host: str, name: str) -> bytes:
    found = undo.newest(site.state, host, name)
    if found is None:
        raise WorkFailed(
            f"{host}: its rules are not kept any more",
            hint="the copy in the state folder is gone: set its rules by hand",
        )
    return site.undo.fetch(found.sealed)


def _cut_off(site: Site, host: str, rules: bytes) -> set[bytes] | None:
    """Return all rules that are kept of a host where those that stand may be what a run that was cut off left of them.

    None where they are no such rest, so that they are to be kept as the whole.
    """
    newest = {name: undo.newest(site.state, host, name) for name in (NAME, REPLACED)}
    if not any(one and one.is_under_way for one in newest.values()):
        return None
    kept = {name: site.undo.fetch(one.sealed) for name, one in newest.items() if one}
    if REPLACED in kept and _same(rules, kept[REPLACED]):
        return None
    return set().union(*map(_own, kept.values()))


def _end(site: Site, *hosts: str) -> None:
    for name in (NAME, REPLACED):
        undo.end(site, hosts, name)


def _own(rules: bytes) -> set[bytes]:
    return {re.sub(_COUNTED, b"", line.encode("utf-8", "replace")) for line in beyond_policies(rules)}


def _same(rules: bytes, kept: bytes) -> bool:
    """Whether two prints are of the same rules, whatever was counted and said about them."""
    one, other = ([re.sub(_COUNTED, b"", line) for line in _told(whole)] for whole in (rules, kept))
    return one == other


def _told(rules: bytes) -> list[bytes]:
    return [
        line.strip() for line in rules.splitlines() if line.strip() and (line[:1] != b"#" or _OTHER.match(line + b"\n"))
    ]
