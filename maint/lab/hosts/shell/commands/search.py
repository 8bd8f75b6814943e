"""grep, find and sed."""

import re
from collections.abc import Callable

import msgspec

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, Options, lines_of
from maint.lab.hosts.shell.commands.files import mounts
from maint.lab.hosts.shell.commands.names import number_of
from maint.lab.hosts.shell.expansion import matches
from maint.lab.hosts.shell.state import encode
from maint.lab.hosts.shell.tree import Entry


def compiled(pattern: str, *, ignore: bool = False) -> "re.Pattern[str]":
    """Return a basic regular expression of POSIX, compiled.

    Raises:
        NotSimulated: it names another class of characters than `[:space:]`.
        Failed: it makes no sense.
    """
    pattern = pattern.replace("[:space:]", " \t\n\r\f\v")
    if re.search(r"\[:\w+:\]", pattern):
        raise NotSimulated(f"a class of characters in {pattern!r}")
    try:
        return re.compile(_translated(pattern), re.IGNORECASE if ignore else 0)
    except re.error as error:
        raise Failed(f"invalid regular expression: {error}", 2) from None


def _translated(pattern: str) -> str:
    """Return a basic regular expression as Python spells it."""
    done, at = "", 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "[":
            negated = pattern[at : at + 1] == "^"
            end = pattern.find("]", at + negated + 1)
            end = len(pattern) if end < 0 else end  # a set without an end, which Python refuses
            inside = re.sub(r"([\\\]\[&~|^])", r"\\\1", pattern[at + negated : end])
            done += f"[{'^' if negated else ''}{inside}{pattern[end : end + 1]}"
            at = end + 1
        elif char == "\\" and at < len(pattern):
            done += pattern[at] if pattern[at] in "+?(){}|" else f"\\{pattern[at]}"
            at += 1
        elif char in "+?(){}|" or (char == "*" and done in ("", "^", "(")):
            done += f"\\{char}"
        else:
            done += char
    return done


def grep(call: Call) -> int:
    """`grep [-chioqvx] [-A N] [-e PATTERN]… [PATTERN] [FILE…]`."""
    options = call.options("chioqvxe:A:")
    operands, patterns = list(options.operands), options.all("e")
    if not patterns:
        if not operands:
            raise Failed("usage: grep [OPTION]... PATTERNS [FILE]...", 2)
        patterns = [operands.pop(0)]
    regexes = [compiled(one, ignore="i" in options) for text in patterns for one in text.split("\n")]
    found = failed = False
    for name in operands or ["-"]:
        try:
            lines = lines_of(call.open(name).read())
        except OSError as error:
            failed = True
            call.say(f"{name}: {error.strerror}")
            continue
        title = f"{name}:" if len(operands) > 1 and "h" not in options else ""
        shown, hits = _hits(options, regexes, lines)
        found = found or hits > 0
        if "q" in options:
            shown = []
        elif "c" in options:
            shown = [str(hits)]
        call.out("".join(f"{title}{line}\n" for line in shown))
    return 0 if found and "q" in options else 2 if failed else 0 if found else 1


def _hits(options: Options, regexes: "list[re.Pattern[str]]", lines: list[str]) -> tuple[list[str], int]:
    """Return what is shown of some lines, and how many of them match."""
    shown, hits, after = list[str](), 0, 0
    for line in lines:
        found = [match for regex in regexes for match in regex.finditer(line)]
        if "x" in options:
            found = [match for regex in regexes if (match := regex.fullmatch(line))]
        if bool(found) != ("v" in options):
            hits, after = hits + 1, int(options.get("A", "0"))
            shown += [match[0] for match in found if match[0]] if "o" in options else [line]
        elif after:
            after -= 1
            shown.append(line)
    return shown, hits


_Test = Callable[[str, Entry], bool]


def find(call: Call) -> int:
    """`find PATH… [-xdev] [-mindepth N] [-maxdepth N] [-name PATTERN] [-type f|d|l] [-uid N] [-gid N] [-mmin +N]
    [-print|-delete|-exec COMMAND… ;|-exec COMMAND… {} +]`."""
    args, paths = list(call.args), list[str]()
    while args and args[0][0] not in "-!(":
        paths.append(args.pop(0))
    work = _Find(call, args)
    return call.each(paths or ["."], lambda operand: work.visit(operand, call.path(operand), 0)) or work.status


