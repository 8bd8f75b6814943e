"""The manager server and the agents as units of systemd: stop, start, restart and wait for them (M12)."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import ClassVar

from maint.errors import CannotReach, TimedOut, WorkFailed
from maint.model.formatting import parse_time, show_count
from maint.model.java_options import UNIT
from maint.model.json import Json
from maint.model.plan import Action, Effect, Result
from maint.ports import ShellSight, Sight, Site, Work
from maint.ports.hosts import configured_as
from maint.ports.manager_host import insist
from maint.steps.hosts.fan_out import (
    OR_WITHOUT,
    HostsArguments,
    chosen_hosts,
    error_text,
    host_list,
    map_hosts,
    map_hosts_now,
    output_of,
    require_ssh,
    texts,
)
from maint.steps.manager.commands import wait_until
from maint.steps.manager.server import START_LIMIT, await_version
from maint.steps.step import NoArguments, Progress, Step, done, skipped, unchanged

AGENT, SUPERVISOR = "cloudera-scm-agent", "cloudera-scm-supervisord"
_LIMIT = 300.0  # seconds for one host
_AT_REST, _UP = ("inactive", "failed", "unknown"), ("active", "reloading", "refreshing")
_HEARTBEAT = timedelta(seconds=60)  # older ones are no sign of life (M10.1: an agent beats every 15 seconds)


def switch_units(site: Site, hosts: Sequence[str], verb: str, units: Sequence[str]) -> Generator[str, None, list[str]]:
    """Start or stop (`verb`) units on hosts where they are not yet as wanted; return the hosts that changed."""
    wanted = _AT_REST if verb == "stop" else _UP

    def switch(host: str) -> bool:
        changed = False
        for unit in units:
            if _state_of(site.shell, host, unit) not in wanted:
                output_of(host, site.shell.run(host, f"systemctl {verb} {unit}", timeout=_LIMIT))
                changed = True
                if verb == "stop" and (state := _state_of(site.shell, host, unit)) not in wanted:
                    raise WorkFailed(
                        f"{host}: {unit} is {state} after `systemctl stop`",
                        hint=f"`systemctl status {unit}` and `journalctl -u {unit}` on that host say why",
                    )
        return changed

    found = yield from map_hosts(site, hosts, switch, f"{verb} {units[0]}")
    return [host for host, changed in found.items() if changed]


def _state_of(shell: ShellSight, host: str, unit: str) -> str:
    """Return what systemd says of a unit: one that it starts again and again is not at rest between two attempts."""
    ran = shell.ask(host, f"systemctl is-active {unit}")
    if (state := ran.words.strip()) in (*_AT_REST, *_UP, "activating", "deactivating", "maintenance"):
        return state
    raise WorkFailed(
        f"{host}: systemd does not say whether {unit} runs: {error_text(ran)}",
        hint=f"`systemctl status {unit}` on that host must answer",
    )


class _ServerUnit(Step[NoArguments]):
    effect = Effect.CHANGE
    verb: str
    way_back: str

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        require_ssh(sight)
        hosts = [host.name for host in sight.settings.hosts_in("manager")]
        names = ", ".join(hosts)
        words = f"{self.verb} {UNIT} on {names}{insist(sight)}"
        yield self.action(f"{UNIT} on {names}", words, {"hosts": hosts}, undo=self.way_back)


class StopServer(_ServerUnit):
    """Stop the manager server on its hosts over SSH."""

    kind = "server.stop"
    verb, way_back = "stop", "start it: `server.start`"

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        insist(site)
        stopped = yield from switch_units(site, texts(action.arguments["hosts"]), "stop", [UNIT])
        site.manager.forget_login()
        return done(f"{UNIT} stopped on {host_list(stopped)}") if stopped else unchanged(f"{UNIT} does not run")


class StartServer(_ServerUnit):
    """Start the manager server on its hosts over SSH where it does not run, and wait until its API answers."""

    kind = "server.start"
    verb, way_back = "start", "stop it: `server.stop`"

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        insist(site)
        started = yield from switch_units(site, texts(action.arguments["hosts"]), "start", [UNIT])
        version = yield from await_version(site, work.timeout or START_LIMIT)
        words = f"API v{version} answers"
        return done(f"{UNIT} started on {host_list(started)}; {words}") if started else unchanged(f"it runs; {words}")


class AwaitServer(Step[NoArguments]):
    """Wait until the manager's API answers."""

    kind = "server.wait"
    effect = Effect.READ

    def plan(self, args: NoArguments, sight: Sight) -> Iterable[Action]:
        yield self.action(f"manager {sight.settings.manager.host}", "wait until the manager's API answers")

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        version = yield from await_version(site, work.timeout or START_LIMIT)
        return done(f"API v{version} answers", {"api": version})


class AgentsArguments(HostsArguments):
    """Hosts by name or group; all hosts of the config where none are named."""

    every: ClassVar[bool] = True


