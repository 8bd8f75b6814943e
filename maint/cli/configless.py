"""Work without a config of ours: from what the options say, or from the documented client's own configuration.

What the options say is written into the owner's state folder as a config: so they are checked like one, and a restore
that stops can be taken up with nothing but that file. It holds references to secrets, never secrets.
"""

import ipaddress
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from msgspec.structs import replace

from maint.cli.options import Connection, Flags, pairs_of
from maint.config import yaml
from maint.config.fields import endpoint, jobs_api
from maint.config.paths import absolute, home
from maint.config.precedence import ConfigFlags, Settings, load_settings
from maint.config.schema import ManagerSettings, Site, SiteSettings, VirtualClusterSettings
from maint.config.secrets import ReferencedSecrets, check_reference
from maint.config.stores import S3Settings
from maint.errors import Invalid, UsageError
from maint.files import remove, visible, writing
from maint.files import replace as write_file
from maint.model.json import Json, objects_of
from maint.model.virtual_cluster import is_cluster_name
from maint.ports import StoreSight

_UNSAID = "unsaid"  # stands for a site's name until the store has told it
_NOWHERE = "manager.invalid"  # for commands that only look at a store: a name that never leads anywhere
_PASSWORD = "env:MANAGER_PASSWORD"
_NOBODY = f"age1{'q' * 58}"  # has a recipient's form, and encrypting for it fails: a config must name one
_OPTIONS = {
    "manager.host": "--manager",
    "manager.plain_port": "--manager",
    "manager.tls_port": "--manager",
    "manager.username": "--username",
    "manager.password": "--password",
    "manager.bootstrap": "--bootstrap",
    "manager.ca": "--ca",
    "manager.license": "--license",
    "ssh.user": "--ssh-user",
    "ssh.port": "--ssh-port",
    "ssh.key": "--ssh-key",
    "ssh.known_hosts": "--known-hosts",
    "backup.store": "--store",
    "backup.trusted_keys": "--signed-by",
    "backup.identity": "--identity",
    "backup.s3": "--s3",
}  # which option a mistake in such a key is told of
_MANIFEST = "/manifest.json"
_BELOW = 2  # SITE/ID/manifest.json: what stands below a site in the name of a manifest
# Commands that take --store, where they do not name one.
_READS_STORE = re.compile(
    r"maint (?:backup (?:diff|files|list|prune|show|verify)|playbook resume|restore (?:plan|run))\b(?![^`]*--store)"
)
_S3 = [name for name in S3Settings.model_fields if name != "buckets"]


def settings_of(flags: Flags) -> Settings:
    """Return the configuration that the flags and the environment name."""
    named = ConfigFlags(config=flags.config, site=flags.site, state=flags.state)
    if flags.connection.replaces_config:
        return settings_from_options(flags)
    settings = load_settings(with_store(named, flags.connection), os.environ)
    if flags.connection.store and settings.path is None:
        return settings_from_options(flags)  # which says what else it needs to know
    return settings


def settings_from_options(flags: Flags) -> Settings:
    """Return the settings that the flags make; UsageError: one is missing or wrong, Invalid: no site in the store."""
    connection = flags.connection
    if flags.config:
        raise UsageError(
            "these flags stand for a config, and --config names one", hint="leave out --config, or put them into it"
        )
    if not connection.store:
        raise UsageError("without a config, --store says where the snapshots are", hint="--store /mnt/backups")
    if not connection.signed_by:
        raise UsageError(
            "without a config, nobody says whose signatures to believe, and the first that comes along is not believed",
            detail=["anyone who can write to the store could have made a snapshot"],
            hint="--signed-by 'ssh-ed25519 AAAA…': the line in keys/signing.pub in the state folder of the machine "
            "that takes the backups; keep a copy of it beside the private key",
        )
    if strange := [key for key in connection.signed_by if not key.startswith("ssh-ed25519 ")]:
        raise UsageError(
            f"--signed-by {strange[0]!r} is not a public key",
            hint="its value is the line itself, in quotes: --signed-by 'ssh-ed25519 AAAA…'",
        )
    return _loaded(flags, connection, _site_in_store(flags, connection))


def insist_on_manager(connection: Connection) -> None:
    """Refuse (UsageError) a restore without a config that lacks where to, as whom, or with which key."""
    needed = {"--manager": connection.manager, "--password": connection.password, "--identity": connection.identity}
    absent = [flag for flag, value in needed.items() if not value]
    if connection.replaces_config and absent:
        raise UsageError(f"without a config, a restore needs {', '.join(absent)}", hint="maint help bare-host")


