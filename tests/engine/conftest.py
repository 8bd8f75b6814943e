"""A site without a manager, and small step kinds that write down what they did."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field

from maint.cli.boundary import listening
from maint.cli.composition import ConfiguredSite
from maint.config.schema import ManagerSettings, SiteSettings
from maint.config.secrets import ReferencedSecrets
from maint.engine.load import Library, load
from maint.engine.plan import make_plan
from maint.engine.session import RunSession
from maint.errors import CannotReach, Invalid, MaintError, Refused, UsageError, WorkFailed
from maint.model.plan import Action, Effect, Event, Happening, Plan
from maint.ports import Sight, Site, Work
from maint.steps.registry import STEPS
from maint.steps.step import Arguments, Progress, Step, done, unchanged


class TryArguments(Arguments):
    """What the test steps are told."""

    target: str = "thing"
    text: str = ""
    count: int = 0
    fail: str = ""
    file: str = ""
    fact: str = ""
    more: dict[str, str] = Field(default_factory=dict)


class Reading(Step[TryArguments]):
    """Reads; fails as often as `count` says."""

    kind: ClassVar[str] = "try.read"
    effect = Effect.READ
    late = frozenset({"text"})

    def plan(self, args: TryArguments, sight: Sight) -> Iterable[Action]:
        """Plan one action."""
        facts = {"fact": Path(args.fact).read_text()} if args.fact else {}
        yield self.action(args.target, f"work on {args.target}", args.model_dump(), facts=facts, confirm=args.target)

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Write one line down, then do as told."""
        arguments = action.arguments
        yield f"working on {action.target}"
        with (site.state.parent / "did").open("a") as file:
            file.write(f"{action.target}{' ' + str(arguments['text']) if arguments['text'] else ''}\n")
        tries = (site.state.parent / "did").read_text().splitlines().count(action.target)
        fail = str(arguments["fail"])
        if fail and tries <= int(str(arguments["count"] or 1_000_000)):
            _failure(fail, site)
        if arguments["file"]:
            return unchanged("there already") if Path(str(arguments["file"])).exists() else _made(arguments["file"])
        return done("did it", {"word": f"value of {action.target}"})


def _made(path: Any) -> Any:
    Path(str(path)).touch()
    return done("made")


def _failure(kind: str, site: Site) -> None:
    if kind in ("SIGINT", "SIGTERM", "SIGKILL"):
        time.sleep(0.55)  # one that follows another at once counts for the same
        os.kill(os.getpid(), getattr(signal, kind))
        site.clock.sleep(5)
    elif kind == "sleep":
        site.clock.sleep(30)
    elif kind == "bug":
        raise ZeroDivisionError("a value nobody may see")
    else:
        failure = {"refused": Refused, "unreachable": CannotReach, "invalid": Invalid, "misused": UsageError}.get(
            kind, WorkFailed
        )
        raise failure(f"it failed: {kind}", hint="mend it")


class Changing(Reading):
    """Changes."""

    kind: ClassVar[str] = "try.change"
    effect = Effect.CHANGE


class Destroying(Reading):
    """Destroys."""

    kind: ClassVar[str] = "try.destroy"
    effect = Effect.DESTROY


TRIES = {step.kind: step for step in (Reading(), Changing(), Destroying())}


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the test steps to the registry."""
    for kind, step in TRIES.items():
        monkeypatch.setitem(STEPS, kind, step)


def site_in(folder: Path) -> ConfiguredSite:
    """Return a site whose manager is never asked."""
    manager = ManagerSettings(host="manager.invalid", password="env:NOTHING")
    settings = SiteSettings(name="prod", manager=manager, state=folder / "state")
    return ConfiguredSite(settings, ReferencedSecrets(folder, {}), lambda words: None)


@pytest.fixture
def site(tmp_path: Path) -> ConfiguredSite:
    """A site whose manager is never asked."""
    return site_in(tmp_path)


class Bench:
    """Plans and runs playbooks given as text."""

    def __init__(self, site: ConfiguredSite, library: dict[str, str] | None = None) -> None:
        self.site = site
        self.library = Library(library or {})
        self.events: list[Event] = []

    def plan(self, text: str, **given: Any) -> Plan:
        """Return the plan of a playbook."""
        return make_plan(load(text, "book.yaml", self.library), given, self.site, self.library)

    def run(self, text: str | Plan, options: dict[str, Any] | None = None, **more: Any) -> list[Event]:
        """Carry it out to the end, or to its failure."""
        plan = text if isinstance(text, Plan) else self.plan(text)
        self.events = []
        with listening():
            for event in RunSession(self.site, plan, options or {}, **more).events():
                if isinstance(event, Event):
                    self.events.append(event)
        return self.events

    def fails(self, text: str | Plan, **more: Any) -> MaintError:
        """Carry it out and return why it stopped."""
        with pytest.raises(MaintError) as caught:
            self.run(text, **more)
        return caught.value

    @property
    def did(self) -> list[str]:
        """What the steps did, in order."""
        path = self.site.state.parent / "did"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def outcomes(self) -> list[tuple[int, str]]:
        """How the actions of the last life ended."""
        return [(e.index, str(e.outcome)) for e in self.events if e.what is Happening.FINISHED]


@pytest.fixture
def bench(site: ConfiguredSite) -> Bench:
    """Plans and runs playbooks given as text."""
    return Bench(site)


@pytest.fixture
def make_bench(site: ConfiguredSite) -> Iterator[Callable[..., Bench]]:
    """Return benches with playbooks to include, given by name."""
    yield lambda **library: Bench(site, {name.replace("_", "-"): text for name, text in library.items()})
