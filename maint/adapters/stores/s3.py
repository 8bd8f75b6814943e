"""Keep snapshots in an S3-compatible object store, each object written once, whole or not at all, by botocore."""

import base64
import hashlib
import io
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import SplitResult, unquote

from maint.adapters.clock import SystemClock
from maint.adapters.stores import Access
from maint.adapters.stores.stored_files import (
    Writer,
    is_left_over,
    is_staging,
    is_trial,
    passed,
    reader,
    split_name,
    split_prefix,
    staging_name,
)
from maint.config.secrets import in_one_line
from maint.errors import CannotReach, Invalid, Stopped, StoreFailed, WorkFailed
from maint.files import spool
from maint.model.secret import scrub
from maint.retry import briefly

try:
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.loaders import create_loader
    from botocore.parsers import ResponseParserError
    from botocore.session import Session

    from maint.adapters.stores.s3_wire import CONDITION, PIECE, S3Service, Wire, hint_for
except ImportError:
    raise Invalid("S3 stores need botocore, which is not installed", hint="pip install 'maint[s3]'") from None

_BUFFER = 256 * 1024
_PAGES = 2000  # of a list, of up to 1000 files each
_MISSING = frozenset({"404", "NoSuchKey", "NotFound"})
_TAKEN = frozenset({"412", "PreconditionFailed"})
_ENDED = "NoSuchUpload"
_OURS = _TAKEN | {_ENDED}  # by ourselves, it may be: a proxy on the way may send a request again
_UNUSABLE = (ResponseParserError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError)
_WRITER = "maint-writer"
_PASSING = re.compile(r"[^/]+/(under-way|lease|clock)/[^/]+")  # of a site: what goes again with the run that wrote it
_BUCKET = re.compile(r"[\w.-]{1,255}", re.ASCII)  # what botocore sends at all; the services know better
_descriptions = cache(create_loader)  # of services, which take most of the time that a client takes: for every store


def opened(parts: SplitResult, access: Access) -> "S3Store":
    """Return the store at s3://BUCKET/PREFIX; Invalid where that names no bucket."""
    if not parts.hostname or parts.port or parts.username:
        words = f"{parts.geturl()!r} names no bucket"
        raise Invalid(words, hint="write s3://BUCKET/PREFIX; backup.s3 says where that is")
    if not _BUCKET.fullmatch(parts.netloc):
        words = f"{parts.netloc!r} cannot be the name of a bucket"
        raise Invalid(words, hint="write s3://BUCKET/PREFIX with letters, digits, dots and hyphens in BUCKET")
    own = access.backup.s3.of(parts.netloc)
    keys = [in_one_line(access.secrets.resolve(one), one) for one in (own.access_key, own.secret_key)]
    service = S3Service(own, partial(access.backup.s3.where, parts.netloc), *keys)
    return S3Store(service, parts.netloc, unquote(parts.path))


