"""`maint config`: show, validate, init, path."""

import os
from pathlib import Path
from typing import Annotated

import typer

from maint.cli.flags import Flags, command
from maint.errors import Refused, WorkFailed

_USUAL = "~/.config/maint/config.yaml"
group = typer.Typer(no_args_is_help=True, help="The configuration.")


@command(group, "show")
def show(
    flags: Flags, origin: Annotated[bool, typer.Option("--origin", help="Where each value comes from.")] = False
) -> None:
    """Show the configuration; secrets as their references."""
    from maint.cli.open_site import settings_of
    from maint.cli.screen import table

    found = settings_of(flags).origins()
    values = [{"key": item.key, "value": item.value, **({"origin": item.origin} if origin else {})} for item in found]
    rows = [[item.key, str(item.value), *([item.origin] if origin else [])] for item in found]
    flags.screen().emit({"values": values}, table(["KEY", "VALUE", *(["ORIGIN"] if origin else [])], rows))


@command(group, "validate")
def validate(flags: Flags) -> None:
    """Check the configuration without touching anything it names."""
    from maint.cli.open_site import settings_of

    settings = settings_of(flags)
    for name in settings.names:
        settings.site(name)
    flags.screen().emit({"path": str(settings.path), "sites": list(settings.names)}, f"{settings.path}: no mistakes")


@command(group, "path")
def path(flags: Flags) -> None:
    """Print the path of the configuration file in force."""
    from maint.cli.open_site import settings_of

    settings = settings_of(flags)
    looked = [str(place) for place in settings.looked]
    settings.folder  # noqa: B018  # raises where there is no configuration
    flags.screen().emit({"path": str(settings.path), "looked": looked}, str(settings.path))


@command(group, "init")
def init(
    flags: Flags, file: Annotated[str | None, typer.Argument(help="Where to write it, if not where it is read.")] = None
) -> None:
    """Write a commented sample configuration where the next command looks for it; never over a file that is there."""
    from maint.config.sample import sample

    target = Path(file or flags.config or os.environ.get("MAINT_CONFIG") or _USUAL).expanduser()
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(sample())
    except FileExistsError:
        raise Refused(f"{target} is there already", hint="name another file") from None
    except OSError as error:
        raise WorkFailed(f"{target} cannot be written: {error.strerror}", hint="name another file") from error
    flags.screen().emit({"path": str(target)}, str(target))
