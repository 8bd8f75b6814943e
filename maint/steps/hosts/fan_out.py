"""Which hosts a step works on, and work on several at once; one that fails never hides the others."""

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from maint.config.schema import HostSettings
from maint.errors import CannotReach, MaintError, Refused, UnknownName, WorkFailed
from maint.model.formatting import meant, show_count
from maint.model.json import Json
from maint.ports import Ran, Shell, ShellSight, Sight
from maint.steps.step import Arguments


class HostsArguments(Arguments):
    """Hosts by name, and all hosts of groups."""

    in_config: ClassVar[Mapping[str, str]] = {"hosts": "host", "groups": "group of hosts"}
    every: ClassVar[bool] = False  # whether all hosts of the config are meant where none are named
    hosts: list[str] = Field(default=[], description="names of hosts in the config")
    groups: list[str] = Field(default=[], description="all hosts of these groups")

    @model_validator(mode="after")
    def _some_are_named(self) -> Self:
        if not (self.every or self.hosts or self.groups):
            raise ValueError("no host is named: give `hosts: [NAME, …]` or `groups: [NAME, …]`")
        return self


def require_ssh(sight: Sight, what: str = "the manager's host") -> None:
    """Refuse where the config has no `ssh`; `what` is what must be worked on."""
    if sight.settings.ssh is None:
        raise Refused(
            f"site {sight.settings.name} has no `ssh:` in its config, and {what} must be worked on",
            hint="add `ssh: {user: root, key: …, known_hosts: …}`, then `maint host trust`",
        )


def choose(hosts: Sequence[HostSettings], names: Sequence[str], groups: Sequence[str]) -> Sequence[HostSettings]:
    """Return the hosts that were asked for, in their order; all without names and groups; UnknownName: none of that."""
    known = {host.name for host in hosts}
    kinds = {group for host in hosts for group in host.groups}
    for given, every, kind in ((names, known, "host"), (groups, kinds, "group of hosts")):
        for name in given:
            if name not in every:
                hint = meant(name, every, f"there are {', '.join(sorted(every)) or 'none'}")
                raise UnknownName(f"there is no {kind} {name!r}", name, hint=hint)
    if not names and not groups:
        return hosts
    return [host for host in hosts if host.name in names or set(host.groups) & set(groups)]


def chosen_hosts(sight: Sight, args: HostsArguments) -> list[str]:
    """Return the names of the hosts that are meant, in the order of the config."""
    require_ssh(sight, "hosts")
    known = {host.name: host for host in (*sight.settings.hosts, *sight.settings.hosts_in("manager"))}
    if not args.hosts and not args.groups:
        return [host.name for host in sight.settings.hosts]
    return [host.name for host in choose(list(known.values()), args.hosts, args.groups)]


T = TypeVar("T")
OR_WITHOUT = "mend these hosts, and plan anew; a playbook's --limit leaves them out"
"""What to do about hosts that do not answer the plan of a step that names its hosts."""
_SHOWN = 400  # characters of what a host says about a failure
_LOGGED = r"^[EFIW]\d{4} [\d:.]+ +\d+ \S+\] "  # kubectl's own log: a time and a process, others each time


def map_hosts(
    sight: Sight,
    hosts: Sequence[str],
    work: Callable[[str], T],
    doing: str,
    *,
    done: Callable[[str], object] = str,
    hint: str = "mend these hosts, then `maint playbook resume`",
) -> Generator[str, None, dict[str, T]]:
    """Do something on every host, as many at once as the config allows, and return what each gave, in their order.

    Args:
        work: called with each name, in a thread.
        done: called with each host where it was done, by the thread that iterates.
        hint: what to do next, beside what the hosts' own failures say.

    Raises:
        CannotReach: some cannot be reached, and nothing else failed.
        WorkFailed: it failed on some; each is named with its reason.
    """
    found: dict[str, T] = {}
    failed: dict[str, MaintError] = {}
    at_once = sight.settings.ssh.at_once if sight.settings.ssh else 1
    waiting: SimpleQueue[str] = SimpleQueue()
    ended: SimpleQueue[tuple[str, T | BaseException]] = SimpleQueue()
    for host in hosts:
        waiting.put(host)
    try:
        for number in range(min(at_once, len(hosts))):
            # A caller that leaves, at a signal or a limit, waits for no host: such a thread ends with the process.
            Thread(target=_work, args=(work, waiting, ended), name=f"host-{number}", daemon=True).start()
        for _ in hosts:
            host, result = ended.get()
            if isinstance(result, MaintError):
                failed[host] = result
            elif isinstance(result, BaseException):
                raise result
            else:
                found[host] = result
                done(host)
            yield f"{doing}: {len(found) + len(failed)} of {show_count(len(hosts), 'host')}"
    finally:
        while not waiting.empty():  # nobody begins another host
            with suppress(Empty):
                waiting.get_nowait()
    if failed:
        raise _together(failed, [host for host in hosts if host in failed], len(hosts), doing, hint)
    return {host: found[host] for host in hosts}


