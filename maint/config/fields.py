"""The kinds of value that the configuration knows: names, ports, references, URLs, keys."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)

from maint.config.secrets import check_reference
from maint.model.formatting import duration_of
from maint.model.virtual_cluster import is_cluster_name

PathOf: TypeAlias = Callable[[str], Path]
"""Turns a path as it is written into an absolute one; given to pydantic as the context of what is read."""


class Strict(BaseModel):
    """A model that accepts nothing it does not know, converts nothing, and never changes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True
    )  # defer_build: a command uses a few of the many models


_LONGEST_NAME = 255  # bytes: no file system has longer names
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_HOST = r"(?!-)(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*(?<![_-])"  # no resolver takes more
_RECIPIENT = r"age1[02-9ac-hj-np-z]{58}"
_PUBLIC_KEY = r"ssh-ed25519 [A-Za-z0-9+/]{68}={0,2}( \S.*)?"
_API = r"v([1-9][0-9]{0,2})"
STORE_URLS = {"sftp": "sftp://HOST/PATH", "s3": "s3://BUCKET/PREFIX"}  # by scheme
STORES = f"a path, {' or '.join(STORE_URLS.values())}"
_LONGEST_WAIT = 366 * 86400.0  # seconds


def _fitting(fits: Callable[[str], object], words: str) -> AfterValidator:
    def judge(text: str) -> str:
        if not fits(text):
            raise ValueError(words)
        return text

    return AfterValidator(judge)


def _shaped(shape: str, words: str) -> AfterValidator:
    return _fitting(lambda text: re.fullmatch(shape, text), words)


def _without_zone(host: str | None) -> None:
    """Judge an address; ValueError: it holds for one interface of one machine, and no certificate names it."""
    if host and {*":%"} <= {*host}:
        raise ValueError("must not name a zone (what follows %): give a name, or an address without one")


def _in_url(host: str | None) -> None:
    """Judge the host of a URL, where letters beyond ASCII and a dot at the end are allowed; ValueError: it is none."""
    _without_zone(host)
    try:
        _host((host or "").removesuffix(".").encode("idna").decode())
    except ValueError:
        raise ValueError("must name a host or an address that can be one") from None  # the text may be a secret's


def _host(text: str) -> str:
    _without_zone(text)
    try:
        ipaddress.ip_address(text)
    except ValueError:
        if not re.fullmatch(_HOST, text):
            raise ValueError("must be a host name or an address, without scheme, user or port") from None
    return text


def _recipient(text: str) -> str:
    if text.upper().startswith("AGE-SECRET-KEY-"):
        raise ValueError("is a private key; recipients are public keys (age1…)")
    if not re.fullmatch(_RECIPIENT, text):
        raise ValueError("must be an age public key: age1 and 58 more characters")
    return text


def _api_version(value: object) -> int:
    found = re.fullmatch(_API, value) if isinstance(value, str) else None
    if not found:
        raise ValueError("must be an API version such as v45")
    return int(found.group(1))


def url(text: str) -> str:
    """Return an address that begins with https://, or leads to this machine; ValueError says what one looks like."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("must be a URL such as https://HOST/PATH") from None
    if not host or parts.username is not None or parts.password is not None or any(c.isspace() for c in text):
        raise ValueError("must be a URL such as https://HOST/PATH, without user or password")
    _in_url(host)
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback(host)):
        raise ValueError("must begin with https://")
    return text


API_PATH = "/dex/api/v1"  # what every jobs API's address ends with (seed document)


def _bare_url(text: str) -> str:
    if any(c in "?#" for c in text):
        raise ValueError("must be a URL such as https://HOST/PATH, and nothing behind the path")
    return text


def jobs_api(text: str) -> str:
    """Return an address that is a jobs API's; ValueError says what one looks like."""
    if not urlsplit(_bare_url(url(text))).path.rstrip("/").endswith(API_PATH):
        raise ValueError(f"must end with {API_PATH}, as the address of a jobs API does")
    return text


def _proxy(text: str) -> str:
    wanted = "must be http://HOST:PORT, without user or password"
    try:
        parts = urlsplit(text)
        whole = parts.scheme == "http" and parts.hostname and parts.port
    except ValueError:
        raise ValueError(wanted) from None
    if not whole or "@" in parts.netloc or parts.path not in ("", "/") or any(c.isspace() or c in "?#" for c in text):
        raise ValueError(wanted)
    _in_url(parts.hostname)
    return text


def loopback(host: str) -> bool:
    """Whether a host name leads to this machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_address(text: str) -> bool:
    """Whether a value that may be an address or a reference to one is the address itself."""
    return text.startswith(("https://", "http://"))


def _url_reference(text: str) -> str:
    return url(text) if is_address(text) else check_reference(text)


def endpoint(text: str) -> str:
    """Return HOST:PORT; ValueError says what one looks like."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65535):
        raise ValueError("must be HOST:PORT")
    _host(host.removeprefix("[").removesuffix("]"))
    return text


