"""The virtual cluster that a command works on, and how its objects are shown."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec.structs import replace

from maint.cli.open_site import opened
from maint.cli.options import Flags, option
from maint.cli.screen import Screen, table
from maint.errors import Refused, UsageError
from maint.model.json import Json, spelled
from maint.model.virtual_cluster import is_cluster_name
from maint.steps.virtual_clusters.smoke import role_hint, sees_nothing

if TYPE_CHECKING:
    from maint.adapters.virtual_clusters.client import VirtualClusterClient
    from maint.cli.composition import ConfiguredSite

T = TypeVar("T")
IfExists = Annotated[bool, option("--if-exists", "Be content where there is none.")]


def chosen(flags: Flags, name: str = "") -> str:
    """Return the name that was given, empty where none was; UsageError: two were, or it cannot be one (J8)."""
    if name and flags.vc not in ("", name):
        raise UsageError(f"two virtual clusters are named: {name} and {flags.vc}", hint="name it once")
    name = name or flags.vc
    if name and not is_cluster_name(name):
        raise UsageError(
            f"--vc {name!r}: a virtual cluster's name has 3 to 30 letters, digits and hyphens, and a letter first",
            hint="it is the `name` under `virtual_clusters:` of the config",
        )
    return name


def deleting(flags: Flags, if_exists: bool, **what: str) -> dict[str, Json]:
    """Return the arguments of a step that deletes something from the chosen virtual cluster."""
    return {"vc": chosen(flags), **what, "if_exists": if_exists, "no_safety_net": flags.no_safety_net}


def let_in(site: "ConfiguredSite", flags: Flags) -> None:
    """Log in before anything is begun; CannotReach: there is no way in."""
    site.virtual_cluster(chosen(flags)).token_until()


def ready(flags: Flags) -> Flags:
    """Return the flags as commands on virtual clusters use them; UsageError: `--insecure` was given."""
    if flags.insecure:
        raise UsageError("--insecure is not for virtual clusters", hint="name the authority under `ca:`")
    return replace(flags, vendor=True)


@contextmanager
def reading(flags: Flags) -> Iterator[tuple["VirtualClusterClient", Screen]]:
    """Yield a virtual cluster to look at, and the screen; `--timeout` bounds the whole command."""
    name = chosen(flags)
    with opened(ready(flags)) as (site, screen):
        yield site.virtual_cluster(name), screen


def show(flags: Flags, screen: Screen, key: str, value: Json, text: str) -> None:
    """Show objects: as told by -o, else as a table on a terminal, else as the documented client prints them."""
    if flags.output or os.environ.get("MAINT_OUTPUT") or sys.stdout.isatty():
        screen.emit({key: value}, text)
    else:
        screen.raw(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def warn_of_blindness(screen: Screen, cluster: "VirtualClusterClient") -> None:
    """Say that a user who sees nothing at all may lack a role: lists are empty then, not refused."""
    if sees_nothing(cluster):
        screen.warn(f"there is not one job and not one resource to be seen: {role_hint(cluster.settings)}")


def describe(value: Mapping[str, Json]) -> str:
    """Return an object for people: its keys, a line each."""
    return table(["KEY", "VALUE"], [[key, spelled(item)] for key, item in value.items()])


def known(found: T | None, what: str, listing: str) -> T:
    """Return what was found; Refused where there is none, naming the command that lists what there is."""
    if found is None:
        raise Refused(f"there is no {what}", hint=f"`maint vc {listing}` shows what there is")
    return found
