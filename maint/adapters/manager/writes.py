"""Changes other than commands: delete a cluster, upload a licence, put a deployment; each is sent once."""

import contextlib
from collections.abc import Iterator
from http import HTTPStatus

from maint.adapters.manager import answers, decoding
from maint.adapters.manager.calls import Calls
from maint.adapters.manager.exports import Exports
from maint.adapters.manager.paths import segment
from maint.adapters.manager.stream import BLOCK, Streamed
from maint.adapters.manager.transport import Call
from maint.errors import AnswerMissing, WorkFailed
from maint.model.manager import License
from maint.ports import Answer, Body


class Writes(Exports):
    """The changing calls."""

    def delete_cluster(self, cluster: str) -> bool:
        """Delete; return False where it was already gone: a 404 in the manager's own words (contract section 6)."""
        path = f"{self._clusters_root()}/clusters/{segment(cluster)}"
        call = Call("DELETE", path, read=self._calls.timeouts.write)
        answer = self._calls.act(call)
        if answer.status_code == 404 and answers.message(answers.body(answer)) is not None:
            return False
        self._calls.done(answer, call)
        return True

    def upload_license(self, content: bytes) -> License:
        """Upload a licence file, bytes unchanged: its line ends are signed (contract section 9)."""
        path = f"{self._calls.root(self._calls.settings.api.deployment)}/cm/license"
        part = ("license", "license.txt", content)
        call = Call("POST", path, read=self._calls.timeouts.write, file=part)
        told = self._calls.done(self._calls.act(call), call)
        with contextlib.suppress(WorkFailed):  # accepted all the same
            return decoding.license(decoding.fields(answers.decoded(told, f"POST {path}")))
        return License("", "", "")

    def put_deployment(self, body: Body, *, api: int, delete_current: bool, timeout: float) -> Answer:
        """Send the deployment once (contract section 8).

        Args:
            body: the document, raw.
            api: the version it was exported at (contract section 14, U25).
            delete_current: whether all that exists is deleted first.
            timeout: seconds for sending and waiting together.

        Raises:
            AnswerMissing: it may or may not have been applied; look.
            WorkFailed: the server said no; nothing was changed.
        """
        flag = str(delete_current).lower()
        path = f"{self._calls.root(api)}/cm/deployment?deleteCurrentDeployment={flag}"
        sending = _Sending(body, self._calls, timeout)
        call = Call("PUT", path, read=timeout, total=timeout, blocks=sending.blocks(), length=body.length)
        try:
            answer = self._calls.act(call)
            if answer.status_code != HTTPStatus.OK:
                self._calls.done(answer, call)
        except AnswerMissing as lost:
            raise AnswerMissing(lost.message, whole=sending.whole, hint=lost.hint) from None
        if not sending.whole:
            answer.close()
            raise self._calls.lost(call, "it was answered before the whole document had left", whole=False)
        return Streamed(answer, "the answer to the restore")


class _Sending:
    """A body on its way: `whole` from the moment its last block may have left."""

    def __init__(self, body: Body, calls: Calls, timeout: float) -> None:
        self._body = body
        self._clock = calls.clock
        self._deadline = calls.clock.monotonic() + timeout
        self.whole = False

    def blocks(self) -> Iterator[bytes]:
        """Yield the body in blocks, with the word before the last one."""
        left = self._body.length
        while left > BLOCK:
            block = self._exactly(BLOCK)
            left -= len(block)
            yield block
        last = self._exactly(left)
        self._body.before_last()
        self.whole = True
        if last:
            yield last

    def _exactly(self, size: int) -> bytes:
        """Return so many bytes, however few at a time they come."""
        if self._clock.monotonic() > self._deadline:
            raise TimeoutError  # urllib3 takes it for the socket's own
        parts: list[bytes] = []
        while size and (part := self._body.read(size)):
            parts.append(part)
            size -= len(part)
        if size:
            raise WorkFailed("the document is shorter than it was said to be; it was not sent whole")
        return b"".join(parts)
