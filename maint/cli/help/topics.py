"""`maint help TOPIC` and `maint version`."""

from importlib.resources import files
from typing import Annotated

import typer

import maint
from maint.cli.command import command
from maint.cli.options import Flags
from maint.errors import UsageError


def names() -> list[str]:
    """Return the names of all topics."""
    found = [item.name.removesuffix(".md") for item in files("maint.help").iterdir() if item.name.endswith(".md")]
    return sorted(name for name in found if name != "README")


@command(example="maint help backup")
def topic(flags: Flags, name: Annotated[str, typer.Argument(help="What about.")] = "") -> None:
    """Read a help topic; without one, list them."""
    if not name:
        flags.screen().emit({"topics": names()}, "\n".join(["Topics, read with `maint help TOPIC`:", *names()]))
        return
    if name not in names():
        raise UsageError(f"there is no topic {name!r}", hint=f"there are {', '.join(names())}")
    text = files("maint.help").joinpath(f"{name}.md").read_text()
    flags.screen().emit({"topic": name, "text": text}, text.rstrip())


@command()
def version(flags: Flags) -> None:
    """Show the version of maint."""
    flags.screen().emit({"version": maint.__version__}, f"maint {maint.__version__}")
