"""What one request is made of: the call, its credentials, and a form with one file."""

import hashlib
import secrets
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

import requests
from msgspec import Struct
from requests.auth import AuthBase

from maint.errors import Invalid, WorkFailed
from maint.model.secret import Secret
from maint.ports.virtual_cluster import Content

BLOCK = 256 * 1024  # bytes
JSON = "application/json"
MOST = 64 << 20  # bytes of an answer that is read whole


class Timeouts(Struct, frozen=True):
    """How long to wait, in seconds."""

    connect: float = 10.0  # for a connection, TLS included
    probe: float = 10.0  # for the answer to an anonymous probe
    read: float = 120.0  # for the answer to a read, and for each further part of it
    write: float = 600.0  # for the answer to a change or an upload
    export: float = 1800.0  # for the next bytes of an export; a large manager thinks for minutes (M7)
    whole: float = 1800.0  # for all of an answer that is read at once
    stream: float = 86_400.0  # for all of an answer that is read piece by piece


class HttpCall(Struct, frozen=True):
    """One request to come."""

    method: str
    url: str  # percent-encoded, with the query
    read: float  # seconds to wait for the answer, and for each further part of it
    # seconds for sending, waiting and reading together; None: as for an answer that is read at once
    total: float | None = None
    accept: str = "*/*"
    body: bytes | Iterable[bytes] | None = None  # in blocks or at once
    length: int = 0  # bytes of a body in blocks
    type: str = JSON

    @property
    def what(self) -> str:
        """The call in words, without host and query."""
        return f"{self.method} {urlsplit(self.url).path}"

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def prepare(self, auth: AuthBase | None, headers: Mapping[str, str]) -> requests.PreparedRequest:
        """Return the request as `requests` sends it; a body in blocks has a length and is never chunked (M14 U21)."""
        given = {
            "Accept": self.accept,
            "Accept-Encoding": "identity",
            "User-Agent": "maint",
            "Host": urlsplit(self.url).netloc,  # wherever the connection leads
            **headers,
        }
        whole = self.body if isinstance(self.body, bytes) else None
        prepared = requests.Request(self.method, self.url, headers=given, data=whole, auth=auth).prepare()
        if self.body is not None:
            prepared.headers["Content-Type"] = self.type
        if self.body is not None and whole is None:  # requests would read a file into memory, or choose chunks
            prepared.body = self.body  # type: ignore[assignment]  # urllib3 takes blocks, the stubs name bytes only
            prepared.headers["Content-Length"] = str(self.length)
        return prepared


class Basic(AuthBase):
    """Sends an account's name and password ahead of any challenge, in UTF-8 (M2.2); Invalid: a name that it cannot."""

    def __init__(self, username: str, password: Secret) -> None:
        if ":" in username:  # what follows it would count as the password, and count against another account
            raise Invalid(
                f"the account name {username!r} holds a colon, which HTTP Basic cannot carry",
                hint="let the config name an account without one",
            )
        self.username = username
        pair = f"{username}:{password.reveal()}".encode()
        self._header = Secret(b64encode(pair).decode("ascii"))

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Basic {self._header.reveal()}"
        return request


class Bearer(AuthBase):
    """Sends an access token."""

    def __init__(self, token: Secret) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token.reveal()}"
        return request


class Signed(AuthBase):
    """Sends headers that a signature covers, to the address as it was signed."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        usual = parts.port is None or (parts.scheme, parts.port) in (("http", 80), ("https", 443))
        self._url, host = url, parts.netloc.lower()  # which is what botocore signs
        self._headers = {"Host": host.rpartition(":")[0] if usual and parts.port else host, **headers}

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers.update(self._headers)
        request.url = self._url
        return request


class UploadForm:
    """A form with one file, read again at each iteration; `signature` is the SHA-1 of what was sent last, in hex."""

    def __init__(
        self, content: Content, name: str = "file", filename: str = "file", kind: str = "application/octet-stream"
    ) -> None:
        self._content = content
        boundary = f"maint-{secrets.token_hex(16)}"
        self._head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
            f"Content-Type: {kind}\r\n\r\n"
        ).encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self.type = f"multipart/form-data; boundary={boundary}"
        self.length = len(self._head) + content.size + len(self._tail)
        self.signature = ""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body in blocks; WorkFailed where the file is not as long as it was."""
        yield self._head
        yield from self._blocks()
        yield self._tail

    def _blocks(self) -> Iterator[bytes]:
        digest, sent = hashlib.sha1(usedforsecurity=False), 0
        with self._content.open() as file:
            while block := file.read(BLOCK):
                sent += len(block)
                if sent > self._content.size:
                    break
                digest.update(block)
                yield block
        if sent != self._content.size:
            raise WorkFailed("the file changed while it was sent", hint="start again once nobody writes to it")
        self.signature = digest.hexdigest()
