"""The one door to the terminal: data goes to stdout, words go to stderr, questions are asked here.

Text from servers is made harmless for a terminal: escape sequences in a name or a message could otherwise show another
plan than the one that is confirmed.
"""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from threading import RLock
from typing import TypeVar

from maint.cli.progress import Meter, steps_bar, transfer_bar
from maint.cli.width import columns, fitted, folded
from maint.errors import Interrupted, MaintError, NotWritten, Refused
from maint.model.formatting import show_time
from maint.model.json import Json
from maint.model.plan import Effect, Event, Happening, Outcome, Phase, Plan
from maint.model.secret import scrub

T = TypeVar("T")
SCHEMA = "maint/1"
_MARKS = {Outcome.DONE: "✓", Outcome.UNCHANGED: "=", Outcome.SKIPPED: "-", Outcome.FAILED: "✗", Outcome.WAITING: "…"}
_WRONG = "error:"
_PLAIN: tuple[str, int | None] = ("", 0)  # no colour
_PARTLY = "!"  # done, but for what it says is left
_COLOURS = {Outcome.DONE: "32", Outcome.UNCHANGED: "36", Outcome.SKIPPED: "33", Outcome.FAILED: "31"}
_COLOURS[Outcome.WAITING] = "33"


# Control characters but for tab and line end, what turns the direction of writing, and what is seen by nobody.
_CONTROL = {*range(0x20), *range(0x7F, 0xA0)} - {0x09, 0x0A}
_TURNING = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_UNSEEN = {0xAD, 0x180E, 0x200B, *range(0x2060, 0x2065), 0xFEFF}
_SPELLED = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in _CONTROL | _TURNING | _UNSEEN}
_IN_CELL = {0x09: "\\t", 0x0A: "\\n"}  # in a table they would make a row that is none
_IN_JSON = {code: f"\\u{code:04x}" for code in (_CONTROL | _TURNING | _UNSEEN) if code >= 0x7F}


# Priorities as syslog and systemd number them.
_ERROR, _WARNING, _INFO = 3, 4, 6
_LEVELS = {_ERROR: "error", _WARNING: "warning", _INFO: "info"}
COLORS = ("auto", "always", "never")
LOG_FORMATS = ("text", "json")
_MINUTE = 60.0  # seconds
_LONG = 240  # characters of a failure that need not be told twice
_PAINT = r"\x1b\[[0-9;]*m"
_BLINK = 0.2  # seconds between two looks of a bar
# What counts up or down: sizes, durations, shares and how many of how many; never a name or an address.
_NUMBERS = r"(?<![\w.:-])\d+(?:[.,]\d+)?(?: ?(?:[kMGT]?B|[smhd]|%)(?!\w)(?: \d+[smhd]\b)?| of \d+\b)"


def printable(text: str) -> str:
    """Return a text as a terminal may be shown it."""
    return text if text.isascii() and text.isprintable() else _spelled(text, _SPELLED)


def printable_json(text: str) -> str:
    """Return JSON whose strings say the same, and which a terminal may be shown."""
    return text if text.isascii() else _spelled(text, _IN_JSON)


def _spelled(text: str, table: Mapping[int, str]) -> str:
    return text.translate(table).encode("utf-8", "backslashreplace").decode()  # halves of characters are spelled too


