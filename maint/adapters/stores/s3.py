"""Keep snapshots in an S3-compatible object store, each object written once, whole or not at all.

The client is botocore: the one whose retries can be switched off and which passes conditions on to uploads in parts.
"""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, BinaryIO, cast

import msgspec

from maint.adapters.stores.names import STAGING, split_name, split_prefix
from maint.adapters.stores.stale_uploads import is_left_over
from maint.errors import Invalid, MaintError, StoreFailed
from maint.model.secret import Secret

try:
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import Session

    from maint.adapters.stores.s3_upload import MISSING, TAKEN, Upload, abort_upload, code_of, head
except ImportError:
    raise Invalid("S3 stores need botocore, which is not installed", hint="pip install 'maint[s3]'") from None

_BUFFER = 256 * 1024
_HINTS = {
    "403": "look at the rights of the access key",
    "AccessDenied": "look at the rights of the access key",
    "InvalidAccessKeyId": "look at backup.s3.access_key",
    "SignatureDoesNotMatch": "look at backup.s3.secret_key",
    "NoSuchBucket": "make the bucket first",
}


class Service(msgspec.Struct, frozen=True):
    """Where and how an S3-compatible service is reached; no endpoint is Amazon's own."""

    endpoint: str | None
    region: str
    access_key: Secret
    secret_key: Secret
    ca: str | None = None


class S3Store:
    """`ports.Store` below a prefix of a bucket.

    Nothing is sent a second time by itself. Every object is put on the condition that its name is free; a service that
    ignores the condition is refused at the first write. What is larger than a piece goes up in pieces, and a small
    object beside it names the writer, so that a later run can take back what a dead one left.

    Args:
        service: where, and with which keys.
        bucket: the bucket, which exists.
        prefix: the folder in it; may be empty.
    """

    def __init__(self, service: Service, bucket: str, prefix: str) -> None:
        self._service = service
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._proven = False

    @property
    def location(self) -> str:
        """Where it is, for people."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def names(self, prefix: str = "") -> Iterator[str]:
        """Yield the names of all committed files below a folder, in order."""
        for name, _ in self._listed("/".join(split_prefix(prefix))):
            if not any(part.startswith(".") for part in name.split("/")):
                yield name

    def size(self, name: str) -> int | None:
        """Return the bytes of a file, None where there is none."""
        key = self._key(name)
        with self._told(f"cannot look at {name}"):
            found = self._head(key)
        return None if found is None else int(found["ContentLength"])

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """Read a file as a stream; `FileNotFoundError` where there is none."""
        key, words = self._key(name), f"cannot read {name}"
        with self._told(words):
            try:
                body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
            except ClientError as error:
                if code_of(error) not in MISSING:
                    raise
                body = None
        if body is None:
            raise FileNotFoundError(f"no file {name} in {self.location}")
        try:
            yield io.BufferedReader(_Reading(body, words, self.location), _BUFFER)
        finally:
            body.close()

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Write a new file: committed when the block ends well, gone otherwise.

        Raises:
            FileExistsError: there is one already.
            StoreFailed: the service said no, could not be reached, or ignores conditions.
        """
        key, words = self._key(name), f"cannot write {name}"
        with self._told(words):
            if self._head(key) is not None:
                raise FileExistsError(f"there is a file {name} already in {self.location}")
            self._prove_condition()
        upload = Upload(self._client, self._bucket, key)
        try:
            yield cast(BinaryIO, _Writing(upload, words, self.location))
            with self._told(words):
                upload.finish()
        except BaseException:
            upload.abort()
            raise

    def remove(self, name: str) -> None:
        """Remove a file; no complaint where there is none."""
        key = self._key(name)
        with self._told(f"cannot remove {name}"):
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def sweep(self, prefix: str = "") -> int:
        """Abort uploads of dead writers; return how many."""
        folder, now = "/".join(split_prefix(prefix)), datetime.now(UTC)
        marks = [(n, at) for n, at in self._listed(folder) if n.rpartition("/")[2].startswith(STAGING)]
        living: set[str] = set()
        swept = 0
        with self._told("cannot sweep"):
            for name, touched in marks:
                folder_of, _, mark = name.rpartition("/")
                if not is_left_over(mark, touched, now):
                    living.add(folder_of)
            for upload in self._uploads(folder):
                where = upload["Key"].removeprefix(self._prefix).rpartition("/")[0]
                marked = any(name.rpartition("/")[0] == where for name, _ in marks)
                if where not in living and (marked or is_left_over("", upload["Initiated"], now)):
                    abort_upload(self._client, self._bucket, upload["Key"], upload["UploadId"])
                    swept += 1
            for name, touched in marks:
                if is_left_over(name.rpartition("/")[2], touched, now):
                    self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)
        return swept

    @cached_property
    def _client(self) -> Any:  # botocore makes its clients from descriptions of services, without types
        service, session = self._service, Session()
        for variable in ("config_file", "credentials_file"):  # our own configuration counts, and no other
            session.set_config_variable(variable, "/dev/null")
        return session.create_client(
            "s3",
            region_name=service.region,
            endpoint_url=service.endpoint,
            aws_access_key_id=service.access_key.reveal(),
            aws_secret_access_key=service.secret_key.reveal(),
            verify=service.ca or True,
            config=Config(
                retries={"total_max_attempts": 1},
                connect_timeout=10,
                read_timeout=60,
                s3={"addressing_style": "path" if service.endpoint else "auto"},
                request_checksum_calculation="when_required",
                ignore_configured_endpoint_urls=True,
            ),
        )

    def _key(self, name: str) -> str:
        return self._prefix + "/".join(split_name(name))

    def _head(self, key: str) -> Mapping[str, Any] | None:
        return head(self._client, self._bucket, key)

    def _listed(self, folder: str) -> Iterator[tuple[str, datetime]]:
        token: dict[str, str] = {}
        start = self._prefix + (f"{folder}/" if folder else "")
        while True:
            with self._told("cannot list"):
                page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=start, **token)
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(self._prefix), entry["LastModified"]
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _uploads(self, folder: str) -> list[Mapping[str, Any]]:
        token: dict[str, str] = {}
        start = self._prefix + (f"{folder}/" if folder else "")
        found: list[Mapping[str, Any]] = []
        while True:
            page = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=start, **token)
            found += page.get("Uploads", ())
            if not page.get("IsTruncated"):
                return found
            token = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def _prove_condition(self) -> None:
        """Find out, once, whether the service honours the condition that a name be free."""
        if self._proven:
            return
        key = f"{self._prefix}.write-once"
        for _ in range(2):
            try:
                self._client.put_object(Bucket=self._bucket, Key=key, Body=b"", IfNoneMatch="*")
            except ClientError as error:
                if code_of(error) not in TAKEN:
                    raise
                self._proven = True
                return
        raise StoreFailed(
            f"{self.location} overwrites what is there: it ignores the condition If-None-Match",
            hint="use a service that honours conditional writes; backups there could be replaced",
        )

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        with _told(what, self.location):
            yield


