"""A form with one file, sent as it is read: never more of it in memory than a block (contract section 5.1)."""

import hashlib
import secrets
from collections.abc import Iterator

from maint.errors import WorkFailed
from maint.ports.virtual_cluster import Content

BLOCK = 256 * 1024  # bytes


class Form:
    """The body of an upload; every iteration reads the file from its start.

    Args:
        content: the file.

    Attributes:
        type: the body's content type.
        length: its bytes.
        signature: the SHA-1 of what was sent last, in hex; empty before.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        boundary = f"maint-{secrets.token_hex(16)}"
        # The part's own file name is ignored by the server (contract section 5.1).
        self._head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        self._tail = f"\r\n--{boundary}--\r\n".encode()
        self.type = f"multipart/form-data; boundary={boundary}"
        self.length = len(self._head) + content.size + len(self._tail)
        self.signature = ""

    def __iter__(self) -> Iterator[bytes]:
        """Yield the body in blocks.

        Raises:
            WorkFailed: the file is not as long as it was.
        """
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
