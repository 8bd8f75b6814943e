"""Put one object into an S3-compatible store on the condition that its name is free: at once, or in pieces."""

import base64
import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from maint.adapters.stores.stale_uploads import staging_name

PIECE = 16 * 1024 * 1024  # bytes that are sent at once; 10,000 such pieces make the largest file
MISSING = frozenset({"404", "NoSuchKey", "NotFound"})
TAKEN = frozenset({"412", "PreconditionFailed"})
_WRITER = "maint-writer"


class Upload:
    """One object on its way up: in one request while it is small, else in pieces."""

    def __init__(self, client: Any, bucket: str, key: str) -> None:  # the client: see S3Store._client
        self._client, self._bucket, self._key = client, bucket, key
        self._name = staging_name()
        self._waiting = bytearray()
        self._pieces: list[dict[str, object]] = []
        self._id: str | None = None

    def write(self, block: bytes | bytearray | memoryview) -> int:
        """Take a block, and send a piece when there is enough."""
        self._waiting += block
        while len(self._waiting) > PIECE:
            self._send(bytes(self._waiting[:PIECE]))
            del self._waiting[:PIECE]
        return len(block)

    def finish(self) -> None:
        """Give the object its name; FileExistsError when it is taken."""
        try:
            if self._id is None:
                self._put()
            else:
                self._send(bytes(self._waiting))
                self._complete()
        except ClientError as error:
            if code_of(error) in TAKEN:
                raise FileExistsError(f"there is an object {self._key} already") from None
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) < 500 or not self._is_ours():
                raise
        except BotoCoreError:
            # The answer was lost, which does not tell whether the request was.
            if not self._is_ours():
                raise
        with suppress(BotoCoreError, ClientError):  # the object stands; a mark that stays is swept later
            self._unmark()

    def abort(self) -> None:
        """Take back what was sent; best effort on the way out of a failure, a sweep comes later."""
        with suppress(BotoCoreError, ClientError):
            if self._id is not None:
                abort_upload(self._client, self._bucket, self._key, self._id)
            self._unmark()

    def _put(self) -> None:
        content = bytes(self._waiting)
        self._client.put_object(
            Bucket=self._bucket,
            Key=self._key,
            Body=content,
            IfNoneMatch="*",
            ChecksumSHA256=_checksum(content),
            Metadata={_WRITER: self._name},
        )

    def _send(self, content: bytes) -> None:
        if self._id is None:
            self._client.put_object(Bucket=self._bucket, Key=self._mark, Body=b"", IfNoneMatch="*")
            begun = self._client.create_multipart_upload(
                Bucket=self._bucket, Key=self._key, ChecksumAlgorithm="SHA256", Metadata={_WRITER: self._name}
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
            found = head(self._client, self._bucket, self._key)
        except (BotoCoreError, ClientError):
            return False
        return found is not None and found.get("Metadata", {}).get(_WRITER) == self._name


def head(client: Any, bucket: str, key: str) -> Mapping[str, Any] | None:
    """Return what is known of an object, None where there is none."""
    try:
        found: Mapping[str, Any] = client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if code_of(error) in MISSING:
            return None
        raise
    return found


def abort_upload(client: Any, bucket: str, key: str, upload: str) -> None:
    """Throw the pieces of an upload away; no complaint where it is gone."""
    try:
        client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload)
    except ClientError as error:
        if code_of(error) != "NoSuchUpload":
            raise


def code_of(error: ClientError) -> str:
    """Return the service's own code for a failure."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _checksum(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()
