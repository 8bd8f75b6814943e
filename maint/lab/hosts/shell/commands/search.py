"""grep and find."""

import re
from collections.abc import Callable, Iterator

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, Options, lines_of
from maint.lab.hosts.shell.commands.disks import mounts
from maint.lab.hosts.shell.patterns import CLASSES, matches
from maint.lab.hosts.shell.streams import Pipe
from maint.lab.hosts.shell.tree import Entry

_CLASS = re.compile(r"\[:(\w+):\]")


def regular(pattern: str, *, extended: bool) -> str:
    """Return a POSIX regular expression, basic or extended, as Python spells it."""
    done, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "[":
            end = _set_end(pattern, at)
            done += _set(pattern[at:end])
            at = end + 1
        elif char == "\\" and at < len(pattern):
            done += _escaped(pattern[at], extended)
            at += 1
        elif not extended and char in "+?(){}|":
            done += "\\" + char
        elif char == "*" and (not done or (not extended and done in ("^", "("))):
            done += r"\*"
        else:
            done += char
    return done


def _set_end(pattern: str, at: int) -> int:
    """Return where the set that begins after `[` has its `]`; a backslash means nothing in it."""
    first = at + (pattern[at : at + 1] == "^")
    end = first + 1
    while end < len(pattern) and pattern[end] != "]":
        named = _CLASS.match(pattern, end)
        end = named.end() if named else end + 1
    if named := _CLASS.match(pattern, first):
        end = max(end, pattern.find("]", named.end()))
    return end


def _set(inside: str) -> str:
    negated = inside.startswith("^")
    parts = re.split(r"(\[:\w+:\])", inside[negated:])
    text = "".join(
        CLASSES.get(p[2:-2], "") if _CLASS.fullmatch(p) else re.sub(r"([\\\]\[&~|^])", r"\\\1", p) for p in parts
    )
    return f"[{'^' if negated else ''}{text}]"


def _escaped(char: str, extended: bool) -> str:
    if char in "wWsSbB" or char.isdigit():
        return "\\" + char
    if char in "<>":
        return r"\b"
    if not extended and char in "+?(){}|":
        return char
    return {"n": "\n", "t": "\t"}.get(char, re.escape(char))


def compiled(pattern: str, *, extended: bool, fixed: bool = False, ignore: bool = False) -> "re.Pattern[str]":
    """Return a compiled POSIX pattern.

    Raises:
        Failed: it makes no sense.
    """
    text = re.escape(pattern) if fixed else regular(pattern, extended=extended)
    try:
        return re.compile(text, re.IGNORECASE if ignore else 0)
    except re.error as error:
        raise Failed(f"invalid regular expression: {error}", 2) from None


def grep(call: Call) -> int:
    """`grep [-EFGqshHcvionwxlLraAB] [-m N] [-A N] [-B N] [-e PATTERN]… [PATTERN] [FILE…]`."""
    options = call.options("EFGqshHcvionwxlLrRa", "em", ("quiet", "count", "color=", "include="))
    if "include" in options:
        raise NotSimulated("option --include")
    operands = list(options.operands)
    patterns = options.all("e")
    if not patterns:
        if not operands:
            raise Failed("usage: grep [OPTION]... PATTERNS [FILE]...", 2)
        patterns = [operands.pop(0)]
    return _Grep(call, options, "\n".join(patterns)).run(operands)


