"""Stop a run where something does not hold that its author counts on."""

from collections.abc import Iterable

from pydantic import Field

from maint.errors import WorkFailed
from maint.model.plan import Action, Effect
from maint.ports import Sight, Site, Work
from maint.steps.step import Arguments, Progress, Step, done


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
