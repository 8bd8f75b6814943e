"""Where configuration comes from, in order: flags, the environment, a file, defaults; never the working folder."""

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from maint.config import yaml
from maint.config.error_messages import inside, members
from maint.config.paths import CLOSED_HINT, config_file, expanded, insist_on_text, state_folder, unseen
from maint.config.schema import Config, Site, SiteSettings
from maint.config.sites import Gathered, distinct, gather, read_files, site_names
from maint.config.yaml import Document
from maint.errors import Invalid, Position, UsageError
from maint.model.formatting import KeyPath, dotted, meant
from maint.model.json import Json

GENERAL: dict[str, str] = {
    "MAINT_CONFIG": "the configuration file (--config)",
    "MAINT_SITE": "the site (--site)",
    "MAINT_STATE": "the folder of locks, journals, undo objects and keys",
    "MAINT_OUTPUT": "table, json or yaml (--output)",
    "MAINT_COLOR": "auto, always or never (--color)",
}
"""Variables that speak of maint itself, and what they stand for."""

_OVERRIDABLE = (
    "manager.host", "manager.plain_port", "manager.tls_port", "manager.username", "manager.password",
    "manager.bootstrap.password", "manager.ca", "manager.license", "ssh.user", "ssh.key", "ssh.known_hosts",
    "ssh.port", "ssh.sudo.password", "ssh.at_once", "ssh.connect_timeout", "ssh.command_timeout", "app_domain",
    "backup.store", "backup.identity", "backup.signing_key", "backup.fingerprint_key", "backup.s3.access_key",
    "backup.s3.secret_key", "backup.on_redacted", "backup.minimum",
)  # fmt: skip
OVERRIDES = {f"MAINT_{key.upper().replace('.', '_')}": key for key in _OVERRIDABLE}
"""Variables that replace one key of the site at hand; a password is still a reference, never the value."""

_OURS = "MAINT_"
_ALIKE = 0.75  # from here on two names are one, misspelt

_NO_CONFIG_HINT = (
    "`maint config init` writes a first configuration; `maint lab up` brings up a manager to try things on"
)


class ConfigFlags(msgspec.Struct, frozen=True):
    """What was given on the command line."""

    config: str | None = None
    site: str | None = None
    state: str | None = None
    # keys of the site that a flag replaces (`backup.store`) → (value, the flag's name)
    values: Mapping[str, tuple[Json, str]] = {}


class Origin(msgspec.Struct, frozen=True):
    """A value and where it came from; a secret is shown as its reference."""

    key: str
    value: Json
    origin: str


class _Loaded(msgspec.Struct, frozen=True):
    path: Path
    gathered: Gathered
    replaced: Mapping[KeyPath, str]

    @property
    def document(self) -> Document:
        return self.gathered.document

    @property
    def config(self) -> Config:
        return self.gathered.config