def _site_in_store(flags: Flags, connection: Connection) -> str:
    """Return the name of the site that is meant, or of the only one in the store; Invalid: it is not there."""
    from maint.adapters.stores import Access, open_store  # few calls are without a config

    unsaid = _loaded(flags, connection, _UNSAID)
    settings = unsaid.site()
    if unsaid.path is not None:
        remove(unsaid.path)
    secrets = ReferencedSecrets(Path.cwd(), os.environ)
    assert settings.backup is not None  # the document below has it
    store = open_store(settings.backup.store, Access(settings.backup, settings.ssh, secrets))
    if flags.site and _sites(_manifests(store, _named(flags.site))):
        return flags.site
    manifests = _manifests(store, "")
    sites = _sites(manifests)
    if not sites and manifests:
        nearest = min(manifests, key=len)
        where = "above that of the site" if len(nearest) <= _BELOW else "/".join(nearest[: -1 - _BELOW]) + " in it"
        raise Invalid(f"there is no site in {store.location}", hint=f"--store: the store is the folder {where}")
    if not sites:
        raise Invalid(f"there is no snapshot in {store.location}", hint="is it the right folder?")
    if flags.site:
        raise Invalid(f"there is no snapshot of {flags.site} in {store.location}", hint=f"--site {sites[0]}")
    if len(sites) > 1:
        raise UsageError(f"{store.location} holds several sites", detail=sites, hint=f"choose one: --site {sites[0]}")
    return sites[0]


def _manifests(store: StoreSight, folder: str) -> set[tuple[str, ...]]:
    from maint.snapshots.parts import names_in

    return {tuple(name.split("/")) for name in names_in(store, folder) if f"/{name}".endswith(_MANIFEST)}


def _sites(manifests: Iterable[tuple[str, ...]]) -> list[str]:
    return sorted({site for site, *below in manifests if len(below) == _BELOW})


def _named(site: str) -> str:
    """Return a site's name; UsageError where it is none."""
    if "/" in site or site.startswith("."):
        raise UsageError(f"{site!r} is not a name of a site", hint="small letters, digits and dashes, such as prod-1")
    return site


def _loaded(flags: Flags, connection: Connection, site: str) -> Settings:
    home, path = state_home() / "bare", kept_config(_named(site))
    settings = _site(connection)
    given = {f"{group}.{key}": value for group, part in settings.items() for key, value in part.items()}
    named = ConfigFlags(site=site, values={key: (given[key], _OPTIONS[key]) for key in given.keys() & _OPTIONS.keys()})
    document: Mapping[str, Json] = {"state": str(home), "sites": {site: settings}}
    # A dry run writes nothing; who only looks says too little for a run that was stopped, and for the person who has
    # added to this config what that run needs.
    if flags.dry_run or not connection.manager:
        with TemporaryDirectory() as temporary:
            return _written(Path(temporary) / f"{site}.yaml", document, named)
    fresh = path.with_name(f".{site}-{os.getpid()}.yaml")
    try:
        # A mistake is kept nowhere, and replaces nothing that an unfinished run needs.
        _written(fresh, document, named)
        with writing(path, "remove what stands there, then again"):
            if (kept := _put_aside(path, fresh.read_bytes())) is not None:
                flags.screen().warn(f"{path} said something else than these flags: that is {kept} now")
            fresh.replace(path)
    finally:
        remove(fresh)
    return _read(path, named)


def _put_aside(path: Path, fresh: bytes) -> Path | None:
    """Keep what a config said beside it, where it is about to say something else: somebody may have added to it."""
    before = path.read_bytes() if path.exists() else fresh
    if before == fresh:
        return None
    for number in count(1):
        kept = path.with_name(f"{path.name}.{number}")
        if not visible(kept):
            write_file(kept, before)
        elif kept.read_bytes() != before:
            continue
        return kept
    return None


def _written(path: Path, document: Mapping[str, Json], named: ConfigFlags) -> Settings:
    write_file(path, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())  # JSON is YAML too
    return _read(path, named)


def _read(path: Path, named: ConfigFlags) -> Settings:
    # The environment of another installation has no say where everything comes from flags.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAINT_")}
    try:
        return load_settings(replace(named, config=str(path)), environ)
    except (Invalid, UsageError) as wrong:
        wrong.hint = "`maint help bare-host` tells what each flag takes"  # there is no file to look at
        raise