def _work(
    work: Callable[[str], T], waiting: "SimpleQueue[str]", ended: "SimpleQueue[tuple[str, T | BaseException]]"
) -> None:
    while True:
        try:
            host = waiting.get_nowait()
        except Empty:
            return
        try:
            ended.put((host, work(host)))
        except BaseException as error:  # it belongs to the caller, not to this thread
            ended.put((host, error))


def map_hosts_now(
    sight: Sight,
    hosts: Sequence[str],
    work: Callable[[str], T],
    doing: str,
    hint: str = "mend these hosts, and plan anew",
) -> dict[str, T]:
    """Do the same while planning, where there is nobody to tell on the way."""
    looking = map_hosts(sight, hosts, work, doing, hint=hint)
    while True:
        try:
            next(looking)
        except StopIteration as stop:
            found: dict[str, T] = stop.value
            return found


def ask_script(shell: ShellSight, host: str, script: bytes, *, timeout: float | None = None) -> bytes:
    """Ask one host something that must succeed, else WorkFailed, and return its answer."""
    return output_of(host, shell.ask(host, SHELL, stdin=script, timeout=timeout))


def run_script(shell: Shell, host: str, script: bytes, *, timeout: float) -> bytes:
    """Tell one host to do something that must succeed, and return its answer; see `ask_script`."""
    return output_of(host, shell.run(host, SHELL, stdin=script, timeout=timeout))


def output_of(host: str, ran: Ran) -> bytes:
    """Return what a script printed that must have succeeded, else WorkFailed."""
    if ran.ok:
        return ran.out
    raise WorkFailed(f"{host}: {error_text(ran)}", hint="mend on that host what it names")


def error_text(ran: Ran) -> str:
    """Return what a command that failed said about it, on one line, and the same each time: it may stand in a plan."""
    told = [(line, re.sub(_LOGGED, "", line)) for line in ran.complaint.splitlines()]
    words = " ".join(line for line, bare in told if line == bare) or " ".join(bare for _, bare in told)
    words = " ".join(words.split())[-_SHOWN:]
    return words or f"it ended with status {ran.status}, and said nothing"


def host_list(hosts: Sequence[str]) -> str:
    """Return names of hosts for a sentence."""
    return ", ".join(hosts) if len(hosts) <= 6 else f"{', '.join(hosts[:5])} and {len(hosts) - 5} more"


def texts(value: Json) -> list[str]:
    """Return a list of texts that stands in arguments."""
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def _together(failed: Mapping[str, MaintError], hosts: Sequence[str], total: int, doing: str, hint: str) -> MaintError:
    detail = [line for host in hosts for line in _lines(host, failed[host])]
    hints = list(dict.fromkeys(error.hint for error in failed.values() if error.hint))
    words = f"{doing}: {len(failed)} of {show_count(total, 'host')} failed"
    out_of_reach = all(isinstance(error, CannotReach) for error in failed.values())
    kind = CannotReach if out_of_reach else WorkFailed
    failure = kind(words, detail=detail, hint="; ".join([*hints[:3], hint]))
    failure.hosts = tuple(hosts)
    return failure


def _lines(host: str, error: MaintError) -> list[str]:
    first = error.message if error.message.startswith(host) else f"{host}: {error.message}"
    return [first, *(f"  {line}" for line in error.detail)]


SHELL = "exec /bin/sh -s"
_BEFORE = "LC_ALL=C; export LC_ALL\nPATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin; export PATH\n"


def script(name: str, **values: object) -> bytes:
    """Return a script by its template's name, without `.sh.j2`, filled in with values."""
    from maint.render import from_file  # few steps send a script

    return f"{_BEFORE}{from_file(f'{name}.sh.j2', values)}".encode("utf-8", "surrogateescape")
