"""The main job from end to end in the lab: back up, lose everything, bring it back, prove it."""

import secrets
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from maint.cli.carry import carry_out
from maint.cli.flags import Flags
from maint.cli.open import settings_of
from maint.cli.places import state_home
from maint.cli.screen import Screen
from maint.lab import control
from maint.lab.loading import Options


def run(flags: Flags, deployment: Path | None) -> int:
    """Show the main job on a deployment, and clean up whatever happens.

    Args:
        flags: the common flags.
        deployment: the export to load; None for the example.

    Returns:
        The exit code.
    """
    screen = flags.screen()
    folder = Path(tempfile.mkdtemp(prefix="maint-demo-"))
    try:
        return _story(replace(flags, config=None, site=None, output=None), screen, folder, deployment)
    finally:
        control.down(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _story(flags: Flags, screen: Screen, folder: Path, deployment: Path | None) -> int:
    chapter = _chapters(screen)
    chapter("A manager is loaded, with a password that is not the factory one")
    password = None if deployment else f"demo-{secrets.token_urlsafe(9)}"
    found = control.up(folder, Options(deployment=deployment, new_password=password))
    for remark in found.get("remarks", ()):
        screen.say(f"  {remark}")
    on_lab = replace(flags, config=str(found["config"]), yes=True)
    name = settings_of(on_lab).site().name
    chapter("A backup is taken through the redaction window")
    carry_out(on_lab, "export-unredacted", {})
    chapter("The server's database is lost; an empty manager takes its place")
    control.lose_database(folder)
    carry_out(on_lab, "probe", {})
    chapter("Disaster recovery: from the empty manager to the old configuration, with one command")
    carry_out(replace(on_lab, confirm=name), "disaster-recovery", {})
    kept = _kept(settings_of(on_lab).site().state)
    chapter("The manager is back, and was compared with the snapshot")
    data = {"report": {kind: str(path) for kind, path in kept.items()}}
    screen.emit(data, "\n".join(f"report: {path}" for path in kept.values()))
    return 0


def _chapters(screen: Screen) -> Callable[[str], None]:
    count = 0

    def chapter(words: str) -> None:
        nonlocal count
        count += 1
        screen.say(f"\n{count}. {words}")

    return chapter


def _kept(state: Path) -> dict[str, Path]:
    """Copy the newest report out of the lab, which is about to go."""
    target = state_home() / "demo"
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = {}
    for kind in ("md", "html"):
        newest = max((state / "reports").glob(f"*.{kind}"))
        kept[kind] = target / newest.name
        shutil.copyfile(newest, kept[kind])
        kept[kind].chmod(0o600)
    return kept
