"""Sites that lie in files of their own: `sites.d/*.yaml` beside the config; a mistake there breaks what it is in."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from pydantic import Field

from maint.config import yaml
from maint.config.error_messages import decode, together
from maint.config.fields import Name, PathOf
from maint.config.paths import SITES_FOLDER
from maint.config.rules import BrokenRule, broken_rules
from maint.config.schema import Config, Site
from maint.config.suggestions import KeyPath, dotted
from maint.config.yaml import Document
from maint.errors import Invalid
from maint.files import explaining

_FILE = r"[^./\0][^/\0]*"
_HINT = "maint help configuration describes every key; maint config validate looks at the file again"
_FILE_HINT = f"a file of {SITES_FOLDER} holds `sites:` as the config does, and nothing else"


class Many(Config):
    """A config that may leave its sites to the files beside it, or one of these."""

    sites: dict[Name, Site] = Field(default={})


class Gathered(msgspec.Struct, frozen=True):
    """A config and the files beside it.

    Attributes:
        config: with the sites that can be used.
        document: where each key is written, of broken sites too.
        names: of all sites in their order, and of files that say none.
        broken: what is wrong with a site, or with all that its file holds.
    """

    config: Config
    document: Document
    names: tuple[str, ...]
    broken: Mapping[str, Invalid]


def read_files(config: Path) -> Mapping[str, Document | Invalid]:
    """Return what the files beside a config hold, or why they cannot be read, by file name; else Invalid."""
    folder = config.parent / SITES_FOLDER
    with explaining(f"cannot read {folder}", "look at what it is, and at who may read it"):
        there = [*folder.iterdir()] if folder.exists() else []
    files = sorted(path for path in there if path.suffix == ".yaml" and not path.name.startswith("."))
    return {path.name: _read(path) for path in files}


def _read(path: Path) -> Document | Invalid:
    try:
        return yaml.read(path)
    except Invalid as error:
        return error


def site_names(document: Document | Invalid) -> tuple[str, ...]:
    """Return the names of the sites that a document declares, but for those after which no file can be named."""
    data = document.data if isinstance(document, Document) else None
    found = data.get("sites") if isinstance(data, dict) else None
    return tuple(one for one in found if re.fullmatch(_FILE, str(one))) if isinstance(found, dict) else ()


def gather(main: Document, files: Mapping[str, Document | Invalid], place: PathOf | None = None) -> Gathered:
    """Return a config with the sites of the files beside it, paths made absolute by `place`.

    Raises:
        Invalid: the config itself is wrong; it tells what is wrong in the files, too.
    """
    wrong: Invalid | None = None
    config: Config = Many()
    try:
        config = checked(main, place, model=Many if files else Config)
    except Invalid as error:
        wrong = error
    declared = {name for document in (main, *files.values()) for name in site_names(document)}
    found: dict[str, Site | Invalid] = dict(config.sites)
    first: dict[str, Document] = dict.fromkeys(found, main)
    for file, document in files.items():
        stem = Path(file).stem
        for name, site in _sites_of(document, stem if stem not in declared else file, place).items():
            if name in first and isinstance(document, Document):
                site = _twice(name, (first[name], found[name]), (document, site))
            found[name] = site
            if name in site_names(document):
                assert isinstance(document, Document)
                first.setdefault(name, document)
    broken = {name: site for name, site in found.items() if isinstance(site, Invalid)}
    if wrong is not None:
        raise together([wrong, *distinct(broken.values())])
    if not found:
        raise Invalid("sites: there is none, here or in a file beside it", at=main.where(("sites",)), hint=_HINT)
    config = config.model_copy(update={"sites": {name: one for name, one in found.items() if isinstance(one, Site)}})
    parts: dict[KeyPath, tuple[Document, KeyPath]]
    parts = {("sites", name): (one, ("sites", name)) for name, one in first.items() if one is not main}
    return Gathered(config, main.with_parts(parts) if parts else main, tuple(found), broken)


def distinct(errors: Iterable[Invalid]) -> list[Invalid]:
    """Return errors, each once: what is wrong with a file is wrong with each of its sites."""
    return [*{id(one): one for one in errors}.values()]


def checked(document: Document, place: PathOf | None = None, *, model: type[Config] = Config) -> Config:
    """Return the configuration of a document, its paths made absolute by `place`; Invalid: all that is wrong."""
    found = decode(model, document, hint=_HINT, context=place)
    broken: list[BrokenRule] = []
    for name, site in found.sites.items():
        sources = {document.where(("sites", name, *key)).file for key in ((), ("backup", "store"))}
        broken += broken_rules(site, ("sites", name), elsewhere=len(sources) > 1)
    if broken:
        raise together(
            [Invalid(f"{dotted(one.path)}: {one.words}", at=document.where(one.path), hint=one.hint) for one in broken]
        )
    return found


def _sites_of(document: Document | Invalid, entry: str, place: PathOf | None) -> Mapping[str, Site | Invalid]:
    """Return the sites of a file, or what is wrong with it for each; under `entry` where it declares none."""
    if isinstance(document, Invalid):
        return {entry: document}
    try:
        if strange := [key for key in (document.data if isinstance(document.data, dict) else ()) if key != "sites"]:
            at = document.where((strange[0],), key=True)
            raise Invalid(f"unknown key {strange[0]!r}", at=at, hint=_FILE_HINT)
        return checked(document, place, model=Many).sites
    except Invalid as error:
        return dict.fromkeys(site_names(document) or [entry], error)


def _twice(name: str, *given: tuple[Document, Site | Invalid]) -> Invalid:
    (before, _), (after, _) = given
    at, *_ = places = [one.where(("sites", name), key=True) for one in (after, before)]
    detail, hint = [f"first at {places[1]}"], "keep one of them, or give each its own name"
    twice = Invalid(f"the site {name!r} is given twice", at=at, detail=detail, hint=hint)
    return together([twice, *(site for _, site in given if isinstance(site, Invalid))])
