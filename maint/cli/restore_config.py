"""`maint restore config`: settings of a service, role group, role, host or the manager, back from a snapshot."""

from typing import Annotated

from maint.cli.command import command
from maint.cli.options import Flags, option
from maint.cli.run_steps import run_step
from maint.cli.setting import Cluster, Group, Host, Itself, Role, Service, place_of
from maint.model.json import Json


@command(example="maint restore config --service hdfs --from 20260102T --dry-run")
def config(
    flags: Flags,
    snapshot: Annotated[str, option("--from", "The snapshot's id; else the newest restorable one.")] = "",
    only: Annotated[list[str] | None, option("--property", "Only this setting; repeatable.")] = None,
    cluster: Cluster = "",
    service: Service = "",
    role_group: Group = "",
    role: Role = "",
    host: Host = "",
    manager: Itself = False,
) -> int:
    """Put settings back as a snapshot has them: a service's with its role groups', or a single place's."""
    given: dict[str, Json] = {**place_of(cluster, service, role_group, role, host, manager), "snapshot": snapshot}
    given["properties"] = list(only or ())
    return run_step(flags, "restore config", "Put the settings back", "config.restore", given)
