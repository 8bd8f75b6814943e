"""The main job from end to end in the lab: back up, lose everything, bring it back, prove it.

The demo plays the operator and also the vendor's UI, where virtual clusters are made.
"""

import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from maint.cli.command import command
from maint.cli.configless import settings_of, state_home
from maint.cli.lab.commands import Deployment
from maint.cli.lab.options import deployment_file
from maint.cli.options import Flags
from maint.cli.run_playbook import carry_out, resume
from maint.cli.screen import Screen
from maint.errors import MaintError, Unfinished
from maint.lab import control
from maint.lab.manager.load import Options

_LOOK_CLOSER = "the demo removed its lab: `maint lab up` keeps one, in which the same commands can be tried one by one"


@command()
def demo(flags: Flags, deployment: Deployment = "") -> int:
    """Back a manager up, lose it, bring an empty one back, prove it: the main job, in a minute, on your machine."""
    export = deployment_file(deployment)
    if flags.dry_run:
        words = "would show the main job in a lab of its own, and clear the lab away; its report stays"
        flags.screen().emit({}, words)
        return 0
    screen = flags.screen()
    folder = Path(tempfile.mkdtemp(prefix="maint-demo-"))
    state = state_home() / "demo" / folder.name
    try:
        return _story(replace(flags, config=None, site=None, output=None, state=str(state)), screen, folder, export)
    except MaintError as error:
        error.hint = _LOOK_CLOSER  # what it says may name the demo's own lab, which is gone
        raise
    finally:
        control.down(folder)
        shutil.rmtree(folder, ignore_errors=True)
        _keep_reports(state)


def _story(flags: Flags, screen: Screen, folder: Path, deployment: Path | None) -> int:
    chapter = _chapters(screen)
    chapter("A manager is loaded, with a password that is not the factory one")
    password = f"demo-{secrets.token_urlsafe(9)}"
    quick = {"vc-env-seconds": "0", "vc-dag-seconds": "0"}  # of minutes that a demo need not last
    found = control.up(folder, Options(deployment=deployment, new_password=password, switches=quick))
    for remark in found.get("remarks", ()):
        screen.say(f"  {remark}")
    names = [str(each["name"]) for each in found.get("virtual_clusters", ())]
    on_lab = replace(flags, config=str(found["config"]), yes=True)
    site = settings_of(on_lab).site()
    chapter("A backup is taken through the redaction window" + (f", and of {', '.join(names)}" if names else ""))
    carry_out(on_lab, "export-unredacted", {})
    gone = "; all virtual clusters are lost with what they held" if names else ""
    chapter(f"The server's database is lost; an empty manager takes its place{gone}")
    control.lose_database(folder)
    if names:
        control.lose_virtual_clusters(folder)
    carry_out(replace(on_lab, allow_plain=True), "probe", {})  # a fresh server has no TLS yet
    chapter("Disaster recovery: from the empty manager to the old configuration, with one command")
    try:
        carry_out(replace(on_lab, confirm=site.name), "disaster-recovery", {})
    except Unfinished as stop:
        screen.error(stop)
        _go_on(on_lab, chapter, folder, names)
    too = "; so are its virtual clusters" if names else ""
    chapter(f"The manager is back, and was compared with the snapshot{too}")
    reports = {kind: str(max(site.state.glob(f"reports/*.{kind}"))) for kind in ("md", "html")}
    screen.emit({"report": dict(reports)}, "\n".join(f"report: {path}" for path in reports.values()))
    return 0


def _go_on(flags: Flags, chapter: Callable[[str], None], folder: Path, names: list[str]) -> None:
    """Make what only the vendor's UI can make, and take the run up where it waits for that."""
    chapter(f"In the vendor's UI, {', '.join(names)} is made anew: empty, not initialised, at another address")
    made = {name: str(control.create_vc(folder, name)["base_url"]) for name in names}
    told = {f"vc.{name}.base_url": url for name, url in made.items()}
    chapter(f"maint playbook resume {' '.join(f'--set {key}={value}' for key, value in told.items())}")
    resume(flags, None, told)


def _keep_reports(state: Path) -> None:
    """Clear away the demo's state, all but its reports."""
    for place in state.glob("*/*"):
        if place.is_dir() and place.name != "reports":
            shutil.rmtree(place, ignore_errors=True)
        elif place.is_file():
            place.unlink()


def _chapters(screen: Screen) -> Callable[[str], None]:
    count = 0

    def chapter(words: str) -> None:
        nonlocal count
        count += 1
        screen.say(f"\n{count}. {words}")

    return chapter
