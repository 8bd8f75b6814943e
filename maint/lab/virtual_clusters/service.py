"""A Data Engineering service: its gateway, its virtual clusters, the one port they share, and what time brings."""

import json
import secrets
import shutil
import ssl
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from maint.files import write_whole
from maint.lab import pki
from maint.lab.http import server as http_server
from maint.lab.http.messages import BadForm, Response, form_part
from maint.lab.http.server import EXPIRED, STRANGE, Listener, RequestLog, bad_pem, context_of
from maint.lab.manager.document import Doc
from maint.lab.manager.world import World
from maint.lab.switches import Switches
from maint.lab.virtual_clusters import runs, tick
from maint.lab.virtual_clusters.api.answer import Admitted, admit, handle, throttled
from maint.lab.virtual_clusters.cluster import Cluster, Identity
from maint.lab.virtual_clusters.create import FACTS, BadName, check_name, entry_of, load_example
from maint.lab.virtual_clusters.engine import Engine
from maint.lab.virtual_clusters.gateway import Gateway, TokenSigner, User, Users
from maint.lab.virtual_clusters.messages import ApiError, Request, html, printed

_INGRESS = "Kubernetes Ingress Controller Fake Certificate"


class Certificates:
    """Certificates by host name.

    Args:
        folder: where PEM files for the TLS library are put; `HOST.pem` there is shown for that host.
        names: what the lab's own certificate carries.
        ready: tells whether a host has its certificate.
        spoiled: tells which bad certificate is to be shown, EXPIRED or STRANGE (of another authority); "" for none.
    """

    def __init__(
        self,
        folder: Path,
        authority: pki.Authority,
        names: list[str],
        ready: Callable[[str], bool],
        spoiled: Callable[[], str],
    ) -> None:
        self._folder, self._authority, self._names = folder, authority, names
        self._ready, self._spoiled = ready, spoiled
        self._contexts: dict[str, ssl.SSLContext] = {}

    def write_own(self, now: datetime) -> tuple[Path, Path]:
        """Write the lab's own certificate and key for these names, and return both files."""
        certificate, key = self._folder / "tls.crt", self._folder / "tls.key"
        if not certificate.exists():
            pair = self._authority.server(self._names, now)
            write_whole(key, pair.key_pem, 0o600)
            write_whole(certificate, self._authority.chain_pem(pair))
        return certificate, key

    def context(self, now: datetime) -> ssl.SSLContext:
        """Return a context that shows each client the certificate of the name it asks for."""
        first = self._of("own", now)

        # The annotation of the standard library knows a second kind of connection that is not used here.
        def choose(connection: ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
            connection.context = self._chosen((name or "").lower(), now)

        first.sni_callback = choose  # type: ignore[assignment]
        return self._of(self._spoiled() or "own", now)

    def _chosen(self, name: str, now: datetime) -> ssl.SSLContext:
        if name and name not in pki.LOOPBACK and not self._ready(name):
            return self._of("fake", now)
        own = self._folder / f"{name}.pem"
        return self._load(own) if name and own.exists() else self._of("own", now)

    def _of(self, kind: str, now: datetime) -> ssl.SSLContext:
        if kind not in self._contexts:
            path = self._folder / f".{kind}.pem"
            if kind == "own":
                certificate, key = self.write_own(now)
                pem = key.read_bytes() + certificate.read_bytes()
            elif kind == "fake":
                pem = bad_pem(_INGRESS, self._authority, ["ingress.local"], now)
            else:
                pem = bad_pem(kind, self._authority, self._names, now)
            self._contexts[kind] = context_of(path, pem)
        return self._contexts[kind]

    def _load(self, path: Path) -> ssl.SSLContext:
        stamp = f"{path}@{path.stat().st_mtime_ns}"
        if stamp not in self._contexts:
            self._contexts[stamp] = context_of(path)
        return self._contexts[stamp]


ACCESS_KEY = "access-key"  # the file with the id of the first user's
_TICK = 0.2  # seconds


class Service:
    """A service in a folder that `plan` has laid out; `changed` is called when a virtual cluster appeared or went."""

    def __init__(
        self, folder: Path, world: World, authority: pki.Authority, log: RequestLog, changed: Callable[[], None]
    ) -> None:
        self.folder, self.log = folder, log
        self._world, self._changed = world, changed
        self._facts: Doc = json.loads((folder / FACTS).read_bytes())
        self._clusters: dict[str, tuple[Cluster, Engine]] = {}
        self._asked: dict[str, list[float]] = {}
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._listener: Port | None = None
        names = [f"*.cde-{self.id}.{self._domain}", *pki.LOOPBACK]
        self.certificates = Certificates(folder / "tls", authority, names, self._ready, self._spoiled)
        self.tls_pair = self.certificates.write_own(datetime.now(UTC))
        self.gateway = self._gateway()

    # -- start and stop

    def start(self) -> None:
        self._ended.clear()
        self._appear()
        self._listener = Port(self)
        threading.Thread(target=self._tick, daemon=True).start()

    def stop(self) -> None:
        """Close the port and end all runs; state stays."""
        self._ended.set()
        if self._listener:
            self._listener.close()
            self._listener = None
        with self._lock:
            for cluster, engine in self._clusters.values():
                engine.stop()
                runs.abandon(cluster)
                cluster.close()
            self._clusters.clear()

    # -- what is there

    @property
    def id(self) -> str:
        return str(self._facts["id"])

    @property
    def port(self) -> int:
        return int(self._facts["port"])

    @property
    def people(self) -> Users:
        return self.gateway.people

    def clusters(self) -> list[Cluster]:
        with self._lock:
            return [cluster for cluster, _ in self._clusters.values()]

    def cluster(self, name: str) -> Cluster:
        """Return a virtual cluster by name or id; BadName where there is none."""
        for cluster in self.clusters():
            if name in (cluster.identity.name, cluster.identity.id):
                return cluster
        raise BadName(f"there is no virtual cluster {name!r}")

    def create(self, name: str, *, loaded: bool = False, initialised: bool = False) -> Cluster:
        """Make a virtual cluster under a new address, as the vendor's UI does; BadName: no name for one (J8), or taken.

        Args:
            loaded: fill it with the example set.
            initialised: give it TLS and its users Kerberos secrets.
        """
        with self._lock:
            check_name(name, [str(entry["name"]) for entry in self._facts["clusters"]])
            self._facts["clusters"].append(entry_of(name, loaded=loaded, initialised=initialised))
            self._write()
            self._appear()
        self._changed()
        return self.cluster(name)

    def delete(self, name: str) -> None:
        """Take a virtual cluster away with everything in it; BadName where there is none."""
        identity = self.cluster(name).identity
        with self._lock:
            cluster, engine = self._clusters.pop(identity.id)
            self._facts["clusters"] = [entry for entry in self._facts["clusters"] if entry["id"] != identity.id]
            self._write()
            engine.stop()
            cluster.close()
            shutil.rmtree(cluster.folder, ignore_errors=True)
        self._changed()

    def addresses(self, cluster: Cluster) -> tuple[str, str]:
        """Return a virtual cluster's base_url and auth_url, with the port they answer on."""
        identity = cluster.identity
        return f"https://{identity.host}:{self.port}/dex/api/v1", f"https://{identity.gateway}:{self.port}"

    # -- what the listener asks

    @property
    def switches(self) -> Switches:
        return self._world.switches

    def strikes(self, fault: str, call: str = "") -> bool:
        """Return whether a fault hits a call, and use it up when it hits once only."""
        return self._world.faults.strikes(fault, call)

    def by_host(self, host: str) -> Cluster | None:
        return next((cluster for cluster in self.clusters() if cluster.identity.host == host), None)

    def is_gateway(self, host: str) -> bool:
        """Return whether gateway or control plane answer to a host's name."""
        return host == f"service.cde-{self.id}.{self._domain}" or host in pki.LOOPBACK

    def context(self) -> ssl.SSLContext:
        return self.certificates.context(datetime.now(UTC))

    def too_often(self, cluster: Cluster) -> bool:
        limit = int(cluster.switches.number("vc-requests-per-second"))
        if not limit:
            return False
        with self._lock:
            now = time.monotonic()
            recent = [moment for moment in self._asked.get(cluster.identity.id, []) if moment > now - 1]
            refused = len(recent) >= limit
            self._asked[cluster.identity.id] = recent if refused else [*recent, now]
        return refused

    # -- parts

    @property
    def _domain(self) -> str:
        return str(self._facts["domain"])

    def _gateway(self) -> Gateway:
        people = Users([User(**person) for person in self._facts["people"]], self._access_key())
        mint = TokenSigner(bytes.fromhex(self._facts["secret"]), f"https://service.cde-{self.id}.{self._domain}")
        certificate = "".join(self.tls_pair[0].read_text().split("-----")[2].split())
        return Gateway(
            mint, people, lambda: self._world.switches, self.strikes, lambda: datetime.now(UTC),
            self.id, str(self._facts["environment"]), certificate, self._told,
        )  # fmt: skip

    def _access_key(self) -> str:
        path = self.folder / ACCESS_KEY
        if not path.exists():
            write_whole(path, secrets.token_hex(16).encode(), 0o600)
        return path.read_text()

    def _told(self) -> dict[str, tuple[str, str]]:
        return {each.identity.name: (each.identity.id, self.addresses(each)[0]) for each in self.clusters()}

    def _ready(self, host: str) -> bool:
        """Return whether a host has its certificate; the gateway's comes with the first virtual cluster's."""
        cluster = self.by_host(host)
        if cluster:
            return cluster.tls_ready
        return self.is_gateway(host) and any(each.tls_ready for each in self.clusters())

    def _spoiled(self) -> str:
        kinds = {EXPIRED: "vc-expired-certificate", STRANGE: "vc-unknown-ca-certificate"}
        return next((kind for kind, fault in kinds.items() if self.strikes(fault)), "")

    def _tick(self) -> None:
        while not self._ended.wait(_TICK):
            with self._lock:
                if self._appear():
                    self._changed()
                clusters = self.clusters()
            for cluster in clusters:
                tick.settle(cluster)

    def _appear(self) -> bool:
        """Bring up the virtual clusters whose time has come; return whether there were any."""
        found = False
        for entry in self._facts["clusters"]:
            if entry["id"] not in self._clusters and entry["due"] <= time.time():
                self._clusters[entry["id"]] = self._bring_up(entry)
                found = True
        return found

    def _bring_up(self, entry: Doc) -> tuple[Cluster, Engine]:
        folder = self.folder / "clusters" / str(entry["id"])
        new = not folder.exists()
        identity = Identity(str(entry["name"]), str(entry["id"]), self.id, self._domain)
        cluster = Cluster(folder, identity, self._world)
        engine = Engine(cluster)
        if new and entry["initialised"]:
            cluster.set_tls(True)
            for person in self.people:
                if person.roles and person.principal:
                    keytab = self.folder / "keytabs" / f"{person.name}.keytab"
                    cluster.set_kerberos(person.name, person.principal, keytab.read_bytes())
        if new and entry["loaded"]:
            load_example(cluster)
        runs.abandon(cluster)
        return cluster, engine

    def _write(self) -> None:
        write_whole(self.folder / FACTS, json.dumps(self._facts, indent=1).encode(), 0o600)


_MOST_JSON = 1 << 24


class Port(Listener):
    """The one port of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        super().__init__(service.port, Exchange, service.context, service.log)


class Exchange(http_server.Exchange):
    """One connection, request after request."""

    server: Port
    server_name = "istio-envoy"

    def respond(self) -> Response:
        head = self.head()
        try:
            return self._answer(Request(head.method, head.path, head.query, head.headers))
        except BadForm as error:
            return ApiError(400, str(error)).response

    def refused(self, status: int, message: str) -> Response:
        return ApiError(status, message).response

    def dumps(self, value: Any) -> bytes:  # Any: what JSON can spell
        return printed(value)

    def _answer(self, request: Request) -> Response:
        service, host = self.server.service, request.headers.get("host", "").rsplit(":", 1)[0].lower()
        if service.is_gateway(host):
            return service.gateway.answer(replace(request, content=self._whole()))
        cluster = service.by_host(host)
        if cluster is None:
            return Response(404, text=b"default backend - 404", content_type="text/plain")
        if service.too_often(cluster):
            return throttled(cluster)
        admitted = admit(cluster, service.gateway, request)
        if isinstance(admitted, Response):
            return admitted
        return self._within(cluster, admitted)

    def _within(self, cluster: Cluster, admitted: Admitted) -> Response:
        limit = int(cluster.switches.number("vc-upload-max-bytes"))
        if limit and self.length > limit:
            self.close_connection = True
            return html(413, "413 Request Entity Too Large")
        if admitted.uploads:
            kind = admitted.request.headers.get("content-type", "")
            staged = cluster.files.stage(form_part(self.received(), kind))
            request = replace(admitted.request, upload=staged)
        else:
            request = replace(admitted.request, content=self._whole())
        return handle(cluster, Admitted(request, admitted.handler, admitted.uploads))

    def _whole(self) -> bytes:
        found = b""
        for piece in self.received():
            found += piece
            if len(found) > _MOST_JSON:
                self.close_connection = True
                raise BadForm("the body is too large")
        return found
