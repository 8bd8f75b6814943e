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


class Broken(Say):
    """Go wrong, as the name says that is greeted."""

    kind = "greeting.broken"
    effect = Effect.CHANGE
    locks = True

    def plan(self, args: SayArguments, sight: Sight) -> Iterable[Action]:
        """Plan it."""
        if args.name == "plan fails":
            raise KeyError("hunter2")
        if args.name == "plans nothing":
            return None
        if args.name == "plans a text":
            return ["greet"]
        return [self.action(args.name, "greet", {"name": {1, 2} if args.name == "plans no JSON" else args.name})]

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Go wrong."""
        return done() if action.target == "yields nothing" else self._go_wrong(action.target)

    def _go_wrong(self, how: str) -> Progress:
        yield 5 if how == "yields a number" else "greeting"
        if how == "fails":
            raise ValueError("hunter2")
        if how == "leaves":
            raise SystemExit(0)
        return done("x", object()) if how == "returns no JSON" else None


NotAStep = "a text"