def _store(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    if not separator:
        _path(text)
        return text
    if scheme not in STORE_URLS or not rest:
        raise ValueError(f"must be {STORES}")
    try:
        parts = urlsplit(text)
        found = parts.hostname and parts.port != 0 and (scheme == "s3" or parts.path.strip("/") not in ("", "~"))
    except ValueError:
        raise ValueError(f"must be {STORES}") from None
    if parts.password is not None:
        raise ValueError("must not hold a password")
    if cut := next((one for one in text if one in "?#"), ""):  # else what follows would not count, and nobody see it
        raise ValueError(f"must spell {cut} as %{ord(cut):X}: what follows it in a URL is no part of its path")
    if not found:
        raise ValueError(f"must be {STORES}")
    if scheme != "s3":  # whose bucket stands there
        _in_url(parts.hostname)
    return text


def _path(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must be a path, not empty")
    return value


def _placed(path: Path, info: ValidationInfo) -> Path:
    if any(len(part.encode(errors="surrogateescape")) > _LONGEST_NAME for part in path.parts):
        raise ValueError(f"must be a path whose parts have at most {_LONGEST_NAME} bytes each")
    place: PathOf | None = info.context
    return place(str(path)) if place else path


def _placed_store(text: str, info: ValidationInfo) -> str:
    return text if "://" in text else str(_placed(Path(text), info))


def _placed_principal(text: str, info: ValidationInfo) -> str:
    return f"file:{_placed(Path(text.removeprefix('file:')), info)}" if text.startswith("file:") else text


def _address(value: Any, known: ValidatorFunctionWrapHandler, info: ValidationInfo) -> str:  # Any: whatever is written
    found: str = info.data.get("name", "") if value is None else known(value)
    return found


def _wait(found: float) -> float:
    if found > _LONGEST_WAIT:
        raise ValueError("must be at most 366d")
    return found


def _principal(text: str) -> str:
    if text.startswith("file:"):
        return check_reference(text)
    if not text or not text.isprintable() or text != text.strip() or " " in text:
        raise ValueError("must be one clean line such as user@REALM, or file:PATH")
    return text


WORD, SHARE, BELOW_ROOT = r"^[a-z][a-z0-9_]*$", r"^(100|[1-9]?[0-9])%$", "^/"
SHAPES = {
    WORD: "must be a name of small letters, digits and underscores, such as first_try",
    SHARE: "must be a number such as 2, or a part of them such as 25%",
    BELOW_ROOT: "must begin with /",
}
"""Patterns that stand in the schemas for editors, and what to say of a text that does not fit one."""
Name = Annotated[str, _shaped(_NAME, "must be a name of letters, digits, dots, dashes and underscores, at most 64")]
ClusterName = Annotated[
    str, _fitting(is_cluster_name, "must have 3 to 30 letters, digits and hyphens, and begin with a letter")
]
HostName = Annotated[str, AfterValidator(_host)]
Address = Annotated[HostName, WrapValidator(_address)]
Port = Annotated[int, Field(ge=1, le=65535)]
Count = Annotated[int, Field(ge=0, le=100_000)]
Reference = Annotated[str, AfterValidator(check_reference)]
Recipient = Annotated[str, AfterValidator(_recipient)]
PublicKey = Annotated[str, _shaped(_PUBLIC_KEY, "must be an OpenSSH public key: ssh-ed25519 AAAA…")]
ApiVersion = Annotated[
    int,
    BeforeValidator(_api_version),
    PlainSerializer(lambda number: f"v{number}", return_type=str),  # as it is written, so that it can be read again
    WithJsonSchema({"type": "string", "pattern": f"^{_API}$"}),
]
Url = Annotated[str, AfterValidator(url), AfterValidator(_bare_url)]
JobsApi = Annotated[str, AfterValidator(jobs_api)]
UrlReference = Annotated[str, AfterValidator(_url_reference)]
Proxy = Annotated[str, AfterValidator(_proxy)]
Endpoint = Annotated[str, AfterValidator(endpoint)]
StoreAddress = Annotated[str, AfterValidator(_store), AfterValidator(_placed_store)]
FilePath = Annotated[Path, BeforeValidator(_path), AfterValidator(_placed), WithJsonSchema({"type": "string"})]
FarPath = Annotated[
    str,
    _fitting(
        lambda text: text.startswith("/") and text.isprintable() and not text.endswith("/"),
        "must be the absolute path of a file on that host",
    ),
]
Said = Annotated[str, _fitting(str.strip, "must say something, not be blank")]
Principal = Annotated[str, AfterValidator(_principal), AfterValidator(_placed_principal)]
Text = Annotated[str, Field(min_length=1)]
Duration = Annotated[
    float,
    BeforeValidator(duration_of),
    WithJsonSchema({"type": ["string", "number"], "description": "90s, 30m, 24h, 7d, or a number of seconds"}),
]
"""Seconds, written as `90s` or as a plain number."""
Limit = Annotated[Duration, Field(gt=0)]
"""Seconds within which something must be, so more than none."""
Wait = Annotated[Duration, AfterValidator(_wait)]
"""How long a run waits, in seconds: at most 366 days."""
