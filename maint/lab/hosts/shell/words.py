"""Read words: quotes, parameters, substitutions."""

import re
from collections.abc import Callable

from maint.lab.hosts.shell import syntax

BLANK = " \t"
BREAK = " \t\n;&|()<>"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME_GOES_ON = re.compile(r"[A-Za-z0-9_]+")
_UNQUOTED = {stop: re.compile(f"[^{re.escape(stop)}'\"\\\\$`\n]+") for stop in (BREAK, "}")}
_QUOTED = {stop: re.compile(f"[^{stop}\\\\$`\n]+") for stop in ('"', "}")}
_SINGLE = re.compile(r"[^'\n]+")
_SPECIAL = "@#?$!0123456789"
_OPERATORS = (":-", ":=", ":+", "##", "%%", "-", "+", "#", "%")


class WordReader:
    """Reads words from a source; `body` parses commands until `)`, which is left to be taken."""

    def __init__(self, source: syntax.Source, body: Callable[[syntax.Source], syntax.Sequence]) -> None:
        self._source = source
        self._body = body

    def word(self, stop: str = BREAK) -> syntax.Word:
        parts: list[syntax.Part] = []
        plain = _UNQUOTED[stop]
        while (char := self._source.peek()) and char not in stop:
            if run := self._source.run(plain):
                parts.append(syntax.Text(run))
            else:
                parts.extend(self._piece(char))
        return _joined(parts)

    def quoted(self, stop: str) -> syntax.Word:
        """Return what comes up to a stop character (left there) by the rules inside double quotes."""
        parts: list[syntax.Part] = []
        plain = _QUOTED[stop]
        while (char := self._source.peek()) and char not in stop:
            run = self._source.run(plain)
            parts.append(syntax.Text(run, quoted=True) if run else self._inside(char, stop))
        return _joined(parts)

    def _piece(self, char: str) -> list[syntax.Part]:
        source = self._source
        if char == "'":
            source.next()
            return [syntax.Text(self._until_quote(), quoted=True)]
        if char == '"':
            source.next()
            inside = self.quoted('"')
            self._expect('"')
            return list(inside) if any(_is_all(part) for part in inside) else [syntax.Text("", quoted=True), *inside]
        if char == "\\":
            source.next()
            return [syntax.Text(source.raw() or "\\", quoted=True)]
        if char in "$`":
            return [self._dollar(quoted=False)]
        return [syntax.Text(source.next())]

    def _inside(self, char: str, stop: str) -> syntax.Part:
        source = self._source
        if char in "$`":
            return self._dollar(quoted=True)
        source.next()
        if char == "\\":
            escaped = source.raw()
            plain = escaped in ("$", "`", "\\") or (escaped in ('"', "}") and escaped in stop)
            return syntax.Text(escaped if plain else "\\" + escaped, quoted=True)
        return syntax.Text(char, quoted=True)

    def _until_quote(self) -> str:
        taken = self._source.run(_SINGLE)
        while (char := self._source.raw()) != "'":
            if not char:
                raise syntax.SyntaxFailure("Unterminated quoted string")
            taken += char + self._source.run(_SINGLE)
        return taken

    def _expect(self, text: str) -> None:
        if not self._source.take(text):
            raise syntax.SyntaxFailure("Unterminated quoted string" if text == '"' else f'"{text}" expected')

    def _dollar(self, quoted: bool) -> syntax.Part:
        source = self._source
        if source.next() == "`":
            raise syntax.SyntaxFailure("a command between backticks is not simulated on a lab host")
        char = source.peek()
        if source.starts("(("):
            mark = source.mark()
            if (arithmetic := self._arithmetic(quoted)) is not None:
                return arithmetic
            source.back(mark)
        if source.take("("):
            body = self._body(source)
            self._expect(")")
            return syntax.Substitution(body, quoted)
        if source.take("{"):
            return self._braces(quoted)
        if char and char in _SPECIAL:
            return syntax.Parameter(source.next(), quoted=quoted)
        name = self._name()
        return syntax.Parameter(name, quoted=quoted) if name else syntax.Text("$", quoted=True)

    def _name(self) -> str:
        self._source.peek()
        taken = self._source.run(NAME)
        while taken and self._source.peek() and (more := self._source.run(_NAME_GOES_ON)):
            taken += more
        return taken

    def _arithmetic(self, quoted: bool) -> syntax.Part | None:
        source = self._source
        source.take("((")
        depth, parts = 0, list[syntax.Part]()
        while (char := source.peek()) and not (depth == 0 and source.starts("))")):
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth < 0:
                return None
            if char in "\"'":
                source.next()
            else:
                parts.append(self._inside(char, ""))
        return syntax.Arithmetic(_joined(parts), quoted) if source.take("))") else None

    def _braces(self, quoted: bool) -> syntax.Part:
        source = self._source
        name = source.next() if source.peek() and source.peek() in _SPECIAL else self._name()
        operator = next((o for o in _OPERATORS if source.take(o)), "")
        argument: syntax.Word = ()
        if operator:
            argument = self.word("}") if operator[0] in "#%" or not quoted else self.quoted("}")
        if not name or not source.take("}"):
            raise syntax.SyntaxFailure("Bad substitution, or one that is not simulated on a lab host")
        return syntax.Parameter(name, operator, argument, quoted)


def _joined(parts: list[syntax.Part]) -> syntax.Word:
    """Melt neighbouring texts of the same kind."""
    done: list[syntax.Part] = []
    for part in parts:
        last = done[-1] if done else None
        if isinstance(part, syntax.Text) and isinstance(last, syntax.Text) and part.quoted == last.quoted:
            done[-1] = syntax.Text(last.text + part.text, part.quoted)
        else:
            done.append(part)
    return tuple(done)


def _is_all(part: syntax.Part) -> bool:
    """Tell `"$@"`, which is not a field at all where there are no parameters."""
    return isinstance(part, syntax.Parameter) and part.name == "@"


def bare(word: syntax.Word) -> str | None:
    """Return a word's text if nothing in it is quoted or expanded, as reserved words and names must be."""
    if len(word) == 1 and isinstance(word[0], syntax.Text) and not word[0].quoted:
        return word[0].text
    return None
