"""`maint help TOPIC` and `maint version`."""

from importlib.resources import files
from typing import Annotated

import typer

import maint
from maint.cli.flags import Flags, command
from maint.errors import UsageError

group = typer.Typer()


def names() -> list[str]:
    """Return the names of all topics."""
    found = [item.name.removesuffix(".md") for item in files("maint.help").iterdir() if item.name.endswith(".md")]
    return sorted(name for name in found if name != "README")


@command(group, "help")
def show(flags: Flags, topic: Annotated[str, typer.Argument(help="What about.")] = "") -> None:
    """Read a help topic; without one, list them."""
    if not topic:
        flags.screen().emit({"topics": names()}, "\n".join(["Topics, read with `maint help TOPIC`:", *names()]))
        return
    if topic not in names():
        raise UsageError(f"there is no topic {topic!r}", hint=f"there are {', '.join(names())}")
    text = files("maint.help").joinpath(f"{topic}.md").read_text()
    flags.screen().emit({"topic": topic, "text": text}, text.rstrip())


@command(group, "version")
def version(flags: Flags) -> None:
    """Show the version of maint."""
    flags.screen().emit({"version": maint.__version__}, f"maint {maint.__version__}")
