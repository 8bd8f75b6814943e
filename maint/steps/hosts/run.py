"""Run a command on hosts; one that changes something is never repeated unless it is known to be harmless."""

import shlex
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from threading import Lock

from pydantic import Field

from maint.deployment.secrets_in_text import without_secrets
from maint.errors import CannotReach, MaintError, WorkFailed
from maint.model.formatting import show_count
from maint.model.plan import Action, Effect
from maint.ports import Ran, Sight, Site, Work
from maint.steps.hosts.fan_out import (
    OR_WITHOUT,
    HostsArguments,
    chosen_hosts,
    error_text,
    host_list,
    map_hosts,
    map_hosts_now,
    texts,
)
from maint.steps.step import Progress, Step, done, unchanged

_LIMIT = 3600.0  # seconds for one host, where the playbook says nothing else
_KEPT = 64 * 1024  # characters of a host's output that are registered


class RunCommandArguments(HostsArguments):
    """What is run, and what is known of it."""

    command: str = Field(description="for the shell")
    reads: bool = Field(False, description="it changes nothing: READ")
    unless: str = Field(
        "", description="a command that changes nothing, and ends with status 0 where nothing is to be done"
    )
    repeatable: bool = Field(False, description="twice is as good as once")
    output: bool = Field(False, description="register what it prints, up to 64 KiB a host")


class RunCommand(Step[RunCommandArguments]):
    """Run a command on hosts, once each; `unless` tells where it is not needed, or no longer."""

    kind = "host.run"
    blind = True
    effect = Effect.CHANGE

    def worst(self, given: Mapping[str, object]) -> Effect:
        return Effect.READ if given.get("reads") is True else self.effect

    def plan(self, args: RunCommandArguments, sight: Sight) -> Iterable[Action]:
        hosts = chosen_hosts(sight, args)
        needed = hosts
        if args.unless:
            held = map_hosts_now(
                sight,
                hosts,
                lambda host: _asked(sight, host, args.unless).ok,
                "asking whether it is needed",
                OR_WITHOUT,
            )
            needed = [host for host in hosts if not held[host]]
        effect = Effect.CHANGE if needed and not args.reads else Effect.READ
        shown = " ⏎ ".join(" ".join(line.split()) for line in args.command.split("\n") if line.strip())
        words = f"run `{shown}` on {host_list(needed)}" if needed else "nothing to run: `unless` holds everywhere"
        yield self.action(
            f"{show_count(len(hosts), 'host')}",
            words,
            {**args.model_dump(exclude={"groups"}), "hosts": hosts},
            effect=effect,
            facts={"needed": list(needed)},
        )

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Run where it is needed; refuses where it may have run already and nothing tells."""
        args = RunCommandArguments.model_validate(dict(action.arguments))
        ended, needed = [] if args.reads else texts(work.noted("ended")), args.hosts
        if args.unless:
            asking = "asking whether it is needed"
            held = yield from map_hosts(site, args.hosts, lambda host: _asked(site, host, args.unless).ok, asking)
            needed = [host for host in args.hosts if not held[host]]
        left = [host for host in needed if args.unless or host not in ended]
        begun = [host for host in texts(work.noted("begun")) if host in left and host not in ended]
        if begun and not (args.reads or args.repeatable or args.unless):
            command = without_secrets(args.command)
            raise WorkFailed(
                f"nobody saw whether `{command}` ended on {host_list(begun)}, so it is not run again",
                hint=f"look there, then `maint playbook dismiss {work.run} --reason WORDS` and begin anew, with --limit"
                " for hosts where it is not done; this run keeps its plan, so `maint playbook resume` says the same."
                " With `unless: COMMAND` or `repeatable: true` in that step a run goes on",
            )
        open_, ran, touched = list(left), dict[str, Ran](), Touched()
        work.note("begun", list(open_))

        def run(host: str) -> None:
            touched.add(host)
            try:
                ran[host] = _ran(site, host, args, work)
            except CannotReach as failure:
                if failure.untouched:
                    touched.remove(host)
                raise

        def note(host: str) -> None:
            if ran[host].ok:
                if args.output and not args.reads:  # the step's result tells it, should others not end
                    work.note(f"output of {host}", _output(ran[host]))
                ended.append(host)
                work.note("ended", list(ended))
            else:  # it is known to have ended, so a resumed run does it again
                open_.remove(host)
                work.note("begun", list(open_))

        try:
            yield from _raising_all(map_hosts(site, left, run, "running", done=note), ran)
        except BaseException:
            hosts = touched.close()
            with suppress(WorkFailed):  # what is written down already names more hosts than these
                work.note("begun", [host for host in open_ if host in hosts])
            raise
        over = [host for host in args.hosts if host in ended]
        if not over:
            return unchanged(f"nothing to run on {host_list(args.hosts)}")
        value = {host: _output(ran[host]) if host in ran else work.noted(f"output of {host}") for host in over}
        return done(f"run on {host_list(over)}", value if args.output else None)


class Touched:
    """The hosts where a command may have begun, as threads tell; once they have been counted, it begins nowhere."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._hosts = set[str]()
        self._is_closed = False

    def add(self, host: str) -> None:
        """Count a host before anything begins there; WorkFailed once they have been counted."""
        with self._lock:
            if self._is_closed:
                raise WorkFailed(f"{host}: nothing is begun any more", hint="`maint playbook resume`")
            self._hosts.add(host)

    def remove(self, host: str) -> None:
        """Take a host out where nothing has begun after all."""
        with self._lock:
            self._hosts.discard(host)

    def close(self) -> set[str]:
        """Return the hosts; from now on it begins on no other."""
        with self._lock:
            self._is_closed = True
            return set(self._hosts)


def _raising_all(running: Generator[str, None, object], ran: Mapping[str, Ran]) -> Generator[str, None, None]:
    failure: MaintError | None = None
    try:
        yield from running
    except (WorkFailed, CannotReach) as error:
        failure = error
    failed = [f"{host}: status {one.status}: {error_text(one)}" for host, one in ran.items() if not one.ok]
    if failed:
        hint = "mend what they say, then `maint playbook resume`"
        detail = [*failed, *(failure.detail if failure else ())]
        ours = WorkFailed(f"the command failed on {show_count(len(failed), 'host')}", detail=detail, hint=hint)
        ours.hosts = [*(host for host, one in ran.items() if not one.ok), *(failure.hosts if failure else ())]
        raise ours
    if failure:
        raise failure


def _asked(sight: Sight, host: str, command: str) -> Ran:
    return sight.shell.ask(host, _spelled(command))


def _ran(site: Site, host: str, args: RunCommandArguments, work: Work) -> Ran:
    run = site.shell.ask if args.reads else site.shell.run
    return run(host, _spelled(args.command), timeout=work.timeout or _LIMIT)


def _output(ran: Ran) -> str:
    return ran.words[:_KEPT].rstrip("\n")


def _spelled(command: str) -> str:
    return f"exec /bin/sh -c {shlex.quote(command)}"
