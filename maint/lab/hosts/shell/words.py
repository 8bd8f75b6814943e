"""Read words: quotes, parameters, substitutions."""

import re
from collections.abc import Callable

from maint.lab.hosts.shell.source import Source, SyntaxFailure
from maint.lab.hosts.shell.syntax import Arithmetic, Parameter, Part, Sequence, Substitution, Text, Word

BLANK = " \t"
BREAK = " \t\n;&|()<>"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPECIAL = "@*#?-$!0123456789"
_OPERATORS = (":-", ":=", ":+", ":?", "##", "%%", "-", "=", "+", "?", "#", "%")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}


class WordReader:
    """Reads words from a source.

    Args:
        body: parses commands from a source until `)`, which is left to be taken.
    """

    def __init__(self, source: Source, body: Callable[[Source], Sequence]) -> None:
        self._source = source
        self._body = body

    def word(self, stop: str = BREAK) -> Word:
        """Return the word that comes, empty where none does."""
        parts: list[Part] = []
        while (char := self._source.peek()) and char not in stop:
            parts.extend(self._piece(char))
        return _joined(parts)

    def quoted(self, stop: str) -> Word:
        """Return what comes up to a stop character (left there) by the rules inside double quotes."""
        parts: list[Part] = []
        while (char := self._source.peek()) and char not in stop:
            parts.append(self._inside(char, stop))
        return _joined(parts)

    def _piece(self, char: str) -> list[Part]:
        source = self._source
        if char == "'":
            source.next()
            return [Text(self._until_quote(), quoted=True)]
        if char == '"':
            source.next()
            inside = self.quoted('"')
            self._expect('"')
            return list(inside) if any(_is_all(part) for part in inside) else [Text("", quoted=True), *inside]
        if char == "\\":
            source.next()
            return [Text(source.raw() or "\\", quoted=True)]
        if char == "$" and source.peek(1) == "'":
            source.next(), source.next()
            return [Text(self._ansi(), quoted=True)]
        if char in "$`":
            return [self._dollar(quoted=False)]
        return [Text(source.next())]

    def _inside(self, char: str, stop: str) -> Part:
        source = self._source
        if char in "$`":
            return self._dollar(quoted=True)
        source.next()
        if char == "\\":
            escaped = source.raw()
            plain = escaped in ("$", "`", "\\") or (escaped in ('"', "}") and escaped in stop)
            return Text(escaped if plain else "\\" + escaped, quoted=True)
        return Text(char, quoted=True)

    def _until_quote(self) -> str:
        taken = ""
        while (char := self._source.raw()) != "'":
            if not char:
                raise SyntaxFailure("Unterminated quoted string")
            taken += char
        return taken

    def _ansi(self) -> str:
        taken = ""
        while (char := self._source.raw()) != "'":
            if not char:
                raise SyntaxFailure("Unterminated quoted string")
            taken += self._escape() if char == "\\" else char
        return taken

    def _escape(self) -> str:
        source = self._source
        char = source.raw()
        if char == "x" or char in "01234567":
            base, most, digits = (16, 2, "") if char == "x" else (8, 2, char)
            allowed = "[0-9a-fA-F]" if base == 16 else "[0-7]"
            while len(digits) < most + (base == 8) and re.fullmatch(allowed, source.peek()):
                digits += source.raw()
            return bytes([int(digits or "0", base) & 255]).decode("utf-8", "surrogateescape")
        return _ESCAPES.get(char, char if char in "\\'\"?" else "\\" + char)

    def _expect(self, text: str) -> None:
        if not self._source.take(text):
            raise SyntaxFailure("Unterminated quoted string" if text == '"' else f'"{text}" expected')

    def _dollar(self, quoted: bool) -> Part:
        source = self._source
        if source.next() == "`":
            return self._backticks(quoted)
        char = source.peek()
        if source.starts("(("):
            mark = source.mark()
            if (arithmetic := self._arithmetic(quoted)) is not None:
                return arithmetic
            source.back(mark)
        if source.take("("):
            body = self._body(source)
            self._expect(")")
            return Substitution(body, quoted)
        if source.take("{"):
            return self._braces(quoted)
        if char and char in _SPECIAL:
            return Parameter(source.next(), quoted=quoted)
        name = self._name()
        return Parameter(name, quoted=quoted) if name else Text("$", quoted=True)

    def _name(self) -> str:
        taken = ""
        while NAME.fullmatch(taken + self._source.peek()) and self._source.peek():
            taken += self._source.next()
        return taken

    def _arithmetic(self, quoted: bool) -> Part | None:
        source = self._source
        source.take("((")
        depth, parts = 0, list[Part]()
        while (char := source.peek()) and not (depth == 0 and source.starts("))")):
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth < 0:
                return None
            if char in "\"'":
                source.next()
            else:
                parts.append(self._inside(char, ""))
        return Arithmetic(_joined(parts), quoted) if source.take("))") else None

    def _backticks(self, quoted: bool) -> Part:
        text = ""
        while (char := self._source.raw()) != "`":
            if not char:
                raise SyntaxFailure("EOF in backquote substitution")
            if char == "\\":
                escaped = self._source.raw()
                char = escaped if escaped in ("$", "`", "\\") or (quoted and escaped == '"') else "\\" + escaped
            text += char
        return Substitution(self._body(Source(text)), quoted)

    def _braces(self, quoted: bool) -> Part:
        source = self._source
        length = source.peek() == "#" and source.peek(1) not in ("}", "", "#", "%", ":", "-", "+", "=", "?")
        if length:
            source.next()
        name = self._parameter_name()
        operator = "length" if length else next((o for o in _OPERATORS if source.take(o)), "")
        argument: Word = ()
        if operator and not length:
            pattern = operator[0] in "#%"
            argument = self.quoted_argument() if quoted and not pattern else self.word("}")
        if not source.take("}"):
            raise SyntaxFailure("Bad substitution")
        return Parameter(name, operator, argument, quoted)

    def quoted_argument(self) -> Word:
        """Return the argument of `${x:-…}` inside double quotes, where double quotes may stand again."""
        parts: list[Part] = []
        while (char := self._source.peek()) and char != "}":
            if char == '"':
                self._source.next()
                parts.extend(self.quoted('"'))
                self._expect('"')
            else:
                parts.append(self._inside(char, '"}'))
        return _joined(parts)

    def _parameter_name(self) -> str:
        char = self._source.peek()
        if char.isdigit():
            digits = ""
            while self._source.peek().isdigit():
                digits += self._source.next()
            return digits
        if char and char in _SPECIAL:
            return self._source.next()
        if name := self._name():
            return name
        raise SyntaxFailure("Bad substitution")


def _joined(parts: list[Part]) -> Word:
    """Melt neighbouring texts of the same kind."""
    done: list[Part] = []
    for part in parts:
        last = done[-1] if done else None
        if isinstance(part, Text) and isinstance(last, Text) and part.quoted == last.quoted:
            done[-1] = Text(last.text + part.text, part.quoted)
        else:
            done.append(part)
    return tuple(done)


def _is_all(part: Part) -> bool:
    """Tell `"$@"`, which is no field at all where there are no parameters."""
    return isinstance(part, Parameter) and part.name == "@"


def bare(word: Word) -> str | None:
    """Return a word's text if nothing in it is quoted or expanded, as reserved words and names must be."""
    if len(word) == 1 and isinstance(word[0], Text) and not word[0].quoted:
        return word[0].text
    return None


def flat(word: Word) -> tuple[str, bool]:
    """Return a word's text without expansion, and whether any of it was quoted (the end mark of a here-document)."""
    return "".join(p.text if isinstance(p, Text) else "$" for p in word), any(
        isinstance(p, Text) and p.quoted for p in word
    )