class Settings:
    """The configuration, or the absence of one."""

    def __init__(
        self, loaded: _Loaded | None, flags: ConfigFlags, environ: Mapping[str, str], *, looked: tuple[Path, ...]
    ) -> None:
        self._loaded = loaded
        self._environ = environ
        self._looked = looked
        self.chosen = flags.site or environ.get("MAINT_SITE") or None
        self._by_variable = not flags.site
        self._state = (flags.state, "the command") if flags.state else (environ.get("MAINT_STATE"), "MAINT_STATE")

    @property
    def path(self) -> Path | None:
        """The configuration file, None where there is none."""
        return self._loaded.path if self._loaded else None

    @property
    def looked(self) -> tuple[Path, ...]:
        """Where a configuration file was looked for."""
        return self._looked

    @property
    def option(self) -> str:
        """What a command is told so that it finds this configuration, such as `--config PATH`; "" where it looks."""
        path, usual = self.path, config_file(None, self._environ)[0]
        return "" if path is None or path == usual else f"--config {shlex.quote(str(path))}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the configured sites, of broken ones too."""
        return self._loaded.gathered.names if self._loaded else ()

    @property
    def broken(self) -> Mapping[str, Invalid]:
        """What is wrong with a site, or with what its file in `sites.d` holds, by name; the others can be used."""
        return self._loaded.gathered.broken if self._loaded else {}

    @property
    def sites(self) -> Sequence[SiteSettings]:
        """The settings of the sites that can be used."""
        return [self.site(name) for name in self.names if name not in self.broken]

    def labels(self, name: str) -> Mapping[str, Json]:
        """Return a site's labels; of a broken one as they are written, none where they cannot be read."""
        path = ("sites", name, "labels")
        found = self._loaded.document.at(path) if self._loaded and path in self._loaded.document else None
        return found if isinstance(found, dict) else {}

    @property
    def mistakes(self) -> Sequence[Invalid]:
        """What is wrong with broken sites, each mistake once."""
        return distinct(self.broken.values())

    @property
    def report_folder(self) -> Path | None:
        """The folder of the catalogue pages, None where there is none."""
        return self._loaded.config.report.folder if self._loaded and self._loaded.config.report else None

    @property
    def folder(self) -> Path:
        """The configuration file's folder, where relative paths and `file:` references start; Invalid without one."""
        return self._required().path.parent

    @property
    def state(self) -> Path:
        """The folder of all sites' state; Invalid where there is no configuration and nobody named a folder."""
        given, _ = self._state
        if given:
            # A path on the command line is meant from where it is typed; a path in the file is meant from the file.
            return insist_on_text(Path(expanded(given, self._environ)).absolute(), "the state folder")
        loaded = self._required()
        return loaded.config.state or state_folder(loaded.path, self._environ)

    def site(self, name: str | None = None) -> SiteSettings:
        """Return a site's settings, else those of the only one.

        Raises:
            UsageError: there is no such site.
            Invalid: there is none, there are several, or it is broken.
        """
        loaded = self._required()
        chosen = name or self.chosen or _only(self.names)
        if chosen is None:
            raise Invalid(
                "several sites are configured",
                detail=[", ".join(self.names)],
                hint="choose one: --site NAME, or --all where a command takes it",
            )
        if chosen in self.broken:
            raise self.broken[chosen]
        self.refuse_unknown(chosen)
        sites, manager = loaded.config.sites, loaded.config.sites[chosen].manager.address
        return SiteSettings.of(
            sites[chosen], name=chosen, state=self.state / chosen, report=self.report_folder,
            same_manager=tuple(one for one in sites if one != chosen and sites[one].manager.address == manager),
            beside={one: self.broken[one].in_a_line if one in self.broken else "" for one in self.names},
            config=self.option,
        )  # fmt: skip

    def refuse_unknown(self, chosen: str | None) -> None:
        """Raise UsageError where a site was chosen and there is none of that name, Invalid without a configuration."""
        self._required()
        if chosen and chosen not in self.names:
            hint = meant(chosen, self.names, "choose one of them: --site NAME")
            detail = [f"configured: {', '.join(self.names)}", *(f"broken: {one.message}" for one in self.mistakes)]
            if self._by_variable and chosen == self.chosen:  # which nobody has just typed
                detail.insert(0, "MAINT_SITE names it")
            raise UsageError(f"there is no site {chosen!r}", detail=detail, hint=hint)

    def secret_variables(self) -> frozenset[str]:
        """Return the environment variables that hold secrets, so that programs we start do not inherit them."""
        if self._loaded is None:
            return frozenset()
        found = [str(value) for _, value in _leaves(self._loaded.document.data, ())]
        for site in self._loaded.config.sites.values():
            if (backup := site.backup) is not None:  # whose keys may be the default ones
                stores = (backup.store, *backup.copies, site.shared_state or "")
                found += [key for store in stores for key in backup.s3.keys(store).values()]
        return frozenset(text.removeprefix("env:") for text in found if text.startswith("env:"))

    def misspelt(self) -> Mapping[str, str]:
        """Return the variables that nothing reads, and which of maint's each was probably meant to be."""
        known = {name.removeprefix(_OURS) for name in (*GENERAL, *OVERRIDES)}
        given = {name.removeprefix(_OURS) for name, value in self._environ.items() if name.startswith(_OURS) and value}
        said = [str(value) for _, value in _leaves(self._loaded.document.data, ())] if self._loaded else []
        strange = {name for name in given - known if not any(_OURS + name in text for text in said)}
        close = {name: difflib.get_close_matches(name, known, 1, _ALIKE) for name in sorted(strange)}
        return {_OURS + name: _OURS + found[0] for name, found in close.items() if found}

    def origins(self) -> list[Origin]:
        """Return every key (of the chosen site, if one is), its value and origin; Invalid without a configuration."""
        loaded = self._required()
        given, giver = self._state
        origin = giver if given else self._origin(("state",)) if loaded.config.state else "default"
        found = [Origin("state", str(self.state), origin)]
        config = loaded.config.model_dump(mode="json", exclude={"state"} if loaded.config.sites else {"state", "sites"})
        for path, value in _leaves(config, ()):
            if self.chosen and path[0] == "sites" and path[1] != self.chosen:
                continue
            shown = loaded.document.at(path) if path in loaded.document else value
            found.append(Origin(dotted(path), shown, self._origin(path)))
        return found

    def _origin(self, path: KeyPath) -> str:
        loaded = self._required()
        if path in loaded.replaced:
            return loaded.replaced[path]
        return str(loaded.document.where(path)) if path in loaded.document else "default"

    def _required(self) -> _Loaded:
        if self._loaded is None:
            closed = any(map(unseen, self._looked))
            looked = [unseen(path) or f"looked for {path}" for path in self._looked]
            looked += [f"{given} says nothing; {known} would" for given, known in self.misspelt().items()]
            message = "no configuration can be seen" if closed else "there is no configuration"
            raise Invalid(message, detail=looked, hint=CLOSED_HINT if closed else _NO_CONFIG_HINT)
        return self._loaded


