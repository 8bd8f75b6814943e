"""A step kind of somebody's own, as a package outside of maint would write it."""

from collections.abc import Iterable

from pydantic import Field

from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.step import Arguments, Progress, Step, done


class SayArguments(Arguments):
    """Whom to greet."""

    name: str = Field(description="who is greeted")


class Say(Step[SayArguments]):
    """Greet somebody."""

    kind = "greeting.say"
    effect = Effect.READ
    locks = False

    def plan(self, args: SayArguments, sight: Sight) -> Iterable[Action]:
        """Plan it."""
        yield self.action(args.name, f"greet {args.name} of {sight.settings.name}", args.model_dump())

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Greet."""
        yield f"greeting {action.target}"
        return done(f"hello {action.target}")


NotAStep = "a text"