class _Agents(Step[AgentsArguments]):
    """What the steps for agents share: all hosts of the config where none is named."""

    effect = Effect.CHANGE
    verb: str

    def plan(self, args: AgentsArguments, sight: Sight) -> Iterable[Action]:
        hosts = chosen_hosts(sight, args)
        words = self.words(sight, hosts) if hosts else "the config lists no hosts: agents are left alone"
        effect = self.effect if hosts else Effect.READ
        yield self.action(f"{AGENT} on {show_count(len(hosts), 'host')}", words, {"hosts": hosts}, effect=effect)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Do it on all hosts that the plan names; there is nothing to do where the config lists none."""
        hosts = texts(action.arguments["hosts"])
        if not hosts:
            return skipped("the config lists no hosts")
        return (yield from self.carry_out(hosts, site, work))

    def carry_out(self, hosts: Sequence[str], site: Site, work: Work) -> Progress:
        """Ask each host first; one that fails does not hide the others."""
        raise TypeError(f"{self.kind} has no effect")

    def words(self, sight: Sight, hosts: Sequence[str]) -> str:
        """Return what a plan says will be done on these hosts."""
        del sight
        return f"{self.verb} {AGENT} on {show_count(len(hosts), 'host')}"


class StartAgents(_Agents):
    """Start the agent on hosts where it does not run; on every host of the config unless some are named."""

    kind = "agents.start"
    verb = "start"

    def words(self, sight: Sight, hosts: Sequence[str]) -> str:
        """Return where it will be started as things stand: earlier steps may stop it, so all are asked again."""
        asking = "asking for the agents' state"
        states = map_hosts_now(sight, hosts, lambda host: _state(sight.shell, host), asking, OR_WITHOUT)
        idle = [host for host in hosts if states[host] == _IDLE]
        silent = [host for host in hosts if states[host] == _SILENT]
        running = len(hosts) - len(idle) - len(silent)
        words = f"start {AGENT} on {host_list(idle)}" if idle else f"start {AGENT} where it has stopped by then"
        words += f"; it runs already on {running} of {show_count(len(hosts), 'host')}" if running else ""
        return f"{words}; these do not answer now, and are asked again: {host_list(silent)}" if silent else words

    def carry_out(self, hosts: Sequence[str], site: Site, work: Work) -> Progress:
        """Ask each host first; one that fails does not hide the others."""
        started = yield from switch_units(site, hosts, "start", [AGENT])
        return _told(len(started), "started", "every agent runs already")


def _told(count: int, what: str, otherwise: str) -> Result:
    return done(f"{show_count(count, 'agent')} {what}") if count else unchanged(otherwise)


_RUNS, _IDLE, _SILENT = "runs", "idle", "silent"


def _state(shell: ShellSight, host: str) -> str:
    # A host that does not answer now may by the time it is needed.
    try:
        return _RUNS if shell.ask(host, f"systemctl is-active --quiet {AGENT}").ok else _IDLE
    except (CannotReach, TimedOut):
        return _SILENT


class StopAgents(_Agents):
    """Stop agents and their process supervisors; on every host of the config unless some are named."""

    kind = "agents.stop"
    verb = "stop"

    def carry_out(self, hosts: Sequence[str], site: Site, work: Work) -> Progress:
        """Stop them where they run; the agent first, which would start the other again."""
        stopped = yield from switch_units(site, hosts, "stop", [AGENT, SUPERVISOR])
        return _told(len(stopped), "stopped", f"none of {show_count(len(hosts), 'agent')} runs")


class RestartAgents(_Agents):
    """Restart agents, each once in all attempts of a run; on every host of the config unless some are named."""

    kind = "agents.restart"
    verb = "restart"

    def carry_out(self, hosts: Sequence[str], site: Site, work: Work) -> Progress:

        def invocation(host: str) -> str:
            shown = output_of(host, site.shell.ask(host, f"systemctl show {AGENT} -p InvocationID,ActiveState"))
            return shown.decode("utf-8", "replace").strip()

        noted = work.noted("before")
        known: Mapping[str, Json] = noted if isinstance(noted, Mapping) else {}
        now = yield from map_hosts(site, hosts, invocation, "asking for the agents' state")
        before = {**now, **known}  # an earlier attempt may have gone without some of them
        if before != known:
            work.note("before", before)
        left = [host for host in hosts if now[host] == before[host] or "ActiveState=active" not in now[host]]

        def restart(host: str) -> None:
            output_of(host, site.shell.run(host, f"systemctl restart {AGENT}", timeout=_LIMIT))

        yield from map_hosts(site, left, restart, f"restart {AGENT}")
        return _told(len(left), "restarted", "all of them were restarted already")


class AwaitAgents(_Agents):
    """Wait until agents run and the manager has heard from each within the last minute."""

    kind = "agents.wait"
    effect = Effect.READ
    verb = "wait for"

    def carry_out(self, hosts: Sequence[str], site: Site, work: Work) -> Progress:
        problem = f"agents of {show_count(len(hosts), 'host')} are missing"
        yield from wait_until(site.clock, work.timeout or _LIMIT, lambda: _missing(site, hosts), problem, _LOOK)
        return done(f"{show_count(len(hosts), 'agent')} running, and heard by the manager")


_LOOK = f"on these hosts: systemctl status {AGENT}; then `maint playbook resume`"


def _missing(site: Site, hosts: Sequence[str]) -> list[str]:
    def active(host: str) -> str:
        try:
            return "" if site.shell.ask(host, f"systemctl is-active --quiet {AGENT}").ok else "its agent does not run"
        except (CannotReach, TimedOut) as error:
            return error.message

    found = map_hosts_now(site, hosts, active, "asking for the agents' state")
    heard = _heard(site)
    missing = {host: words or heard.get(host, "the manager does not list it") for host, words in found.items()}
    return [f"{host}: {words}" for host, words in missing.items() if words]


def _heard(site: Site) -> Mapping[str, str]:
    # The hosts that the manager lists, by their names in the config; with words for those that are silent.
    found: dict[str, str] = {}
    for host in site.manager.hosts():
        heard = parse_time(host.heard)
        late = heard is None or (parse_time(host.listed) or site.clock.now()) - heard > _HEARTBEAT
        words = f"the manager heard it last at {host.heard or 'no time that it knows'}" if late else ""
        found |= dict.fromkeys(configured_as(site.settings.hosts, host), words)
    return found
