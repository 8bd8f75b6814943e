"""`maint playbook test`: playbooks tried in a lab, held against what files say of plan, calls and end."""

import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import limit_of
from maint.cli.options import Flags, argument
from maint.cli.playbooks.worlds import Answering, Performed, Worlds, perform, playbook_of, site_of
from maint.cli.screen import Screen
from maint.engine.expectations import Difference, Ended, Expectation, StateForm, differences, plan_lines, read
from maint.errors import Invalid, MaintError, Stopped, WorkFailed
from maint.lab.http.server import read_requests
from maint.lab.running import Lab
from maint.model.events import Outcome
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.report.junit import Case, junit

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
    differences: Sequence[Difference]


@command(outputs=OUTPUTS)
def test(
    flags: Flags, files: Annotated[list[str], argument("Tests: files, or folders of them; see `maint help playbooks`.")]
) -> int:
    """Try playbooks in a lab of their own, and show what is otherwise than the tests say; no site is touched."""
    screen = flags.screen()
    wanted = [read(path) for name in files for path in _spread(name)]
    if flags.dry_run:
        screen.say(f"would try {show_count(len(wanted), 'test')} in a lab")
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
    with worlds.lab(wanted) as lab, site_of(lab, form.world) as site:
        site.person = Answering(form.answer) if form.answer else None
        before = len(read_requests(lab.log.path))
        done = perform(site, playbook, form.set_, limit=limit)
        log = read_requests(lab.log.path)[before:]
        calls = [f"{line['method']} {line['path'].partition('?')[0]}" for line in log]
        ended = _ended(done, calls, [_found(lab, site, fact) for fact in form.end.state])
    return Tried(str(wanted.path), time.monotonic() - begun, differences(form, ended))


def _ended(done: Performed, calls: Sequence[str], state: Sequence[Json]) -> Ended:
    actions = done.plan.actions if done.plan else ()
    steps = {
        word: list(
            dict.fromkeys(actions[index].name for index, one in sorted(done.outcomes.items()) if one in outcomes)
        )
        for word, outcomes in _STATES.items()
    }
    failure = done.failure
    lines = plan_lines(done.plan) if done.plan else ()
    return Ended(lines, calls, failure.exit_code if failure else 0, failure.message if failure else "", steps, state)


def _found(lab: Lab, site: ConfiguredSite, fact: StateForm) -> Json:
    """Return what stands where a fact is expected, None where nothing does."""
    if fact.get is None:
        path = lab.folder / "hosts" / fact.host / "root" / fact.file.lstrip("/")
        with suppress(OSError):
            return path.read_text("utf-8", "replace")
        return None
    try:
        value: Json = site.manager.get(fact.get)
    except Stopped:
        raise
    except MaintError as error:
        return error.message
    for step in filter(None, fact.key.split(".")):
        if isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
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


def _end(screen: Screen, tried: Sequence[Tried]) -> int:
    bad = [one for one in tried if one.differences]
    if screen.output == "junit":
        cases = [Case(one.name, one.seconds, _told(one) if one.differences else "") for one in tried]
        screen.raw(junit("maint playbook test", cases))
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
