"""The kinds of value that the configuration knows: names, ports, references, URLs, keys."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from maint.config.durations import DURATION_SCHEMA, seconds
from maint.config.models import After, Before, Field, Shown
from maint.config.secrets import check_reference
from maint.model.virtual_cluster import is_cluster_name

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_RECIPIENT = re.compile(r"age1[02-9ac-hj-np-z]{58}")
_PUBLIC_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}={0,2}( \S.*)?")
_API = re.compile(r"v([1-9][0-9]{0,2})")
_STORE_SCHEMES = ("sftp", "s3")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("must be a name of letters, digits, dots, dashes and underscores, at most 64")
    return text


def _host(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if not _HOST.fullmatch(text):
            raise ValueError("must be a host name or an address, without scheme, user or port") from None
    return text


def _cluster_name(text: str) -> str:
    if not is_cluster_name(text):
        raise ValueError("must have 3 to 30 letters, digits and hyphens, and begin with a letter")
    return text


def _recipient(text: str) -> str:
    if text.upper().startswith("AGE-SECRET-KEY-"):
        raise ValueError("is a private key; recipients are public keys (age1…)")
    if not _RECIPIENT.fullmatch(text):
        raise ValueError("must be an age public key: age1 and 58 more characters")
    return text


def _public_key(text: str) -> str:
    if not _PUBLIC_KEY.fullmatch(text):
        raise ValueError("must be an OpenSSH public key: ssh-ed25519 AAAA…")
    return text


def _api_version(value: object) -> int:
    found = _API.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ValueError("must be an API version such as v45")
    return int(found.group(1))


def url(text: str) -> str:
    """Return an address that begins with https://, or leads to this machine.

    Raises:
        ValueError: it does not; the words say what one looks like.
    """
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("must be a URL such as https://HOST/PATH") from None
    if not host or parts.username is not None or parts.password is not None or any(c.isspace() for c in text):
        raise ValueError("must be a URL such as https://HOST/PATH, without user or password")
    if parts.scheme != "https" and not (parts.scheme == "http" and _loopback(host)):
        raise ValueError("must begin with https://")
    return text


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def endpoint(text: str) -> str:
    """Return HOST:PORT.

    Raises:
        ValueError: it is not; the words say what one looks like.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535):
        raise ValueError("must be HOST:PORT")
    _host(host.removeprefix("[").removesuffix("]"))
    return text


def _store(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _path(text)
    if scheme not in _STORE_SCHEMES or not rest:
        raise ValueError("must be a path, sftp://HOST/PATH or s3://BUCKET/PREFIX")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError("must be a path, sftp://HOST/PATH or s3://BUCKET/PREFIX") from None
    if parts.password is not None:
        raise ValueError("must not hold a password")
    return text


def _path(text: str) -> str:
    if not text.strip():
        raise ValueError("must be a path, not empty")
    return text


def _far_path(text: str) -> str:
    if not text.startswith("/") or not text.isprintable() or text.endswith("/"):
        raise ValueError("must be the absolute path of a file on that host")
    return text


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("must say something, not be blank")
    return text


def _principal(text: str) -> str:
    if text.startswith("file:"):
        return check_reference(text)
    if not text or not text.isprintable() or text != text.strip() or " " in text:
        raise ValueError("must be one clean line such as user@REALM, or file:PATH")
    return text


Name = Annotated[str, After(_name)]
ClusterName = Annotated[str, After(_cluster_name)]
HostName = Annotated[str, After(_host)]
Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=0, le=100_000)]
Reference = Annotated[str, After(check_reference)]
Recipient = Annotated[str, After(_recipient)]
PublicKey = Annotated[str, After(_public_key)]
ApiVersion = Annotated[int, Before(_api_version), Shown({"type": "string", "pattern": f"^{_API.pattern}$"})]
Url = Annotated[str, After(url)]
Endpoint = Annotated[str, After(endpoint)]
StoreAddress = Annotated[str, After(_store)]
FilePath = Annotated[str, After(_path)]
FarPath = Annotated[str, After(_far_path)]
Said = Annotated[str, After(_said)]
Principal = Annotated[str, After(_principal)]
Text = Annotated[str, Field(min_length=1)]
Duration = Annotated[float, Before(seconds), Shown(DURATION_SCHEMA)]
