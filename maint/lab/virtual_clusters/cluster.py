"""The state of one virtual cluster: its jobs, resources, files and runs, on disk."""

import base64
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from maint.lab.hosts.kerberos import new_keytab
from maint.lab.manager.document import Doc
from maint.lab.manager.world import World
from maint.lab.switches import Switches
from maint.lab.virtual_clusters import times
from maint.lab.virtual_clusters.messages import without_empty
from maint.lab.virtual_clusters.schedules import next_execution
from maint.lab.virtual_clusters.store import Database, FileStore, ObjectStore

Secret = Mapping[str, bytes]
_PRINCIPAL, _KEYTAB = "-krb5-principal", "-krb5-secret"


class Identity(msgspec.Struct, frozen=True):
    """What a virtual cluster is called."""

    name: str  # by people
    id: str  # the first label of its host
    service: str  # the id of its service
    domain: str  # the domain below which services have their names

    @property
    def host(self) -> str:
        """The name under which its API answers (J1)."""
        return f"{self.id}.cde-{self.service}.{self.domain}"

    @property
    def gateway(self) -> str:
        return f"service.cde-{self.service}.{self.domain}"


class Cluster:
    """A virtual cluster, which behaves as its world's switches and faults say; users hold `lock` meanwhile."""

    def __init__(
        self, folder: Path, identity: Identity, world: World, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.folder, self.identity, self._world, self._clock = folder, identity, world, clock
        self.lock = threading.RLock()
        self.database = Database(folder / "state.sqlite")
        self.jobs = ObjectStore(self.database, "jobs")
        self.resources = ObjectStore(self.database, "resources")
        self.repositories = ObjectStore(self.database, "repositories")
        self.runs = ObjectStore(self.database, "runs")
        self.starts = ObjectStore(self.database, "starts")
        self._facts = ObjectStore(self.database, "facts")
        self.files = FileStore(folder, self.database)
        self.launch: Callable[[Doc], None] = _nothing
        self.stop_run: Callable[[Doc], None] = _nothing

    @property
    def switches(self) -> Switches:
        return self._world.switches

    def strikes(self, fault: str, call: str = "") -> bool:
        """Return whether a fault hits a call, and use it up when it hits once only."""
        return self._world.faults.strikes(fault, call)

    def waits(self, fault: str, call: str) -> bool:
        """Return whether a fault would hit a call, and leave it set."""
        return self._world.faults.waits(fault, call)

    def now(self) -> datetime:
        return self._clock()

    def stamp(self) -> str:
        """Return the time as `created` and `modified` spell it."""
        return times.seconds(self.now())

    # -- initialisation: J8, J11

    @property
    def tls_ready(self) -> bool:
        return bool((self._facts.get("tls") or {}).get("ready"))

    def set_tls(self, ready: bool) -> None:
        self._facts.put("tls", {"ready": ready})

    @property
    def secrets(self) -> dict[str, Secret]:
        """The generic secrets of its namespace: name → key → bytes."""
        return {name: _decoded(data) for name, data in (self._facts.get("secrets") or {}).items()}

    def put_secret(self, name: str, data: Secret) -> None:
        known = dict(self._facts.get("secrets") or {})
        known[name] = _encoded(data)
        self._facts.put("secrets", known)

    def drop_secret(self, name: str) -> bool:
        """Take a secret; return whether there was one."""
        known = dict(self._facts.get("secrets") or {})
        there = known.pop(name, None) is not None
        self._facts.put("secrets", known)
        return there

    @property
    def kerberos(self) -> dict[str, str]:
        """Who has Kerberos secrets: user → principal; "" where the two do not fit each other."""
        return kerberos_users(self.secrets)

    def set_kerberos(self, user: str, principal: str | None, keytab: bytes = b"") -> None:
        """Give a user Kerberos secrets, with a keytab made up where none is given, or take them."""
        names = secret_names(user)
        if principal is None:
            for name in names:
                self.drop_secret(name)
            return
        contents = (f"{principal}\n".encode(), keytab or new_keytab(principal))
        for name, content in zip(names, contents, strict=True):
            self.put_secret(name, {name: content})

    # -- numbers

    def next_run(self) -> int:
        """Return a number that no run ever had."""
        number = int((self._facts.get("next run") or {}).get("number", 1))
        self._facts.put("next run", {"number": number + 1})
        return number

    def set_next_run(self, number: int) -> None:
        self._facts.put("next run", {"number": number})

    # -- what is shown

    def job_view(self, job: Doc, *, latest: bool = False) -> Doc:
        view = without_empty({name: value for name, value in job.items() if name != "_"})
        schedule = view.get("schedule")
        if schedule is not None:
            coming = self._next(job)
            schedule |= {"nextExecution": coming} if coming else {}
        if latest:
            own = [run for run in self.runs.values() if run["job"] == job["name"]]
            if own:
                view["latestRunInfo"] = self.run_view(max(own, key=lambda run: int(run["id"])))
        return view

    def resource_view(self, resource: Doc) -> Doc:
        """Return a resource as the API shows it, without its files."""
        signature = self.files.signature(str(resource["name"]))
        kept = {name: value for name, value in resource.items() if name != "_"}
        return without_empty(kept | {"signature": signature})

    def run_view(self, run: Doc) -> Doc:
        return without_empty({name: value for name, value in run.items() if name != "_"})

    def _next(self, job: Doc) -> str:
        logical = self.switches["vc-next-execution"] == "logical"
        return next_execution(job.get("schedule") or {}, self.now(), logical=logical)

    def close(self) -> None:
        self.database.close()


def secret_names(user: str) -> tuple[str, str]:
    """Return the names of a user's secrets: of the principal, and of the keytab."""
    mapped = user.replace("_", "---")
    return f"{mapped}{_PRINCIPAL}", f"{mapped}{_KEYTAB}"


def kerberos_users(found: Mapping[str, Secret]) -> dict[str, str]:
    """Return who has both secrets: user → principal; "" where the two do not fit each other."""
    known = {}
    for name in found:
        mapped = name.removesuffix(_PRINCIPAL)
        other = f"{mapped}{_KEYTAB}"
        if mapped != name and other in found:
            fits = principal_of(found[name].get(name, b""), found[other].get(other, b""))
            known[mapped.replace("---", "_")] = fits
    return known


def principal_of(text: bytes, keytab: bytes) -> str:
    """Return the principal that jobs can log in with, "" where the files do not fit: nothing checks them before."""
    principal = text.decode("utf-8", "replace").removesuffix("\n")
    name, _, realm = principal.partition("@")
    parts = [part.encode() for part in (*name.split("/"), realm)]
    fits = keytab.startswith(b"\x05\x02") and all(part and part in keytab for part in parts)
    return principal if fits and not re.search(r"\s", principal) else ""


def _nothing(run: Doc) -> None:
    del run


def _encoded(data: Secret) -> dict[str, str]:
    return {key: base64.b64encode(content).decode() for key, content in data.items()}


def _decoded(data: Mapping[str, str]) -> Secret:
    return {key: base64.b64decode(text) for key, text in data.items()}