class _Grep:
    def __init__(self, call: Call, options: Options, patterns: str) -> None:
        self._call, self._options = call, options
        extended = "E" in options or call.name == "egrep"
        fixed = "F" in options or call.name == "fgrep"
        self._patterns = [
            compiled(p, extended=extended, fixed=fixed, ignore="i" in options) for p in patterns.split("\n")
        ]
        self._found = self._failed = False

    def run(self, operands: list[str]) -> int:
        recursive = "r" in self._options or "R" in self._options
        names = list(self._files(operands or ["."])) if recursive else operands or ["-"]
        titled = "H" in self._options or ((len(names) > 1 or recursive) and "h" not in self._options)
        for name in names:
            try:
                data = self._call.open(name).read()
            except OSError as error:
                self._failed = True
                if "s" not in self._options:
                    self._call.say(f"{name}: {error.strerror}")
                continue
            self._one("(standard input)" if name == "-" else name, data, titled)
            if "q" in self._options and self._found:
                return 0
        return 2 if self._failed else 0 if self._found else 1

    def _files(self, operands: list[str]) -> Iterator[str]:
        for operand in operands:
            path = self._call.path(operand)
            if not self._call.files.exists(path):
                yield operand
                continue
            for found in self._call.files.walk(path):
                if self._call.files.entry(found, follow=found == path).is_file:
                    yield operand + found[len(path) :]

    def _matching(self, line: str) -> "list[re.Match[str]]":
        found: list[re.Match[str]] = []
        for pattern in self._patterns:
            if "x" in self._options:
                found.extend(m for m in [pattern.fullmatch(line)] if m)
            elif "w" in self._options:
                found.extend(m for m in pattern.finditer(line) if _is_word(line, m))
            else:
                found.extend(pattern.finditer(line))
        return found

    def _one(self, name: str, data: bytes, titled: bool) -> None:
        hits, most, inverted = 0, int(self._options.get("m") or -1), "v" in self._options
        quiet = any(letter in self._options for letter in "qclL")
        for number, line in enumerate(lines_of(data), 1):
            if hits == most:
                break
            found = self._matching(line)
            if bool(found) == inverted:
                continue
            hits += 1
            if not quiet:
                start = (f"{name}:" if titled else "") + (f"{number}:" if "n" in self._options else "")
                parts = [m[0] for m in found if m[0]] if "o" in self._options else [line]
                self._call.out("".join(f"{start}{part}\n" for part in parts))
        self._found = self._found or hits > 0
        if "c" in self._options and "q" not in self._options:
            self._call.out((f"{name}:" if titled else "") + f"{hits}\n")
        if ("l" in self._options and hits) or ("L" in self._options and not hits):
            self._call.out(name + "\n")


def _is_word(line: str, found: "re.Match[str]") -> bool:
    around = line[: found.start()][-1:], line[found.end() :][:1]
    return not any(char.isalnum() or char == "_" for char in around)


_Test = Callable[[str, Entry], bool]


def find(call: Call) -> int:
    """`find [-P] [PATH…] [TEST…] [-print|-print0|-delete|-exec … ;]`."""
    args, paths = list(call.args), list[str]()
    while args and args[0] in ("-P", "-H"):
        args.pop(0)
    while args and args[0][0] not in "-!(":
        paths.append(args.pop(0))
    work = _Find(call, args)
    return call.each(paths or ["."], work.walk) or work.status


