"""What a shell offers at a Tab: commands, options, a site's names; read from files alone, cached between Tabs."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import maint
from maint.cli.completion import FILES, VARIABLE
from maint.config.paths import SITES_FOLDER, config_file, home, shipped_folder
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
    _keep(path, {"key": key, "value": value})
    return value


def _keep(path: Path, content: Kept) -> None:
    from maint.files import replace  # at most Tabs nothing is kept

    with suppress(OSError):  # a read-only home: slower, and nothing else
        replace(path, json.dumps(content).encode())


def _folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(given) if given.startswith("/") else home() / ".cache") / "maint"
    except Invalid:
        return Path(os.devnull) / "maint"  # where nothing can be kept


MEMO = "names.json"  # in a site's state folder: what listings showed last
_SNAPSHOT = re.compile(r"\d{8}T\d{6}\.")


def names_of(kind: Kept, options: Mapping[str, str], arguments: Sequence[str] = ()) -> Iterable[tuple[str, str]]:
    """Return the names of a kind, or the choices that stand in its place, each with what it is.

    Args:
        kind: as `declared` has it: a word, or pairs of a value and what it is.
        options: what was typed before: `--config` and `--site` say where to look.
        arguments: what was typed before that is not an option: the playbook whose parameters are meant.
    """
    if isinstance(kind, list):
        return [(value, words) for value, words in kind]
    if kind in ("files", ""):
        return [(FILES, "")] * bool(kind)
    if kind == "parameters":
        return list(_parameters(arguments[0])) if arguments else []
    sites = _sites(options)
    if kind == "sites":
        return _bare(sites)
    chosen = options.get("--site") or os.environ.get("MAINT_SITE") or (next(iter(sites)) if len(sites) == 1 else "")
    if kind.startswith("playbooks"):
        return [*_bare(_playbooks()), *([(FILES, "")] if kind.endswith("files") else [])]
    if chosen not in sites:
        return []
    return _bare(_of_site(kind, chosen, sites[chosen]))


def remember(state: Path, **shown: Iterable[str]) -> None:
    """Keep the `snapshots` or `clusters` that a listing has shown: completion asks no store and no manager."""
    kept = _memo(state)
    told = {kind: list(names) for kind, names in shown.items()}
    with suppress(OSError):  # a folder that is closed to us is not written to either
        if state.is_dir() and kept != (new := {**kept, **told}):
            _keep(state / MEMO, new)


def _bare(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, "") for name in names]


def _parameters(playbook: str) -> Iterable[tuple[str, str]]:
    """Yield how each parameter is given: `NAME=`, of a boolean with each of its values."""
    for name, kind, words in parameters(playbook):
        for value in ("true", "false") if kind == "boolean" else ("",):
            yield f"{name}={value}", words


def _sites(options: Mapping[str, str]) -> Mapping[str, Kept]:
    path, _ = config_file(options.get("--config") or os.environ.get("MAINT_CONFIG") or None, os.environ)
    return configured(path) if path else {}


def _of_site(kind: str, name: str, site: Mapping[str, Kept]) -> Iterable[str]:
    state = Path(site["state"])
    if kind == "snapshots":
        return _snapshots(site["store"], name, state)
    if kind == "runs":
        return sorted(one.removesuffix(".jsonl") for one in _listed(state / "runs") if one.endswith(".jsonl"))[::-1]
    if kind == "clusters":
        return [str(one) for one in _memo(state).get("clusters", [])]
    several = {"hosts and groups": ("hosts", "groups"), "virtual clusters": ("virtual_clusters",)}
    return [one for key in several.get(kind, (kind,)) for one in site.get(key, [])]


def _snapshots(store: str, name: str, state: Path) -> list[str]:
    """Return the ids of snapshots, the newest first; of a store elsewhere those that were listed last."""
    if not store.startswith("/"):
        return [str(one) for one in _memo(state).get("snapshots", [])][::-1]
    folder = f"{store}/{name}"
    there = (one for one in _listed(folder) if _SNAPSHOT.match(one))
    return sorted((one for one in there if os.path.exists(f"{folder}/{one}/manifest.json")), reverse=True)  # noqa: PTH110


def _playbooks() -> list[str]:
    names = (one.name for one in shipped_folder("playbooks").iterdir())
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def _listed(folder: str | Path) -> list[str]:
    with suppress(OSError):
        return os.listdir(folder)  # noqa: PTH208  # a thousand names, no objects
    return []


def _memo(state: Path) -> dict[str, list[str]]:
    try:
        found = json.loads((state / MEMO).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: one for key, one in found.items() if isinstance(one, list)} if isinstance(found, dict) else {}


_BREAKS = "="  # where bash cuts a word in two

Candidate = tuple[str, str]


class Typed:
    """What has been typed so far.

    Attributes:
        node: the words of the group or command, as in `declared`.
        options: option → its value; arguments: the words that are not options.
        pending: the option whose value comes next, "" for none; last: that whose value stood there before.
        value: what of a value has been typed, where a shell cuts it at `=`.
        only_arguments: whether `--` stood there.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, object]], words: Iterable[str]) -> None:
        self.node, self.pending, self.only_arguments = "", "", False
        self.last, self.value = "", ""
        self.options: dict[str, str] = {}
        self.arguments: list[str] = []
        for word in words:
            self._take(nodes, word)

    def _take(self, nodes: Mapping[str, Mapping[str, object]], word: str) -> None:
        deeper, last, self.last = f"{self.node} {word}".strip(), self.last, ""
        if self.pending:
            if word != _BREAKS or self.value:
                self.value += word
                self.options[self.pending] = self.value
                self.last, self.pending = self.pending, ""
        elif word == _BREAKS and last:  # `--set name=value` in four words
            self.value, self.pending = self.value + word, last
        elif word == "--":
            self.only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not self.only_arguments:
            name, has_value, value = word.partition("=")
            known = nodes[self.node]["options"]
            if has_value:
                self.options[name] = value
            elif isinstance(known, dict) and known.get(name, [None])[0] is not None:
                self.pending, self.value = name, ""
        elif deeper in nodes:
            self.node = deeper
        else:
            self.arguments.append(word)


