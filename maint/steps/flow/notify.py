"""Tell those outside something in the middle of a run."""

from collections.abc import Iterable

from msgspec.structs import replace
from pydantic import Field

import maint
from maint.config.actor import actor
from maint.config.suggestions import meant
from maint.errors import Invalid
from maint.model.formatting import show_count
from maint.model.notice import Kind, Notice
from maint.model.plan import Action, Effect
from maint.model.secret import scrub
from maint.ports import Sight, Site, Work
from maint.steps.step import Arguments, Progress, Step, done, unchanged


class NotifyArguments(Arguments):
    """What is told, and to whom."""

    message: str = Field(description="what is told, in a sentence or two")
    to: list[str] = Field(default_factory=list, description="names under `notify` in the config; empty: all")


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
        """Tell, once in all attempts of a run."""
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
