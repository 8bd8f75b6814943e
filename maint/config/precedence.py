"""Where configuration comes from, in order: flags, the environment, a file, defaults; never the working folder."""

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from maint.config import yaml
from maint.config.error_messages import decode, inside, members, together
from maint.config.fields import Place
from maint.config.paths import config_file, expanded, state_folder
from maint.config.rules import broken_rules
from maint.config.schema import Config, Site, SiteSettings
from maint.config.sites_folder import with_sites
from maint.config.suggestions import KeyPath, dotted, meant
from maint.config.yaml import Document
from maint.errors import Invalid, Position, UsageError
from maint.model.json import Json

GENERAL: dict[str, str] = {
    "MAINT_CONFIG": "the configuration file (--config)",
    "MAINT_SITE": "the site (--site)",
    "MAINT_STATE": "the folder of locks, journals, undo objects and keys",
    "MAINT_OUTPUT": "table, json or yaml (--output)",
    "MAINT_COLOR": "auto, always or never (--color)",
}
"""Variables that speak of maint itself, and what they stand for."""

OVERRIDES: dict[str, str] = {
    "MAINT_MANAGER_HOST": "manager.host",
    "MAINT_MANAGER_PLAIN_PORT": "manager.plain_port",
    "MAINT_MANAGER_TLS_PORT": "manager.tls_port",
    "MAINT_MANAGER_USERNAME": "manager.username",
    "MAINT_MANAGER_PASSWORD": "manager.password",
    "MAINT_MANAGER_BOOTSTRAP_PASSWORD": "manager.bootstrap.password",
    "MAINT_MANAGER_CA": "manager.ca",
    "MAINT_MANAGER_LICENSE": "manager.license",
    "MAINT_SSH_USER": "ssh.user",
    "MAINT_SSH_KEY": "ssh.key",
    "MAINT_SSH_KNOWN_HOSTS": "ssh.known_hosts",
    "MAINT_SSH_PORT": "ssh.port",
    "MAINT_SSH_SUDO_PASSWORD": "ssh.sudo.password",
    "MAINT_SSH_AT_ONCE": "ssh.at_once",
    "MAINT_SSH_CONNECT_TIMEOUT": "ssh.connect_timeout",
    "MAINT_SSH_COMMAND_TIMEOUT": "ssh.command_timeout",
    "MAINT_APP_DOMAIN": "app_domain",
    "MAINT_BACKUP_STORE": "backup.store",
    "MAINT_BACKUP_IDENTITY": "backup.identity",
    "MAINT_BACKUP_SIGNING_KEY": "backup.signing_key",
    "MAINT_BACKUP_FINGERPRINT_KEY": "backup.fingerprint_key",
    "MAINT_BACKUP_S3_ACCESS_KEY": "backup.s3.access_key",
    "MAINT_BACKUP_S3_SECRET_KEY": "backup.s3.secret_key",
    "MAINT_BACKUP_ON_REDACTED": "backup.on_redacted",
    "MAINT_BACKUP_MINIMUM": "backup.minimum",
}
"""Variables that replace one key of the site at hand; a password is still a reference, never the value."""

_HINT = "maint help configuration describes every key; maint config validate looks at the file again"
_NO_CONFIG_HINT = "maint config init writes a first configuration; maint lab up brings up a manager to try things on"


class Flags(msgspec.Struct, frozen=True):
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
    document: Document
    config: Config
    replaced: Mapping[KeyPath, str]


