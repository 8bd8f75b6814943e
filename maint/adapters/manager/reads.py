"""What the manager knows: release, clusters, services, hosts, licence, settings, commands, the deployment."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime

from maint.adapters.http.answers import Streamed, decode, unexpected
from maint.adapters.manager import decoding
from maint.adapters.manager.calls import Calls, path_of, segment, service_path
from maint.adapters.manager.refusals import PROXY
from maint.adapters.manager.session import PlainUse, version
from maint.errors import WorkFailed
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
)
from maint.model.secret import Secret
from maint.ports import Answer

_PAGE = re.compile(r"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_JSON = re.compile(r'\s*(\{.*\}|\[.*\]|".*")\s*', re.DOTALL)
_SINCE_TRUSTSTORE = 41  # M1, call 9
_SINCE_CONTEXTS = 32  # M7.2
_SINCE_INSTANCES = 41  # M10.5


class Reads:
    """The reading calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def presence(self) -> Presence:
        """Probe both ports without credentials; never raises for a closed one."""
        return self._calls.session.presence()

    def certificate_end(self) -> datetime | None:
        """Return when the certificate of the TLS port ends, trusted or not; None where none is shown."""
        return self._calls.session.certificate_end()

    def allow_plain(self, use: PlainUse) -> None:
        """Let passwords go in clear to a manager for which TLS is configured."""
        self._calls.session.allow_plain(use)

    def log_in(self) -> Account:
        """Find the account that is let in, and keep to it until `forget_login`."""
        return self._calls.session.account()

    def forget_login(self) -> None:
        """Forget port and account: the next call finds both anew."""
        self._calls.session.forget()

    def api_version(self) -> int:
        """Return N of the `vN` that `GET /api/version` answers now."""
        path = "/api/version"
        return version(self._calls.good(self._calls.read(path), f"GET {path}"))

    def require_api(self, pinned: int) -> str:
        """Return `vN` for the pinned version, or raise `WorkFailed` when the server knows only lower ones."""
        return self._calls.root(pinned).removeprefix("/api/")

    def release(self) -> str:
        """Return the manager's release, such as 7.6.5."""
        path = f"{self._root()}/cm/version"
        found = self._calls.object(path)
        release = decoding.text(found, "version")
        if not release:
            raise unexpected(f"GET {path}", 'the release under "version"', dict(found))
        return release

    def clusters(self) -> Sequence[Cluster]:
        """Return all clusters; ECS ones are hidden unless asked for (M5)."""
        path = f"{self._root()}/clusters"
        reply = self._calls.read(f"{path}?clusterType=any")
        if reply.status == 400:  # a server too old for the parameter, and for ECS
            return [decoding.cluster(item) for item in self._calls.objects(path)]
        value = decode(self._calls.good(reply, f"GET {path}"), f"GET {path}", PROXY)
        return [decoding.cluster(item) for item in self._calls.as_list(value, path)]

    def data_contexts(self, cluster: str) -> Sequence[str]:
        """Return the names of the data contexts made of a base cluster's services; empty before API v32."""
        listed = self._since(_SINCE_CONTEXTS, "/dataContexts")
        return [decoding.text(item, "name") for item in listed if cluster in decoding.bases(item)]

    def services(self, cluster: str) -> Sequence[Service]:
        """Return a cluster's services."""
        return [decoding.service(item) for item in self._listed(f"/clusters/{segment(cluster)}/services")]

    def management_service(self) -> Service | None:
        """Return the monitoring service, or None where there is none (M5)."""
        found = self._calls.object_if_known(f"{self._root()}/cm/service")
        return None if found is None else decoding.service(found)

    def management_roles(self) -> Sequence[Role]:
        """Return the roles of the monitoring service; none where there is no such service."""
        return [decoding.role(item) for item in self._calls.objects_if_known(f"{self._root()}/cm/service/roles")]

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
        """Return all settings that a place knows, None where it is gone."""
        path = f"{self._root()}{path_of(place)}/config?view=full"
        found = self._calls.object_if_known(path)
        return None if found is None else [decoding.setting(item) for item in self._calls.as_list(dict(found), path)]

    def commands_of(self, place: Place) -> Sequence[Command]:
        """Return what runs now on a place itself; the API lists no commands of hosts (M18)."""
        if place.host:
            return []
        return [decoding.command(item) for item in self._listed(f"{path_of(place)}/commands")]

    def hosts(self) -> Sequence[Host]:
        """Return all hosts; the full view alone has their clusters (M10.1)."""
        return [decoding.host(item) for item in self._listed("/hosts?view=full")]

    def command(self, command_id: int) -> Command | None:
        """Return a command by id, None where it is unknown; `Transient` for 400, 401, 5xx or no answer (M2.2, M2.4)."""
        path = f"{self._root()}/commands/{command_id}"
        reply = self._calls.poll(path)
        return None if reply is None else decoding.command(decode(reply.content, f"GET {path}", PROXY))

    def active_commands(self) -> Sequence[Command]:
        """Return what runs now on manager, monitoring and clusters themselves."""
        monitoring = self._calls.objects_if_known(f"{self._root()}/cm/service/commands")
        clusters = [one for cluster in self.clusters() for one in self.commands_of(Place(cluster.name))]
        return [*self.commands_of(Place()), *map(decoding.command, monitoring), *clusters]

    def license(self) -> License | None:
        """Return the installed licence, or None: 404 with a message is the normal answer without one (M9)."""
        path = f"{self._calls.root(self._calls.settings.api.deployment)}/cm/license"
        found = self._calls.object_if_known(path)
        return None if found is None else decoding.license(found)

    def truststore_password(self) -> Secret | None:
        """Return the password of the shared truststore, or None where Auto-TLS is off or the API too old.

        The text is taken as it came but for one line end (M11); WorkFailed where it is empty, JSON or a page.
        """
        if self._calls.session.api() < _SINCE_TRUSTSTORE:
            return None
        pinned = max(self._calls.settings.api.deployment, _SINCE_TRUSTSTORE)
        path = f"{self._calls.root(pinned)}/certs/truststorePassword"
        reply = self._calls.read(path)
        if reply.status in (404, 500):  # without Auto-TLS (M14 U8)
            return None
        return _password(self._calls.good(reply, f"GET {path}"))

    def settings(self) -> dict[str, str]:
        """Return the manager's own settings; redacted ones as REDACTED."""
        return decoding.settings(self._listed("/cm/config"))

    def instances(self) -> Sequence[Instance]:
        """Return the servers of this manager; empty where the API is older than v41."""
        return [decoding.instance(item) for item in self._since(_SINCE_INSTANCES, "/cm/instances")]

    @contextmanager
    def deployment(self, *, redacted: bool = False) -> Iterator[Answer]:
        """Stream `GET /cm/deployment` at the pinned version; with `redacted`, its `export_redacted` view (M7)."""
        root = self._calls.root(self._calls.settings.api.deployment)
        path = f"{root}/cm/deployment?view={'export_redacted' if redacted else 'export'}"
        answer = self._calls.stream(path, self._calls.timeouts.export)
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

    def _since(self, first: int, path: str) -> list[decoding.Fields]:
        if self._calls.session.api() < first:
            return []
        root = self._calls.root(max(self._calls.settings.api.clusters, first))
        return self._calls.objects_if_known(f"{root}{path}")


def _password(content: bytes) -> Secret:
    text = content.decode("utf-8", "replace")
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if not text.strip() or "\n" in text or _PAGE.match(text) or _JSON.fullmatch(text):
        raise WorkFailed(
            "GET /certs/truststorePassword: the answer is not a password (nothing, JSON or a page)",
            hint="is Auto-TLS on? the password is in the manager's settings otherwise",
        )
    return Secret(text)