class Screen:
    """Where a command's data and words go.

    Args:
        output: table, json or yaml.
        quiet: whether words other than errors and warnings are left out.
        verbose: whether every progress line stays visible.
        color: always, never or auto; else as `MAINT_COLOR`, `NO_COLOR`, `FORCE_COLOR` and `TERM` have it.
        log_format: text, or json: every word and event is a line of JSON on stderr.
    """

    def __init__(
        self,
        output: str = "table",
        *,
        quiet: bool = False,
        verbose: bool = False,
        color: str = "",
        log_format: str = "text",
    ) -> None:
        self.output = output
        self.log_format = log_format
        self._as_json = log_format == "json"
        # where the output is for a program, one reads along
        self.quiet = quiet or (output != "table" and not verbose and not self._as_json)
        self.verbose = verbose
        self.to_systemd = not self._as_json and _under_systemd(os.environ)
        self._ticked: dict[str, float] = {}
        self.color = color or os.environ.get("MAINT_COLOR") or "auto"
        self._colored = _colored(self.color, os.environ)
        dumb = os.environ.get("TERM") == "dumb"
        self._live = sys.stderr.isatty() and not (dumb or self.quiet or verbose or self._as_json)
        self._pending = False
        self._writing = RLock()  # bytes are moved by threads
        self._meter = Meter()
        self._under_way = ""
        self.named: Callable[[str], str] = str  # what says in commands to type of which of several sites they are

    def emit(self, data: Mapping[str, Json], table: str) -> None:
        """Print data in the chosen form; `table` is what people see."""
        _tell(self._begin())
        if self.output == "json":
            to_stdout(printable_json(json.dumps({"schema": SCHEMA, **data}, indent=2, ensure_ascii=False)) + "\n")
        elif self.output == "yaml":
            from maint.config.yaml import dump  # few commands need YAML, and it takes a third of a start

            to_stdout(dump({"schema": SCHEMA, **data}))
        elif table:
            to_stdout(printable(self.named(table)) + "\n")

    def raw(self, text: str) -> None:
        """Print text to stdout: as it is to a program, made harmless on a terminal."""
        _tell(self._begin())
        to_stdout(printable(text) if sys.stdout.isatty() else text)

    def say(self, words: str, *, failed: bool = False) -> None:
        """Tell the operator something; `failed`: with the priority of an error."""
        if not self.quiet:
            self._line(printable(words), words, _ERROR if failed else _INFO)

    def follow(self, steps: Generator[str, None, T]) -> T:
        """Tell the operator what steps yield, and return what they return."""
        while True:
            try:
                self.say(next(steps))
            except StopIteration as end:
                found: T = end.value
                return found

    def warn(self, words: str) -> None:
        """Tell the operator something that quiet does not silence."""
        words = scrub(words)
        if self.output == "json" and not self._as_json:
            self._json_line({"warning": words}, _WARNING)
            return
        self._line(printable(f"warning: {words}"), words, _WARNING, paint=("33", None), warning=words)

    def ask(self, question: str) -> None:
        """Ask the operator something; quiet does not silence it."""
        self._line(printable(question), question, _WARNING, paint=("33", None))

    def error(self, failure: MaintError) -> None:
        """Show a failure: what, why, what next."""
        body = error_object(failure)
        message, detail = str(body["message"]), body["detail"]
        assert isinstance(detail, list)
        if self.output == "json" and not self._as_json:
            self._json_line({"error": body}, _ERROR)
            return
        lines = [f"{_WRONG} {message}", *(f"  {line}" for line in detail)]
        if body["hint"]:
            lines.append(f"hint: {body['hint']}")
        self._line(printable("\n".join(lines)), message, _ERROR, paint=("31", len(_WRONG)), error=body)

    def event(self, plan: Plan, event: Event) -> None:
        """Show one event of a run: progress in place on a terminal, plain lines elsewhere."""
        action = plan.actions[event.index]
        if event.what is not Happening.PROGRESSED:
            self._meter.forget()
        if self._as_json:
            self._event_line(plan, event)
            return
        place = f"[{event.index + 1}/{len(plan.actions)}]"
        self._under_way, before = f"{place} {action.name}", ""
        if self._live and event.what is not Happening.FINISHED and len(plan.actions) > 1:
            before = f"{steps_bar(event.index, len(plan.actions), colored=self._colored)} "
        if event.what is Happening.STARTED:
            self._passing(f"{self._under_way} …", before)
        elif event.what is Happening.PROGRESSED:
            self._passing(f"{self._under_way}: {event.detail}", before)
        elif event.outcome is not None and self._shows(event.outcome):
            half = event.partly and event.outcome is Outcome.DONE
            colour, mark = ("33", _PARTLY) if half else (_COLOURS[event.outcome], _MARKS[event.outcome])
            told = event.detail
            ends = event.outcome is Outcome.FAILED and action.phase is Phase.MAIN and not action.lane
            if ends and len(told) > _LONG:  # the error that follows tells all of it
                told = f"{told.partition('; ')[0]} …"
            detail = f": {told}" if told else ""
            level = _ERROR if event.outcome is Outcome.FAILED else _WARNING if half else _INFO
            shown = f"{mark} {printable(f'{place} {action.name}{detail}')}"
            self._line(shown, level=level, paint=(colour, len(mark)))

    def _event_line(self, plan: Plan, event: Event) -> None:
        """Write one event as a line of JSON."""
        action, level = plan.actions[event.index], _ERROR if event.outcome is Outcome.FAILED else _INFO
        fields: dict[str, Json] = {
            "event": event.what.value,
            "step": event.index + 1,
            "steps": len(plan.actions),
            "name": action.name,
            "kind": action.kind,
            "target": action.target,
            "outcome": event.outcome.value if event.outcome else None,
            "partly": event.partly,
        }
        if not self.quiet or level == _ERROR:
            self._line("", event.detail, _WARNING if event.partly else level, event.time, _PLAIN, **fields)

    def heard(self, site: str, line: Mapping[str, Json]) -> None:
        """Write a line of JSON that the process of a site wrote, and say of which; from any thread."""
        if self.quiet and line.get("level") == _LEVELS[_INFO]:
            return
        with self._writing:
            _tell(f"{printable_json(json.dumps({**line, 'site': site}, ensure_ascii=False))}\n")

    def steps(self, done: int, of: int, what: str) -> None:
        """Show a bar of what is done of all, on a terminal."""
        if self._live and done < of:
            self._passing(f"{done} of {of} {what}", f"{steps_bar(done, of, colored=self._colored)} ")

    def moved(self, what: str, count: int, of: int | None) -> None:
        """Count bytes that were moved, from any thread: a bar on a terminal, elsewhere a line a minute at most."""
        told = self._meter.moved(what, count, of, _BLINK if self._live else _MINUTE) if count else None
        if told is None or self.quiet:
            return
        one, now = told
        before = f"{self._under_way}: " if self._under_way else ""
        words = f"{before}{what}: {one.words(now)}"
        if self._live:
            bar = transfer_bar(one, colored=self._colored)
            self._passing(f"{one.words(now)}  {before}{what}", f"{bar} " if bar else "")
        else:
            self._line(printable(words), words, _INFO, None, _PLAIN, **{"event": "transfer", **one.fields(now)})

    def progress(self, words: str) -> None:
        """Show how far something is: in place on a terminal, elsewhere a line with `-v`, and an event for programs."""
        self._passing(words if self._live or self.verbose or self._as_json else f"{words} …")

    def _shows(self, outcome: Outcome) -> bool:
        return not self.quiet or (outcome is Outcome.FAILED and self.output == "table")

    def _passing(self, words: str, bar: str = "") -> None:
        words = printable(words)
        if self._live:
            wide, taken = shutil.get_terminal_size().columns - 1, len(re.sub(_PAINT, "", bar))
            bar, room = (bar, wide - taken) if taken < wide // 2 else ("", wide)
            with self._writing:
                _tell(f"\r\x1b[2K{bar}{words[:room]}")
                self._pending = True
        elif self.verbose or not (self.quiet or words.endswith("…") or self._just_said(words)):
            self._line(words)

    def _just_said(self, words: str) -> bool:
        """Whether a line that differs in its amounts alone, such as time left, was written within the last minute."""
        key, now = re.sub(_NUMBERS, "#", words), time.monotonic()
        if now - self._ticked.get(key, -_MINUTE) < _MINUTE:
            return True
        self._ticked[key] = now
        return False

    def _json_line(self, fields: Mapping[str, Json], level: int) -> None:
        self._line(printable_json(json.dumps({"schema": SCHEMA, **fields}, ensure_ascii=False)), level=level)

    def _line(
        self,
        shown: str,
        words: str = "",
        level: int = _INFO,
        at: datetime | None = None,
        paint: tuple[str, int | None] = _PLAIN,
        **fields: Json,
    ) -> None:
        """Write a line for people; for programs its words and fields; under systemd with its priority before it.

        Args:
            paint: a colour, and how many of the first characters have it.
        """
        if self._as_json:
            when, message = show_time(at or datetime.now(UTC)), words or shown
            said: dict[str, Json] = {"schema": SCHEMA, "time": when, "level": _LEVELS[level], "message": message}
            shown = printable_json(json.dumps({**said, **fields}, ensure_ascii=False))
        else:
            (colour, many), shown = paint, self.named(shown)
            if self.output == "table" and sys.stderr.isatty():  # no name and no option is parted
                shown = _folded(shown, shutil.get_terminal_size().columns, whole="`")
            if colour:
                shown = self._paint(colour, shown[:many]) + (shown[many:] if many else "")
            if self.to_systemd:
                shown = "\n".join(f"<{level}>{line}" for line in shown.split("\n"))
        with self._writing:
            _tell(f"{self._begin()}{shown}\n")

    def _begin(self) -> str:
        """Return what clears a passing line, where there is one."""
        pending, self._pending = self._pending, False
        return "\r\x1b[2K" if pending else ""

    def _paint(self, colour: str, words: str) -> str:
        return f"\x1b[{colour}m{words}\x1b[0m" if self._colored else words