class _Find:
    def __init__(self, call: Call, args: list[str]) -> None:
        self._call, self._args = call, args
        self._least, self._most, self._deep = 0, 1 << 30, "-delete" in args
        self._acts, self.status = False, 0
        self._kept: set[str] = set()  # with -xdev: where other volumes begin
        self._test: _Test = self._either()
        if self._args:
            raise NotSimulated(f"expression {self._args[0]}")
        if not self._acts:
            test = self._test
            self._test = lambda name, entry: test(name, entry) and self._printed(name, entry)

    def walk(self, operand: str) -> None:
        self._visit(operand, self._call.path(operand), 0)

    def _visit(self, name: str, path: str, depth: int) -> None:
        entry = self._call.files.entry(path, follow=False)
        if depth >= self._least and not self._deep:
            self._test(name, entry)
        inside = depth < self._most and not (depth and entry.path in self._kept)
        if entry.is_folder and inside and self._call.files.exists(path, follow=False):
            for child in self._call.files.names(path):
                self._visit(
                    f"{name.rstrip('/') if name != '/' else ''}/{child}", f"{path.rstrip('/')}/{child}", depth + 1
                )
        if depth >= self._least and self._deep:
            self._test(name, entry)

    def _either(self) -> _Test:
        tests = [self._both()]
        while self._args[:1] in (["-o"], ["-or"]):
            self._args.pop(0)
            tests.append(self._both())
        return lambda name, entry: any(test(name, entry) for test in tests)

    def _both(self) -> _Test:
        tests: list[_Test] = []
        while self._args and self._args[0] not in ("-o", "-or", ")"):
            if self._args[0] in ("-a", "-and"):
                self._args.pop(0)
            tests.append(self._primary())
        return lambda name, entry: all(test(name, entry) for test in tests)

    def _primary(self) -> _Test:
        word = self._args.pop(0)
        if word in ("!", "-not"):
            inner = self._primary()
            return lambda name, entry: not inner(name, entry)
        if word == "(":
            inner = self._either()
            self._args.pop(0)
            return inner
        if word in ("-print", "-print0", "-delete", "-exec", "-quit"):
            return self._action(word)
        if word in ("-xdev", "-mount", "-depth"):
            self._deep = self._deep or word == "-depth"
            self._kept = self._kept if word == "-depth" else {m.target for m in mounts(self._call)}
            return lambda *_: True
        if not self._args:
            raise Failed(f"missing argument to '{word}'")
        return self._tested(word, self._args.pop(0))

    def _tested(self, word: str, value: str) -> _Test:
        now = self._call.machine.clock()
        if word in ("-maxdepth", "-mindepth"):
            self._most, self._least = (int(value), self._least) if word == "-maxdepth" else (self._most, int(value))
            return lambda *_: True
        tests: dict[str, _Test] = {
            "-name": lambda name, _: matches(value, name.rstrip("/").rsplit("/", 1)[-1]),
            "-iname": lambda name, _: matches(value.lower(), name.rsplit("/", 1)[-1].lower()),
            "-path": lambda name, _: matches(value, name),
            "-type": lambda _, entry: _is_kind(entry, value),
            "-user": lambda _, entry: entry.user == value,
            "-group": lambda _, entry: entry.group == value,
            "-perm": lambda _, entry: _perm(value, entry.mode),
            "-mtime": lambda _, entry: _compared(value, int((now - entry.mtime) // 86400)),
            "-mmin": lambda _, entry: _compared(value, int((now - entry.mtime) // 60)),
            "-newer": lambda _, entry: entry.mtime > self._call.files.entry(self._call.path(value)).mtime,
        }
        if word not in tests:
            raise NotSimulated(f"expression {word}")
        return tests[word]

    def _printed(self, name: str, entry: Entry) -> bool:
        del entry
        self._call.out(name + "\n")
        return True

    def _printed_zero(self, name: str, entry: Entry) -> bool:
        del entry
        self._call.out(name + "\0")
        return True

    def _action(self, word: str) -> _Test:
        self._acts = True
        if word == "-print":
            return self._printed
        if word == "-print0":
            return self._printed_zero
        if word == "-delete":
            return self._deleted
        if word == "-exec":
            end = next((i for i, w in enumerate(self._args) if w in (";", "+")), None)
            if end is None:
                raise Failed("missing argument to '-exec'")
            words, self._args = self._args[:end], self._args[end + 1 :]
            return lambda name, _: self._executed(words, name)
        raise NotSimulated(f"expression {word}")

    def _executed(self, words: list[str], name: str) -> bool:
        run = [word.replace("{}", name) for word in words]
        return self._call.runner.run_words(run, self._call.with_streams(stdin=Pipe())) == 0

    def _deleted(self, name: str, entry: Entry) -> bool:
        if entry.path in {m.target for m in mounts(self._call)}:
            self._call.say(f"cannot delete '{name}': Device or resource busy")
            self.status = 1
            return False
        if entry.is_folder:
            self._call.files.remove_folder(entry.path)
        else:
            self._call.files.remove(entry.path)
        return True


def _is_kind(entry: Entry, letter: str) -> bool:
    return {"f": entry.is_file, "d": entry.is_folder, "l": entry.is_link}.get(letter, False)


def _perm(value: str, mode: int) -> bool:
    digits = value.lstrip("-/")
    if not re.fullmatch("[0-7]+", digits):
        raise NotSimulated(f"mode {value}")
    bits = int(digits, 8)
    return mode & bits == bits if value[0] == "-" else bool(mode & bits) if value[0] == "/" else mode == bits


def _compared(value: str, number: int) -> bool:
    wanted = int(value.lstrip("+-"))
    return number > wanted if value[0] == "+" else number < wanted if value[0] == "-" else number == wanted
