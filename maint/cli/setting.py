"""`maint setting`: list, set and unset settings of services, role groups, roles, hosts and the manager."""

from typing import Annotated

from maint.cli.command import command
from maint.cli.open_site import opened
from maint.cli.options import Flags, argument, option
from maint.cli.run_steps import run_step
from maint.cli.screen import table
from maint.errors import UsageError
from maint.model import manager
from maint.model.json import Json
from maint.steps.services.changing import is_hidden, is_secret, shown
from maint.steps.services.places import PlaceArguments, find_place

Cluster = Annotated[str, option("--cluster", "The cluster, where several have such a service.")]
Service = Annotated[str, option("--service", "A service by its name.")]
Group = Annotated[str, option("--role-group", "A role config group by its name.")]
Role = Annotated[str, option("--role", "A role by its name.")]
Host = Annotated[str, option("--host", "A host by its name.")]
Itself = Annotated[bool, option("--manager", "The manager itself.")]
Setting = Annotated[str, argument("Its name in the API, such as dfs_replication.")]


@command(example="maint setting list --service hdfs")
def list_settings(
    flags: Flags,
    cluster: Cluster = "",
    service: Service = "",
    role_group: Group = "",
    role: Role = "",
    host: Host = "",
    manager: Itself = False,
    everything: Annotated[bool, option("--all", "Those that are not set too.")] = False,
) -> None:
    """List what is set; secrets are never shown."""
    args = PlaceArguments.model_validate(place_of(cluster, service, role_group, role, host, manager))
    with opened(flags) as (site, screen):
        listed = site.manager.settings_of(find_place(site.manager, args))
        found = [one for one in listed if everything or one.value is not None]
        values = [
            "hidden by the manager" if is_hidden(one) else shown(one.value, secret=is_secret(one)) for one in found
        ]
        rows = [[one.name, value, one.default or "-"] for one, value in zip(found, values, strict=True)]
        data: list[Json] = [
            {
                "name": one.name,
                "value": None if is_secret(one) else one.value,
                "set": one.value is not None,
                "default": one.default,
                "secret": is_secret(one),
            }
            for one in found
        ]
        screen.emit({"settings": data}, table(["NAME", "VALUE", "DEFAULT"], rows))


@command(example="maint setting set dfs_replication 2 --service hdfs --yes")
def set_(
    flags: Flags,
    name: Setting,
    value: Annotated[str | None, argument("What it shall be.")] = None,
    secret: Annotated[str, option("--secret", "A secret by its reference, such as file:PATH.")] = "",
    cluster: Cluster = "",
    service: Service = "",
    role_group: Group = "",
    role: Role = "",
    host: Host = "",
    manager: Itself = False,
) -> int:
    """Set one setting; its old value is kept, and `maint playbook undo RUN` puts it back."""
    if (value is None) == (not secret):
        raise UsageError("give a value, or --secret with a reference", hint="`maint setting unset NAME` unsets one")
    given = place_of(cluster, service, role_group, role, host, manager)
    how: dict[str, Json] = {"secret": secret} if secret else {"value": value}
    return run_step(flags, "setting set", f"Set {name}", "config.set", {**given, "name": name, **how})


@command(example="maint setting unset dfs_replication --service hdfs --yes")
def unset(
    flags: Flags,
    name: Setting,
    cluster: Cluster = "",
    service: Service = "",
    role_group: Group = "",
    role: Role = "",
    host: Host = "",
    manager: Itself = False,
) -> int:
    """Unset one setting, so that its default counts; its old value is kept."""
    given = place_of(cluster, service, role_group, role, host, manager)
    return run_step(flags, "setting unset", f"Unset {name}", "config.set", {**given, "name": name, "value": None})


def _shown(one: manager.Setting) -> str:
    return "hidden by the manager" if is_hidden(one) else shown(one.value, secret=is_secret(one))


def place_of(cluster: str, service: str, role_group: str, role: str, host: str, manager: bool) -> dict[str, Json]:
    """Return the options that name a place as the arguments of a step."""
    named: dict[str, Json] = {"cluster": cluster, "service": service, "role_group": role_group, "role": role}
    return {**named, "host": host, "manager": manager}
