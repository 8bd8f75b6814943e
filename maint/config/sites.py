"""The sites of a config, and of the files beside it, `sites.d/*.yaml`, held against the rules between their keys."""

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from pydantic import Field

from maint.config import yaml
from maint.config.error_messages import decode, together
from maint.config.fields import Name, PathOf, loopback
from maint.config.notices import WAYS, NoticeSettings
from maint.config.paths import SITES_FOLDER
from maint.config.schema import Config, Site
from maint.config.yaml import Document
from maint.errors import Invalid
from maint.files import explaining
from maint.model.formatting import KeyPath, dotted, meant

_FILE = r"[^./\0][^/\0]*"
_HINT = "`maint help configuration` describes every key; `maint config validate` looks at the file again"
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


class BrokenRule(msgspec.Struct, frozen=True):
    """A rule between keys that is broken: the place, what is wrong, and what to do next."""

    path: KeyPath
    words: str
    hint: str


def broken_rules(site: Site, path: KeyPath, *, elsewhere: bool = False) -> Iterator[BrokenRule]:
    """Tell which rules between keys of a site are broken.

    Args:
        elsewhere: whether the store is not the file's, but one that a command reads, which may be one of the copies.
    """
    if site.manager.plain_port == site.manager.tls_port:
        yield BrokenRule(
            (*path, "manager", "tls_port"), "must differ from plain_port", "the usual ones are 7180 and 7183"
        )
    yield from _repeated([host.name for host in site.hosts], (*path, "hosts"), str.lower)
    yield from _repeated([cluster.name for cluster in site.virtual_clusters], (*path, "virtual_clusters"))
    for number, cluster in enumerate(site.virtual_clusters):
        yield from _repeated([user.name for user in cluster.users], (*path, "virtual_clusters", number, "users"))
    if site.backup:
        yield from _repeated([one.name for one in site.backup.s3.buckets], (*path, "backup", "s3", "buckets"))
    yield from _repeated([one.name for one in site.notify], (*path, "notify"))
    yield from _notices(site.notify, (*path, "notify"))
    yield from _strangers(site, path)
    yield from _shared(site, path)
    if not elsewhere:
        yield from _no_copies(site, path)
    if site.backup and not (site.backup.recipients or site.backup.identity):
        yield BrokenRule(
            (*path, "backup"), "needs recipients, or an identity", "maint config init shows how a key pair is made"
        )


def _repeated(names: Sequence[str], path: KeyPath, meant: Callable[[str], str] = str) -> Iterator[BrokenRule]:
    for number, name in enumerate(names):
        if meant(name) in map(meant, names[:number]):
            yield BrokenRule((*path, number, "name"), f"the name {name!r} is given twice", "give each its own name")


def _notices(notices: Sequence[NoticeSettings], path: KeyPath) -> Iterator[BrokenRule]:
    for number, one in enumerate(notices):
        here = (*path, number)
        if not any(getattr(one, way) for way in WAYS):
            yield BrokenRule(here, "tells nobody", f"give it one of {', '.join(WAYS)}")
        if one.mail and one.mail.tls == "none" and not loopback(one.mail.host):
            yield BrokenRule((*here, "mail", "tls"), "may be none only to this machine itself", "starttls, or tls")
        if one.mail and one.mail.username and not one.mail.password:
            yield BrokenRule((*here, "mail", "username"), "has no password beside it", "password: file:PATH")


def _strangers(site: Site, path: KeyPath) -> Iterator[BrokenRule]:
    """Accepted deviations of hosts that nobody knows would silently accept nothing."""
    known = [host.name for host in site.hosts]
    for number, accepted in enumerate(site.accepted):
        for index, name in enumerate(accepted.hosts):
            if name not in known:
                hint = meant(name, known, "list it under hosts, or leave it out here")
                yield BrokenRule((*path, "accepted", number, "hosts", index), f"there is no host {name!r}", hint)


def _no_copies(site: Site, path: KeyPath) -> Iterator[BrokenRule]:
    """A copy that is the very store, or another copy, would be told to hold everything twice."""
    stores = [_place(one) for one in (site.backup.store, *site.backup.copies)] if site.backup else []
    for number, place in enumerate(stores[1:]):
        if place in stores[: number + 1]:
            words = "is the store itself" if place == stores[0] else "is the same place as a copy before it"
            hint = "name another place, best on another machine; `--store` reads a copy by itself"
            yield BrokenRule((*path, "backup", "copies", number), words, hint)


def _place(location: str) -> str:
    """Return the one spelling of where a store lies: without links, `..`, a default port, or a last slash."""
    scheme, url, rest = location.partition("://")
    if not url:
        return os.path.realpath(location)
    host, _, folder = rest.partition("/")
    return f"{scheme}://{host.lower().removesuffix(':22')}{posixpath.normpath(f'/{folder}')}"


def _shared(site: Site, path: KeyPath) -> Iterator[BrokenRule]:
    """A shared state is reached as the backups are, and lies beside them."""
    if site.shared_state is None:
        if site.shared_state_key is not None:
            words, hint = "seals nothing without a shared_state", "add shared_state, or leave the key out"
            yield BrokenRule((*path, "shared_state_key"), words, hint)
        return
    here = (*path, "shared_state")
    if site.backup is None and site.shared_state.startswith("s3:"):
        yield BrokenRule(here, "needs backup.s3, which says how it is reached", "add `backup`, or use a folder")
    if site.backup and _place(site.shared_state) in map(_place, (site.backup.store, *site.backup.copies)):
        yield BrokenRule(here, "must differ from the stores of the backups", "use another folder, such as …/state")
    if site.backup and site.shared_state_key and site.shared_state_key == site.backup.identity:
        words, hint = (
            "must differ from backup.identity: machines that back up hold no key that opens backups",
            "age-keygen",
        )
        yield BrokenRule((*path, "shared_state_key"), words, f"make a key of its own: {hint} -o FILE")
