"""What completion keeps: the tree of commands and the names in a config, so that neither is worked out at each Tab."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import maint
from maint.config.paths import SITES_FOLDER, home
from maint.errors import Invalid

Kept: TypeAlias = Any  # plain JSON, of the shape that its maker gave it
_TREE, _CONFIG, _PARAMETERS = "commands", "sites", "parameters"
_FORMER = "completion-config.json"  # what older versions kept: it may hold secrets
# What the environment may change of what is kept; of no other variable does the value belong on disk.
_VARIABLES = ("MAINT_STATE", "MAINT_SITE", "MAINT_BACKUP_STORE")


def declared() -> Mapping[str, Mapping[str, Kept]]:
    """Return every group and command: `below` (word → what it is), `options` and `arguments` with their kinds."""

    def make() -> Kept:
        from maint.cli.completion.declared import tree

        return tree()

    top = Path(maint.__file__).parent
    changed = [path.stat().st_mtime_ns for path in (top, top / "help", *(top / "cli").rglob("*.py"))]
    return dict(_kept(_TREE, [maint.__version__, str(top), max(changed)], make))


def configured(path: Path) -> Mapping[str, Kept]:
    """Return the sites of a config: name → `state`, `store`, `hosts`, `groups`, `virtual_clusters`, `users`."""

    def make() -> Kept:
        from maint.cli.completion.declared import sites

        return sites(path)

    more = sorted((path.parent / SITES_FOLDER).glob("*.yaml"))
    seen = [(str(one), (found := one.stat()).st_mtime_ns, found.st_size) for one in (path, *more)]
    variables = [os.environ.get(name, "") for name in _VARIABLES]
    with suppress(OSError):
        (_folder() / _FORMER).unlink(missing_ok=True)
    return dict(_kept(_CONFIG, [maint.__version__, *map(list, seen), variables], make))


def parameters(playbook: str) -> Kept:
    """Return the parameters of a playbook, by name or by its file: lists of name, type and help."""
    path = Path(playbook)
    if not path.is_file():
        return declared()["playbook run"]["parameters"].get(playbook, [])

    def make() -> Kept:
        from maint.cli.completion import declared
        from maint.engine.load import library

        return declared.parameters(library().find(playbook))

    seen = path.stat()
    return _kept(_PARAMETERS, [maint.__version__, str(path.resolve()), seen.st_mtime_ns, seen.st_size], make)


def _kept(name: str, key: Kept, make: Callable[[], Kept]) -> Kept:
    """Return what is kept under a name as long as its key is the same; made anew otherwise."""
    path = _folder() / f"completion-{name}.json"
    try:
        found = json.loads(path.read_bytes())
        if found["key"] == key:
            return found["value"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    value = make()
    from maint.files import replace

    with suppress(OSError):  # a read-only home: slower, and nothing else
        replace(path, json.dumps({"key": key, "value": value}).encode())
    return value


def _folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(given) if given.startswith("/") else home() / ".cache") / "maint"
    except Invalid:
        return Path(os.devnull) / "maint"  # where nothing can be kept
