"""Which hosts a step works on, by name or by group of the config."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from pydantic import Field, model_validator

from maint.config.schema import HostSettings
from maint.config.suggestions import meant
from maint.errors import Refused, UnknownName
from maint.model.manager import Host
from maint.ports import Sight
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


def configured_as(configured: Sequence[HostSettings], host: Host) -> list[str]:
    """Return which hosts of the config are one of the manager: by its full name or address, else by its short name."""
    full, short = host.hostname.lower(), host.hostname.lower().partition(".")[0]
    exact = [one.name for one in configured if {one.name.lower(), one.address.lower()} & {full, host.address} - {""}]
    return exact or [one.name for one in configured if one.name.lower() == short]
