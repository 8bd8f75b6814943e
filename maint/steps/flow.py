"""Steps about the run itself: approvals, conditions, notices, pauses."""

import re
import secrets
from collections.abc import Generator, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Self

import msgspec
from msgspec.structs import replace
from pydantic import Field, field_validator, model_validator

import maint
from maint.config.fields import Wait
from maint.config.paths import actor
from maint.errors import Invalid, Refused, TimedOut, Unfinished, WorkFailed
from maint.files import Damaged, create, load, writing
from maint.model.formatting import meant, parse_time, show_count, show_duration, show_time, tell_times
from maint.model.json import Json
from maint.model.notice import Kind, Notice
from maint.model.plan import Action, Effect
from maint.model.secret import scrub
from maint.ports import Person, Sight, Site, Work
from maint.steps.step import Arguments, Progress, Step, done, in_a_template, unchanged

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
    with writing(place, "run it as the account that owns that folder"):
        written = create(place, msgspec.json.encode(said) + b"\n")
    if not written:
        refuse_answered(state, run, token)
        raise Refused(f"{place} is there, and is not an answer", hint="look at what it is, and move it away")


def refuse_answered(state: Path, run: str, token: str) -> None:
    """Refuse where a question was answered already."""
    if before := answered(state, run, token):
        words = f"{'approved' if before.yes else 'rejected'} by {before.by} at {tell_times(before.at)}"
        raise Refused(f"this question was {words}", hint=f"`maint playbook resume {run}` takes the answer")


def answered(state: Path, run: str, token: str) -> Approval | None:
    """Return what somebody said to a question, None while nobody has; Refused where the answer is damaged."""
    place = _place(state, run, token)
    try:
        found = load(place, Approval)
        if found is not None and parse_time(found.at) is None:
            raise Damaged("it does not say when")
        return found
    except Damaged as error:
        raise Refused(
            f"the answer {place} cannot be read",
            detail=[str(error)],
            hint=f"remove it, answer anew with `maint playbook approve {run}`, then `maint playbook resume {run}`",
        ) from None


class ApproveArguments(Arguments):
    """What is asked, and how long the answer may take."""

    question: str = Field(description="what a person is asked")
    within: Annotated[Wait, Field(gt=0)] = Field(3600.0, description="how long the answer may take")


class Approve(Step[ApproveArguments]):
    """Ask a person, on the terminal or by `maint playbook approve RUN` from another one; who, when and why is kept.
    Without a terminal the run stops (1), lets go of the lock, and waits to be taken up.
    """

    kind = "approve"
    effect = Effect.READ
    asks = True
    late = frozenset({"question"})

    def plan(self, args: ApproveArguments, sight: Sight) -> Iterable[Action]:
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
                hint="talk to them; then begin anew where nothing was changed yet, "
                f"else `maint playbook resume {work.run}` asks again",
            )
        words = f"approved by {said.by} at {tell_times(said.at)}" + (f": {said.note}" if said.note else "")
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


class AssertArguments(Arguments):
    """What must hold, and what is said where it does not."""

    that: str = Field(description="an expression over parameters and registered values, as in `when`")
    message: str = Field("", description="what is said where it does not hold")
    hint: str = Field("", description="what to do then")


