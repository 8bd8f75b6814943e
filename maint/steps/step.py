"""What a step kind is: a plan made by looking, and an effect that looks again before it acts."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import ClassVar, Generic, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ConfigDict

from maint.deployment.secrets_in_text import without_secrets
from maint.model.json import Json
from maint.model.plan import Action, Effect, Outcome, Result
from maint.ports import Sight, Site, Work

WAIVER = "no_safety_net"  # the argument of guarded steps that says why their backup guards are lifted


class Arguments(BaseModel):
    """What a step kind accepts under `with:`; unknown names are refused.

    Attributes:
        in_config: those of its keys that name what the config has → what that is, a key of `engine.load.known_names`.
    """

    in_config: ClassVar[Mapping[str, str]] = {}
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def in_a_template(text: str) -> bool:
    """Whether an argument is still to be filled in, so that nothing can be said of what it holds."""
    return "{{" in text or "{%" in text


class NoArguments(Arguments):
    """Nothing to say."""


A = TypeVar("A", bound=Arguments)

Progress: TypeAlias = Generator[str, None, Result]


class Step(Generic[A]):
    """A step kind; the docstring of its class is its help."""

    kind: ClassVar[str]  # its name in playbooks, such as `cluster.stop`
    help: ClassVar[str]  # what it does, for people: its class's docstring
    effect: ClassVar[Effect]  # the worst that it may plan
    locks: ClassVar[bool] = True  # whether carrying it out takes the site's lock
    stores: ClassVar[bool] = False  # whether it writes to the store although it only reads the site
    asks: ClassVar[bool] = False  # whether it waits for a person
    blind: ClassVar[bool] = False  # whether it cannot see what it did, so that it is done once in all attempts of a run
    tidies: ClassVar[bool] = False  # whether it only removes what a later run removes as well, if this one has no time
    # whether it brings back what the snapshot of its argument `snapshot` holds: that must stay until the run has ended
    restores: ClassVar[bool] = False
    # names of the arguments that registered values may fill; all others choose targets or effects
    late: ClassVar[frozenset[str]] = frozenset()
    # names of the arguments that are expressions, as in `when`; `apply` is given what they come to
    expressions: ClassVar[frozenset[str]] = frozenset()
    # names of the arguments that name local files which it reads, and those which it writes
    reads: ClassVar[frozenset[str]] = frozenset()
    writes: ClassVar[frozenset[str]] = frozenset()
    arguments: type[A]  # the model of what stands under `with:`: the one that its class names in brackets

    def __init_subclass__(cls) -> None:
        """Take a kind's help from its docstring, and its model of arguments from the class that it extends."""
        cls.help = " ".join((cls.__doc__ or "").split())
        for base in getattr(cls, "__orig_bases__", ()):
            if isinstance(model := get_args(base)[0], type):
                cls.arguments = model

    def plan(self, args: A, sight: Sight) -> Iterable[Action]:
        """Return what would be done, by looking only."""
        raise TypeError(f"{self.kind} has no plan")

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Do it, yielding words on the way; looks first, so that doing it again after a crash is safe."""
        raise TypeError(f"{self.kind} has no effect")

    def worst(self, given: Mapping[str, object]) -> Effect:
        """Return the worst effect that it may plan with what stands under `with:`, templates not filled in."""
        return self.effect

    def waits_for_restores(self, action: Action) -> bool:
        """Whether this is refused while a run that restores is unfinished."""
        return False

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        """Whether what an earlier attempt did is still so; asked on resume of every finished action."""
        return True

    def action(
        self,
        target: str,
        summary: str,
        arguments: Mapping[str, Json] | None = None,
        *,
        effect: Effect | None = None,
        undo: str | None = None,
        facts: Mapping[str, Json] | None = None,
        confirm: str | None = None,
        shown: Sequence[str] = (),
        seen: str = "",
        idle: bool = False,
    ) -> Action:
        """Return an action of this kind; the engine adds what the playbook says about it."""
        return Action(
            name="",
            kind=self.kind,
            target=target,
            effect=self.effect if effect is None else effect,
            summary=without_secrets(summary),
            arguments=arguments or {},
            undo=undo,
            facts=facts or {},
            confirm=confirm,
            shown=shown,
            seen=seen,
            idle=idle,
        )


def done(detail: str = "", value: Json = None, *, partly: bool = False, hint: str = "") -> Result:
    """Return the result of an action that changed something, or read what it was to read."""
    return Result(Outcome.DONE, detail, value, partly, hint)


def unchanged(detail: str, value: Json = None) -> Result:
    """Return the result of an action that found everything as it should be."""
    return Result(Outcome.UNCHANGED, detail, value)


def skipped(detail: str) -> Result:
    """Return the result of an action that does not apply here."""
    return Result(Outcome.SKIPPED, detail)