def _folded(text: str, width: int | None = None, *, whole: str = "") -> str:
    return folded(text, width or columns(), whole=whole)


def error_object(failure: MaintError) -> dict[str, Json]:
    """Return a failure as programs are told it: what, why, what next."""
    return {
        "message": scrub(failure.message),
        "detail": [scrub(line) for line in failure.detail],
        "hint": scrub(failure.way_on or "") or None,
        "exit": failure.exit_code,
    }


def _tell(text: str) -> None:
    """Write to stderr; where nobody reads any more, as when a terminal is lost, the work goes on unseen."""
    if not text:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _under_systemd(environ: Mapping[str, str]) -> bool:
    """Whether stderr goes to the journal of systemd, which reads priorities."""
    try:
        facts = os.fstat(2)
    except OSError:
        return False
    return environ.get("JOURNAL_STREAM") == f"{facts.st_dev}:{facts.st_ino}"


def _colored(wanted: str, environ: Mapping[str, str]) -> bool:
    """Whether to write in colour: as wanted; else as NO_COLOR and FORCE_COLOR say, else on a terminal that can."""
    if wanted in ("always", "never"):
        return wanted == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return sys.stderr.isatty() and environ.get("TERM") != "dumb"


def cell(value: Json) -> str:
    """Return a value as people read it in a table."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {cell(one)}" for key, one in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(cell(one) for one in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under headings, in columns as wide as they need, and as the terminal has room for."""
    return fitted([headings, *([one.translate(_IN_CELL) for one in row] for row in rows)], columns())


