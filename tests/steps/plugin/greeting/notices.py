"""A way of telling of somebody's own: it appends to a file."""

from collections.abc import Mapping
from pathlib import Path

from maint.adapters.notices import Say
from maint.model.notice import Notice


def tell(settings: Mapping[str, str], notice: Notice, say: Say) -> None:
    """Append a notice to the file that the settings name."""
    with Path(settings["file"]).open("a") as file:
        file.write(f"hello: {say.text(notice)}\n")
