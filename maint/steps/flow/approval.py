"""Wait for a person's word: who said it, when and why stands in the journal."""

import secrets
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
from pydantic import Field

from maint.config.fields import Wait
from maint.errors import Refused, TimedOut, Unfinished, WorkFailed
from maint.files import Damaged, create, load
from maint.model.formatting import show_duration, show_time
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.ports import Person, Sight, Site, Work
from maint.steps.step import Arguments, Progress, Step, done

_LOOK = 0.5  # seconds between two looks for an answer given elsewhere
RUNS = "runs"  # the folder of journals; an answer lies beside its run's


class Approval(msgspec.Struct, frozen=True):
    """What a person said: yes or no, who, when, and why."""

    yes: bool
    by: str  # as user@host
    at: str  # when, ISO 8601
    note: str = ""


def _place(state: Path, run: str, token: str) -> Path:
    return state / RUNS / f"{run}.approval-{token}"


def answer(state: Path, run: str, token: str, said: Approval) -> None:
    """Write an answer beside a run's journal; Refused: there is one already, WorkFailed: it cannot be written."""
    place = _place(state, run, token)
    try:
        written = create(place, msgspec.json.encode(said) + b"\n")
    except OSError as error:
        raise WorkFailed(f"{place} cannot be written: {error.strerror}", hint="make room on its disk") from error
    if not written:
        before = answered(state, run, token)
        words = f"by {before.by} at {before.at}" if before else "already"
        raise Refused(f"this question was answered {words}", hint=f"`maint playbook resume {run}`")


def answered(state: Path, run: str, token: str) -> Approval | None:
    """Return what somebody said to a question, None while nobody has; Refused where the answer is damaged."""
    place = _place(state, run, token)
    try:
        return load(place, Approval)
    except Damaged as error:
        raise Refused(
            f"the answer {place} cannot be read",
            detail=[str(error)],
            hint=f"remove it, answer anew with `maint playbook approve {run}`, then `maint playbook resume {run}`",
        ) from None


class ApproveArguments(Arguments):
    """What is asked, and how long the answer may take."""

    question: str = Field(description="what a person is asked")
    within: Wait = Field(3600.0, description="how long the answer may take")


class Approve(Step[ApproveArguments]):
    """Ask a person, on the terminal or by `maint playbook approve RUN` from another one; who, when and why is kept.
    Without a terminal the run stops (1), lets go of the lock, and waits to be taken up.
    """

    kind = "approve"
    effect = Effect.READ
    asks = True
    late = frozenset({"question"})

    def plan(self, args: ApproveArguments, sight: Sight) -> Iterable[Action]:
        """Plan it."""
        limit = show_duration(args.within)
        yield self.action("this run", f"ask a person, for at most {limit}: {args.question}", args.model_dump())

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Take the answer that is there; else ask, where somebody is there to be asked."""
        question, within = str(action.arguments["question"]), float(str(action.arguments["within"]))
        token, end = _asked(site, work, within)
        said = answered(site.state, work.run, token)
        if said is None and site.clock.now() < end:
            if site.person is None:
                raise _waits(question, work.run, end)
            said = yield from _ask(site, site.person, question, (work.run, token), end)
        if said is None or datetime.fromisoformat(said.at) > end:
            work.note("over", token)
            raise TimedOut(
                f"nobody answered within {show_duration(within)}: {question}",
                hint=f"`maint playbook resume {work.run}` asks again",
            )
        if not said.yes:
            work.note("over", token)
            raise Refused(
                f"{said.by} said no{f': {said.note}' if said.note else ''}",
                detail=[f"asked: {question}"],
                hint="talk to them; the same run asks again when it is resumed",
            )
        words = f"approved by {said.by} at {said.at}" + (f": {said.note}" if said.note else "")
        value: Mapping[str, Json] = {"by": said.by, "at": said.at, "note": said.note}
        return done(words, dict(value))


def _asked(site: Site, work: Work, within: float) -> tuple[str, datetime]:
    """Return the token of the open question and when it ends; a new one where the last was settled."""
    token, until = work.noted("token"), work.noted("until")
    if token is None or until is None or work.noted("over") == token:
        token, until = secrets.token_hex(4), show_time(site.clock.now() + timedelta(seconds=within))
        work.note("token", token)
        work.note("until", until)
    return str(token), datetime.fromisoformat(str(until))


def _waits(question: str, run: str, end: datetime) -> Unfinished:
    return Unfinished(
        f"waits for a person, until {end:%Y-%m-%d %H:%M} UTC: {question}",
        detail=[f"`maint playbook approve {run} --note WORDS` says yes, with `--reject` no"],
        hint=f"then `maint playbook resume {run}`",
    )


def _ask(
    site: Site, person: Person, question: str, asked: tuple[str, str], end: datetime
) -> Generator[str, None, Approval | None]:
    run, token = asked
    yield f"waiting for an answer until {end:%H:%M} UTC"  # once: a line that is typed is not written over
    person.ask(f"{question} [y/N, and a note if you like; or `maint playbook approve {run}` elsewhere]")
    while site.clock.now() < end:
        if (said := answered(site.state, run, token)) is not None:
            return said
        line = person.reply(_LOOK)
        if line == "":
            raise _waits(question, run, end)
        if line is not None and line.strip():
            word, _, note = line.strip().partition(" ")
            said = Approval(word.lower() in ("y", "yes"), person.name, show_time(site.clock.now()), note.strip())
            with suppress(Refused):  # somebody answered elsewhere at the same moment: the first answer counts
                answer(site.state, run, token, said)
            return answered(site.state, run, token) or said
    return None
