"""Work without a config: write one from what the flags say, into the owner's state folder.

So the flags are checked like a config, and a restore that stops can be taken up with nothing but that file. It holds
references to secrets, never secrets.
"""

import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from maint.cli.connection_options import Way
from maint.cli.flags import Flags
from maint.cli.paths import state_home
from maint.config.precedence import Flags as ConfigFlags
from maint.config.precedence import Settings, load_settings
from maint.config.secrets import ReferencedSecrets, check_reference
from maint.errors import Invalid, UsageError
from maint.files import make_folder
from maint.model.json import Json

_UNSAID = "unsaid"  # stands for a site's name until the store has told it
_NO_MANAGER = "manager.invalid"  # for commands that only look at a store: a name that never leads anywhere
_PASSWORD = "env:MANAGER_PASSWORD"
_NOBODY = f"age1{'q' * 58}"  # has a recipient's form, and encrypting for it fails: a config must name one
_S3 = ("endpoint", "region", "access_key", "secret_key", "ca")


def bare_settings(flags: Flags, way: Way) -> Settings:
    """Return the settings that the flags make.

    Raises:
        UsageError: a flag is missing, or makes no sense.
        Invalid: the store holds no site, or several.
    """
    if flags.config:
        raise UsageError(
            "these flags stand for a config, and --config names one", hint="leave out --config, or put them into it"
        )
    if not way.store:
        raise UsageError("without a config, --store says where the snapshots are", hint="--store /mnt/backups")
    if not way.signed_by:
        raise UsageError(
            "without a config, nobody says whose signatures to believe, and the first that comes along is not believed",
            detail=["anyone who can write to the store could have made a snapshot"],
            hint="--signed-by 'ssh-ed25519 AAAA…': the line in keys/signing.pub in the state folder of the machine "
            "that takes the backups; keep a copy of it beside the private key",
        )
    if strange := [key for key in way.signed_by if not key.startswith("ssh-ed25519 ")]:
        raise UsageError(
            f"--signed-by {strange[0]!r} is no public key",
            hint="its value is the line itself, in quotes: --signed-by 'ssh-ed25519 AAAA…'",
        )
    site = flags.site or _only_site(flags, way)
    return _loaded(flags, way, site)


def insist_on_manager(way: Way) -> None:
    """Refuse a restore without a config that was not told where to, as whom, and with which key.

    Raises:
        UsageError: a flag is missing.
    """
    needed = {"--manager": way.manager, "--password": way.password, "--identity": way.identity}
    absent = [flag for flag, value in needed.items() if not value]
    if way.is_bare and absent:
        raise UsageError(f"without a config, a restore needs {', '.join(absent)}", hint="maint help bare-host")


def _only_site(flags: Flags, way: Way) -> str:
    """Return the name of the one site in the store."""
    from maint.adapters.stores.open import Access, open_store

    unsaid = _loaded(flags, way, _UNSAID)
    settings = unsaid.site()
    if unsaid.path is not None:
        unsaid.path.unlink()
    secrets = ReferencedSecrets(Path.cwd(), os.environ)
    assert settings.backup is not None  # the document below has it
    store = open_store(settings.backup.store, Access(settings.backup, settings.ssh, secrets))
    sites = sorted({name.split("/")[0] for name in store.names() if name.endswith("/manifest.json")})
    if not sites:
        raise Invalid(f"there is no snapshot in {store.location}", hint="is it the right folder?")
    if len(sites) > 1:
        raise UsageError(f"{store.location} holds several sites", detail=sites, hint=f"choose one: --site {sites[0]}")
    return sites[0]


