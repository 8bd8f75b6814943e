"""Labs in which playbooks are tried: each world is laid out once, and copied for each test; nothing else is touched."""

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from maint.cli.composition import ConfiguredSite
from maint.cli.lab.switches import deployment_file
from maint.cli.run_playbook import kinds_of
from maint.config.precedence import Flags as ConfigFlags
from maint.config.precedence import load_settings
from maint.config.secrets import ReferencedSecrets
from maint.config.suggestions import KeyPath
from maint.engine.expectations import Expectation, WorldForm
from maint.engine.load import library
from maint.engine.plan import make_plan
from maint.engine.read_step import is_file
from maint.engine.session import RunSession
from maint.errors import Interrupted, Invalid, MaintError, PartlyDone, Stopped
from maint.lab.faults import UnknownFault
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.lab.switches import UnknownSwitch, parse
from maint.model.events import Event, Happening, Outcome
from maint.model.json import Json
from maint.model.plan import Plan, Playbook

# Waits of real servers that a test need not last.
_FAST = {"down-seconds": 0, "starting-seconds": 0, "command-seconds": 0.05, "slow-seconds": 0.3, "vc-dag-seconds": 0}


class Performed(msgspec.Struct):
    """What became of a playbook that was planned and run."""

    plan: Plan | None = None
    outcomes: dict[int, Outcome] = {}  # by the action's place in the plan
    failure: MaintError | None = None


class Answering:
    """`ports.Person`: somebody who always gives the same answer."""

    name = "test@lab"

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def ask(self, question: str) -> None:
        """Hear a question."""

    def reply(self, wait: float) -> str | None:  # noqa: ARG002  # of a real person
        """Answer it."""
        return self._answer


class Worlds:
    """Labs below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._laid_out: dict[str, Path] = {}
        self._count = 0

    @contextmanager
    def lab(self, wanted: Expectation) -> Iterator[Lab]:
        """Yield a lab as a test wants it, up; Invalid where there is no such switch, fault or export."""
        world = wanted.form.world
        folder = self._place()
        shutil.copytree(self._template(wanted), folder, symlinks=True)
        with Lab(folder) as lab:
            if world.lost:
                lab.lose_database()
            for number, one in enumerate(world.faults):
                try:
                    lab.break_(one.target, one.fault)
                except UnknownFault as error:
                    at = wanted.document.where(("world", "faults", number))
                    raise Invalid(str(error), at=at, hint="`maint lab break --list` shows them") from None
            yield lab

    def _place(self) -> Path:
        self._count += 1
        return self._folder / f"lab{self._count}"

    def _template(self, wanted: Expectation) -> Path:
        """Return the folder of a lab, now down, from which labs of a world are copied."""
        world = wanted.form.world
        deployment = str(wanted.path.absolute().parent / world.deployment) if world.deployment else ""
        beside = [str(wanted.path.absolute().parent / one.playbook) for one in world.after if is_file(one.playbook)]
        key = repr((deployment, beside, world.model_copy(update={"faults": [], "lost": False})))
        if key not in self._laid_out:
            folder = self._place()
            password = None if world.fresh else f"test-{secrets.token_urlsafe(9)}"
            options = Options(
                deployment=deployment_file(deployment),
                fresh=world.fresh,
                new_password=password,
                switches=_switches(wanted),
                virtual_clusters=tuple(world.virtual_clusters),
            )
            with Lab(folder, options) as lab:
                if world.backed_up:
                    _performed(lab, library().load("export-unredacted"), {})
                for number, one in enumerate(world.after):
                    before = playbook_of(wanted, one.playbook, ("world", "after", number, "playbook"))
                    _performed(lab, before, one.set_)
            self._laid_out[key] = folder
        return self._laid_out[key]


def _switches(wanted: Expectation) -> dict[str, str]:
    try:
        return parse(f"{name}={value}" for name, value in {**_FAST, **wanted.form.world.switches}.items())
    except UnknownSwitch as error:
        at = wanted.document.where(("world", "switches"))
        raise Invalid(str(error), at=at, hint="`maint help lab` lists the switches") from None


def _performed(lab: Lab, playbook: Playbook, given: Mapping[str, Json]) -> None:
    with site_of(lab) as site:
        done = perform(site, playbook, given)
    if done.failure is not None and done.failure.exit_code != PartlyDone.exit_code:
        raise done.failure


def playbook_of(wanted: Expectation, name: str, place: KeyPath) -> Playbook:
    """Return a playbook that a test names, there by `place`; Invalid where there is none, or it has a mistake."""
    try:
        return library().find(name, wanted.path.parent)
    except Stopped:
        raise
    except MaintError as error:
        if error.exit_code == Invalid.exit_code and getattr(error, "at", None):
            raise
        raise Invalid(error.message, at=wanted.document.where(place), hint=error.hint) from None


@contextmanager
def site_of(lab: Lab, world: WorldForm | None = None) -> Iterator[ConfiguredSite]:
    """Yield the site of a lab; no variable and no file of the operator's own has a say in where it is."""
    settings = load_settings(ConfigFlags(config=str(lab.folder / "config.yaml")), {})
    found = settings.site()
    if world is not None and (world.fresh or world.lost):  # it has no TLS yet
        found = found.model_copy(update={"manager": found.manager.in_clear()})
    site = ConfiguredSite(found, ReferencedSecrets(settings.folder, os.environ), _unheard)
    try:
        yield site
    finally:
        site.close()


def _unheard(_: str) -> None:
    """Take no notice of a warning: nobody is there to read it."""


def perform(
    site: ConfiguredSite, playbook: Playbook, given: Mapping[str, Json], *, limit: float | None = None
) -> Performed:
    """Plan a playbook and run it without asking; what was foreseen to fail is returned, not raised."""
    done = Performed()
    site.works_on(kinds_of(playbook))
    try:
        with site.clock.limit(limit):
            done.plan = make_plan(playbook, given, site, library())
        options: dict[str, Json] = {"insecure": False, "no_safety_net": ""}
        for event in RunSession(site, done.plan, options, limit=limit, limit_of=limit).events():
            if isinstance(event, Event) and event.what is Happening.FINISHED and event.outcome is not None:
                done.outcomes[event.index] = event.outcome
    except Interrupted:
        raise
    except MaintError as failure:
        done.failure = failure
    return done
