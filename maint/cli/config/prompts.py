"""Ask for answers and try them together; after a failed trial they are asked for again or kept, unless flags count."""

from collections.abc import Callable
from typing import TextIO

import msgspec

from maint.cli.screen import Screen
from maint.errors import Failure, MaintError, Refused, UsageError


class Question(msgspec.Struct, frozen=True):
    """What is asked for one answer."""

    words: str
    given: str = ""  # what a flag answers
    default: str = ""  # what Enter stands for, and what counts where nobody can be asked
    unless: str = ""  # an answer to a question before, with which this one is idle


class Asker:
    """Asks on a terminal.

    Args:
        source: where answers come from; None where there is nobody to ask.
        keep_failing: whether answers that fail are kept, with a warning, when there is nobody to ask.
    """

    def __init__(self, screen: Screen, source: TextIO | None, *, keep_failing: bool = False) -> None:
        self._screen, self._source, self._keep = screen, source, keep_failing

    @property
    def there(self) -> bool:
        """Whether somebody can be asked."""
        return self._source is not None

    def words(self, question: str, default: str = "", shown: str = "") -> str:
        """Return an answer; Enter alone is the default (`shown` in its place), and an end of input is refused."""
        if self._source is None:
            return default
        while True:
            self._screen.ask(question + (f" [{shown or default}]" if shown or default else ""))
            line = self._source.readline()
            if not line:
                raise Refused("the questions were not answered to the end", hint="nothing was written")
            if (answer := line.strip()).isprintable():
                return answer or default
            self._screen.warn("that holds what no terminal shows, such as an arrow key; type it again")

    def yes(self, question: str) -> bool:
        """Return whether somebody says yes; nobody says no."""
        return self._source is not None and self.words(f"{question} [y/N]").lower() in ("y", "yes")

    def fails(self, error: MaintError) -> None:
        """Say why an answer fails, and what to do."""
        self._screen.warn(error.in_a_line + (f" → {error.way_on}" if error.way_on else ""))

    def settle(self, trial: Callable[..., None], *questions: Question, needed: bool = False) -> None:
        """Have all answers of a trial given, and given again, each of them, until it holds or they are kept.

        What no configuration may hold (UsageError) is never kept.

        Args:
            trial: takes the answers, in the order of the questions.
            needed: whether nothing is kept that fails.

        Raises:
            MaintError: it fails, and nobody can be asked.
        """
        answers = list[str]()
        for one in questions:
            idle = one.unless and one.unless in answers
            answers.append(one.default if idle else one.given or self.words(one.words, one.default))
        while (error := _failure(trial, answers)) is not None:
            keepable = not needed and not isinstance(error, UsageError)
            if self._source is None and not (self._keep and keepable):
                raise error
            self.fails(error)
            if self._source is None:
                return
            alone = isinstance(error, UsageError) and len(questions) == 1
            before, answers = answers, list[str]()
            for one, last in zip(questions, before, strict=True):
                idle = one.unless and one.unless in answers
                again = (one.default, "") if alone else (last, "as before")
                answers.append(last if idle else self.words(one.words, *again))
            if keepable and answers == before and self.yes("keep it although it fails?"):
                return


def _failure(trial: Callable[..., None], answers: list[str]) -> MaintError | None:
    """Return why a trial fails, None where it holds; a signal, or the end of the time there is, is no such failure."""
    try:
        trial(*answers)
    except Failure as error:
        return error
    return None
