"""`maint playbook test`: run playbooks in a lab; compare their plans, calls and ends with what test files expect."""

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.lab.options import deployment_file
from maint.cli.open_site import limit_of
from maint.cli.options import Flags, argument
from maint.cli.run_playbook import kinds_of
from maint.cli.screen import Screen
from maint.config.notices import Exec, NoticeSettings
from maint.config.precedence import ConfigFlags, load_settings
from maint.config.secrets import ReferencedSecrets
from maint.engine.expectations import (
    Expectation,
    PartDifference,
    RunEnd,
    StateForm,
    WorldForm,
    differences,
    plan_lines,
    read,
)
from maint.engine.load import library, names_given
from maint.engine.plan import make_plan
from maint.engine.read_step import is_file
from maint.engine.session import RunSession
from maint.errors import Failure, Interrupted, Invalid, MaintError, PartlyDone, WorkFailed
from maint.lab.faults import UnknownFault
from maint.lab.http.server import read_requests
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.lab.switches import UnknownSwitch, parse
from maint.model.formatting import KeyPath, show_count, whole_number
from maint.model.json import Json
from maint.model.plan import Event, Happening, Outcome, Plan, Playbook
from maint.report.checks import Case, junit
from maint.steps.flow import Notify

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
        shutil.copytree(self._template(wanted, len(world.after)), folder, symlinks=True)
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

    def _template(self, wanted: Expectation, done: int) -> Path:
        """Return the folder of a lab, now down, from which labs of a world are copied, after so much of its `after`."""
        world = wanted.form.world
        deployment = str(wanted.path.absolute().parent / world.deployment) if world.deployment else ""
        after = world.after[:done]
        beside = [str(wanted.path.absolute().parent / one.playbook) for one in after if is_file(one.playbook)]
        key = repr((deployment, beside, world.model_copy(update={"faults": [], "lost": False, "after": after})))
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
            if after:
                place: KeyPath = ("world", "after", done - 1, "playbook")
                last, given = playbook_of(wanted, after[-1].playbook, place), after[-1].set_
                shutil.copytree(self._template(wanted, done - 1), folder, symlinks=True)
            with Lab(folder, options) as lab:  # which counts where there is no folder yet
                if after:
                    _performed(lab, last, given)
                elif world.backed_up:
                    _performed(lab, library().load("export-unredacted"), {})
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
    except Failure as error:
        if error.exit_code == Invalid.exit_code and getattr(error, "at", None):
            raise
        raise Invalid(error.message, at=wanted.document.where(place), hint=error.hint) from None


@contextmanager
def site_of(lab: Lab, world: WorldForm | None = None, told: Sequence[str] = ()) -> Iterator[ConfiguredSite]:
    """Yield the site of a lab; no variable and no file of the operator's own has a say in where it is.

    Args:
        told: names of notices that it has, which reach nobody.
    """
    settings = load_settings(ConfigFlags(config=str(lab.folder / "config.yaml")), {})
    nobody = Exec(command=("true",))
    found = settings.site().model_copy(update={"notify": tuple(NoticeSettings(name=one, exec=nobody) for one in told)})
    if world is not None and (world.fresh or world.lost):  # it has no TLS yet
        found = found.model_copy(update={"manager": found.manager.in_clear()})
    site = ConfiguredSite(found, ReferencedSecrets(settings.folder, os.environ), _unheard)
    try:
        yield site
    finally:
        site.close()


def told_by(playbook: Playbook, given: Mapping[str, Json]) -> Sequence[str]:
    """Return whom a playbook tells, by name: `everybody` where it names nobody."""
    values: dict[str, Json] = {one.name: one.default for one in playbook.parameters if one.default is not None}
    names = list[str]()
    for step in playbook.steps:
        if step.include is not None:
            names += told_by(library().load(step.include), {})
        elif step.do == Notify.kind:
            names += names_given(step, "to", {**values, **given}) or ["everybody"]
    return list(dict.fromkeys(names))


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


OUTPUTS = ("junit",)
_STATES = {
    "done": (Outcome.DONE, Outcome.UNCHANGED),
    "failed": (Outcome.FAILED, Outcome.WAITING),
    "skipped": (Outcome.SKIPPED,),
}


class Tried(msgspec.Struct, frozen=True):
    """What came of one test."""

    name: str
    seconds: float
    differences: Sequence[PartDifference]


