"""`maint playbook lint`: all mistakes of all playbooks at once, each with its place."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.options import Flags, argument
from maint.cli.screen import Screen
from maint.config.schema import SiteSettings
from maint.config.yaml import read_text
from maint.engine.load import Library, examine, in_order, library, unknown_names
from maint.engine.read_step import is_file
from maint.errors import Invalid
from maint.files import read_file
from maint.model.formatting import show_count
from maint.model.json import Json

_KEY = re.compile(rb"^([a-z_]+):", re.MULTILINE)
_OTHERS = {b"sites": "a config", b"playbook": "a test of a playbook"}


@command()
def lint(
    flags: Flags,
    names: Annotated[list[str] | None, argument("Names, files or folders; else all that are shipped.")] = None,
) -> None:
    """Check playbooks without touching a site; where there is a config, the hosts and names in them too."""
    screen, shipped = flags.screen(), library()
    settings = _settings(flags)
    checked = [one for name in names or sorted(shipped.texts) for one in _spread(name, shipped, screen)]
    found: dict[str, Invalid] = {}
    for name in checked:
        mistakes = _mistakes(name, shipped, settings)
        found |= {mistake.message: mistake for mistake in mistakes}
        if not mistakes:
            screen.say(f"{name}: no mistakes")
    if settings is None:
        screen.say("without a config, or with several sites and none chosen, hosts and names are not checked")
    _show(screen, checked, list(found.values()))


def _spread(name: str, shipped: Library, screen: Screen) -> Sequence[str]:
    """Return the playbooks of a folder, Invalid where it has none; a name or a file stands for itself."""
    folder = Path(name)
    if name in shipped.texts or not folder.is_dir():
        return [name]
    found = []
    for path in sorted(folder.glob("*.y*ml")):
        if other := _other(path):
            screen.say(f"{path}: {other}, passed over")
        else:
            found.append(str(path))
    if not found:
        raise Invalid(f"there is no playbook in {name}", hint="name a folder with .yaml files, or a file")
    return found


def _other(path: Path) -> str:
    """Return what a file is that lies beside playbooks and is none by its keys: a config or a test; else nothing."""
    try:
        keys = set(_KEY.findall(read_file(path)))
    except OSError:  # told as a mistake
        return ""
    return "" if b"steps" in keys else next((words for key, words in _OTHERS.items() if key in keys), "")


def _settings(flags: Flags) -> SiteSettings | None:
    """Return the site whose names are known, None where none is configured or it is not said which."""
    settings = settings_of(flags)
    chosen = flags.site or (settings.path and (settings.chosen or len(settings.names) == 1))
    return settings.site() if chosen else None


def _mistakes(name: str, shipped: Library, settings: SiteSettings | None) -> Sequence[Invalid]:
    if is_file(name):
        try:
            text = read_text(Path(name))
        except Invalid as error:
            return [error]
    elif name in shipped.texts:
        text = shipped.texts[name]
    else:
        shipped.load(name)  # which says what was meant
        return ()
    file = name if is_file(name) else f"{name}.yaml"
    playbook, mistakes = examine(text, file, shipped)
    if playbook is None or settings is None:
        return mistakes
    return in_order([*mistakes, *unknown_names(playbook, settings)], file)


def _show(screen: Screen, checked: Sequence[str], mistakes: Sequence[Invalid]) -> None:
    """Show what is wrong, as data on stdout and as a failure with every place."""
    listed: list[Json] = [_json(mistake) for mistake in mistakes]
    screen.emit({"checked": list(checked), "mistakes": listed}, "")
    if len(mistakes) == 1:
        raise mistakes[0]
    if mistakes:
        files = {mistake.at.file for mistake in mistakes if mistake.at}
        lines = [f"{one.message}{f' ({one.hint})' if one.hint else ''}" for one in mistakes]
        raise Invalid(
            f"{len(mistakes)} mistakes in {show_count(len(files), 'playbook')}",
            detail=lines,
            hint="correct each at its place, then lint again",
        )


def _json(mistake: Invalid) -> Mapping[str, Json]:
    at = mistake.at
    return {
        "file": at.file if at else None,
        "line": at.line if at else None,
        "column": at.column if at else None,
        "message": mistake.message.removeprefix(f"{at}: "),
        "hint": mistake.way_on,
    }
