"""The tree that a shell script is parsed into."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Text:
    """Characters as they stand; quoted ones are neither split nor globbed."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name`, or `${name OPERATOR argument}`; `${#name}` has the operator `length`."""

    name: str
    operator: str = ""
    argument: "Word" = ()
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(…)` or backticks."""

    body: "Sequence"
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((…))`."""

    expression: "Word"
    quoted: bool = False


Part = Text | Parameter | Substitution | Arithmetic
Word = tuple[Part, ...]


@dataclass(slots=True)
class Heredoc:
    """A here-document; its body is filled in once the line that announces it is over."""

    delimiter: str
    quoted: bool
    strip_tabs: bool
    body: Word = ()


@dataclass(frozen=True, slots=True)
class Redirection:
    """`fd OPERATOR target`."""

    fd: int
    operator: str
    target: Word | Heredoc


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, words and redirections of one command."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by `|`, possibly after `!`."""

    commands: "tuple[Command, ...]"
    negated: bool


@dataclass(frozen=True, slots=True)
class AndOr:
    """Pipelines joined by `&&` and `||`."""

    first: Pipeline
    rest: tuple[tuple[str, Pipeline], ...]
    background: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """Commands one after the other."""

    items: tuple[AndOr, ...] = ()


@dataclass(frozen=True, slots=True)
class Subshell:
    """`( … )`."""

    body: Sequence


@dataclass(frozen=True, slots=True)
class Group:
    """`{ …; }`."""

    body: Sequence


@dataclass(frozen=True, slots=True)
class If:
    """`if`, its `elif` arms, and `else`."""

    arms: tuple[tuple[Sequence, Sequence], ...]
    otherwise: Sequence | None


@dataclass(frozen=True, slots=True)
class For:
    """`for name in words`; words is None where the positional parameters are meant."""

    name: str
    words: tuple[Word, ...] | None
    body: Sequence


@dataclass(frozen=True, slots=True)
class While:
    """`while`, or `until`."""

    condition: Sequence
    body: Sequence
    until: bool


@dataclass(frozen=True, slots=True)
class Case:
    """`case word in pattern) … ;; esac`."""

    word: Word
    arms: tuple[tuple[tuple[Word, ...], Sequence], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """`name() body`."""

    name: str
    body: "Command"


@dataclass(frozen=True, slots=True)
class Redirected:
    """A compound command with redirections."""

    body: "Command"
    redirections: tuple[Redirection, ...] = field(default=())


Command = Simple | Subshell | Group | If | For | While | Case | Function | Redirected