class _Writing:
    """An object being written; what the service says becomes a failure with words."""

    def __init__(self, upload: Upload, words: str, location: str) -> None:
        self._upload, self._words, self._location = upload, words, location

    def write(self, block: bytes | bytearray | memoryview, /) -> int:
        with _told(self._words, self._location):
            return self._upload.write(block)

    def flush(self) -> None:
        """Nothing is held back that could be flushed for good: the object is whole when its block has ended."""


class _Reading(io.RawIOBase):
    """An object being read; what the service says becomes a failure with words."""

    def __init__(self, body: Any, words: str, location: str) -> None:  # botocore's stream has no type
        self._body, self._words, self._location = body, words, location

    def readable(self) -> bool:
        return True

    # "override": the type of its argument, Buffer, has a name only from Python 3.12 on.
    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        with _told(self._words, self._location):
            block = self._body.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)


@contextmanager
def _told(what: str, location: str) -> Iterator[None]:
    try:
        yield
    except (MaintError, FileExistsError):
        raise
    except ClientError as error:
        answer = error.response.get("Error", {})
        words = f"{answer.get('Code', 'error')}: {answer.get('Message', 'no words')}"
        raise StoreFailed(f"{what} in {location}", detail=[words], hint=_HINTS.get(code_of(error))) from None
    except (BotoCoreError, OSError) as error:
        raise StoreFailed(
            f"{what} in {location}", detail=[str(error)], hint="is the service up, and its endpoint right?"
        ) from None
