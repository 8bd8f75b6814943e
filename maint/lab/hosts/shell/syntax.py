"""The tree that a shell script is parsed into, and its text, fetched line by line so that commands may read on."""

import re
from collections.abc import Callable

import msgspec


class Text(msgspec.Struct, frozen=True):
    """Characters as they stand; quoted ones are neither split nor globbed."""

    text: str
    quoted: bool = False


class Parameter(msgspec.Struct, frozen=True):
    """`$name`, or `${name OPERATOR argument}`."""

    name: str
    operator: str = ""
    argument: "Word" = ()
    quoted: bool = False


class Substitution(msgspec.Struct, frozen=True):
    """`$(…)`."""

    body: "Sequence"
    quoted: bool = False


class Arithmetic(msgspec.Struct, frozen=True):
    """`$((…))`."""

    expression: "Word"
    quoted: bool = False


Part = Text | Parameter | Substitution | Arithmetic
Word = tuple[Part, ...]


class Redirection(msgspec.Struct, frozen=True):
    """`fd OPERATOR target`."""

    fd: int
    operator: str
    target: Word


class Simple(msgspec.Struct, frozen=True):
    """Assignments, words and redirections of one command."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]


class Pipeline(msgspec.Struct, frozen=True):
    """Commands joined by `|`, possibly after `!`."""

    commands: "tuple[Command, ...]"
    negated: bool


class AndOr(msgspec.Struct, frozen=True):
    """Pipelines joined by `&&` and `||`."""

    first: Pipeline
    rest: tuple[tuple[str, Pipeline], ...]
    background: bool = False


class Sequence(msgspec.Struct, frozen=True):
    """Commands one after the other."""

    items: tuple[AndOr, ...] = ()


class Subshell(msgspec.Struct, frozen=True):
    """`( … )`."""

    body: Sequence


class If(msgspec.Struct, frozen=True):
    """`if`, its `elif` arms, and `else`."""

    arms: tuple[tuple[Sequence, Sequence], ...]
    otherwise: Sequence | None


class For(msgspec.Struct, frozen=True):
    """`for name in words`; words is None where the positional parameters are meant."""

    name: str
    words: tuple[Word, ...] | None
    body: Sequence


class While(msgspec.Struct, frozen=True):
    """`while`."""

    condition: Sequence
    body: Sequence


class Case(msgspec.Struct, frozen=True):
    """`case word in pattern) … ;; esac`."""

    word: Word
    arms: tuple[tuple[tuple[Word, ...], Sequence], ...]


class Function(msgspec.Struct, frozen=True):
    """`name() body`."""

    name: str
    body: "Command"


class Redirected(msgspec.Struct, frozen=True):
    """A compound command with redirections."""

    body: "Command"
    redirections: tuple[Redirection, ...] = ()


Command = Simple | Subshell | Sequence | If | For | While | Case | Function | Redirected


class SyntaxFailure(Exception):
    """The script makes no sense; the message is what sh would say after `Syntax error: `."""


class Source:
    """Characters with look-ahead; `more` returns the next line with its end, "" at the end of the script."""

    def __init__(self, text: str, more: Callable[[], str] | None = None) -> None:
        self._text = text
        self._at = 0
        self._more = more

    def peek(self, ahead: int = 0) -> str:
        """Return the character that comes, or an empty text at the end; escaped line ends are skipped."""
        at = self._at + ahead
        if at < len(self._text) and (ahead or self._text[at] != "\\"):  # nearly always, and a script asks very often
            return self._text[at]
        while self._at + ahead >= len(self._text) and self._fetch():
            pass
        while self._text.startswith("\\\n", self._at) and ahead == 0:
            self._at += 2
            return self.peek()
        return self._text[self._at + ahead : self._at + ahead + 1]

    def raw(self) -> str:
        if self._at >= len(self._text):
            self._fetch()
        char = self._text[self._at : self._at + 1]
        self._at += len(char)
        return char

    def next(self) -> str:
        self.peek()
        return self.raw()

    def run(self, pattern: "re.Pattern[str]") -> str:
        """Take what a pattern matches of the line that was fetched."""
        taken = self.comes(pattern)
        self._at += len(taken)
        return taken

    def comes(self, pattern: "re.Pattern[str]") -> str:
        """Return what a pattern matches of the line that was fetched."""
        found = pattern.match(self._text, self._at)
        return found[0] if found else ""

    def starts(self, text: str) -> bool:
        return self.peek() == text[0] and all(self.peek(place) == text[place] for place in range(1, len(text)))

    def rest_of_line(self) -> str:
        """Return what comes of the line that was fetched, its end included; empty where it has none."""
        return self._text[self._at : self._text.find("\n", self._at) + 1]

    def since(self, mark: int) -> str:
        return self._text[mark : self._at]

    def take_lines(self, lines: tuple[str, ...]) -> bool:
        """Take whole lines but for the last one's end, if they come; a line is fetched when those before are equal."""
        at = self._at
        for line in lines:
            if at >= len(self._text):
                self._fetch()
            if not self._text.startswith(line, at):
                return False
            at += len(line)
        self._at = at - 1
        return True

    def take(self, text: str) -> bool:
        if not self.starts(text):
            return False
        for _ in text:
            self.next()
        return True

    def mark(self) -> int:
        return self._at

    def back(self, mark: int) -> None:
        self._at = mark

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
