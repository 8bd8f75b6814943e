"""Wait for a while, or until a certain time."""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from pydantic import Field

from maint.config.fields import Wait
from maint.errors import Invalid
from maint.model.formatting import show_duration, show_time
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.step import Arguments, Progress, Step, done, unchanged

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_LOOK = 5.0  # seconds between two words about how long it still takes


class PauseArguments(Arguments):
    """How long, or until when; one of them."""

    duration: Wait = Field(0.0, description="how long")
    until: str = Field("", description='until when, instead: `"22:30"` (UTC, the next one), or `2027-06-30T22:30:00Z`')


class Pause(Step[PauseArguments]):
    """Wait for a while, or until a certain time."""

    kind = "pause"
    effect = Effect.READ
    locks = False

    def plan(self, args: PauseArguments, sight: Sight) -> Iterable[Action]:
        """Plan it; the time of day counts from when its turn comes."""
        if bool(args.duration) == bool(args.until):
            raise Invalid("a pause has either `duration` or `until`", hint='such as `duration: 5m` or `until: "22:30"`')
        words = f"for {show_duration(args.duration)}"
        if args.until:
            _moment(args.until, sight.clock.now())
            words = f"until {args.until}{' UTC' if _CLOCK.fullmatch(args.until) else ''}"
        yield self.action("this run", f"wait {words}", args.model_dump())

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Wait until the moment that the first attempt wrote down."""
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
            site.clock.sleep(min(left, _LOOK))
        return done(f"waited until {end:%Y-%m-%d %H:%M:%S} UTC")


def _moment(text: str, now: datetime) -> datetime:
    """Return when a pause ends; Invalid: it is no time, or has no zone."""
    if found := _CLOCK.fullmatch(text):
        moment = now.astimezone(UTC).replace(hour=int(found[1]), minute=int(found[2]), second=0, microsecond=0)
        return moment if moment > now else moment + timedelta(days=1)
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    hint = 'such as "22:30" (UTC) or 2027-06-30T22:30:00Z, with its zone'
    raise Invalid(f"until: {text!r} is no time that is the same everywhere", hint=hint)
