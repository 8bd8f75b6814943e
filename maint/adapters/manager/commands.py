"""Commands: send them, read them, list what runs now (contract sections 4 and 5)."""

import json
from collections.abc import Iterator, Sequence

from maint.adapters.manager import answers, decoding
from maint.adapters.manager.paths import segment
from maint.adapters.manager.reads import Reads
from maint.adapters.manager.transport import Call
from maint.errors import Transient, WorkFailed
from maint.model.json import Json
from maint.model.manager import Command

_PASSING = (400, 401, 500)  # besides 502 to 504: go away by themselves while polling (contract sections 2.2, 2.4)


class Commands(Reads):
    """The calls about commands."""

    def command(self, command_id: int) -> Command | None:
        """Return a command by id, or None where it is unknown. Transient 400, 401 and 5xx raise `Transient`."""
        path = f"{self._clusters_root()}/commands/{command_id}"
        answer = self._calls.ask(Call("GET", path, read=self._calls.timeouts.read), patient=False)
        content = answers.body(answer)
        if answer.status_code == 404 and answers.message(content) is not None:
            return None
        if answer.status_code in _PASSING:
            told = answers.message(content) or "no reason given"
            raise Transient(f"GET {path}: the manager answered {answers.status(answer)}: {told}")
        return decoding.command(answers.decoded(self._calls.whole(answer, f"GET {path}"), f"GET {path}"))

    def active_commands(self, cluster: str = "") -> Sequence[Command]:
        """Return what runs now on a cluster itself; where none is named, on manager, monitoring and clusters."""
        lists = [self._cluster_list(cluster)] if cluster else self._command_lists()
        return [found for listed in lists for found in map(decoding.command, decoding.items(listed))]

    def _command_lists(self) -> Iterator[Json]:
        yield self.get("/cm/commands")
        yield self._unless_missing(f"{self._clusters_root()}/cm/service/commands")
        for cluster in self.clusters():
            yield self._cluster_list(cluster.name)

    def _cluster_list(self, cluster: str) -> Json:
        return self.get(f"/clusters/{segment(cluster)}/commands")

    def cluster_command(self, cluster: str, name: str) -> Command:
        """Send `commands/start` or `commands/stop`; the answer may already be a rejection (contract section 4.3)."""
        return decoding.command(self._post(f"/clusters/{segment(cluster)}/commands/{segment(name)}"))

    def management_command(self, name: str, roles: Sequence[str] = ()) -> Sequence[Command]:
        """Send a command to the monitoring service, or to some of its roles.

        What the manager did not begin for a role comes back as a command that has failed.
        """
        if not roles:
            return [decoding.command(self._post(f"/cm/service/commands/{segment(name)}"))]
        answer = self._post(f"/cm/service/roleCommands/{segment(name)}", json.dumps({"items": list(roles)}).encode())
        refused = decoding.fields(answer).get("errors")
        told = [str(error) for error in refused] if isinstance(refused, list) else []
        begun = [decoding.command(item) for item in decoding.items(answer)]
        return [*begun, *(decoding.refused_command(name, error) for error in told)]

    def _post(self, path: str, body: bytes | None = None) -> Json:
        call = Call("POST", f"{self._clusters_root()}{path}", read=self._calls.timeouts.write, json=body)
        content = self._calls.done(self._calls.act(call), call)
        try:
            return answers.decoded(content, f"POST {path}")
        except WorkFailed as failure:
            raise self._calls.lost(call, failure.message) from None
