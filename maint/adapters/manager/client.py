"""The management API of one site: all reads, and the changes, each of which is sent once."""

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from urllib.parse import quote, urlencode

from maint.adapters.http.answers import Streamed, decode, read_reply
from maint.adapters.http.request import BLOCK, Form, Timeouts
from maint.adapters.manager import decoding
from maint.adapters.manager.calls import Calls, lost, path_of, segment, service_path
from maint.adapters.manager.reads import Reads
from maint.adapters.manager.refusals import PROXY
from maint.config.schema import ManagerSettings
from maint.errors import AnswerMissing, WorkFailed
from maint.model.json import Json
from maint.model.manager import Command, License, Place
from maint.model.secret import Secret
from maint.ports import Answer, Body, Clock, Secrets
from maint.ports.virtual_cluster import Content


class ManagerClient(Reads):
    """Talks to a manager; implements `ports.Manager`; warns of each new connection whose certificate is not verified.

    Args:
        pause: seconds before a read is asked again after a stray 401 or a dropped connection.
    """

    def __init__(
        self,
        settings: ManagerSettings,
        secrets: Secrets,
        clock: Clock,
        *,
        warn: Callable[[str], None],
        timeouts: Timeouts | None = None,
        pause: float = 2.0,
        proxy: str | None = None,
    ) -> None:
        limits = timeouts or Timeouts()
        super().__init__(Calls(settings, secrets, clock, warn=warn, timeouts=limits, pause=pause, proxy=proxy))

    def cluster_command(self, cluster: str, name: str) -> Command:
        """Send `commands/start` or `commands/stop`; the answer may already be a rejection (M4.3)."""
        return decoding.command(self._command(f"/clusters/{segment(cluster)}/commands/{segment(name)}"))

    def management_command(self, name: str, roles: Sequence[str] = ()) -> Sequence[Command]:
        """Send a command to the monitoring service or some roles (M5); what did not begin comes back as failed."""
        if not roles:
            return [decoding.command(self._command(f"/cm/service/commands/{segment(name)}"))]
        return self.role_command(Place(), name, roles)

    def place_command(self, place: Place, name: str, arguments: Mapping[str, Json] | None = None) -> Command:
        """Send a command by its name to a place that is no role (M18)."""
        body = None if arguments is None else json.dumps(arguments).encode()
        return decoding.command(self._command(f"{path_of(place)}/commands/{segment(name)}", body))

    def maintain(self, place: Place, *, on: bool) -> Command:
        """Put a place into maintenance mode, or take it out; it is done when this returns (M20)."""
        verb = "enterMaintenanceMode" if on else "exitMaintenanceMode"
        return decoding.command(self._command(f"{path_of(place)}/commands/{verb}"))

    def configure(self, place: Place, name: str, value: str | None, message: str) -> None:
        """Set one setting of a place, or unset it by null; what is not listed stays as it is (M19)."""
        body = json.dumps({"items": [{"name": name, "value": value}]}).encode()
        path = f"{self._root()}{path_of(place)}/config?message={quote(message)}"
        call = self._calls.change("PUT", path, body=body)
        self._calls.done(self._calls.act(call), call)

    def import_kdc_account(self, username: str, password: Secret) -> Command:
        """Hand over the account that makes principals in the KDC; the API takes both in the query (M21)."""
        given = urlencode({"username": username, "password": password.reveal()}, quote_via=quote)
        return decoding.command(self._command(f"/cm/commands/importAdminCredentials?{given}"))

    def role_command(self, service: Place, name: str, roles: Sequence[str]) -> Sequence[Command]:
        """Send a command to roles of a service (M18); what did not begin comes back as failed."""
        body = json.dumps({"items": list(roles)}).encode()
        answer = self._command(f"{service_path(service)}/roleCommands/{segment(name)}", body)
        refused = decoding.fields(answer).get("errors")
        errors = [str(error) for error in refused] if isinstance(refused, list) else []
        begun = [decoding.command(item) for item in decoding.items(answer) or ()]
        return [*begun, *(decoding.refused_command(name, error) for error in errors)]

    def delete_cluster(self, cluster: str) -> bool:
        """Delete; return False where it was already gone: a 404 in the manager's own words (M6)."""
        call = self._calls.change("DELETE", f"{self._root()}/clusters/{segment(cluster)}")
        reply = self._calls.act(call)
        if reply.status == 404 and reply.message is not None:
            return False
        self._calls.done(reply, call)
        return True

    def upload_license(self, content: bytes) -> License:
        """Upload a licence file, bytes unchanged: its line ends are signed (M9)."""
        path = f"{self._calls.root(self._calls.settings.api.deployment)}/cm/license"
        form = Form(Content(lambda: io.BytesIO(content), len(content)), "license", "license.txt", "text/plain")
        call = self._calls.change("POST", path, body=form, length=form.length, kind=form.type)
        answer = self._calls.done(self._calls.act(call), call)
        with contextlib.suppress(WorkFailed):  # accepted all the same
            return decoding.license(decoding.fields(decode(answer, call.what, PROXY)))
        return License("", "", "")

    def put_deployment(self, body: Body, *, api: int, delete_current: bool, timeout: float) -> Answer:
        """Send the deployment once (M8).

        Args:
            api: the version it was exported at (M14 U25).
            timeout: seconds for sending and waiting together.

        Raises:
            AnswerMissing: it may or may not have been applied; look.
            WorkFailed: the server said no; nothing was changed.
        """
        path = f"{self._calls.root(api)}/cm/deployment?deleteCurrentDeployment={str(delete_current).lower()}"
        sending = _Sending(body, self._calls.clock, timeout)
        call = self._calls.change("PUT", path, body=sending.blocks(), length=body.length, total=timeout)
        try:
            answer = self._calls.act_streaming(call)
            if answer.status_code != HTTPStatus.OK:
                self._calls.done(read_reply(answer), call)
        except AnswerMissing as failure:
            raise AnswerMissing(failure.message, whole=sending.whole, hint=failure.hint) from None
        finally:
            self._calls.session.restored()
        if not sending.whole:
            answer.close()
            raise lost(call, "it was answered before the whole document had left", whole=False)
        return Streamed(answer, "the answer to the restore", is_object=True)

    def _command(self, path: str, body: bytes | None = None) -> Json:
        call = self._calls.change("POST", f"{self._root()}{path}", body=body)
        content = self._calls.done(self._calls.act(call), call)
        try:
            return decode(content, call.what, PROXY)
        except WorkFailed as failure:
            raise lost(call, failure.message) from None


class _Sending:
    """A body on its way: `whole` from the moment its last block may have left."""

    def __init__(self, body: Body, clock: Clock, timeout: float) -> None:
        self._body = body
        self._clock = clock
        self._deadline = clock.monotonic() + timeout
        self.whole = False

    def blocks(self) -> Iterator[bytes]:
        """Yield the body in blocks; `before_last` is called before the last one."""
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
        if self._clock.monotonic() > self._deadline:
            raise TimeoutError  # urllib3 takes it for the socket's own
        parts: list[bytes] = []
        while size and (part := self._body.read(size)):
            parts.append(part)
            size -= len(part)
        if size:
            raise WorkFailed(
                "the document is shorter than it was said to be; it was not sent whole",
                hint="verify the snapshot: `maint backup verify`",
            )
        return b"".join(parts)