def candidates(words: Sequence[str]) -> list[Candidate]:
    """Return how the last of some words could go on, each with what it is; [(FILES, "")] leaves it to the shell."""
    *before, current = words or [""]
    nodes = declared()
    typed = Typed(nodes, [*before, current] if current == _BREAKS else before)
    options, arguments, below = (nodes[typed.node][key] for key in ("options", "arguments", "below"))
    if typed.pending:
        current = "" if current == _BREAKS else current
        found = _fitting(typed.value + current, names_of(options[typed.pending][0], typed.options, typed.arguments))
        return [(one if one == FILES else one.removeprefix(typed.value), words) for one, words in found]
    if current.startswith("-") and not typed.only_arguments:
        name, has_value, value = current.partition("=")
        if has_value:
            known = names_of(options.get(name, [""])[0] or "", typed.options, typed.arguments)
            return [(f"{name}={one}", words) for one, words in _fitting(value, known) if one != FILES]
        return _fitting(current, ((one, words) for one, (_, words) in options.items()))
    if below:
        return _fitting(current, below.items())
    last = arguments[-1] if arguments else ["", False]
    at = len(typed.arguments)
    kind = arguments[at][0] if at < len(arguments) else last[0] if last[1] else ""
    return _fitting(current, (one for one in names_of(kind, typed.options) if one[0] not in typed.arguments))


def _fitting(current: str, found: Iterable[Candidate]) -> list[Candidate]:
    return [(one, words) for one, words in found if one == FILES or one.startswith(current)]


def main() -> None:
    """Print the candidates for the words of the command line, each with what it is behind a tab; never fails."""
    os.environ.pop(VARIABLE)
    try:
        found = candidates(sys.argv[1:])
    except Exception:  # an operator who types must not be shown a traceback in the middle of a line
        return
    sys.stdout.write("".join(f"{one}\t{words}\n" for one, words in found))