@command(outputs=OUTPUTS)
def test(
    flags: Flags, files: Annotated[list[str], argument("Tests: files, or folders of them; see `maint help playbooks`.")]
) -> int:
    """Try playbooks in a lab of their own, and show what is otherwise than the tests say; no site is touched."""
    screen = flags.screen()
    wanted = [read(path) for name in files for path in _spread(name)]
    if flags.dry_run:
        tests: list[Json] = [{"file": str(one.path)} for one in wanted]
        screen.emit({"tests": tests}, f"would try {show_count(len(wanted), 'test')} in a lab")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="maint-test-"))
    tried = []
    try:
        worlds = Worlds(folder)
        for one in wanted:
            tried.append(try_out(one, worlds, limit_of(flags)))
            screen.say(_told(tried[-1]))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _end(screen, tried)


def _spread(name: str) -> Sequence[Path]:
    path = Path(name)
    found = sorted(path.glob("*.y*ml")) if path.is_dir() else [path]
    if not found:
        raise Invalid(f"there is no test in {name}", hint="a test is a .yaml file; see `maint help playbooks`")
    return found


def try_out(wanted: Expectation, worlds: Worlds, limit: float | None = None) -> Tried:
    """Try one test, its steps for at most `limit` seconds; Invalid: its playbook or world has a mistake."""
    begun = time.monotonic()
    playbook = playbook_of(wanted, wanted.form.playbook, ("playbook",))
    form = wanted.form
    with worlds.lab(wanted) as lab, site_of(lab, form.world, told_by(playbook, form.set_)) as site:
        site.person = Answering(form.answer) if form.answer else None
        before = len(read_requests(lab.log.path))
        done = perform(site, playbook, form.set_, limit=limit)
        log = read_requests(lab.log.path)[before:]
        calls = [f"{line['method']} {line['path'].partition('?')[0]}" for line in log]
        ended = _ended(done, calls, [_found(lab, site, fact) for fact in form.end.state])
    return Tried(str(wanted.path), time.monotonic() - begun, differences(form, ended))


def _ended(done: Performed, calls: Sequence[str], state: Sequence[Json]) -> RunEnd:
    actions = done.plan.actions if done.plan else ()
    steps = {
        word: list(
            dict.fromkeys(actions[index].name for index, one in sorted(done.outcomes.items()) if one in outcomes)
        )
        for word, outcomes in _STATES.items()
    }
    failure = done.failure
    lines = plan_lines(done.plan) if done.plan else ()
    return RunEnd(lines, calls, failure.exit_code if failure else 0, failure.message if failure else "", steps, state)


def _found(lab: Lab, site: ConfiguredSite, fact: StateForm) -> Json:
    """Return what stands where a fact is expected, None where nothing does."""
    if fact.get is None:
        path = lab.folder / "hosts" / fact.host / "root" / fact.file.lstrip("/")
        with suppress(OSError):
            return path.read_text("utf-8", "replace")
        return None
    try:
        value: Json = site.manager.get(fact.get)
    except Failure as error:
        return error.message
    for step in filter(None, fact.key.split(".")):
        at = whole_number(step)
        if isinstance(value, list) and at is not None and at < len(value):
            value = value[at]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _told(one: Tried) -> str:
    if not one.differences:
        return f"{one.name}: as it should be ({one.seconds:.1f} s)"
    lines = [f"{one.name}: otherwise than expected (- expected, + happened)"]
    for part in one.differences:
        lines += [f"  {part.part}", *(f"    {line}" for line in part.lines)]
    return "\n".join(lines)


def _case(one: Tried) -> Case:
    words = _told(one) if one.differences else ""
    return Case(one.name, "failure" if words else "", words.partition("\n")[0], words, one.seconds)


def _end(screen: Screen, tried: Sequence[Tried]) -> int:
    bad = [one for one in tried if one.differences]
    if screen.output == "junit":
        screen.raw(junit("maint playbook test", {"maint playbook test": [_case(one) for one in tried]}))
        return 1 if bad else 0
    data: list[Json] = [
        {
            "file": one.name,
            "ok": not one.differences,
            "differences": [{"part": part.part, "lines": list(part.lines)} for part in one.differences],
        }
        for one in tried
    ]
    screen.emit({"tests": data}, "")
    if bad:
        words = f"{len(bad)} of {show_count(len(tried), 'test')} ended otherwise than expected"
        raise WorkFailed(words, hint="the lines above say where; `maint lab up` keeps a lab in which to look closer")
    return 0
