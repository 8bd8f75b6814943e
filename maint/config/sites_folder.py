"""Sites that lie in files of their own: `sites.d/*.yaml` beside the config, each holds `sites:` alone."""

from collections.abc import Mapping
from pathlib import Path

from maint.config import yaml
from maint.config.paths import SITES_FOLDER
from maint.config.suggestions import KeyPath
from maint.config.yaml import Document
from maint.errors import Invalid
from maint.files import explaining
from maint.model.json import Json

_HINT = f"a file of {SITES_FOLDER} holds `sites:` as the config does, and nothing else"


def with_sites(document: Document, config: Path) -> Document:
    """Return the config's document with the sites of its folder, at the places where they are written; else Invalid."""
    own = _mapping(document.data)
    sites = own.get("sites", {}) if own is not None else None
    files = _files(config.parent / SITES_FOLDER)
    if not files or not isinstance(sites, dict):
        return document  # what is wrong with it is told by whoever decodes it
    seen = {name: str(document.where(("sites", name), key=True)) for name in sites}
    parts: dict[KeyPath, tuple[Document, KeyPath]] = {}
    for path in files:
        more = yaml.read(path)
        for name in _sites_of(more):
            at = more.where(("sites", name), key=True)
            if name in seen:
                detail, hint = [f"first at {seen[name]}"], "keep one of them, or give each its own name"
                raise Invalid(f"the site {name!r} is given twice", at=at, detail=detail, hint=hint)
            seen[name] = str(at)
            parts["sites", name] = more, ("sites", name)
    return document.with_parts(parts)


def _files(folder: Path) -> list[Path]:
    with explaining(f"cannot read {folder}", "look at what it is, and at who may read it"):
        there = [*folder.iterdir()] if folder.exists() else []
    return sorted(path for path in there if path.suffix == ".yaml" and not path.name.startswith("."))


def _sites_of(document: Document) -> Mapping[str, Json]:
    whole = _mapping(document.data)
    if whole is None:
        raise Invalid("a mapping is expected here", at=document.where(()), hint=_HINT)
    for key in whole:
        if key != "sites":
            raise Invalid(f"unknown key {key!r}", at=document.where((key,), key=True), hint=_HINT)
    sites = _mapping(whole.get("sites"))
    if sites is None:
        raise Invalid("sites: must be a mapping", at=document.where(("sites",)), hint=_HINT)
    return sites


def _mapping(value: Json) -> Mapping[str, Json] | None:
    return value if isinstance(value, Mapping) else None