def _site(connection: Connection) -> Mapping[str, Mapping[str, Json]]:
    backup: dict[str, Json] = {
        "store": location(connection.store),
        "trusted_keys": list(connection.signed_by),
        "s3": s3_of(connection.s3),
    }
    ssh: dict[str, Json] = {"user": connection.ssh_user or "root", "port": connection.ssh_port or 22}
    backup |= {"identity": _reference(connection.identity)} if connection.identity else {"recipients": [_NOBODY]}
    for key, path in (("key", connection.ssh_key), ("known_hosts", connection.known_hosts)):
        if path:
            ssh[key] = _absolute(path)
    return {"manager": _manager(connection), "ssh": ssh, "backup": backup}


def _manager(connection: Connection) -> Mapping[str, Json]:
    manager: dict[str, Json] = {
        "host": _NOWHERE,
        "username": connection.username or "admin",
        "password": _reference(connection.password) if connection.password else _PASSWORD,
    }
    if connection.manager:
        host, ports = _host_and_ports(connection.manager)
        manager |= {"host": host, **dict(zip(("plain_port", "tls_port"), ports, strict=False))}
    if connection.bootstrap:
        manager["bootstrap"] = {"password": _reference(connection.bootstrap)}
    for key, path in (("ca", connection.ca), ("license", connection.license)):
        if path:
            manager[key] = _absolute(path)
    return manager


def _host_and_ports(text: str) -> tuple[str, list[int]]:
    host, *ports = text.split(":")
    if text.startswith("["):  # an IPv6 address keeps its colons in brackets
        host, _, rest = text[1:].partition("]")
        ports = rest.split(":")[1:]
    if len(ports) > 2 or not all(port.isascii() and port.isdigit() for port in ports):
        raise UsageError(f"--manager {text!r} makes no sense", hint="--manager HOST, or HOST:7180:7183")
    return host, [int(port) for port in ports]


def s3_of(said: Iterable[str]) -> dict[str, Json]:
    """Return `backup.s3` as `--s3` says it; UsageError where an item is none."""
    found: dict[str, Json] = {}
    for name, value in pairs_of("--s3", said, "endpoint=URL").items():
        if name not in _S3:
            raise UsageError(f"--s3 {name!r} is not known", hint=f"--s3 NAME=VALUE with {', '.join(_S3)}")
        found[name] = _absolute(value) if name == "ca" else _reference(value) if name.endswith("_key") else value
    return found


def location(text: str) -> str:
    """Return a store's address, a local one from where the operator is; UsageError: it holds a password."""
    if re.match(r"\w+://[^/@]*:[^/]*@", text):
        raise UsageError("--store must not hold a password", hint="an SSH key opens an SFTP store: --ssh-key; S3: --s3")
    return text if "://" in text else _absolute(text)


def _reference(text: str) -> str:
    """Return a reference whose path, if it has one, is meant from where the operator is."""
    try:
        check_reference(text)
    except ValueError as error:
        raise UsageError(
            f"a secret given by a flag {error}", hint="write file:PATH, the name of a file that holds it"
        ) from None
    kind, _, rest = text.partition(":")
    return f"file:{_absolute(rest)}" if kind == "file" and rest else text


def _absolute(path: str) -> str:
    return str(absolute(path))


def kept_config(site: str) -> Path:
    """Return where the options of a restore without a config are kept as one."""
    return state_home() / "bare" / f"{site}.yaml"


def with_kept_config(site: str) -> str:
    """Return the option with which commands find what a restore without a config was told."""
    return f"--config {shlex.quote(str(kept_config(site)))}"


def connected(words: str, connection: Connection, site: str) -> str:
    """Return words whose commands say again where the snapshots are; without a config, where everything is."""
    if connection.replaces_config:
        return words.replace("maint playbook resume", f"maint playbook resume {with_kept_config(site)}")
    return _READS_STORE.sub(lambda found: f"{found[0]} --store {shlex.quote(connection.store)}", words)


def with_store(named: ConfigFlags, connection: Connection) -> ConfigFlags:
    """Return the flags of a config with another store."""
    if not connection.store:
        return named
    return replace(named, values={"backup.store": (location(connection.store), "--store")})


