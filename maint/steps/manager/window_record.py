"""The record, in the state folder, of a redaction window that this machine has opened."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from maint import files
from maint.errors import Refused
from maint.model.manager import CLOSE_COMMAND
from maint.ports import Site
from maint.snapshots.open_windows import record_of, was_closed
from maint.steps.manager import java_options


class EditedFile(msgspec.Struct, frozen=True):
    """The options file of one manager host."""

    original: str  # name of the sealed original among the undo objects
    before: str  # SHA-256 of the file as it was, "absent" where there was none
    after: str  # SHA-256 of the file with redaction switched off


class Window(msgspec.Struct, frozen=True):
    """An open window, as the state folder remembers it: the run that opened it, and the file of each host."""

    run: str
    opened_at: str
    hosts: Mapping[str, EditedFile]


def remembered(state: Path) -> Window | None:
    """Return the window that the state folder remembers as open, None without one; Refused where it is damaged."""
    path = record_of(state)
    try:
        return files.load(path, Window)
    except files.Damaged as error:
        raise Refused(
            f"the record of the redaction window, {path}, cannot be read: {error}",
            detail=["a window may be open: the manager may show its secrets to every administrator"],
            hint=f"`{CLOSE_COMMAND}` closes it by what the hosts show; without a way to them, take the line"
            f" `{java_options.LINE}` out of {java_options.PATH}, restart {java_options.UNIT}, and delete {path}",
        ) from None


def left_open(site: Site) -> Window | None:
    """Return the remembered window, None where there is none, or where a record tells that another machine closed it.

    Raises:
        Refused: what is remembered is damaged.
    """
    window = remembered(site.state)
    return None if window is None or was_closed(site, window.run, window.opened_at) else window