class Settings:
    """The configuration, or the absence of one."""

    def __init__(
        self, loaded: _Loaded | None, flags: Flags, environ: Mapping[str, str], *, looked: tuple[Path, ...]
    ) -> None:
        self._loaded = loaded
        self._environ = environ
        self._looked = looked
        self.chosen = flags.site or environ.get("MAINT_SITE") or None
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
    def names(self) -> tuple[str, ...]:
        """The names of the configured sites."""
        return tuple(self._loaded.config.sites) if self._loaded else ()

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
            return Path(expanded(given, self._environ)).absolute()
        loaded = self._required()
        return loaded.config.state or state_folder(loaded.path, self._environ)

    def site(self, name: str | None = None) -> SiteSettings:
        """Return a site's settings, else those of the only one; UsageError: no such site, Invalid: none, or several."""
        loaded = self._required()
        chosen = name or self.chosen or _only(self.names)
        if chosen is None:
            raise Invalid(
                "several sites are configured", detail=[", ".join(self.names)], hint="choose one: --site NAME"
            )
        if chosen not in loaded.config.sites:
            hint = meant(chosen, self.names, "choose one of them: --site NAME")
            raise UsageError(f"there is no site {chosen!r}", detail=[f"configured: {', '.join(self.names)}"], hint=hint)
        return SiteSettings.of(
            loaded.config.sites[chosen], name=chosen, state=self.state / chosen, report=self.report_folder,
            beside=self.names,
        )  # fmt: skip

    def secret_variables(self) -> frozenset[str]:
        """Return the environment variables that hold secrets, so that programs we start do not inherit them."""
        found = [str(item.value) for item in self.origins()] if self._loaded else []
        return frozenset(text.removeprefix("env:") for text in found if text.startswith("env:"))

    def origins(self) -> list[Origin]:
        """Return every key of the configuration, its value, and where that came from; Invalid where there is none."""
        loaded = self._required()
        given, giver = self._state
        origin = giver if given else self._origin(("state",)) if loaded.config.state else "default"
        found = [Origin("state", str(self.state), origin)]
        whole = loaded.config.model_dump(mode="json")
        for path, value in _leaves(whole["sites"], ("sites",)):
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
            looked = [f"looked for {path}" for path in self._looked]
            raise Invalid("there is no configuration", detail=looked, hint=_NO_CONFIG_HINT)
        return self._loaded


def load_settings(flags: Flags, environ: Mapping[str, str]) -> Settings:
    """Find, read and check the configuration, empty without any file; Invalid: a file is missing or wrong."""
    named = flags.config or environ.get("MAINT_CONFIG") or None
    path, looked = config_file(named, environ)
    loaded = _read(path, flags, environ) if path else None
    return Settings(loaded, flags, environ, looked=looked)


def _read(path: Path, flags: Flags, environ: Mapping[str, str]) -> _Loaded:
    document = with_sites(yaml.read(path), path)
    chosen = flags.site or environ.get("MAINT_SITE") or _only(_site_names(document))
    replaced: dict[KeyPath, str] = {}
    if chosen in _site_names(document):
        for key, (value, giver) in _given(flags, environ).items():
            where: KeyPath = ("sites", str(chosen), *key.split("."))
            document = document.with_value(where, value, Position(giver, 1, 1))
            replaced[where] = giver
    config = checked(document, lambda text: path.parent / expanded(text, environ))
    return _Loaded(path, document, config, replaced)


def checked(document: Document, place: Place | None = None) -> Config:
    """Return the configuration of a document, its paths made absolute by `place`; Invalid: all that is wrong."""
    config = decode(Config, document, hint=_HINT, context=place)
    broken = [rule for name, site in config.sites.items() for rule in broken_rules(site, ("sites", name))]
    if broken:
        raise together(
            [Invalid(f"{dotted(one.path)}: {one.words}", at=document.where(one.path), hint=one.hint) for one in broken]
        )
    return config


def _given(flags: Flags, environ: Mapping[str, str]) -> dict[str, tuple[Json, str]]:
    """Return the keys that the environment and, stronger, flags replace."""
    given: dict[str, tuple[Json, str]] = {
        key: (_typed(key, environ[variable]), variable) for variable, key in OVERRIDES.items() if environ.get(variable)
    }
    return {**given, **flags.values}


def _typed(key: str, text: str) -> Json:
    kinds: list[object] = [Site]
    for step in key.split("."):
        kinds = members(inner for kind in kinds for inner in inside(kind, step))
    return int(text) if int in kinds and re.fullmatch(r"[0-9]{1,9}", text) else text


def _site_names(document: Document) -> tuple[str, ...]:
    found = document.data.get("sites") if isinstance(document.data, dict) else None
    return tuple(found) if isinstance(found, dict) else ()


def _only(names: tuple[str, ...]) -> str | None:
    return names[0] if len(names) == 1 else None


def _leaves(value: Json, path: KeyPath) -> list[tuple[KeyPath, Json]]:
    items: list[tuple[str | int, Json]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [leaf for step, inner in items for leaf in _leaves(inner, (*path, step))] if items else [(path, value)]