def state_home() -> Path:
    """Return where the owner's programs keep state: `$XDG_STATE_HOME/maint`."""
    return Path(os.environ.get("XDG_STATE_HOME") or home() / ".local" / "state") / "maint"


_CLIENT = "cde"
_KEYS = ("user", "vcluster-endpoint", "tls-insecure", "tls-ca-certs", "auth-pass-file", "connect_to")
_VARIABLES = {key: f"CDE_{key.upper().replace('-', '_')}" for key in _KEYS}
_PROFILE = "CDE_CONFIG_PROFILE"


def client_site(environ: Mapping[str, str]) -> SiteSettings | None:
    """Return the site of the documented client's own configuration, None without one; Invalid: it cannot be used."""
    path = Path(environ.get("HOME", "/")) / ".cde" / "config.yaml"
    said = _settings_said(path, environ)
    if "vcluster-endpoint" not in said:
        return None
    address = _endpoint(said["vcluster-endpoint"], path)
    if not said.get("user"):
        raise Invalid(f"{path} names no user", hint="add `user:`, or export CDE_USER")
    cluster = VirtualClusterSettings.model_construct(
        name=_cluster_name(address),
        base_url=address,
        auth_url=gateway_of(address),
        username=said["user"],
        password=_password_of(said),
        connect_to=_connect_to(said["connect_to"], path) if said.get("connect_to") else None,
        ca=absolute(said["tls-ca-certs"]) if said.get("tls-ca-certs") else None,
    )
    if said.get("tls-insecure", "").lower() in ("true", "yes", "1"):
        cluster = cluster.unverified()
    state = state_home() / _CLIENT / (urlsplit(address).netloc.replace(":", "_") or "unknown")
    manager = ManagerSettings(host=_NOWHERE, password="prompt:Password of the manager's account")
    return SiteSettings.of(Site(manager=manager, virtual_clusters=(cluster,)), name=_CLIENT, state=state)


def _settings_said(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return all keys that are said: the environment first, then the chosen profile of the file, then the file itself;
    keys of no concern to us are left alone.
    """
    data = yaml.read(path).data if path.is_file() else {}
    if not isinstance(data, Mapping):
        raise Invalid(f"{path} is not a mapping", hint="such as `user: etl_user`")
    profiles = {str(one.get("name")): one for one in objects_of(data.get("profiles"))}
    chosen = environ.get(_PROFILE, "")
    if chosen and chosen not in profiles:
        hint = f"correct {_PROFILE}: it has {', '.join(profiles) or 'none'}; without that variable none counts"
        raise Invalid(f"{path} has no profile {chosen!r}", hint=hint)
    parts = (data, profiles.get(chosen, {}))
    found = {key: _spelled(part[key]) for part in parts for key in _VARIABLES if part.get(key) is not None}
    found |= {key: environ[name] for key, name in _VARIABLES.items() if environ.get(name)}
    if profiles and not found.get("vcluster-endpoint"):
        hint = f"export {_PROFILE} with the name of a profile that has one: {', '.join(profiles)}"
        raise Invalid(f"{path} names no vcluster-endpoint{f' for profile {chosen}' if chosen else ''}", hint=hint)
    return found


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _endpoint(text: str, path: Path) -> str:
    try:
        return jobs_api(text).rstrip("/")
    except ValueError as error:
        raise Invalid(f"{path}: vcluster-endpoint {error}", hint="such as https://HOST/dex/api/v1") from None


def _connect_to(text: str, path: Path) -> str:
    try:
        return endpoint(text)
    except ValueError as error:
        raise Invalid(f"{path}: connect_to {error}", hint="such as 10.0.0.7:443") from None


def gateway_of(address: str) -> str:
    """Return the gateway of a virtual cluster: the first label of its host is replaced (J1).

    An address has no labels: the gateway is taken to answer there too.
    """
    parts = urlsplit(address)
    try:
        ipaddress.ip_address(parts.hostname or "")
        return f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        _, dot, rest = parts.netloc.partition(".")
        return f"{parts.scheme}://service.{rest}" if dot else f"{parts.scheme}://{parts.netloc}"


def _cluster_name(address: str) -> str:
    label = (urlsplit(address).hostname or "").partition(".")[0]
    return label if is_cluster_name(label) else _CLIENT


def _password_of(said: Mapping[str, str]) -> str:
    file = said.get("auth-pass-file")
    return f"file:{absolute(file)}" if file else f"prompt:Password of {said['user']}"
