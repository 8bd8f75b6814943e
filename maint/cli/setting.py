"""`maint service`, `maint setting` and `maint restore config`: services, roles, and what is set on them."""

from shlex import quote
from typing import Annotated

import msgspec
from msgspec.structs import asdict

from maint.cli.command import command
from maint.cli.open_site import opened
from maint.cli.options import Flags, argument, option
from maint.cli.run_playbook import run_step
from maint.cli.screen import table
from maint.config.error_messages import typed
from maint.deployment.secrets_in_text import without_secrets
from maint.errors import UsageError
from maint.model.json import Json
from maint.model.manager import Place
from maint.steps.manager.clusters import resolve
from maint.steps.services.change_setting import is_hidden, is_secret, shown_value
from maint.steps.services.places import SettingPlaceArguments, find_place

ServiceName = Annotated[str, argument("Its name, such as hdfs.")]
Cluster = Annotated[str, option("--cluster", "Its cluster; needed where several have such a service.")]


@command()
def list_services(flags: Flags, cluster: Cluster = "") -> None:
    """List services with their state, and whether they run with a configuration that was changed since."""
    with opened(flags) as (site, screen):
        manager = site.manager
        clusters = [resolve(manager, cluster)] if cluster else manager.clusters()
        found = [(one.name, each) for one in clusters for each in manager.services(one.name)]
        if not cluster and (monitoring := manager.management_service()) is not None:
            found.append(("", monitoring))
        rows = [[each.name, where or "-", each.type, each.state, each.staleness or "-"] for where, each in found]
        keys = ("name", "cluster", "type", "state", "staleness")
        data: list[Json] = [
            dict(zip(keys, (one.name, where or None, one.type, one.state, one.staleness), strict=True))
            for where, one in found
        ]
        screen.emit({"services": data}, table(["NAME", "CLUSTER", "TYPE", "STATE", "CONFIGURATION"], rows))


@command()
def stop(flags: Flags, name: ServiceName, cluster: Cluster = "") -> int:
    """Stop a service and wait until it is at rest; what depends on it is not stopped."""
    return _run(flags, "stop", name, cluster)


@command()
def start(flags: Flags, name: ServiceName, cluster: Cluster = "") -> int:
    """Start a service and wait until it runs."""
    return _run(flags, "start", name, cluster)


@command()
def restart(flags: Flags, name: ServiceName, cluster: Cluster = "") -> int:
    """Restart a service and wait until it runs, with its changed configuration."""
    return _run(flags, "restart", name, cluster)


@command()
def refresh(flags: Flags, name: ServiceName, cluster: Cluster = "") -> int:
    """Have a service's running roles read their refreshable configuration anew; nothing restarts."""
    return _run(flags, "refresh", name, cluster)


def _run(flags: Flags, verb: str, name: str, cluster: str) -> int:
    title = f"{verb.capitalize()} the service"
    return run_step(flags, f"service {verb}", title, f"service.{verb}", {"service": name, "cluster": cluster})


Name = Annotated[str, argument("Its name in the API, such as dfs_replication.")]


class PlaceOptions(msgspec.Struct, frozen=True):
    """What has the settings, as the arguments of a step name it."""

    cluster: Annotated[str, option("--cluster", "The cluster, where several have such a service.")] = ""
    service: Annotated[str, option("--service", "A service by its name.")] = ""
    role_group: Annotated[str, option("--role-group", "A role config group by its name.")] = ""
    role: Annotated[str, option("--role", "A role by its name.")] = ""
    host: Annotated[str, option("--host", "A host by its name.")] = ""
    manager: Annotated[bool, option("--manager", "The manager itself.")] = False


@command()
def list_settings(
    flags: Flags,
    place: PlaceOptions,
    everything: Annotated[bool, option("--all", "Those that are not set too.")] = False,
) -> None:
    """List what is set; no secret is shown, nor one within a value that stands beside the name of a password."""
    args = typed(SettingPlaceArguments, asdict(place))
    with opened(flags) as (site, screen):
        listed = site.manager.settings_of(find_place(site.manager, args))
        found = [one for one in listed if everything or one.value is not None]
        values = [
            "hidden by the manager" if is_hidden(one) else shown_value(one.value, secret=is_secret(one))
            for one in found
        ]
        rows = [[one.name, value, one.default or "-"] for one, value in zip(found, values, strict=True)]
        data: list[Json] = [
            {
                "name": one.name,
                "value": None if is_secret(one) or one.value is None else without_secrets(one.value),
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
    place: PlaceOptions,
    value: Annotated[str | None, argument("What it shall be.")] = None,
    secret: Annotated[str, option("--secret", "A secret by its reference, such as file:PATH.")] = "",
) -> int:
    """Set one setting; its old value is kept, and `maint playbook undo RUN` puts it back."""
    if (value is None) == (not secret):
        args = typed(SettingPlaceArguments, asdict(place))
        where = Place(args.cluster, args.service, args.role, args.role_group, hostname=args.host)
        hint = f"`maint setting unset {quote(name)} {where.options}` unsets it"
        raise UsageError("give a value, or --secret with a reference", hint=hint)
    how: dict[str, Json] = {"secret": secret} if secret else {"value": value}
    return run_step(flags, "setting set", f"Set {name}", "config.set", {**asdict(place), "name": name, **how})


@command()
def unset(flags: Flags, name: Name, place: PlaceOptions) -> int:
    """Unset one setting, so that its default counts; its old value is kept."""
    given = {**asdict(place), "name": name, "value": None}
    return run_step(flags, "setting unset", f"Unset {name}", "config.set", given)


@command()
def restore(
    flags: Flags,
    place: PlaceOptions,
    snapshot: Annotated[str, option("--from", "The snapshot's id; else the newest restorable one.")] = "",
    only: Annotated[list[str] | None, option("--property", "Only this setting; repeatable.")] = None,
) -> int:
    """Put settings back as a snapshot has them: a service's with its role groups', or a single place's."""
    given = {**asdict(place), "snapshot": snapshot, "properties": list(only or ())}
    return run_step(flags, "restore config", "Put the settings back", "config.restore", given)
