"""The one door to the terminal: data goes to stdout, words go to stderr, questions are asked here."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from maint.cli.sanitize import printable, printable_json
from maint.errors import MaintError, Refused
from maint.model.events import Event, Happening, Outcome
from maint.model.json import Json
from maint.model.plan import Effect, Plan

SCHEMA = "maint/1"
_MARKS = {Outcome.DONE: "✓", Outcome.UNCHANGED: "=", Outcome.SKIPPED: "-", Outcome.FAILED: "✗", Outcome.WAITING: "…"}
_PARTLY = "!"  # done, but for what it says is left
_COLOURS = {Outcome.DONE: "32", Outcome.UNCHANGED: "36", Outcome.SKIPPED: "33", Outcome.FAILED: "31"}
_COLOURS[Outcome.WAITING] = "33"


class Screen:
    """Where a command's data and words go.

    Args:
        output: table, json or yaml.
        quiet: whether words other than errors and warnings are left out.
        verbose: whether every progress line stays visible.
        color: always, never or auto.
    """

    def __init__(
        self, output: str = "table", *, quiet: bool = False, verbose: bool = False, color: str = "auto"
    ) -> None:
        self.output = output
        self.quiet = quiet or (output != "table" and not verbose)  # a program reads along
        self.verbose = verbose
        self._colored = color == "always" or (color == "auto" and sys.stderr.isatty())
        self._live = sys.stderr.isatty() and not self.quiet and not verbose
        self._pending = False

    def emit(self, data: Mapping[str, Json], table: str) -> None:
        """Print data in the chosen form; `table` is what people see."""
        _tell(self._begin())
        if self.output == "json":
            print(printable_json(json.dumps({"schema": SCHEMA, **data}, indent=2, ensure_ascii=False)))
        elif self.output == "yaml":
            from maint.config.yaml import dump

            print(dump({"schema": SCHEMA, **data}), end="")
        elif table:
            print(printable(table))
        sys.stdout.flush()

    def raw(self, text: str) -> None:
        """Print text as it is to stdout."""
        _tell(self._begin())
        sys.stdout.write(text)
        sys.stdout.flush()

    def say(self, words: str) -> None:
        """Tell the operator something."""
        if not self.quiet:
            self._line(printable(words))

    def warn(self, words: str) -> None:
        """Tell the operator something that quiet does not silence."""
        if self.output == "json":
            self._line(printable_json(json.dumps({"schema": SCHEMA, "warning": words}, ensure_ascii=False)))
            return
        self._line(self._paint("33", printable(f"warning: {words}")))

    def error(self, failure: MaintError) -> None:
        """Show a failure: what, why, what next."""
        if self.output == "json":
            body: dict[str, Json] = {
                "message": failure.message,
                "detail": list(failure.detail),
                "hint": failure.hint,
                "exit": failure.exit_code,
            }
            self._line(printable_json(json.dumps({"schema": SCHEMA, "error": body}, ensure_ascii=False)))
            return
        lines = [f" {failure.message}", *(f"  {line}" for line in failure.detail)]
        if failure.hint:
            lines.append(f"hint: {failure.hint}")
        self._line(self._paint("31", "error:") + printable("\n".join(lines)))

    def event(self, plan: Plan, event: Event) -> None:
        """Show one event of a run: progress in place on a terminal, plain lines elsewhere."""
        action = plan.actions[event.index]
        place = f"[{event.index + 1}/{len(plan.actions)}]"
        if event.what is Happening.STARTED:
            self._passing(f"{place} {action.name} …")
        elif event.what is Happening.PROGRESSED:
            self._passing(f"{place} {action.name}: {event.detail}")
        elif event.outcome is not None and self._shows(event.outcome):
            half = event.partly and event.outcome is Outcome.DONE
            mark = self._paint("33", _PARTLY) if half else self._paint(_COLOURS[event.outcome], _MARKS[event.outcome])
            detail = f": {event.detail}" if event.detail else ""
            self._line(f"{mark} {printable(f'{place} {action.name}{detail}')}")

    def progress(self, words: str) -> None:
        """Show how far something is: in place on a terminal, elsewhere a line with `-v`."""
        self._passing(words if self._live or self.verbose else f"{words} …")

    def _shows(self, outcome: Outcome) -> bool:
        return not self.quiet or (outcome is Outcome.FAILED and self.output == "table")

    def _passing(self, words: str) -> None:
        words = printable(words)
        if self._live:
            _tell(f"\r\x1b[2K{words[: _width() - 1]}")
            self._pending = True
        elif self.verbose or not (self.quiet or words.endswith("…")):
            self._line(words)

    def _line(self, words: str) -> None:
        _tell(f"{self._begin()}{words}\n")

    def _begin(self) -> str:
        """Return what clears a passing line, where there is one."""
        pending, self._pending = self._pending, False
        return "\r\x1b[2K" if pending else ""

    def _paint(self, colour: str, words: str) -> str:
        return f"\x1b[{colour}m{words}\x1b[0m" if self._colored else words


def _tell(text: str) -> None:
    """Write to stderr; where nobody reads any more, as when a terminal is lost, the work goes on unseen."""
    if not text:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _width() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under headings, in columns as wide as they need."""
    lines = [list(headings), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def plan_text(plan: Plan) -> str:
    """Return a plan for people."""
    lines = [f"plan {plan.source} for site {plan.site} (digest {plan.digest[:12]})"]
    for number, action in enumerate(plan.actions, 1):
        when = f"  [{action.phase.value}]" if action.phase.value != "main" else ""
        lines.append(f"  {number:2}. {action.effect.name:<7} {action.name}: {action.summary}{when}")
        if action.undo and action.effect > Effect.READ:
            lines.append(f"      undo: {action.undo}")
    return "\n".join(lines)


def confirm(plan: Plan, screen: Screen, *, yes: bool, name: str | None, source: TextIO | None = None) -> None:
    """Ask before a plan that changes something is carried out.

    Args:
        plan: what would be done.
        screen: where to ask.
        yes: the operator's `--yes`, which answers CHANGE only.
        name: the operator's `--confirm NAME`, which answers DESTROY.
        source: where answers come from; standard input when left out.

    Raises:
        Refused: not confirmed.
    """
    source = source or sys.stdin
    if plan.effect is Effect.DESTROY:
        _confirm_name(plan, screen, name, source)
    elif plan.effect is Effect.CHANGE and not yes:
        _confirm_change(screen, source)


def _confirm_name(plan: Plan, screen: Screen, name: str | None, source: TextIO) -> None:
    wanted = plan.confirm or plan.site
    if name is None:
        if not source.isatty():
            raise Refused(
                "this destroys something, and there is no terminal to ask on", hint=f"give --confirm {wanted}"
            )
        screen.warn(f"this destroys something; type {wanted} to go on")
        name = source.readline().strip()
    if name != wanted:
        raise Refused(f"not confirmed: {name!r} is not {wanted!r}", hint=f"give --confirm {wanted}")


def ask_change(screen: Screen, question: str, *, yes: bool, source: TextIO | None = None) -> None:
    """Ask a y/N question before something is changed.

    Raises:
        Refused: the answer is not yes.
    """
    if not yes:
        _confirm_change(screen, source or sys.stdin, question)


def _confirm_change(screen: Screen, source: TextIO, question: str = "carry this out?") -> None:
    screen.say(f"{question} [y/N]")
    answer = source.readline()
    if answer.strip().lower() in ("y", "yes"):
        return
    if not answer and not source.isatty():
        raise Refused("this changes something, and there is nobody to ask", hint="give --yes")
    raise Refused("not confirmed", hint="answer y, or give --yes")
