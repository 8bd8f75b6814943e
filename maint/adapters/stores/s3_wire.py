"""Where an S3-compatible service is, how requests get there within bounds, and what helps after a refusal."""

import io
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
from botocore.awsrequest import AWSResponse

from maint.adapters.clock import SystemClock
from maint.adapters.http.answers import read_reply
from maint.adapters.http.request import BLOCK, HttpCall, Signed, Timeouts
from maint.adapters.http.transport import Peer, Transport
from maint.config.stores import S3Settings
from maint.errors import CannotReach
from maint.model.secret import Secret, scrub
from maint.retry import delays

PIECE = 16 * 1024 * 1024  # bytes that are sent at once; 10,000 such pieces make the largest file
_AT_ONCE = 10  # connections that are kept
_LIMITS = Timeouts(connect=10.0, read=60.0, whole=1800.0)  # `whole` for each piece
_TRIAL = 3600.0  # seconds; the service refuses a time that its own clock has behind it
_READS = ("GET", "HEAD")
_CONFLICT = 409
_SLOW, _SLOWLY = 503, b"<Code>SlowDown"  # MinIO ends the code in Read or Write
_BUSY = (500, 502, 503, 504)  # which S3 asks its clients to try again


class S3Service(msgspec.Struct, frozen=True):
    """Where and how an S3-compatible service is reached."""

    said: S3Settings
    where: Callable[..., str]  # in the config that is said, or one key of it: see `S3Settings.where`
    access_key: Secret
    secret_key: Secret

    @property
    def up(self) -> str:
        """Return what to look at where no service answers, or none of S3."""
        if self.said.endpoint:
            return f"is the service up, and {self.where()}.endpoint right?"
        return (
            f"{self.where()}.endpoint is left out, which means Amazon's: can this machine reach that, or is it another?"
        )

    def retention(self, *, trial: bool) -> dict[str, object]:
        """Return what asks for object lock when an object is written now: of a trial, for as short as clocks allow."""
        if not self.said.lock:
            return {}
        until = datetime.now(UTC) + timedelta(seconds=min(self.said.lock, _TRIAL) if trial else self.said.lock)
        return {"ObjectLockMode": self.said.lock_mode.upper(), "ObjectLockRetainUntilDate": until}


class Wire:
    """Carries botocore's requests: its own client bounds no answer in bytes, and none in time."""

    def __init__(self, service: S3Service, address: str) -> None:
        peer = Peer(
            ca=service.said.ca,
            ca_hint=f"{service.where('ca')} must name a PEM file",
            authority_hint=f"give {service.where()}.ca the authority's certificate",
            name_setting=f"{service.where()}.endpoint",
            unreachable=lambda _: service.up,
            proxy=service.said.proxy or _proxy_for(address),
            usual_proxy=True,
            keep_open=_AT_ONCE,
        )
        self._where = service.where()
        self._transport = Transport(peer, _LIMITS, lambda _: None)

    def carry(self, request: Any, **_: object) -> AWSResponse:  # of what botocore tells, only the request matters
        """Send a request and return its answer, read whole unless it is a file's.

        Reads are tried three times, and so is a write of which S3 says that it was not looked at: for another one under
        the same name, or as too much is asked of it.
        """
        for pause in delays(0.5, 1.0, times=2):
            answer = self._sent(request)
            if answer.status_code not in (_BUSY if request.method in _READS else ()) and not _waits(request, answer):
                return answer
            SystemClock().sleep(pause)
        return self._sent(request)

    def _sent(self, request: Any) -> AWSResponse:
        headers = {name: _text(value) for name, value in request.headers.items() if name.lower() != "expect"}
        body = request.body if hasattr(request.body, "read") else io.BytesIO(request.body or b"")
        length, kind = body.seek(0, io.SEEK_END), headers.get("Content-Type", "application/octet-stream")
        body.seek(0)
        blocks = iter(partial(body.read, BLOCK), b"") if length else None
        total = None if request.stream_output else _LIMITS.whole * (1 + length // PIECE)
        call = HttpCall(request.method, request.url, _LIMITS.read, total, body=blocks, length=length, type=kind)
        answer = self._transport.stream(call, Signed(request.url, headers))
        # Without a region botocore would ask for it, and be sent elsewhere again, without end.
        if answer.status_code // 100 == 3 and "x-amz-bucket-region" not in answer.headers:
            to = scrub(answer.headers.get("Location", "").partition("?")[0])[:200]
            raise CannotReach(
                f"{call.origin} sends elsewhere ({answer.status_code})" + (f": to {to}" if to else ""),
                hint=ELSEWHERE.format(s3=self._where),
            )
        raw = answer.raw if request.stream_output and answer.ok else _Whole(read_reply(answer).content)
        return AWSResponse(request.url, answer.status_code, answer.headers, raw)


def _waits(request: Any, answer: AWSResponse) -> bool:
    """Whether S3 asks to send a write again, of which nothing came: under a condition it met another, or S3 is busy."""
    if answer.status_code == _CONFLICT:
        return "If-None-Match" in request.headers
    return answer.status_code == _SLOW and _SLOWLY in answer.content


class _Whole(io.BytesIO):
    """A body that has been read, as botocore takes it."""

    def stream(self) -> Iterator[bytes]:
        """Yield it at once."""
        yield self.read()


def _proxy_for(address: str) -> str | None:
    """Return what the environment names as proxy for an address."""
    parts = urlsplit(address)
    found = None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)
    return found if not found or "://" in found else f"http://{found}"


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


