"""The management API of one site: all reads, and the changes, each of which is sent once."""

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from http import HTTPStatus
from urllib.parse import quote, urlencode

from maint.adapters.http.answers import Streamed, decode, unexpected
from maint.adapters.http.request import BLOCK, HttpCall, Timeouts, UploadForm
from maint.adapters.manager import decoding
from maint.adapters.manager.calls import UNCLEAR, ManagerCalls, lost, path_of, segment, service_path
from maint.adapters.manager.session import PROXY, PlainUse, version
from maint.config.schema import ManagerSettings
from maint.errors import AnswerMissing, WorkFailed
from maint.model.json import Json
from maint.model.manager import (
    Account,
    Cluster,
    Command,
    Host,
    Instance,
    License,
    Place,
    Presence,
    Role,
    Service,
    Setting,
    made_of,
)
from maint.model.secret import Secret
from maint.ports import Answer, Body, Clock, Secrets
from maint.ports.streams import Sized
from maint.ports.virtual_cluster import Content

_PAGE = re.compile(r"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_JSON = re.compile(r'\s*(\{.*\}|\[.*\]|".*")\s*', re.DOTALL)
_OF_DEPLOYMENTS = ("clusters", "hosts", "users", "versionInfo", "managerSettings")  # keys of which each has some (M7)
_SINCE_TRUSTSTORE = 41  # M1, call 9
_SINCE_CONTEXTS = 32  # M7.2
_IN_MOTION = ("BUSY", "STARTING", "STOPPING")  # of a role (M10.3)
_SINCE_INSTANCES = 41  # M10.5


class ManagerClient:
    """Talks to a manager; implements `ports.Manager`; warns where a certificate is not verified."""

    def __init__(
        self,
        settings: ManagerSettings,
        secrets: Secrets,
        clock: Clock,
        *,
        warn: Callable[[str], None],
        timeouts: Timeouts | None = None,
        proxy: str | None = None,
    ) -> None:
        limits = timeouts or Timeouts()
        self._calls = ManagerCalls(settings, secrets, clock, warn=warn, timeouts=limits, proxy=proxy)
        self._meant: tuple[int, ...] = ()  # of answers to `clusterType`, what does not pass by itself

    def close(self) -> None:
        self._calls.close()

    def presence(self) -> Presence:
        """Probe both ports without credentials; never raises for a closed one."""
        return self._calls.session.presence()

    def certificate_end(self) -> datetime | None:
        return self._calls.session.certificate_end()

    def certificate_digest(self) -> str:
        return self._calls.session.certificate_digest()

    def allow_plain(self, use: PlainUse) -> None:
        """Let passwords go in clear to a manager for which TLS is configured."""
        self._calls.session.allow_plain(use)

    def for_fresh_server(self) -> None:
        """Let the bootstrap account change something, not only look, from now on."""
        self._calls.session.for_fresh_server()

    def log_in(self) -> Account:
        return self._calls.account()

    def forget_login(self) -> None:
        self._calls.session.forget()

    def api_version(self) -> int:
        """Return N of the `vN` that `GET /api/version` answers now."""
        path = "/api/version"
        return version(self._calls.good(self._calls.read(path), f"GET {path}"))

    def require_api(self, pinned: int) -> str:
        return self._calls.root(pinned).removeprefix("/api/")

    def release(self) -> str:
        path = f"{self._root()}/cm/version"
        found = self._calls.object(path)
        release = decoding.text(found, "version")
        if not release:
            raise unexpected(f"GET {path}", 'the release under "version"', dict(found))
        return release

    def clusters(self) -> Sequence[Cluster]:
        """Return all clusters; ECS ones are hidden unless asked for (M5)."""
        path = f"{self._root()}/clusters"
        reply = self._calls.read(f"{path}?clusterType=any", meant=self._meant)
        if reply.status == 400:  # a server too old for the parameter, and for ECS: waited for once
            reply, self._meant = self._calls.read(path), (400,)
        return [decoding.cluster(item) for item in self._calls.as_list(self._calls.decoded(reply, path), path)]

    def data_contexts(self, cluster: str) -> Sequence[str]:
        listed = self._since(_SINCE_CONTEXTS, "/dataContexts")
        services = [service.name for service in self.services(cluster)] if listed else []
        return [decoding.text(item, "name") for item in listed if made_of(item, cluster, services)]

    def services(self, cluster: str) -> Sequence[Service]:
        return [decoding.service(item) for item in self._listed(f"/clusters/{segment(cluster)}/services")]

    def management_service(self) -> Service | None:
        """Return the monitoring service, or None where there is none (M5)."""
        found = self._calls.object_if_known(f"{self._root()}/cm/service")
        return None if found is None else decoding.service(found)

    def management_roles(self) -> Sequence[Role]:
        """Return the roles of the monitoring service; none where there is no such service."""
        return [decoding.role(item) for item in self._calls.objects_if_known(f"{self._root()}/cm/service/roles") or ()]

    def roles(self, service: Place) -> Sequence[Role]:
        """Return the roles of a service (M18)."""
        return [decoding.role(item) for item in self._listed(f"{service_path(service)}/roles")]

    def role_groups(self, service: Place) -> Sequence[str]:
        """Return the names of a service's role config groups (M18)."""
        return [decoding.text(item, "name") for item in self._listed(f"{service_path(service)}/roleConfigGroups")]

    def settings_of(self, place: Place) -> Sequence[Setting]:
        """Return all settings that a place knows: the full view alone has those that are not set (M19)."""
        return [decoding.setting(item) for item in self._listed(f"{path_of(place)}/config?view=full")]

    def settings_if_there(self, place: Place) -> Sequence[Setting] | None:
        found = self._calls.objects_if_known(f"{self._root()}{path_of(place)}/config?view=full")
        return None if found is None else [decoding.setting(item) for item in found]

    def commands_of(self, place: Place) -> Sequence[Command]:
        """Return what runs now on a place itself; the API lists no commands of hosts (M18)."""
        if place.host:
            return []
        return [decoding.command(item) for item in self._listed(f"{path_of(place)}/commands")]

    def hosts(self) -> Sequence[Host]:
        """Return all hosts; the full view alone has their clusters (M10.1)."""
        path = f"{self._root()}/hosts?view=full"
        reply = self._calls.read(path)
        listed = self._calls.as_list(self._calls.decoded(reply, path), path)
        return [decoding.host(item, decoding.moment(reply.date)) for item in listed]

    def command(self, command_id: int) -> Command | None:
        """Return a command by id, None where it is unknown; `Transient` for 400, 401, 5xx or no answer (M2.2, M2.4)."""
        path = f"{self._root()}/commands/{command_id}"
        reply = self._calls.poll(path)
        if reply is None:
            return None
        answer = self._calls.decoded(reply, path)
        if (found := decoding.command(answer)).id != command_id:
            raise unexpected(f"GET {path}", f'a command with {command_id} under "id"', answer)
        return found

    def active_commands(self) -> Sequence[Command]:
        found = [*self.commands_of(Place())]
        listed = self._calls.objects_if_known(f"{self._root()}/cm/service/commands")
        own = [decoding.command(item) for item in listed or ()]
        found += own if own or listed is None else self._commands_of_roles(Place(), self.management_roles())
        for cluster in self.clusters():
            found += self.commands_of(Place(cluster.name)) or self._commands_below(cluster.name)
        return found

    def _commands_below(self, cluster: str) -> list[Command]:
        found: list[Command] = []
        for service in (Place(cluster, one.name) for one in self.services(cluster)):
            own = [decoding.command(item) for item in self._below(f"{path_of(service)}/commands")]
            roles = () if own else map(decoding.role, self._below(f"{service_path(service)}/roles"))
            found += [*own, *self._commands_of_roles(service, roles)]
        return found

    def _commands_of_roles(self, service: Place, roles: Iterable[Role]) -> Iterator[Command]:
        # They are too many to ask each: their states tell of their own commands.
        for role in (role.name for role in roles if role.state in _IN_MOTION):
            listed = self._listed(f"{service_path(service)}/roles/{segment(role)}/commands")
            yield from map(decoding.command, listed)

    def license(self) -> License | None:
        """Return the installed licence, or None: 404 with a message is the normal answer without one (M9)."""
        path = f"{self._calls.root(self._calls.settings.api.deployment)}/cm/license"
        found = self._calls.object_if_known(path)
        return None if found is None else decoding.license(found)

    def truststore_password(self) -> Secret | None:
        """Return the password of the shared truststore, or None where Auto-TLS is off or the API too old.

        The text is taken as it came but for one line end (M11); WorkFailed where it is JSON or a page.
        """
        if self._calls.session.api() < _SINCE_TRUSTSTORE:
            return None
        pinned = max(self._calls.settings.api.deployment, _SINCE_TRUSTSTORE)
        path = f"{self._calls.root(pinned)}/certs/truststorePassword"
        reply = self._calls.read(path)
        if reply.status in (404, 500) or (reply.good and not reply.content.strip()):  # without Auto-TLS (M14 U8)
            return None
        return _password(self._calls.good(reply, f"GET {path}"))

    def settings(self) -> dict[str, str]:
        """Return the manager's own settings; redacted ones as REDACTED."""
        return decoding.settings(self._listed("/cm/config"))

    def instances(self) -> Sequence[Instance]:
        return [decoding.instance(item) for item in self._since(_SINCE_INSTANCES, "/cm/instances")]

    @contextmanager
    def deployment(self) -> Iterator[Sized]:
        """Stream `GET /cm/deployment` at the pinned version (M7)."""
        root = self._calls.root(self._calls.settings.api.deployment)
        answer = self._calls.stream(f"{root}/cm/deployment?view=export", self._calls.timeouts.export)
        role = "does the account have the role Full Administrator?"
        with closing(Streamed(answer, "the export", is_object=True, empty=role)) as stream:
            yield stream

    def get(self, path: str) -> Json:
        """Return the JSON of any other read, `path` without `/api/vN`, percent-encoded."""
        return self._calls.json(f"{self._root()}{path}")

    def _root(self) -> str:
        return self._calls.root(self._calls.settings.api.clusters)

    def _listed(self, path: str) -> list[decoding.Fields]:
        return self._calls.objects(f"{self._root()}{path}")

    def _below(self, path: str) -> list[decoding.Fields]:
        # What is listed of a service; nothing where it went meanwhile, or the server has no such list.
        path = f"{self._root()}{path}"
        reply = self._calls.read(path)
        return [] if reply.status == 404 else self._calls.as_list(self._calls.decoded(reply, path), path)

    def _since(self, first: int, path: str) -> list[decoding.Fields]:
        if self._calls.session.api() < first:
            return []
        root = self._calls.root(max(self._calls.settings.api.clusters, first))
        return self._calls.objects_if_known(f"{root}{path}") or []

    def management_command(self, name: str, roles: Sequence[str] = ()) -> Sequence[Command]:
        """Send a command to the monitoring service or some roles (M5); what did not begin comes back as failed."""
        if not roles:
            return [self._command(f"/cm/service/commands/{segment(name)}")]
        return self.role_command(Place(), name, roles)

    def place_command(self, place: Place, name: str, arguments: Mapping[str, Json] | None = None) -> Command:
        """Send a command by its name to a place other than a role (M18); the answer may be a rejection (M4.3)."""
        body = None if arguments is None else json.dumps(arguments).encode()
        return self._command(f"{path_of(place)}/commands/{segment(name)}", body)

    def maintain(self, place: Place, *, on: bool) -> Command:
        """Put a place into maintenance mode, or take it out; it is done when this returns (M20)."""
        verb = "enterMaintenanceMode" if on else "exitMaintenanceMode"
        return self._command(f"{path_of(place)}/commands/{verb}")

    def configure(self, place: Place, name: str, value: str | None, message: str) -> None:
        """Set one setting of a place, or unset it by null; what is not listed stays as it is (M19)."""
        body = json.dumps({"items": [{"name": name, "value": value}]}).encode()
        path = f"{self._root()}{path_of(place)}/config?message={quote(message)}"
        call = self._calls.change("PUT", path, body=body)
        self._calls.done(self._calls.act(call), call)

    def import_kdc_account(self, username: str, password: Secret) -> Command:
        """Hand over the account that makes principals in the KDC; the API takes both in the query (M21)."""
        given = urlencode({"username": username, "password": password.reveal()}, quote_via=quote)
        return self._command(f"/cm/commands/importAdminCredentials?{given}")

    def role_command(self, service: Place, name: str, roles: Sequence[str]) -> Sequence[Command]:
        """Send a command to roles of a service (M18); what did not begin comes back as failed."""
        body = json.dumps({"items": list(roles)}).encode()
        call, answer = self._sent(f"{service_path(service)}/roleCommands/{segment(name)}", body)
        refused, begun = decoding.fields(answer).get("errors"), decoding.items(answer)
        errors = [str(error) for error in refused] if isinstance(refused, list) else []
        if begun is None and not errors:
            raise lost(call, "it lists no commands", answer=UNCLEAR)
        return [*map(decoding.command, begun or ()), *(decoding.refused_command(name, error) for error in errors)]

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
        form = UploadForm(Content(lambda: io.BytesIO(content), len(content)), "license", "license.txt", "text/plain")
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
                reply = self._calls.read_out(answer, call)
                self._calls.done(reply, call)
                raise lost(call, f"{reply.title}, where a restore is answered with 200", answer="is no clear one")
        except AnswerMissing as failure:
            words = failure.message
            raise AnswerMissing(words, whole=sending.whole, detail=failure.detail, hint=failure.hint) from None
        finally:
            self._calls.session.restored()
        if not sending.whole:
            answer.close()
            raise lost(call, "it was answered before the whole document had left", whole=False)
        return Streamed(answer, "the answer to the restore", is_object=True, keys=_OF_DEPLOYMENTS)

    def _command(self, path: str, body: bytes | None = None) -> Command:
        call, answer = self._sent(path, body)
        source = decoding.fields(answer)
        if decoding.number(source, "id") is None and decoding.flag(source, "success") is None:
            raise lost(call, "it is no command", answer=UNCLEAR)
        return decoding.command(answer)

    def _sent(self, path: str, body: bytes | None) -> tuple[HttpCall, Json]:
        call = self._calls.change("POST", f"{self._root()}{path}", body=body)
        content = self._calls.done(self._calls.act(call), call)
        try:
            return call, decode(content, call.what, PROXY)
        except WorkFailed as failure:
            raise lost(call, failure.message) from None


def _password(content: bytes) -> Secret:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""  # another character in the place of a byte would be another password
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if not text or "\n" in text or _PAGE.match(text) or _JSON.fullmatch(text):
        raise WorkFailed(
            "GET /certs/truststorePassword: the answer is not a password (JSON, a page, several lines or no UTF-8)",
            hint="is Auto-TLS on? the password is in the manager's settings otherwise",
        )
    return Secret(text)


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
        try:
            while left > BLOCK:
                block = self._exactly(BLOCK)
                left -= len(block)
                yield block
            last = self._exactly(left)
        except WorkFailed as failure:
            if left == self._body.length:
                raise
            # A server that reads JSON may have the whole of it before its last block, which may be blank.
            raise AnswerMissing(failure.message, whole=False, detail=failure.detail, hint=failure.hint) from failure
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
