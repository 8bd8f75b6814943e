"""`maint setting` and `maint restore config`: settings of services, role groups, roles, hosts and the manager."""

from typing import Annotated

import msgspec
from msgspec.structs import asdict

from maint.cli.command import command
from maint.cli.open_site import opened
from maint.cli.options import Flags, argument, option
from maint.cli.run_playbook import run_step
from maint.cli.screen import table
from maint.config.error_messages import typed
from maint.errors import UsageError
from maint.model.json import Json
from maint.steps.services.changing import is_hidden, is_secret, shown
from maint.steps.services.places import SettingPlaceArguments, find_place

Name = Annotated[str, argument("Its name in the API, such as dfs_replication.")]


class Place(msgspec.Struct, frozen=True):
    """What has the settings, as the arguments of a step name it."""

    cluster: Annotated[str, option("--cluster", "The cluster, where several have such a service.")] = ""
    service: Annotated[str, option("--service", "A service by its name.")] = ""
    role_group: Annotated[str, option("--role-group", "A role config group by its name.")] = ""
    role: Annotated[str, option("--role", "A role by its name.")] = ""
    host: Annotated[str, option("--host", "A host by its name.")] = ""
    manager: Annotated[bool, option("--manager", "The manager itself.")] = False


@command()
def list_settings(
    flags: Flags, place: Place, everything: Annotated[bool, option("--all", "Those that are not set too.")] = False
) -> None:
    """List what is set; secrets are never shown."""
    args = typed(SettingPlaceArguments, asdict(place))
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


@command()
def set_(
    flags: Flags,
    name: Name,
    place: Place,
    value: Annotated[str | None, argument("What it shall be.")] = None,
    secret: Annotated[str, option("--secret", "A secret by its reference, such as file:PATH.")] = "",
) -> int:
    """Set one setting; its old value is kept, and `maint playbook undo RUN` puts it back."""
    if (value is None) == (not secret):
        raise UsageError("give a value, or --secret with a reference", hint="`maint setting unset NAME` unsets one")
    how: dict[str, Json] = {"secret": secret} if secret else {"value": value}
    return run_step(flags, "setting set", f"Set {name}", "config.set", {**asdict(place), "name": name, **how})


@command()
def unset(flags: Flags, name: Name, place: Place) -> int:
    """Unset one setting, so that its default counts; its old value is kept."""
    given = {**asdict(place), "name": name, "value": None}
    return run_step(flags, "setting unset", f"Unset {name}", "config.set", given)


@command()
def restore(
    flags: Flags,
    place: Place,
    snapshot: Annotated[str, option("--from", "The snapshot's id; else the newest restorable one.")] = "",
    only: Annotated[list[str] | None, option("--property", "Only this setting; repeatable.")] = None,
) -> int:
    """Put settings back as a snapshot has them: a service's with its role groups', or a single place's."""
    given = {**asdict(place), "snapshot": snapshot, "properties": list(only or ())}
    return run_step(flags, "restore config", "Put the settings back", "config.restore", given)