def _loaded(flags: Flags, way: Way, site: str) -> Settings:
    home = state_home() / "bare"
    path = home / f"{site}.yaml"
    if "/" in site or site.startswith("."):
        raise UsageError(f"{site!r} is no name of a site")
    document: Mapping[str, Json] = {"state": str(home), "sites": {site: _site(way)}}
    fresh = path.with_name(f".{site}-{os.getpid()}.yaml")
    try:
        _write(fresh, document)
        _read(flags, fresh, site)  # a mistake is kept nowhere, and replaces nothing that an unfinished run needs
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return _read(flags, path, site)


def _read(flags: Flags, path: Path, site: str) -> Settings:
    # The environment of another installation has no say where everything comes from flags.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAINT_")}
    return load_settings(ConfigFlags(config=str(path), site=site, output=flags.output, color=flags.color), environ)


def _site(way: Way) -> Mapping[str, Json]:
    backup: dict[str, Json] = {"store": location(way.store), "trusted_keys": list(way.signed_by), "s3": _s3(way)}
    ssh: dict[str, Json] = {"user": way.ssh_user or "root", "port": way.ssh_port or 22}
    backup |= {"identity": _reference(way.identity)} if way.identity else {"recipients": [_NOBODY]}
    for key, path in (("key", way.ssh_key), ("known_hosts", way.known_hosts)):
        if path:
            ssh[key] = _absolute(path)
    return {"manager": _manager(way), "ssh": ssh, "backup": backup}


def _manager(way: Way) -> Mapping[str, Json]:
    manager: dict[str, Json] = {
        "host": _NO_MANAGER,
        "username": way.username or "admin",
        "password": _reference(way.password) if way.password else _PASSWORD,
    }
    if way.manager:
        host, ports = _host_and_ports(way.manager)
        manager |= {"host": host, **dict(zip(("plain_port", "tls_port"), ports, strict=False))}
    if way.bootstrap:
        manager["bootstrap"] = {"password": _reference(way.bootstrap)}
    for key, path in (("ca", way.ca), ("license", way.license)):
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


def _s3(way: Way) -> Mapping[str, Json]:
    found: dict[str, Json] = {}
    for item in way.s3:
        name, equals, value = item.partition("=")
        if name not in _S3 or not equals:
            raise UsageError(f"--s3 {item!r} makes no sense", hint=f"--s3 NAME=VALUE with {', '.join(_S3)}")
        found[name] = _absolute(value) if name == "ca" else _reference(value) if name.endswith("_key") else value
    return found


def location(text: str) -> str:
    """Return a store's address; a local one as whoever types it means it, from where they are.

    Raises:
        UsageError: it holds a password, which must not be written into the config that flags make.
    """
    if re.match(r"\w+://[^/@]*:[^/]*@", text):
        raise UsageError("--store must not hold a password", hint="an SSH key opens an SFTP store: --ssh-key; S3: --s3")
    return text if "://" in text else _absolute(text)


def _reference(text: str) -> str:
    """Return a reference whose path, if it has one, is meant from where the operator is.

    Raises:
        UsageError: it is none; the words never repeat it, since it may be the secret itself.
    """
    try:
        check_reference(text)
    except ValueError as error:
        raise UsageError(
            f"a secret given by a flag {error}", hint="write file:PATH, the name of a file that holds it"
        ) from None
    kind, _, rest = text.partition(":")
    return f"file:{_absolute(rest)}" if kind == "file" and rest else text


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _write(path: Path, document: Mapping[str, Json]) -> None:
    """Write the file, for its owner alone; JSON is YAML too."""
    make_folder(path.parent)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def way_on(hint: str, way: Way, settings: Settings) -> str:
    """Return a hint whose command to take a run up says again where everything is."""
    more = f"--config {shlex.quote(str(settings.path))}" if way.is_bare else f"--store {shlex.quote(way.store)}"
    return hint.replace("maint playbook resume", f"maint playbook resume {more}")


def with_store(named: ConfigFlags, way: Way) -> ConfigFlags:
    """Return the flags of a config with another store."""
    if not way.store:
        return named
    return replace(named, values={"backup.store": (location(way.store), "--store")})
