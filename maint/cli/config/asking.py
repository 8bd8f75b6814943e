"""Ask for an answer, try it, and have it given again or kept where it fails; where nobody is there, flags count."""

from collections.abc import Callable
from typing import TextIO

from maint.cli.screen import Screen
from maint.errors import MaintError, Refused, Stopped


class Asker:
    """Asks on a terminal.

    Args:
        source: where answers come from; None where there is nobody to ask.
        keep_failing: whether an answer that fails is kept, with a warning, when there is nobody to ask.
    """

    def __init__(self, screen: Screen, source: TextIO | None, *, keep_failing: bool = False) -> None:
        self._screen, self._source, self._keep = screen, source, keep_failing

    @property
    def there(self) -> bool:
        """Whether somebody can be asked."""
        return self._source is not None

    def words(self, question: str, default: str = "") -> str:
        """Return an answer; Enter alone is the default, and an end of input is refused."""
        if self._source is None:
            return default
        self._screen.ask(question + (f" [{default}]" if default else ""))
        line = self._source.readline()
        if not line:
            raise Refused("the questions were not answered to the end", hint="nothing was written")
        return line.strip() or default

    def yes(self, question: str) -> bool:
        """Return whether somebody says yes; nobody says no."""
        return self._source is not None and self.words(f"{question} [y/N]").lower() in ("y", "yes")

    def settle(self, question: str, given: str, default: str, trial: Callable[[str], None]) -> None:
        """Take an answer and try it, until it holds or is kept as it is.

        Args:
            given: what a flag said; "" asks.
            default: what Enter stands for, and what counts where nobody can be asked.

        Raises:
            MaintError: it fails, and nobody can be asked.
        """
        answer = given or self.words(question, default)
        while True:
            try:
                trial(answer)
            except Stopped:  # a signal or the limit of the command, not an answer that fails
                raise
            except MaintError as error:
                if self._source is None and not self._keep:
                    raise
                self._screen.warn(error.in_a_line + (f" → {error.hint}" if error.hint else ""))
                if self._source is None:
                    return
                again = self.words("another answer, or Enter to keep this one as it is")
                if not again:
                    self._screen.warn(f"{answer} is kept although it fails")
                    return
                answer = again
            else:
                return