class _Find:
    """One call of find: all its tests must hold, then it acts."""

    def __init__(self, call: Call, args: list[str]) -> None:
        self._call, self.status = call, 0
        self._least, self._most = 0, 1 << 30
        self._others: set[str] = set()  # with -xdev: where other volumes begin
        self._delete, self._command = False, list[str]()
        self._tests: list[_Test] = []
        while args:
            self._take(args.pop(0), args)

    def _take(self, word: str, rest: list[str]) -> None:
        if word == "-xdev":
            self._others = {m.target for m in mounts(self._call)}
        elif word == "-delete":
            self._delete = True
        elif word == "-exec" and {";", "+"} & {*rest}:  # one at a time comes to the same
            while (part := rest.pop(0)) not in (";", "+"):
                self._command.append(part)
        elif word not in ("-mindepth", "-maxdepth", "-name", "-type", "-mmin", "-uid", "-gid", "-print"):
            raise NotSimulated(f"expression {word}")
        elif word != "-print" and not rest:
            raise Failed(f"missing argument to '{word}'")
        elif word == "-mindepth":
            self._least = int(rest.pop(0))
        elif word == "-maxdepth":
            self._most = int(rest.pop(0))
        elif word == "-mmin":
            limit = self._call.machine.clock() - 60 * _more_than(rest.pop(0))
            self._tests.append(lambda _, entry: entry.mtime <= limit)
        elif word == "-name":
            pattern = rest.pop(0)
            self._tests.append(lambda name, _: matches(pattern, name.rstrip("/").rsplit("/", 1)[-1]))
        elif word == "-uid":
            user = rest.pop(0)
            self._tests.append(lambda _, entry: str(number_of(self._call, entry.user, "passwd")) == user)
        elif word == "-gid":
            group = rest.pop(0)
            self._tests.append(lambda _, entry: str(number_of(self._call, entry.group, "group")) == group)
        elif word == "-type":
            kind = rest.pop(0)
            self._tests.append(lambda _, entry: {"f": entry.is_file, "d": entry.is_folder, "l": entry.is_link}[kind])

    def visit(self, name: str, path: str, depth: int) -> None:
        """Look at a path and, unless it is the way to another volume, at what is in it; what is deleted comes last."""
        entry = self._call.files.entry(path, follow=False)
        if not self._delete:
            self._act(name, entry, depth)
        if entry.is_folder and depth < self._most and not (depth and entry.path in self._others):
            for child in self._call.files.names(path):
                self.visit(f"{name.rstrip('/')}/{child}", f"{path.rstrip('/')}/{child}", depth + 1)
        if self._delete:
            self._act(name, entry, depth)

    def _act(self, name: str, entry: Entry, depth: int) -> None:
        if depth < self._least or not all(test(name, entry) for test in self._tests):
            return
        if self._command:
            words = [part.replace("{}", name) for part in self._command]
            self._call.runner.run_words(words, self._call.state.child("find"))
        elif not self._delete:
            self._call.out(name + "\n")
        elif entry.path in {m.target for m in mounts(self._call)}:
            self._call.say(f"cannot delete '{name}': Device or resource busy")
            self.status = 1
        elif entry.is_folder:
            self._call.files.remove_folder(entry.path)
        else:
            self._call.files.remove(entry.path)


def _more_than(text: str) -> int:
    if not re.fullmatch(r"\+\d+", text):
        raise NotSimulated(f"-mmin {text}")
    return int(text[1:])


_LAST = 1 << 62
_ADDRESS = re.compile(r"(?:(\d+|\$)(?:,(\d+|\$))?)?[ \t]*([^\s;])")


class _Step(msgspec.Struct, frozen=True):
    """A command for lines from `first` to `last`; `change` returns a text and whether it changed."""

    first: int
    last: int
    name: str
    change: Callable[[str], tuple[str, bool]] | None = None
    printing: bool = False


def sed(call: Call) -> int:
    """`sed [-n] [-i] [-e SCRIPT]… [SCRIPT] [FILE…]`."""
    options = call.options("nie:")
    operands = list(options.operands)
    scripts = options.all("e") or ([operands.pop(0)] if operands else [])
    if not scripts:
        raise Failed("no script specified")
    steps, quiet = _parsed("\n".join(scripts)), "n" in options
    if "i" not in options:
        content, failed = call.content(operands)
        call.stdout.write(_edited(steps, content, quiet))
        return 2 if failed else 0
    return call.each(
        operands,
        lambda operand: call.files.write(
            call.path(operand), _edited(steps, call.files.read(call.path(operand)), quiet)
        ),
    )


def _parsed(script: str) -> list[_Step]:
    found, at = list[_Step](), 0
    while at < len(script):
        if script[at] in " \t\n;":
            at += 1
            continue
        head = _ADDRESS.match(script, at)
        if not head or head[3] not in "spd":
            raise NotSimulated(f"command {script[at:]!r}")
        first = _number(head[1]) if head[1] else 1
        last = _number(head[2]) if head[2] else first if head[1] else _LAST
        at = head.end()
        if head[3] == "s":
            at, change, printing = _substitution(script, at)
            found.append(_Step(first, last, "s", change, printing))
        else:
            found.append(_Step(first, last, head[3]))
    return found


def _number(text: str) -> int:
    return _LAST if text == "$" else int(text)


def _substitution(script: str, at: int) -> tuple[int, Callable[[str], tuple[str, bool]], bool]:
    mark = re.escape(script[at : at + 1])
    part = rf"((?:\\.|(?!{mark}).)*){mark}"
    found = re.compile(rf"{mark}{part}{part}([gp]*)", re.DOTALL).match(script, at) if mark else None
    if not found:
        raise Failed("unterminated `s' command")
    regex, replacement, every = compiled(found[1].replace("\\" + script[at], script[at])), found[2], "g" in found[3]

    def filled(match: "re.Match[str]") -> str:
        return re.sub(
            r"\\.|&",
            lambda piece: match[0] if piece[0] == "&" else match[int(c)] or "" if (c := piece[0][1]).isdigit() else c,
            replacement,
        )

    def change(text: str) -> tuple[str, bool]:
        changed, count = regex.subn(filled, text, 0 if every else 1)
        return changed, count > 0

    return found.end(), change, "p" in found[3]


def _edited(steps: list[_Step], data: bytes, quiet: bool) -> bytes:
    lines, out = lines_of(data), list[str]()
    for number, line in enumerate(lines, 1):
        text, deleted = line, False
        for step in steps:
            # `$` is the last line; as the end of a range it is beyond all others
            here = len(lines) if step.first == _LAST else step.first
            if not here <= number <= max(step.last, here):
                continue
            if step.name == "d":
                deleted = True
                break
            changed = True
            if step.change:
                text, changed = step.change(text)
            if changed and (step.printing or step.name == "p"):
                out.append(text)
        if not deleted and not quiet:
            out.append(text)
    joined = "".join(line + "\n" for line in out)
    return encode(joined if data.endswith(b"\n") or not data else joined.removesuffix("\n"))
