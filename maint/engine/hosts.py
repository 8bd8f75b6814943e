"""The hosts of a plan: limited by the operator, worked on a few at a time, left out where they failed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile

import msgspec
from msgspec.structs import replace

from maint.config.schema import SiteSettings
from maint.errors import MaintError, UsageError
from maint.model.formatting import meant, show_count
from maint.model.json import Json
from maint.model.plan import Action, Outcome, Result
from maint.ports import Sight
from maint.steps.flow import ApproveArguments
from maint.steps.hosts.fan_out import HostsArguments, chosen_hosts, host_list, texts
from maint.steps.hosts.files import FetchArguments
from maint.steps.registry import STEPS
from maint.steps.step import Arguments, skipped

LOST = "lost"  # the note under which a run keeps the hosts that it goes on without


class HostLimit(msgspec.Struct):
    """The hosts that a plan is limited to; `allowed` None: no limit."""

    sight: Sight
    allowed: frozenset[str] | None = None
    names: Sequence[str] = ()  # as the operator gave them
    met: bool = False  # whether any step named a host that is allowed

    @staticmethod
    def of(sight: Sight, names: Sequence[str]) -> "HostLimit":
        """Return the limit that names of hosts and groups make; UsageError: the config has no such host or group."""
        return HostLimit(sight, limited_to(sight.settings, names), names) if names else HostLimit(sight)

    def hosts_of(self, args: Arguments) -> Sequence[str]:
        """Return the hosts that a step works on, without those beyond the limit; none where it names none."""
        if isinstance(args, FetchArguments):
            found = [args.host]
        else:
            found = chosen_hosts(self.sight, args) if isinstance(args, HostsArguments) else []
        return found if self.allowed is None else [name for name in found if name in self.allowed]

    def parts(self, args: Arguments, serial: int | str | None) -> Iterator[Arguments]:
        """Yield a step's arguments for the hosts of each turn; nothing where the limit leaves none of its hosts.

        A person who is asked is shown the limit.
        """
        if self.allowed is not None and isinstance(args, ApproveArguments):
            yield args.model_copy(update={"question": f"{args.question} (limited to {', '.join(self.names)})"})
            return
        names_hosts = isinstance(args, HostsArguments | FetchArguments)
        if not names_hosts or (self.allowed is None and serial is None):
            yield args
            return
        hosts = self.hosts_of(args)
        self.met = self.met or bool(hosts)
        if hosts and isinstance(args, FetchArguments):
            yield args
        elif hosts:
            for batch in batches(hosts, serial if serial is not None else len(hosts)):
                yield args.model_copy(update={"hosts": list(batch), "groups": []})

    def refuse_nothing(self, playbook: str) -> None:
        """Refuse a limit that has no effect: no step of the playbook works on one of its hosts."""
        if self.allowed is not None and not self.met:
            raise UsageError(
                f"--limit leaves nothing: no step of {playbook} names one of these hosts",
                hint="its plan without --limit shows the hosts of each step",
            )


def limited_to(site: SiteSettings, names: Sequence[str]) -> frozenset[str]:
    """Return the hosts that a limit leaves; UsageError: the config has no host or group of such a name."""
    groups = {host.name: {host.name, *host.groups} for host in (*site.hosts_in("manager"), *site.hosts)}
    known = set[str]().union(*groups.values())
    for name in names:
        if name not in known:
            hint = meant(name, sorted(known), f"the config has {', '.join(sorted(known)) or 'none'}")
            raise UsageError(f"--limit: site {site.name} has no host or group {name!r}", hint=hint)
    return frozenset(host for host, has in groups.items() if has & set(names))


def share(of: int | str, members: Sequence[object]) -> int:
    """Return the number that stands for a share of members: itself, or a part such as "25%", rounded down."""
    return of if isinstance(of, int) else len(members) * int(of.removesuffix("%")) // 100


def batches(members: Sequence[Json], size: int | str) -> Iterator[list[Json]]:
    """Yield members so many at a time, at least one."""
    step = max(share(size, members), 1)
    yield from (list(members[first : first + step]) for first in range(0, len(members), step))


class LostHosts:
    """The hosts that a run goes on without, and why; what earlier attempts lost is known from their notes."""

    def __init__(self, noted: Sequence[Json]) -> None:
        self._lost: dict[str, str] = {}
        for one in noted:
            self._lost |= {str(host): str(why) for host, why in one.items()} if isinstance(one, Mapping) else {}

    def without(self, action: Action) -> Action | Result:
        """Return an action without them; how it ends where none of its hosts is left."""
        hosts = _hosts(action)
        left = [host for host in hosts if host not in self._lost]
        if left == hosts:
            return action
        if not left:
            return skipped(f"left out with its hosts: {host_list(hosts)}")
        return replace(action, arguments={**action.arguments, "hosts": left})

    def lose(self, action: Action, error: MaintError) -> dict[str, Json] | None:
        """Take in the hosts on which an action failed, and return them with why; None: that is more than may fail."""
        hosts = set(_hosts(action))
        failed = [host for host in error.hosts if host in hosts]
        if action.max_fail is None or not failed or len({*self._lost, *failed}) > action.max_fail:
            return None
        reasons = {host: _said_of(host, error.detail) or error.message for host in failed}
        self._lost |= reasons
        return {**reasons}


def _said_of(host: str, lines: Sequence[str]) -> str:
    """Return the line that begins with a host's name, and not with one that is longer, and its rows; "" for none."""
    of_others = dropwhile(lambda line: not re.match(rf"{re.escape(host)}(?![\w.-])", line), lines)
    first = next(of_others, "")
    return "; ".join([first, *(row.strip() for row in takewhile(lambda line: line.startswith("  "), of_others))])


def _hosts(action: Action) -> list[str]:
    named = issubclass(STEPS[action.kind].arguments, HostsArguments)
    return texts(action.arguments.get("hosts")) if named else []


def without_lost_hosts(result: Result, lost: Mapping[str, Json]) -> Result:
    """Return the result of an action that was done without some of its hosts."""
    words = f"{show_count(len(lost), 'host')} left out: {'; '.join(map(str, lost.values()))}"
    detail = f"{result.detail}; {words}" if result.detail else words
    outcome = Outcome.DONE if result.outcome is Outcome.SKIPPED else result.outcome
    hint = f"mend {host_list(list(lost))}, then run it there alone: --limit {','.join(lost)}"
    return replace(result, outcome=outcome, detail=detail, partly=True, hint=hint)