def load_settings(flags: ConfigFlags, environ: Mapping[str, str]) -> Settings:
    """Find, read and check the configuration, empty without any file; Invalid: a file is missing or wrong."""
    named = flags.config or environ.get("MAINT_CONFIG") or None
    path, looked = config_file(named, environ)
    loaded = _read(path, flags, environ) if path else None
    return Settings(loaded, flags, environ, looked=looked)


def _read(path: Path, flags: ConfigFlags, environ: Mapping[str, str]) -> _Loaded:
    documents: dict[str, Document | Invalid] = {"": yaml.read(path), **read_files(path)}
    names = {name for one in documents.values() for name in site_names(one)}
    unread = any(isinstance(one, Invalid) for one in documents.values())
    chosen = flags.site or environ.get("MAINT_SITE") or (None if unread else _only(tuple(names)))
    replaced: dict[KeyPath, str] = {}
    if chosen in names:
        for key, (value, giver) in _given(flags, environ).items():
            where: KeyPath = ("sites", str(chosen), *key.split("."))
            replaced[where] = giver
            for file, one in documents.items():
                if isinstance(one, Document) and chosen in site_names(one):
                    documents[file] = one.with_value(where, value, Position(giver, 0, 0))
    main = documents.pop("")
    assert isinstance(main, Document)
    found = gather(main, documents, lambda text: path.parent / expanded(text, environ))
    return _Loaded(path, found, replaced)


def _given(flags: ConfigFlags, environ: Mapping[str, str]) -> dict[str, tuple[Json, str]]:
    """Return the keys that the environment and, stronger, flags replace; Invalid: with what is no text."""
    given: dict[str, tuple[Json, str]] = {
        key: (_typed(key, environ[variable]), variable) for variable, key in OVERRIDES.items() if environ.get(variable)
    }
    found = {**given, **flags.values}
    for value, giver in found.values():
        if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
            hint = "type it anew where the terminal is set to UTF-8; a file under another name can be linked"
            raise Invalid("must be UTF-8 text", at=Position(giver, 0, 0), hint=hint)
    return found


def _typed(key: str, text: str) -> Json:
    kinds: list[object] = [Site]
    for step in key.split("."):
        kinds = members(inner for kind in kinds for inner in inside(kind, step))
    return int(text) if int in kinds and re.fullmatch(r"[-+]?[0-9]{1,18}", text) else text


def _only(names: tuple[str, ...]) -> str | None:
    return names[0] if len(names) == 1 else None


def _leaves(value: Json, path: KeyPath) -> list[tuple[KeyPath, Json]]:
    items: list[tuple[str | int, Json]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [leaf for step, inner in items for leaf in _leaves(inner, (*path, step))] if items else [(path, value)]
