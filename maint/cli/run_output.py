"""What a one-off run printed, shown once and kept no longer."""

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maint.cli.composition import ConfiguredSite
    from maint.cli.screen import Screen
    from maint.engine.journal import RunState


def show_output(site: "ConfiguredSite", screen: "Screen", past: "RunState") -> None:
    """Print what the one-off run of a past run printed; nothing where it has none, or where it was shown."""
    for record in past.records.values():
        name = record.notes.get("log")
        if isinstance(name, str):
            with suppress(KeyError):  # an earlier life has shown it
                screen.raw(site.undo.fetch(name).decode(errors="replace"))
            site.undo.drop(name)