class S3Store:
    """`ports.Store` below a prefix, which may be empty, of a bucket that exists.

    No write is sent a second time by itself, unless S3 says that it was not looked at. Every object is put on the
    condition that its name is free; a service that ignores the condition is refused at the first write. What is
    larger than a piece goes up in pieces, and a small object beside it names the writer, so that a later run can take
    back what a dead one left. Some services, as Ceph's gateway, ignore the condition on pieces: where a trial shows
    that, a large file is put as one.
    """

    def __init__(self, service: S3Service, bucket: str, prefix: str) -> None:
        self._service = service
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._once = f"{self._prefix}.write-once"
        self._proven = self._made_once = False
        self._pieces: bool | None = None  # None: not tried yet

    @property
    def location(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def names(self, prefix: str = "") -> Iterator[str]:
        for name, _ in self._listed("/".join(split_prefix(prefix))):
            if not any(part.startswith(".") for part in name.split("/")):
                yield name

    def size(self, name: str) -> int | None:
        found = self._facts(name)
        return None if found is None else int(found["ContentLength"])

    def written(self, name: str) -> datetime | None:
        """Return when a file was written, by the service's clock; None where there is none."""
        found = self._facts(name)
        return None if found is None else cast(datetime, found["LastModified"])

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        key, words = self._key(name), f"cannot read {name}"
        with self._failing(words):
            try:
                body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
            except ClientError as error:
                if _code_of(error) not in _MISSING:
                    raise
                body = None
        if body is None:
            raise FileNotFoundError(f"no file {name} in {self.location}")
        try:
            yield reader(body.read, partial(self._failing, words), _BUFFER)
        finally:
            body.close()

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Write a new file, committed when the block ends well, else gone; FileExistsError where there is one."""
        key, words = self._key(name), f"cannot write {name}"
        with self._failing(words):
            if self._head(key) is not None:
                raise FileExistsError(f"there is a file {name} already in {self.location}")
            self._prove_condition()
        kept = {} if _PASSING.fullmatch(name) else self._service.retention(trial=is_trial(name))
        upload = _Upload(self._client, self._bucket, key, kept, self._takes_pieces)
        try:
            yield cast(BinaryIO, Writer(upload.write, partial(self._failing, words)))
            with self._failing(words):
                upload.finish()
        except BaseException:
            upload.abort()
            raise

    def remove(self, name: str) -> None:
        """Remove a file; no complaint where there is none. With a trial goes what it had to leave beside it."""
        key = self._key(name)
        with self._failing(f"cannot remove {name}"):
            self._client.delete_object(Bucket=self._bucket, Key=key)
        if self._made_once and is_trial(name):
            with self._failing("cannot remove .write-once"):
                self._client.delete_object(Bucket=self._bucket, Key=self._once)
            self._made_once = self._proven = False

    def sweep(self, prefix: str = "") -> int:
        """Abort uploads of dead writers, and remove old trials; return how many uploads."""
        folder = "/".join(split_prefix(prefix))
        listed = [*self._listed(folder)]
        now = passed(at for _, at in listed)
        marks = [(n, at) for n, at in listed if is_staging(n)]
        living: set[str] = set()
        swept = 0
        with self._failing("cannot sweep"):
            for name, touched in marks:
                folder_of, _, mark = name.rpartition("/")
                if not is_left_over(mark, touched, now):
                    living.add(folder_of)
            for upload in self._uploads(folder):
                where = upload["Key"].removeprefix(self._prefix).rpartition("/")[0]
                marked = any(name.rpartition("/")[0] == where for name, _ in marks)
                if where not in living and (marked or is_left_over("", upload["Initiated"], now)):
                    _abort_upload(self._client, self._bucket, upload["Key"], upload["UploadId"])
                    swept += 1
            for name, touched in [*marks, *((n, at) for n, at in listed if is_trial(n))]:
                if is_left_over(name.rpartition("/")[2], touched, now):
                    self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)
        return swept

    @cached_property
    def _client(self) -> Any:  # botocore makes its clients from descriptions of services, without types
        service, session = self._service, Session()
        for variable in ("config_file", "credentials_file"):  # our own configuration counts, and no other
            session.set_config_variable(variable, "/dev/null")
        session.register_component("data_loader", _descriptions())
        client = session.create_client(
            "s3",
            region_name=service.said.region,
            endpoint_url=service.said.endpoint,
            aws_access_key_id=service.access_key.reveal(),
            aws_secret_access_key=service.secret_key.reveal(),
            config=Config(
                retries={"total_max_attempts": 1},
                s3={"addressing_style": "path" if service.said.endpoint else "auto"},
                request_checksum_calculation="when_required",
                ignore_configured_endpoint_urls=True,
            ),
        )
        client.meta.events.register("before-send.s3", Wire(service, client.meta.endpoint_url).carry)
        return client

    def _key(self, name: str) -> str:
        return self._prefix + "/".join(split_name(name))

    def _facts(self, name: str) -> Mapping[str, Any] | None:
        key = self._key(name)
        with self._failing(f"cannot look at {name}"):
            return self._head(key)

    def _head(self, key: str) -> Mapping[str, Any] | None:
        return _head(self._client, self._bucket, key)

    def _listed(self, folder: str) -> Iterator[tuple[str, datetime]]:
        token: dict[str, str] = {}
        start = self._prefix + (f"{folder}/" if folder else "")
        for _ in range(_PAGES):
            with self._failing("cannot list"):
                page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=start, **token)
                after = self._after(page, "ContinuationToken")
                found = [(str(entry["Key"]), entry["LastModified"]) for entry in page.get("Contents", ())]
            for key, written in found:
                if key.startswith(start):  # whatever else is listed is not ours
                    yield key.removeprefix(self._prefix), written
            if after is None:
                return
            token = after
        raise self._endless()

    def _uploads(self, folder: str) -> list[Mapping[str, Any]]:
        token: dict[str, str] = {}
        start = self._prefix + (f"{folder}/" if folder else "")
        found: list[Mapping[str, Any]] = []
        for _ in range(_PAGES):
            page = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=start, **token)
            found += [upload for upload in page.get("Uploads", ()) if upload["Key"].startswith(start)]
            after = self._after(page, "KeyMarker", "UploadIdMarker")
            if after is None:
                return found
            token = after
        raise self._endless()

    def _endless(self) -> StoreFailed:
        words = f"cannot list in {self.location}: the service gave {_PAGES} pages, and says that there are more"
        return StoreFailed(words, hint="a list that does not end comes from a service that is broken, or lies")

    def _after(self, page: Mapping[str, Any], *marks: str) -> dict[str, str] | None:
        """Return what asks for the next page, None where there is none."""
        if "IsTruncated" not in page:
            raise ValueError("it is not a list")
        if not page["IsTruncated"]:
            return None
        token = {mark: str(page.get(f"Next{mark}") or "") for mark in marks}
        if not all(token.values()):
            raise StoreFailed(
                f"cannot list in {self.location}: the service says that there is more, and not where it goes on",
                hint="use a service that lists in pages as S3 does",
            )
        return token

    def _prove_condition(self) -> None:
        if self._proven:
            return
        for _ in range(2):
            try:
                _put_empty(self._client, self._bucket, self._once)
                self._made_once = True
            except ClientError as error:
                if _code_of(error) not in _TAKEN:
                    raise
                self._proven = True
                return
        raise StoreFailed(
            f"{self.location} overwrites what is there: it ignores the condition If-None-Match",
            hint=f"{CONDITION}; backups there could be replaced",
        )

    def _takes_pieces(self) -> bool:
        """Return whether the condition holds for what goes up in pieces, too, by trying it on a name that is taken."""
        if self._pieces is None:
            trial = _Upload(self._client, self._bucket, self._once, {}, lambda: True)
            try:
                trial.send(b"tried")
                trial.finish()
                self._pieces = False
            except FileExistsError:
                self._pieces = True
            finally:
                trial.abort()
        return self._pieces

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError:
            raise
        except ClientError as error:
            answer = error.response.get("Error", {})
            words = scrub(f"{answer.get('Code', 'error')}: {answer.get('Message', 'no words')}")
            hint = hint_for(error.response, self._service.where)
            raise StoreFailed(f"{what} in {self.location}", detail=[words], hint=hint) from None
        except _UNUSABLE as error:
            unusable = f"{what} in {self.location}: its answer is not what S3 answers"
            raise StoreFailed(unusable, detail=[scrub(str(error))[:200]], hint=self._service.up) from None
        except CannotReach as error:
            said = [error.message, *error.detail]
            raise StoreFailed(f"{what} in {self.location}", detail=said, hint=error.hint) from None
        except (BotoCoreError, OSError) as error:
            _insist(error)
            raise StoreFailed(f"{what} in {self.location}", detail=[str(error)], hint=self._service.up) from None


class _Upload:
    # The client: see S3Store._client; `retention`: what asks for object lock; `pieces`: whether they may be sent.
    def __init__(
        self, client: Any, bucket: str, key: str, retention: Mapping[str, object], pieces: Callable[[], bool]
    ) -> None:
        self._retention = retention
        self._client, self._bucket, self._key = client, bucket, key
        self._may_send = pieces
        self._name = staging_name()
        self._waiting = bytearray()
        self._whole: BinaryIO | None = None  # what waits where no pieces may be sent
        self._pieces: list[dict[str, object]] = []
        self._id: str | None = None

    def write(self, block: bytes | bytearray | memoryview) -> int:
        """Take a block, and send a piece when there is enough."""
        self._waiting += block
        while len(self._waiting) > PIECE:
            if self._whole is None and self._may_send():
                self.send(bytes(self._waiting[:PIECE]))
                del self._waiting[:PIECE]
            else:
                self._keep()
        return len(block)

    def _keep(self) -> None:
        try:
            self._whole = self._whole or spool(Path(tempfile.gettempdir()))
            self._whole.write(self._waiting)
        except OSError as error:
            raise WorkFailed(
                f"cannot hold {self._key} in {tempfile.gettempdir()} until it is whole",
                detail=[str(error), "the service ignores If-None-Match on uploads in pieces: it is sent as one"],
                hint="make room there, or name another folder in TMPDIR",
            ) from None
        self._waiting.clear()

    def finish(self) -> None:
        """Give the object its name; FileExistsError when it is taken."""
        try:
            if self._id is None:
                self._put()
            else:
                if self._waiting:
                    self.send(bytes(self._waiting))
                self._complete()
        except ClientError as error:
            code = _code_of(error)
            if code not in _OURS and error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) < 500:
                raise
            if not self._is_ours():
                if code in _TAKEN:
                    raise FileExistsError(f"there is an object {self._key} already") from None
                raise
        except (BotoCoreError, CannotReach) as error:
            _insist(error)
            # The answer was lost, which does not tell whether the request was.
            if not self._is_ours():
                raise
        if self._whole is not None:
            self._whole.close()
        with suppress(BotoCoreError, ClientError, CannotReach):  # the object stands; a mark that stays is swept later
            self._unmark()

    def abort(self) -> None:
        """Take back what was sent; best effort on the way out of a failure, a sweep comes later."""
        if self._whole is not None:
            self._whole.close()
        with briefly(SystemClock()), suppress(BotoCoreError, ClientError, CannotReach):
            if self._id is not None:
                _abort_upload(self._client, self._bucket, self._key, self._id)
            self._unmark()

    def _put(self) -> None:
        if self._whole is not None:
            self._keep()
            self._whole.seek(0)
        content = self._whole or bytes(self._waiting)
        self._client.put_object(
            Bucket=self._bucket,
            Key=self._key,
            Body=content,
            IfNoneMatch="*",
            **_summed(content),
            Metadata={_WRITER: self._name},
            **self._retention,
        )

    def send(self, content: bytes) -> None:
        """Send a piece; the first one begins the upload."""
        if self._id is None:
            _put_empty(self._client, self._bucket, self._mark)
            begun = self._client.create_multipart_upload(
                Bucket=self._bucket,
                Key=self._key,
                ChecksumAlgorithm="SHA256",
                Metadata={_WRITER: self._name},
                **self._retention,
            )
            self._id = begun["UploadId"]
        piece: dict[str, object] = {"PartNumber": len(self._pieces) + 1, "ChecksumSHA256": _checksum(content)}
        sent = self._client.upload_part(Bucket=self._bucket, Key=self._key, UploadId=self._id, Body=content, **piece)
        self._pieces.append({**piece, "ETag": sent["ETag"]})

    def _complete(self) -> None:
        self._client.complete_multipart_upload(
            Bucket=self._bucket,
            Key=self._key,
            UploadId=self._id,
            MultipartUpload={"Parts": self._pieces},
            IfNoneMatch="*",
        )

    @property
    def _mark(self) -> str:
        return f"{self._key.rpartition('/')[0]}/{self._name}".lstrip("/")

    def _unmark(self) -> None:
        if self._id is not None:
            self._client.delete_object(Bucket=self._bucket, Key=self._mark)
            self._id = None

    def _is_ours(self) -> bool:
        try:
            found = _head(self._client, self._bucket, self._key)
        except (BotoCoreError, ClientError, CannotReach) as error:
            _insist(error)
            return False
        return found is not None and found.get("Metadata", {}).get(_WRITER) == self._name


def _insist(error: BaseException) -> None:
    """Raise the signal or the limit that struck within botocore, which takes every failure for one of the network."""
    found: BaseException | None = error
    while found is not None and not isinstance(found, Stopped):
        found = found.__cause__ or found.__context__
    if found is not None:
        raise found


def _head(client: Any, bucket: str, key: str) -> Mapping[str, Any] | None:
    try:
        found: Mapping[str, Any] = client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if _code_of(error) in _MISSING:
            return None
        raise
    return found


def _put_empty(client: Any, bucket: str, key: str) -> None:
    client.put_object(Bucket=bucket, Key=key, Body=b"", IfNoneMatch="*", **_summed(b""))


def _summed(content: bytes | BinaryIO) -> dict[str, str]:
    # Object lock insists on being told, also where the bucket has it by itself: of every object then.
    return {"ChecksumAlgorithm": "SHA256", "ChecksumSHA256": _checksum(content)}


def _abort_upload(client: Any, bucket: str, key: str, upload: str) -> None:
    try:
        client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    except ClientError as error:
        if _code_of(error) != _ENDED:
            raise


def _code_of(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _checksum(content: bytes | BinaryIO) -> str:
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    digest = hashlib.file_digest(cast(io.BufferedReader, file), "sha256")
    file.seek(0)
    return base64.b64encode(digest.digest()).decode()
