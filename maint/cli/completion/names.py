"""The names that stand for something at a site: from the config, the state folder and a store on this machine."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from maint.cli.completion import FILES
from maint.cli.completion.cache import Kept, configured, parameters
from maint.config.paths import config_file

MEMO = "names.json"  # in a site's state folder: what listings showed last
_SNAPSHOT = re.compile(r"\d{8}T\d{6}\.")


def names_of(kind: Kept, options: Mapping[str, str], arguments: Sequence[str] = ()) -> Iterable[tuple[str, str]]:
    """Return the names of a kind, or the choices that stand in its place, each with what it is.

    Args:
        kind: as `declared` has it: a word, or pairs of a value and what it is.
        options: what was typed before: `--config` and `--site` say where to look.
        arguments: what was typed before that is no option: the playbook whose parameters are meant.
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
    if state.is_dir() and kept != (new := {**kept, **told}):
        from maint.files import replace

        with suppress(OSError):
            replace(state / MEMO, json.dumps(new).encode())


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
    from maint.config.resources import folder

    return sorted(one.name.removesuffix(".yaml") for one in folder("playbooks").iterdir() if one.name.endswith(".yaml"))


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
