"""The documented client's own configuration, for machines without ours (contract section 10.1)."""

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from maint.cli.paths import state_home
from maint.config import yaml
from maint.config.fields import endpoint, url
from maint.config.schema import ManagerSettings, Site, SiteSettings, VirtualClusterSettings
from maint.errors import Invalid
from maint.model.virtual_cluster import is_cluster_name

SITE = "cde"
_NO_MANAGER = ManagerSettings(host="manager.invalid", password="prompt:Password of the manager's account")
_VARIABLES = {
    "user": "CDE_USER",
    "vcluster-endpoint": "CDE_VCLUSTER_ENDPOINT",
    "tls-insecure": "CDE_TLS_INSECURE",
    "tls-ca-certs": "CDE_TLS_CA_CERTS",
    "auth-pass-file": "CDE_AUTH_PASS_FILE",
    "connect_to": "CDE_CONNECT_TO",
}


def vendor_site(environ: Mapping[str, str]) -> SiteSettings | None:
    """Return the site that `~/.cde/config.yaml` and its variables describe, None where they describe none.

    Raises:
        Invalid: the file is no mapping, or lacks a key.
    """
    path = Path(environ.get("HOME", "/")) / ".cde" / "config.yaml"
    said = _said(path, environ)
    if "vcluster-endpoint" not in said:
        return None
    address = _endpoint(said["vcluster-endpoint"], path)
    if not said.get("user"):
        raise Invalid(f"{path} names no user", hint="add `user:`, or export CDE_USER")
    cluster = VirtualClusterSettings.model_construct(
        name=_name(address),
        base_url=address,
        auth_url=gateway_of(address),
        username=said["user"],
        password=_password(said),
        connect_to=_way(said["connect_to"], path) if said.get("connect_to") else None,
        ca=Path(said["tls-ca-certs"]).expanduser().absolute() if said.get("tls-ca-certs") else None,
    )
    if said.get("tls-insecure", "").lower() in ("true", "yes", "1"):
        cluster = cluster.unverified()
    state = state_home() / SITE / (urlsplit(address).netloc.replace(":", "_") or "unknown")
    return SiteSettings.of(Site(manager=_NO_MANAGER, virtual_clusters=(cluster,)), name=SITE, state=state)


def _said(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return all keys that are said, the environment before the file; keys of no concern to us are left alone."""
    found: dict[str, str] = {}
    if path.is_file():
        data = yaml.read(path).data
        if not isinstance(data, Mapping):
            raise Invalid(f"{path} is no mapping", hint="such as `user: etl_user`")
        found = {key: _text(data[key]) for key in _VARIABLES if data.get(key) is not None}
    return found | {key: environ[name] for key, name in _VARIABLES.items() if environ.get(name)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _endpoint(text: str, path: Path) -> str:
    try:
        return url(text).rstrip("/")
    except ValueError as error:
        raise Invalid(f"{path}: vcluster-endpoint {error}", hint="such as https://HOST/dex/api/v1") from None


def _way(text: str, path: Path) -> str:
    try:
        return endpoint(text)
    except ValueError as error:
        raise Invalid(f"{path}: connect_to {error}", hint="such as 10.0.0.7:443") from None


def gateway_of(address: str) -> str:
    """Return the gateway of a virtual cluster: the first label of its host is replaced (contract section 1).

    An address has no labels: the gateway is taken to answer there too.
    """
    parts = urlsplit(address)
    try:
        ipaddress.ip_address(parts.hostname or "")
        return f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        _, dot, rest = parts.netloc.partition(".")
        return f"{parts.scheme}://service.{rest}" if dot else f"{parts.scheme}://{parts.netloc}"


def _name(address: str) -> str:
    label = (urlsplit(address).hostname or "").partition(".")[0]
    return label if is_cluster_name(label) else SITE


def _password(said: Mapping[str, str]) -> str:
    file = said.get("auth-pass-file")
    return f"file:{Path(file).expanduser().absolute()}" if file else f"prompt:Password of {said['user']}"
