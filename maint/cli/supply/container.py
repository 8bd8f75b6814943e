"""`maint generate container`: a Containerfile that runs as another user than root, on a read-only root."""

from typing import Annotated

import maint
from maint.cli.command import command
from maint.cli.options import Flags, option
from maint.render import from_file

_USER = 10001


@command(example="maint generate container > Containerfile")
def container(
    flags: Flags,
    image: Annotated[
        str, option("--image", "The image to build on, with Python 3.11 or newer.")
    ] = "docker.io/library/python:3.11-slim-bookworm",
) -> None:
    """Print a Containerfile that installs from `maint generate bundle`; its comments say how it is built and run."""
    text = from_file("Containerfile.j2", {"version": maint.__version__, "image": image, "user": _USER})
    flags.screen().emit({"containerfile": text}, text.rstrip())