_RIGHTS = "look at the rights of the access key: `maint help stores` names those that it needs"
_IN_TROUBLE = "the service is busy or in trouble: try again later, and look at its state where that stays"
_FULL = "make room in the service, or have it allow more"
_REGION = "write in {s3}.region the region of the bucket, which the service names above"
# What botocore can follow alone, by the region that the service names, never comes here: then the address is fixed.
ELSEWHERE = "{s3}.endpoint must be the service itself, in the bucket's region"
CONDITION = "use a service that honours conditional writes (Ceph: a bucket without versioning)"
# What helps, by what S3 answers; `{s3}`: where the config says how the bucket is reached, `{access_key}`: that key.
_HINTS = {
    "403": _RIGHTS,
    "AccessDenied": _RIGHTS,
    "InvalidAccessKeyId": "look at {access_key}; keys that go with a session token cannot be used",
    "InvalidToken": "look at {access_key}; keys that go with a session token cannot be used",
    "ExpiredToken": "the access key has expired: have a new one made, for {access_key} and {secret_key}",
    "SignatureDoesNotMatch": "look at {secret_key}",
    "RequestTimeTooSkewed": "set this machine's clock right (timedatectl), or the service's",
    "NoSuchBucket": "look at the bucket's name in the address, and at {s3}.endpoint; a new bucket must be made first",
    "AuthorizationHeaderMalformed": _REGION,
    **dict.fromkeys(
        ("IllegalLocationConstraintException", "PermanentRedirect", "TemporaryRedirect", "301", "302", "307"), ELSEWHERE
    ),
    "EntityTooLarge": "the service ignores If-None-Match on uploads in pieces, and takes no file as large in one",
    "NotImplemented": CONDITION,
    "InvalidObjectState": "it lies in the service's archive: have it restored there first (aws s3api restore-object)",
    "QuotaExceeded": _FULL,
    "XMinioAdminBucketQuotaExceeded": _FULL,
    "XMinioStorageFull": _FULL,
}
_LOCK = "{no_lock}, or name a bucket that was made with object lock"
_ANSWERED = "the service is there, and refuses this: what it says of that code tells why; look at {s3} and the bucket"


def hint_for(answer: Mapping[str, Any], where: Callable[..., str]) -> str:
    """Return what helps after an error, as botocore reads it; `where` the config says how the bucket is reached."""
    error, about = answer.get("Error", {}), answer.get("ResponseMetadata", {})
    status, region = about.get("HTTPStatusCode", 0), about.get("HTTPHeaders", {}).get("x-amz-bucket-region", "")
    if error.get("Code") == "InvalidRequest" and "lock" in str(error.get("Message", "")).lower():
        found = _LOCK
    else:
        found = _HINTS.get(error.get("Code"), _ANSWERED if status < 500 else _IN_TROUBLE)
    own, lock = where(), where("lock")
    places = {key: where(key) for key in ("access_key", "secret_key")}
    no_lock = f"leave {lock} out" if lock.startswith(own) else f"write `lock: 0s` in {own} ({lock} is for all)"
    told = found.format(s3=own, no_lock=no_lock, **places)
    return told + (f", {region}" if region and found == ELSEWHERE else "")
