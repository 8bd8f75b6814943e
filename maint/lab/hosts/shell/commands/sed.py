"""sed: the commands s, p, d, q, =, a, i, c, y and braces, with addresses."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, lines_of
from maint.lab.hosts.shell.commands.search import compiled
from maint.lab.hosts.shell.streams import encode


@dataclass(slots=True)
class _Address:
    line: int = 0
    last: bool = False
    pattern: "re.Pattern[str] | None" = None

    def holds(self, number: int, text: str, last: bool) -> bool:
        if self.pattern:
            return self.pattern.search(text) is not None
        return last if self.last else number == self.line


@dataclass(slots=True)
class _Step:
    first: _Address | None
    second: _Address | None
    negated: bool
    name: str
    text: str = ""
    change: "Callable[[str], tuple[str, bool]] | None" = None
    printing: bool = False
    body: "list[_Step]" = field(default_factory=list)
    inside: bool = False

    def chosen(self, number: int, text: str, last: bool) -> bool:
        return self._chosen(number, text, last) != self.negated

    def _chosen(self, number: int, text: str, last: bool) -> bool:
        if self.first is None:
            return True
        if self.second is None:
            return self.first.holds(number, text, last)
        if self.inside:
            self.inside = not self.second.holds(number, text, last) and not 0 < self.second.line < number
            return not 0 < self.second.line < number
        if self.first.holds(number, text, last):
            self.inside = not 0 < self.second.line <= number
            return True
        return False


def sed(call: Call) -> int:
    """`sed [-nEr] [-i[SUFFIX]] [-e SCRIPT]… [SCRIPT] [FILE…]`."""
    args = ["--in-place=" + a[2:] if a.startswith("-i") and not a.startswith("--") else a for a in call.args]
    args = ["--in-place=" if a == "--in-place" else a for a in args]
    options = call.again("sed", args).options("nErsu", "ef", ("in-place=", "quiet", "regexp-extended"))
    operands = list(options.operands)
    if "f" in options:
        raise NotSimulated("option -f")
    scripts = options.all("e") or [operands.pop(0)] if operands or "e" in options else []
    if not scripts:
        raise Failed("no script specified")
    extended = "E" in options or "r" in options or "regexp-extended" in options
    quiet = "n" in options or "quiet" in options
    script = "\n".join(scripts)
    if "in-place" not in options:
        inputs = call.inputs(operands)
        data = b"".join(data for _, data in inputs.each())
        text, status = _Editor(_Script(script, extended).steps(), quiet).edit(data)
        call.stdout.write(text)
        return status or (2 if inputs.status else 0)

    def edit(operand: str) -> None:
        path = call.path(operand)
        before = call.files.read(path)
        if suffix := options.get("in-place"):
            call.files.write(path + suffix, before)
        call.files.write(path, _Editor(_Script(script, extended).steps(), quiet).edit(before)[0])

    return call.each(operands, edit)


class _Script:
    """Parses a script."""

    def __init__(self, text: str, extended: bool) -> None:
        self._text, self._at, self._extended = text, 0, extended

    def steps(self, *, inner: bool = False) -> list[_Step]:
        found: list[_Step] = []
        while True:
            self._skip(" \t\n;")
            if self._at >= len(self._text):
                if inner:
                    raise Failed("unmatched `{'")
                return found
            if self._text[self._at] == "}":
                self._at += 1
                if not inner:
                    raise Failed("unexpected `}'")
                return found
            if self._text[self._at] == "#":
                self._line()
                continue
            found.append(self._step())

    def _skip(self, chars: str) -> None:
        while self._text[self._at : self._at + 1] and self._text[self._at] in chars:
            self._at += 1

    def _line(self) -> str:
        start = self._at
        end = self._text.find("\n", start)
        self._at = len(self._text) if end < 0 else end
        return self._text[start : self._at]

    def _step(self) -> _Step:
        first, second = self._address(), None
        if first and self._text[self._at : self._at + 1] == ",":
            self._at += 1
            second = self._address()
            if second is None:
                raise Failed("unexpected `,'")
        self._skip(" \t")
        negated = self._text[self._at : self._at + 1] == "!"
        self._at += negated
        self._skip(" \t")
        step = _Step(first, second, negated, self._text[self._at : self._at + 1])
        self._at += 1
        self._finish(step)
        return step

    def _address(self) -> _Address | None:
        rest = self._text[self._at :]
        if found := re.match(r"\d+", rest):
            self._at += found.end()
            return _Address(line=int(found[0]))
        if rest.startswith("$"):
            self._at += 1
            return _Address(last=True)
        if rest[:1] in ("/", "\\"):
            self._at += 1 + (rest[0] == "\\")
            mark = rest[0] if rest[0] == "/" else rest[1]
            pattern = self._until(mark)
            ignore = self._text[self._at : self._at + 1] == "I"
            self._at += ignore
            return _Address(pattern=compiled(pattern, extended=self._extended, ignore=ignore))
        return None

    def _until(self, mark: str) -> str:
        taken = ""
        while (char := self._text[self._at : self._at + 1]) != mark:
            if not char:
                raise Failed("unterminated address regex or `s' command")
            self._at += 1
            if char == "\\" and self._at < len(self._text):
                after = self._text[self._at]
                self._at += 1
                taken += after if after == mark else char + after
            elif char == "[" and mark != "]":
                taken += char
            else:
                taken += char
        self._at += 1
        return taken

    def _finish(self, step: _Step) -> None:
        if step.name == "{":
            step.body = self.steps(inner=True)
        elif step.name == "s":
            self._substitution(step)
        elif step.name == "y":
            mark = self._mark()
            table = str.maketrans(self._until(mark), self._until(mark))
            step.change = lambda text: (text.translate(table), True)
        elif step.name in ("a", "i", "c"):
            step.text = self._given_text()
        elif step.name not in ("p", "d", "q", "="):
            raise NotSimulated(f"command {step.name!r}")

    def _given_text(self) -> str:
        """Return the text of a, i or c: the rest of the line, or the line after a backslash, and what continues it."""
        text = self._line().strip()
        if text == "\\":
            text = self._next_line()
        while text.endswith("\\") and self._at < len(self._text):
            text = text[:-1] + "\n" + self._next_line()
        return text.removeprefix("\\")

    def _next_line(self) -> str:
        self._at += 1
        return self._line()

    def _mark(self) -> str:
        mark = self._text[self._at : self._at + 1]
        if mark in ("", "\n", "\\"):
            raise Failed("unterminated `s' or `y' command")
        self._at += 1
        return mark

    def _substitution(self, step: _Step) -> None:
        mark = self._mark()
        pattern, replacement = self._until(mark), self._until(mark)
        flags = re.match(r"[gpIi0-9]*", self._text[self._at :])
        letters = flags[0] if flags else ""
        self._at += len(letters)
        step.printing = "p" in letters
        regex = compiled(pattern, extended=self._extended, ignore="i" in letters.lower())
        digits = "".join(c for c in letters if c.isdigit())
        nth, every = int(digits or 1), "g" in letters

        def change(text: str) -> tuple[str, bool]:
            count = 0

            def one(found: "re.Match[str]") -> str:
                nonlocal count
                count += 1
                return _filled(replacement, found) if count == nth or (every and count > nth) else found[0]

            changed = regex.sub(one, text)
            return changed, count >= nth

        step.change = change


def _filled(replacement: str, found: "re.Match[str]") -> str:
    def one(piece: "re.Match[str]") -> str:
        text = piece[0]
        if text == "&":
            return found[0]
        if text[1].isdigit():
            return found[int(text[1])] or ""
        return {"n": "\n", "t": "\t"}.get(text[1], text[1])

    return re.sub(r"\\.|&", one, replacement, flags=re.DOTALL)


class _Editor:
    """Runs a script over some bytes."""

    def __init__(self, steps: list[_Step], quiet: bool) -> None:
        self._steps, self._quiet = steps, quiet
        self._out: list[str] = []
        self._after: list[str] = []
        self._text, self._gone, self._over = "", False, False

    def edit(self, data: bytes) -> tuple[bytes, int]:
        lines = lines_of(data)
        for number, line in enumerate(lines, 1):
            self._text, self._gone = line, False
            self._run(self._steps, number, number == len(lines))
            if not self._gone and not self._quiet:
                self._out.append(self._text)
            self._out.extend(self._after)
            self._after.clear()
            if self._over:
                break
        text = "".join(line + "\n" for line in self._out)
        ended = data.endswith(b"\n") or not data or self._over
        return encode(text if ended else text.removesuffix("\n")), 0

    def _run(self, steps: list[_Step], number: int, last: bool) -> None:
        for step in steps:
            if self._gone or self._over:
                return
            if step.chosen(number, self._text, last):
                self._do(step, number, last)

    def _do(self, step: _Step, number: int, last: bool) -> None:
        if step.body:
            self._run(step.body, number, last)
        elif step.change:
            self._text, changed = step.change(self._text)
            if changed and step.printing:
                self._out.append(self._text)
        elif step.name == "p":
            self._out.append(self._text)
        elif step.name == "=":
            self._out.append(str(number))
        elif step.name == "i":
            self._out.append(step.text)
        elif step.name == "a":
            self._after.append(step.text)
        elif step.name == "q":
            self._over = True
        elif step.name in ("d", "c"):
            self._gone = True
            if step.name == "c" and not step.inside:
                self._out.append(step.text)