def plan_text(plan: Plan) -> str:
    """Return a plan for people."""
    limit = f", limited to {', '.join(plan.limit)}" if plan.limit else ""
    lines = [f"plan {plan.source} for site {plan.site}{limit} (digest {plan.digest[:12]})"]
    for number, action in enumerate(plan.actions, 1):
        when = f"  [{action.follows}]" if action.follows else ""
        when += "  [only where it turns out to be needed]" if action.when else ""
        lines.append(f"  {number:2}. {action.effect.name:<7} {action.name}: {action.summary}{when}")
        lines += [f"      {line}" for line in action.shown]
        if action.undo and action.effect > Effect.READ:
            lines.append(f"      undo: {action.undo}")
    return _folded("\n".join(lines))


def confirm(plan: Plan, screen: Screen, *, yes: bool, name: str | None) -> None:
    """Ask before a plan that changes something is carried out: `yes` answers CHANGE, `name` DESTROY; else Refused."""
    try:
        if plan.effect is Effect.DESTROY:
            _confirm_name(plan, screen, name)
        elif plan.effect is Effect.CHANGE:
            ask_change(screen, "carry this out?", yes=yes)
    except Interrupted as signalled:
        signalled.hint = "nothing of it was done"
        raise


def _confirm_name(plan: Plan, screen: Screen, name: str | None) -> None:
    wanted = plan.confirm or plan.site
    hint = f"give --confirm {repr(wanted) if ' ' in wanted else wanted}"  # as a shell takes it
    if name is None:
        if not sys.stdin.isatty():
            raise Refused("this destroys something, and there is no terminal to ask on", hint=hint)
        screen.warn(f"this destroys something; type {wanted} to go on")
        name = sys.stdin.readline().strip()
    if name != wanted:
        raise Refused(f"not confirmed: {name!r} is not {wanted!r}", hint=hint)


def ask_change(screen: Screen, question: str, *, yes: bool) -> None:
    """Ask a y/N question before something is changed; Refused: the answer is not yes."""
    if yes:
        return
    screen.ask(f"{question} [y/N]")
    answer = sys.stdin.readline()
    if answer.strip().lower() in ("y", "yes"):
        return
    if not answer and not sys.stdin.isatty():
        raise Refused("this changes something, and there is nobody to ask", hint="give --yes")
    raise Refused("not confirmed", hint="answer y, or give --yes")


def to_stdout(text: str) -> None:
    """Write to stdout, all of it; NotWritten where what is behind it takes no more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is not tried again at the end
        if not isinstance(error, BrokenPipeError):  # else its reader has enough; the exit code is the same
            raise NotWritten("standard output", error) from error
