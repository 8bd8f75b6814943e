"""Parse a shell script, one complete command at a time: words with their quotes and parameters, and commands."""

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


_RESERVED = frozenset(
    ["!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then", "until", "while"]
)
# What was parsed up to the end of a line, by its first line: nearly the same scripts are sent to host after host.
_parsed: dict[str, dict[tuple[str, ...], syntax.AndOr]] = {}
_PARSED_MOST = 2000
_UP_TO_BREAK = re.compile(f"[^{re.escape(BREAK)}]*")
_BLANKS = re.compile(f"[{BLANK}]+")
_COMMENT = re.compile(r"[^\n\\]+")
_BEGINS_REDIRECTION = frozenset("<>0123456789")
_REDIRECTIONS = ("<&", "<", ">>", ">&", ">")


class Parser:
    """Parses from a source."""

    def __init__(self, source: syntax.Source) -> None:
        self._source = source
        self._words = WordReader(source, lambda inner: Parser(inner)._until_parenthesis())

    def complete_command(self) -> syntax.Sequence | None:
        """Return what stands up to the end of a line, None at the end of the script; else SyntaxFailure."""
        self._skip_lines()
        if not self._source.peek():
            return None
        items: list[syntax.AndOr] = []
        while self._source.peek() not in ("", "\n"):
            item, separated = self._item()
            items.append(item)
            if not separated:
                break
        self._skip_blanks()
        if self._source.peek() not in ("", "\n"):
            self._unexpected()
        self._source.take("\n")
        return syntax.Sequence(tuple(items))

    def _until_parenthesis(self) -> syntax.Sequence:
        return self._list(lambda: self._source.peek() in (")", ""))

    def _list(self, over: Callable[[], bool]) -> syntax.Sequence:
        items: list[syntax.AndOr] = []
        self._skip_lines()
        while not over():
            if not self._source.peek():
                raise syntax.SyntaxFailure("end of file unexpected")
            item, separated = self._item()
            items.append(item)
            if self._source.peek() == "\n":
                separated = True
            self._skip_lines()
            if not separated:
                break
        return syntax.Sequence(tuple(items))

    def _until_words(self, *ends: str) -> syntax.Sequence:
        body = self._list(lambda: self._comes(*ends))
        if not body.items or not self._comes(*ends):
            self._unexpected()
        return body

    def _item(self) -> tuple[syntax.AndOr, bool]:
        # Commands with what separates them from the next, and whether anything does.
        first, mark = self._source.rest_of_line(), self._source.mark()
        for lines, known in list(_parsed.get(first, {}).items()):
            if self._source.take_lines(lines):
                return known, True
        item, separated = self._and_or(), self._separator()
        self._skip_blanks()
        if self._source.peek() == "\n":
            if len(_parsed) >= _PARSED_MOST:
                _parsed.clear()
            taken = self._source.since(mark) + "\n"
            _parsed.setdefault(first, {})[tuple(taken.splitlines(keepends=True))] = item
        return item, separated

    def _and_or(self) -> syntax.AndOr:
        first, rest = self._pipeline(), list[tuple[str, syntax.Pipeline]]()
        while True:
            self._skip_blanks()
            operator = next((o for o in ("&&", "||") if self._source.take(o)), None)
            if operator is None:
                break
            self._skip_lines()
            rest.append((operator, self._pipeline()))
        background = self._source.peek() == "&"
        return syntax.AndOr(first, tuple(rest), background)

    def _pipeline(self) -> syntax.Pipeline:
        negated = False
        while self._take_word("!"):
            negated = not negated
        commands = [self._command()]
        while True:
            self._skip_blanks()
            if self._source.peek() != "|" or self._source.peek(1) == "|":
                return syntax.Pipeline(tuple(commands), negated)
            self._source.next()
            self._skip_lines()
            commands.append(self._command())

    def _command(self) -> syntax.Command:
        self._skip_blanks()
        if self._source.take("("):
            return self._with_redirections(self._subshell())
        word = self._source.comes(_UP_TO_BREAK)
        if word in _COMPOUNDS:
            self._source.take(word)
            return self._with_redirections(_COMPOUNDS[word](self))
        if word in _RESERVED:
            self._unexpected()
        return self._simple()

    def _subshell(self) -> syntax.Command:
        body = self._list(lambda: self._source.peek() == ")")
        self._close()
        return syntax.Subshell(body)

    def _group(self) -> syntax.Command:
        body = self._until_words("}")
        self._take_word("}")
        return body

    def _if(self) -> syntax.Command:
        arms: list[tuple[syntax.Sequence, syntax.Sequence]] = []
        otherwise: syntax.Sequence | None = None
        while True:
            condition = self._until_words("then")
            self._take_word("then")
            arms.append((condition, self._until_words("elif", "else", "fi")))
            if not self._take_word("elif"):
                break
        if self._take_word("else"):
            otherwise = self._until_words("fi")
        self._take_word("fi")
        return syntax.If(tuple(arms), otherwise)

    def _for(self) -> syntax.Command:
        name = bare(self._word())
        if name is None or not NAME.fullmatch(name):
            raise syntax.SyntaxFailure("Bad for loop variable")
        words: tuple[syntax.Word, ...] | None = None
        self._skip_lines()
        if self._take_word("in"):
            words = tuple(iter(self._word, ()))
        self._separator()
        return syntax.For(name, words, self._do())

    def _while(self) -> syntax.Command:
        return syntax.While(self._until_words("do"), self._do())

    def _do(self) -> syntax.Sequence:
        self._skip_lines()
        if not self._take_word("do"):
            self._unexpected()
        body = self._until_words("done")
        self._take_word("done")
        return body

    def _case(self) -> syntax.Command:
        word, arms = self._word(), list[tuple[tuple[syntax.Word, ...], syntax.Sequence]]()
        self._skip_lines()
        if not self._take_word("in"):
            self._unexpected()
        self._skip_lines()
        while not self._take_word("esac"):
            arms.append(self._arm())
            self._skip_lines()
        return syntax.Case(word, tuple(arms))

    def _arm(self) -> tuple[tuple[syntax.Word, ...], syntax.Sequence]:
        self._source.take("(")
        patterns = [self._word()]
        self._skip_blanks()
        while self._source.take("|"):
            patterns.append(self._word())
            self._skip_blanks()
        self._close()
        body = self._list(lambda: self._source.starts(";;") or self._comes("esac"))
        self._skip_lines()
        if not self._source.take(";;") and not self._comes("esac"):
            self._unexpected()
        return tuple(patterns), body

    def _simple(self) -> syntax.Command:
        assignments: list[tuple[str, syntax.Word]] = []
        words: list[syntax.Word] = []
        redirections: list[syntax.Redirection] = []
        while True:
            if redirection := self._redirection():
                redirections.append(redirection)
                continue
            word = self._word()
            if not word:
                break
            if len(words) == 0 and (assignment := _assignment(word)):
                assignments.append(assignment)
                continue
            words.append(word)
            name = bare(word)
            if len(words) == 1 and name and not assignments and not redirections and self._take_parentheses():
                return self._function(name)
        if not (assignments or words or redirections):
            self._unexpected()
        return syntax.Simple(tuple(assignments), tuple(words), tuple(redirections))

    def _function(self, name: str) -> syntax.Command:
        if not NAME.fullmatch(name.replace("-", "_").replace(".", "_")):
            raise syntax.SyntaxFailure("Bad function name")
        self._skip_lines()
        return syntax.Function(name, self._command())

    def _with_redirections(self, command: syntax.Command) -> syntax.Command:
        found: list[syntax.Redirection] = []
        while redirection := self._redirection():
            found.append(redirection)
        return syntax.Redirected(command, tuple(found)) if found else command

    def _redirection(self) -> syntax.Redirection | None:
        self._skip_blanks()
        source, mark = self._source, self._source.mark()
        if source.peek() not in _BEGINS_REDIRECTION:
            return None
        digits = ""
        while source.peek().isdigit():
            digits += source.next()
        operator = next((o for o in _REDIRECTIONS if source.take(o)), None)
        if operator is None:
            source.back(mark)
            return None
        if source.peek() in ("<", ">", "|"):
            raise syntax.SyntaxFailure(f"{operator}{source.peek()} is not simulated on a lab host")
        fd = int(digits) if digits else (0 if operator[0] == "<" else 1)
        return syntax.Redirection(fd, operator, self._target())

    def _target(self) -> syntax.Word:
        word = self._word()
        if not word:
            self._unexpected()
        return word

    def _word(self) -> syntax.Word:
        self._skip_blanks()
        return self._words.word(BREAK)

    def _skip_blanks(self) -> None:
        while (char := self._source.peek()) and char in BLANK:
            self._source.run(_BLANKS)
        if char == "#":
            while self._source.peek() not in ("", "\n"):
                if not self._source.run(_COMMENT):
                    self._source.raw()

    def _skip_lines(self) -> None:
        self._skip_blanks()
        while self._source.peek() == "\n":
            self._source.take("\n")
            self._skip_blanks()

    def _separator(self) -> bool:
        self._skip_blanks()
        if self._source.starts(";;"):
            return False
        return self._source.take(";") or (self._source.peek() == "&" and bool(self._source.next()))

    def _comes(self, *words: str) -> bool:
        self._skip_blanks()
        return self._source.comes(_UP_TO_BREAK) in words

    def _take_word(self, word: str) -> bool:
        return self._comes(word) and self._source.take(word)

    def _take_parentheses(self) -> bool:
        mark = self._source.mark()
        self._skip_blanks()
        if self._source.take("("):
            self._skip_blanks()
            if self._source.take(")"):
                return True
        self._source.back(mark)
        return False

    def _close(self) -> None:
        self._skip_lines()
        if not self._source.take(")"):
            self._unexpected()

    def _unexpected(self) -> None:
        found = self._source.peek()
        if not found:
            raise syntax.SyntaxFailure("end of file unexpected")
        if found in BREAK:
            shown = "newline" if found == "\n" else f'"{found}"'
        else:
            shown = f'"{bare(self._words.word(BREAK)) or found}"'
        raise syntax.SyntaxFailure(f"{shown} unexpected")


_COMPOUNDS: dict[str, Callable[[Parser], syntax.Command]] = {
    "{": Parser._group,
    "if": Parser._if,
    "for": Parser._for,
    "while": Parser._while,
    "case": Parser._case,
}


def _assignment(word: syntax.Word) -> tuple[str, syntax.Word] | None:
    first = word[0]
    if not isinstance(first, syntax.Text) or first.quoted or "=" not in first.text:
        return None
    name, _, value = first.text.partition("=")
    if not NAME.fullmatch(name):
        return None
    rest = ((syntax.Text(value), *word[1:])) if value else word[1:]
    return name, rest
