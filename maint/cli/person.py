"""The person at the terminal, for steps that ask somebody while a run is under way."""

import os
import select
import sys

from maint.cli.screen import Screen


class TerminalPerson:
    """`ports.Person`: asks on the screen, and reads what is typed without holding up the run."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    @property
    def name(self) -> str:
        """Who runs this, as `user@host`."""
        from maint.config.actor import actor  # most commands ask nobody

        return actor()

    def ask(self, question: str) -> None:
        """Show a question."""
        self._screen.ask(question)

    def reply(self, wait: float) -> str | None:
        """Return the next line that is typed within so many seconds, None where none is; "" at the end of input."""
        ready, _, _ = select.select([sys.stdin], [], [], wait)
        return os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace") if ready else None
