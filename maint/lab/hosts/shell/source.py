"""The text of a script, fetched line by line so that commands may read what follows them on the same input."""

from collections.abc import Callable


class SyntaxFailure(Exception):
    """The script makes no sense; the message is what sh would say after `Syntax error: `."""


class Source:
    """Characters with look-ahead.

    Args:
        text: what is known already.
        more: returns the next line with its end, or an empty text at the end of the script.
    """

    def __init__(self, text: str, more: Callable[[], str] | None = None) -> None:
        self._text = text
        self._at = 0
        self._more = more
        self.line = 1

    def peek(self, ahead: int = 0) -> str:
        """Return the character that comes, or an empty text at the end; escaped line ends are skipped."""
        while self._at + ahead >= len(self._text) and self._fetch():
            pass
        while self._text.startswith("\\\n", self._at) and ahead == 0:
            self._at += 2
            self.line += 1
            return self.peek()
        return self._text[self._at + ahead : self._at + ahead + 1]

    def raw(self) -> str:
        """Take one character, escaped line ends included."""
        if self._at >= len(self._text):
            self._fetch()
        char = self._text[self._at : self._at + 1]
        self._at += len(char)
        self.line += char == "\n"
        return char

    def next(self) -> str:
        """Take one character."""
        self.peek()
        return self.raw()

    def starts(self, text: str) -> bool:
        """Return whether a text comes now."""
        return all(self.peek(place) == char for place, char in enumerate(text))

    def take(self, text: str) -> bool:
        """Take a text if it comes now."""
        if not self.starts(text):
            return False
        for _ in text:
            self.next()
        return True

    def take_line(self) -> str:
        """Take the rest of the line with its end."""
        taken = ""
        while (char := self.raw()) and char != "\n":
            taken += char
        return taken + char

    def mark(self) -> tuple[int, int]:
        """Return a place to come back to."""
        return self._at, self.line

    def back(self, mark: tuple[int, int]) -> None:
        """Go back to a place."""
        self._at, self.line = mark

    def _fetch(self) -> bool:
        if self._more is None:
            return False
        line = self._more()
        if not line:
            self._more = None
            return False
        self._text += line
        if line.endswith("\\\n"):
            self._fetch()
        return True
