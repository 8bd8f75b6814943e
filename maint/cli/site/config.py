"""`maint config`: show, validate, init, path."""

import os
from pathlib import Path
from typing import Annotated

from maint import files
from maint.cli.command import command
from maint.cli.open_site import settings_of
from maint.cli.options import Flags, argument, option
from maint.cli.screen import table
from maint.config.sample import sample
from maint.errors import Refused, WorkFailed

_USUAL = "~/.config/maint/config.yaml"


@command(example="maint config show --origin")
def show(flags: Flags, origin: Annotated[bool, option("--origin", "Where each value comes from.")] = False) -> None:
    """Show the configuration; secrets as their references."""
    found = settings_of(flags).origins()
    values = [{"key": item.key, "value": item.value, **({"origin": item.origin} if origin else {})} for item in found]
    rows = [[item.key, str(item.value), *([item.origin] if origin else [])] for item in found]
    flags.screen().emit({"values": values}, table(["KEY", "VALUE", *(["ORIGIN"] if origin else [])], rows))


@command(example="maint config validate")
def validate(flags: Flags) -> None:
    """Check the configuration without touching anything it names."""
    settings = settings_of(flags)
    for name in settings.names:
        settings.site(name)
    flags.screen().emit({"path": str(settings.path), "sites": list(settings.names)}, f"{settings.path}: no mistakes")


@command(example="maint config path")
def path(flags: Flags) -> None:
    """Print the path of the configuration file in force."""
    settings = settings_of(flags)
    looked = [str(place) for place in settings.looked]
    settings.folder  # noqa: B018  # raises where there is no configuration
    flags.screen().emit({"path": str(settings.path), "looked": looked}, str(settings.path))


@command(example="maint config init /etc/maint/config.yaml")
def init(
    flags: Flags, file: Annotated[str | None, argument("Where to write it, if not where it is read.")] = None
) -> None:
    """Write a commented sample configuration where the next command looks for it; never over a file that is there."""
    target = Path(file or flags.config or os.environ.get("MAINT_CONFIG") or _USUAL).expanduser()
    if target.exists():
        raise Refused(f"{target} is there already", hint="name another file")
    if flags.dry_run:
        flags.screen().emit({"path": str(target)}, f"would write a sample configuration to {target}")
        return
    try:
        made = files.create(target.absolute(), sample().encode())
    except OSError as error:
        raise WorkFailed(f"{target} cannot be written: {error.strerror}", hint="name another file") from error
    if not made:
        raise Refused(f"{target} is there already", hint="name another file")
    flags.screen().emit({"path": str(target)}, str(target))