class Assert(Step[AssertArguments]):
    """Go on only where an expression holds; else the run fails with the message."""

    kind = "assert"
    effect = Effect.READ
    locks = False
    late = frozenset({"message", "hint"})
    expressions = frozenset({"that"})

    def plan(self, args: AssertArguments, sight: Sight) -> Iterable[Action]:
        """Plan it; whether it holds is worked out when its turn comes."""
        yield self.action("this run", f"make sure that `{' '.join(args.that.split())}`", args.model_dump())

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Fail where it does not hold; the engine has worked the expression out."""
        yield from ()
        if action.arguments["that"] is True:
            return done("it holds")
        said = (
            str(action.arguments["message"]) or f"this does not hold: {action.summary.removeprefix('make sure that ')}"
        )
        raise WorkFailed(said, hint=str(action.arguments["hint"]) or None)


class NotifyArguments(Arguments):
    """What is told, and to whom."""

    in_config: ClassVar[Mapping[str, str]] = {"to": "notice that takes messages"}
    message: str = Field(description="the message, in a sentence or two")
    to: list[str] = Field([], description="names under `notify` in the config; empty: all")


class Notify(Step[NotifyArguments]):
    """Tell those whom the config names under `notify`; what does not arrive is said, and fails nothing."""

    kind = "notify"
    effect = Effect.READ
    locks = False
    late = frozenset({"message"})

    def plan(self, args: NotifyArguments, sight: Sight) -> Iterable[Action]:
        """Plan it; Invalid where there is nobody of that name, or nobody at all."""
        known = [one.name for one in sight.settings.notify if one.ways(Kind.MESSAGE.value, "")]
        for name in args.to:
            if name not in known:
                hint = meant(name, known, "see `notify` in the config")
                raise Invalid(f"there is no notice {name!r} that takes messages", hint=hint)
        if not known:
            raise Invalid("nobody can be told: the site has no `notify`", hint="`maint help alerts` shows how")
        yield self.action("this run", f"tell {', '.join(args.to or known)}: {args.message}", args.model_dump())

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        yield from ()
        if work.noted("told"):
            return unchanged("an earlier attempt told it")
        args = NotifyArguments.model_validate({**action.arguments, "message": str(action.arguments["message"])})
        at, words = site.clock.now().isoformat(timespec="seconds"), scrub(args.message)
        notice = Notice(Kind.MESSAGE, site.settings.name, "notify", words, at, run=work.run)
        notice = replace(notice, by=actor(), version=maint.__version__)
        told = site.notices.tell([notice], args.to or None)
        work.note("told", True)
        trouble = [f"{one.name} was not told: {one.problem}" for one in told if one.problem]
        words = "; ".join([f"{show_count(len(told) - len(trouble), 'notice')} told", *trouble])
        return done(words, {"told": len(told) - len(trouble), "trouble": trouble})


_CLOCK = r"(?a)([01]\d|2[0-3]):([0-5]\d)"
_EVERY = 5.0  # seconds between two words about how long it still takes


class PauseArguments(Arguments):
    """How long, or until when; one of them."""

    duration: Wait = Field(0.0, description="how long")
    until: str = Field("", description='until when, instead: `"22:30"` (UTC, the next one), or `2027-06-30T22:30:00Z`')

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if bool(self.duration) == bool(self.until):
            raise ValueError('a pause has either `duration` or `until`, such as `duration: 5m` or `until: "22:30"`')
        return self

    @field_validator("until")
    @classmethod
    def _is_a_moment(cls, text: str) -> str:
        if text and not in_a_template(text):
            _moment(text, datetime.now(UTC))
        return text


class Pause(Step[PauseArguments]):
    """Wait for a while, or until a certain time."""

    kind = "pause"
    effect = Effect.READ
    locks = False

    def plan(self, args: PauseArguments, sight: Sight) -> Iterable[Action]:
        """Plan it; the time of day counts from when its turn comes."""
        words = f"for {show_duration(args.duration)}"
        if args.until:
            words = f"until {args.until}{' UTC' if re.fullmatch(_CLOCK, args.until) else ''}"
        yield self.action("this run", f"wait {words}", args.model_dump())

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        args = PauseArguments.model_validate(dict(action.arguments))
        now, noted = site.clock.now(), work.noted("until")
        if noted is None:
            end = _moment(args.until, now) if args.until else now + timedelta(seconds=args.duration)
            work.note("until", show_time(end))
        else:
            end = datetime.fromisoformat(str(noted))
        if end <= now:
            return unchanged(f"{end:%Y-%m-%d %H:%M:%S} UTC has passed")
        while (left := (end - site.clock.now()).total_seconds()) > 0:
            yield f"{show_duration(left)} left, until {end:%Y-%m-%d %H:%M:%S} UTC"
            site.clock.sleep(min(left, _EVERY))
        return done(f"waited until {end:%Y-%m-%d %H:%M:%S} UTC")


def _moment(text: str, now: datetime) -> datetime:
    """Return when a pause ends; ValueError: it is not a time, or has no zone."""
    if found := re.fullmatch(_CLOCK, text):
        moment = now.astimezone(UTC).replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        return moment if moment > now else moment + timedelta(days=1)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    words = 'such as "22:30" (UTC) or 2027-06-30T22:30:00Z, with its zone'
    raise ValueError(f"{text!r} is not a time that is the same everywhere, {words}")
