"""Which hosts a step works on, by name or by group of the config."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from maint.config.schema import HostSettings
from maint.config.suggestions import did_you_mean
from maint.errors import Invalid
from maint.model.manager import Host
from maint.ports import Sight
from maint.steps.manager.server import require_ssh
from maint.steps.step import Arguments


class HostsArguments(Arguments):
    """Hosts by name, and all hosts of groups."""

    every: ClassVar[bool] = False  # whether all hosts of the config are meant where none are named
    hosts: list[str] = Field(default_factory=list, description="names of hosts in the config")
    groups: list[str] = Field(default_factory=list, description="all hosts of these groups")


def chosen_hosts(sight: Sight, args: HostsArguments) -> list[str]:
    """Return the names of the hosts that are meant, in the order of the config; Invalid: one is not in the config."""
    require_ssh(sight, "hosts")
    known = {host.name: set(host.groups) for host in (*sight.settings.hosts, *sight.settings.hosts_in("manager"))}
    groups = {group for each in known.values() for group in each}
    for given, every, kind in ((args.hosts, set(known), "host"), (args.groups, groups, "group of hosts")):
        for name in given:
            if name not in every:
                guess = did_you_mean(name, every)
                hint = f"did you mean {guess!r}?" if guess else f"the config has {', '.join(sorted(every)) or 'none'}"
                raise Invalid(f"site {sight.settings.name} has no {kind} {name!r}", hint=hint)
    if not args.hosts and not args.groups:
        if not args.every:
            raise Invalid("no host is named", hint="give `hosts: [NAME, …]` or `groups: [NAME, …]`")
        return [host.name for host in sight.settings.hosts]
    return [name for name, has in known.items() if name in args.hosts or has & set(args.groups)]


def configured_as(configured: Sequence[HostSettings], host: Host) -> list[str]:
    """Return which hosts of the config are one of the manager: by its full name or address, else by its short name."""
    full, short = host.hostname.lower(), host.hostname.lower().partition(".")[0]
    exact = [one.name for one in configured if {one.name.lower(), one.address.lower()} & {full, host.address} - {""}]
    return exact or [one.name for one in configured if one.name.lower() == short]
