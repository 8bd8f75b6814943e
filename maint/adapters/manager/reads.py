"""What the manager knows: release, clusters, services, hosts, licence, settings (contract sections 3, 5, 9 to 11)."""

import re
from collections.abc import Sequence

from maint.adapters.manager import answers, decoding
from maint.adapters.manager.calls import Calls
from maint.adapters.manager.paths import segment
from maint.adapters.manager.transport import Call
from maint.adapters.manager.version import parse
from maint.errors import WorkFailed
from maint.model.json import Json
from maint.model.manager import Account, Cluster, Host, Instance, License, Presence, Role, Service
from maint.model.secret import Secret

_PAGE = re.compile(r"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_JSON = re.compile(r'\s*(\{.*\}|\[.*\]|".*")\s*', re.DOTALL)
_SINCE_TRUSTSTORE = 41  # contract section 1, call 9
_SINCE_CONTEXTS = 32  # contract section 7.2
_SINCE_INSTANCES = 41  # contract section 10.5


class Reads:
    """The reading calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def presence(self) -> Presence:
        """Knock on both ports without credentials; never raises for a closed one."""
        return self._calls.gate.presence()

    def log_in(self) -> Account:
        """Find the account that is let in, and keep to it until `forget_login`."""
        return self._calls.gate.account()

    def forget_login(self) -> None:
        """Forget port and account: the next call finds both anew."""
        self._calls.gate.forget()

    def api_version(self) -> int:
        """Return N of the `vN` that `GET /api/version` answers now."""
        return parse(self._calls.read("/api/version").decode("utf-8", "replace"))

    def require_api(self, pinned: int) -> str:
        """Return `vN` for the pinned version, or raise `WorkFailed` when the server knows only lower ones."""
        return self._calls.root(pinned).removeprefix("/api/")

    def release(self) -> str:
        """Return the manager's release, such as 7.6.5."""
        told = decoding.text(decoding.fields(self.get("/cm/version")), "version")
        if not told:
            raise WorkFailed("GET /cm/version: the answer names no version")
        return told

    def clusters(self) -> Sequence[Cluster]:
        """Return all clusters; ECS ones are hidden unless asked for (contract section 5)."""
        path = f"{self._clusters_root()}/clusters"
        call = Call("GET", f"{path}?clusterType=any", read=self._calls.timeouts.read)
        answer = self._calls.ask(call)
        if answer.status_code == 400:  # a server too old for the parameter, and for ECS
            answer.close()
            listed = self._calls.json(path)
        else:
            listed = answers.decoded(self._calls.whole(answer, f"GET {path}"), f"GET {path}")
        return [decoding.cluster(item) for item in decoding.items(listed)]

    def data_contexts(self, cluster: str) -> Sequence[str]:
        """Return the names of the data contexts made of a base cluster's services; empty before API v32."""
        listed = self._since(_SINCE_CONTEXTS, "/dataContexts")
        return [decoding.text(item, "name") for item in decoding.items(listed) if cluster in decoding.bases(item)]

    def services(self, cluster: str) -> Sequence[Service]:
        """Return a cluster's services."""
        listed = self.get(f"/clusters/{segment(cluster)}/services")
        return [decoding.service(item) for item in decoding.items(listed)]

    def management_service(self) -> Service | None:
        """Return the monitoring service, or None where there is none (contract section 5)."""
        found = self._unless_missing(f"{self._clusters_root()}/cm/service")
        return None if found is None else decoding.service(decoding.fields(found))

    def management_roles(self) -> Sequence[Role]:
        """Return the roles of the monitoring service; none where there is no such service."""
        found = self._unless_missing(f"{self._clusters_root()}/cm/service/roles")
        return [decoding.role(item) for item in decoding.items(found)]

    def hosts(self) -> Sequence[Host]:
        """Return all hosts; the full view alone tells their clusters (contract section 10.1)."""
        return [decoding.host(item) for item in decoding.items(self.get("/hosts?view=full"))]

    def license(self) -> License | None:
        """Return the installed licence, or None: 404 with a message is the normal answer without one (section 9)."""
        path = f"{self._calls.root(self._calls.settings.api.deployment)}/cm/license"
        found = self._unless_missing(path)
        return None if found is None else decoding.license(decoding.fields(found))

    def truststore_password(self) -> Secret | None:
        """Return the password of the shared truststore, or None where Auto-TLS is off or the API too old.

        The text is taken as it came but for one line end (contract section 11).

        Raises:
            WorkFailed: the answer cannot be a password: nothing, JSON or a page.
        """
        if self._calls.gate.api() < _SINCE_TRUSTSTORE:
            return None
        pinned = max(self._calls.settings.api.deployment, _SINCE_TRUSTSTORE)
        path = f"{self._calls.root(pinned)}/certs/truststorePassword"
        answer = self._calls.ask(Call("GET", path, read=self._calls.timeouts.read))
        if answer.status_code in (404, 500):  # without Auto-TLS (contract section 14, U8)
            answer.close()
            return None
        return _password(self._calls.whole(answer, f"GET {path}"))

    def settings(self) -> dict[str, str]:
        """Return the manager's own settings; redacted ones as REDACTED."""
        return decoding.settings(self.get("/cm/config"))

    def instances(self) -> Sequence[Instance]:
        """Return the servers of this manager; empty where the API is older than v41."""
        found = self._since(_SINCE_INSTANCES, "/cm/instances")
        return [decoding.instance(item) for item in decoding.items(found)]

    def get(self, path: str) -> Json:
        """Return the JSON of any other read, `path` without `/api/vN`, percent-encoded."""
        return self._calls.json(f"{self._clusters_root()}{path}")

    def _clusters_root(self) -> str:
        return self._calls.root(self._calls.settings.api.clusters)

    def _since(self, first: int, path: str) -> Json:
        """Return the JSON of a read that came with API version `first`; None on a server that is older."""
        if self._calls.gate.api() < first:
            return None
        return self._unless_missing(f"{self._calls.root(max(self._calls.settings.api.clusters, first))}{path}")

    def _unless_missing(self, path: str) -> Json:
        """Return the JSON, or None on a 404 in the manager's own words; another 404 is a failure."""
        answer = self._calls.ask(Call("GET", path, read=self._calls.timeouts.read))
        if answer.status_code == 404 and answers.message(answers.body(answer)) is not None:
            return None
        return answers.decoded(self._calls.whole(answer, f"GET {path}"), f"GET {path}")


def _password(content: bytes) -> Secret:
    told = content.decode("utf-8", "replace")
    told = told.removesuffix("\n").removesuffix("\r") if told.endswith("\n") else told
    if not told.strip() or "\n" in told or _PAGE.match(told) or _JSON.fullmatch(told):
        raise WorkFailed(
            "GET /certs/truststorePassword: the answer is no password (nothing, JSON or a page)",
            hint="is Auto-TLS on? the password is in the manager's settings otherwise",
        )
    return Secret(told)
