"""What kubectl sees and changes on an ECS master: namespaces, secrets, ingresses, nodes (jobs API, 1, 8, 11)."""

import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence

from maint.lab.files import write_whole
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.kerberos import Secret
from maint.lab.virtual_clusters.service import Service

SHARED = "tls-dex-base"
_SECRET_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_SLOWNESS = 1.0  # seconds
_TLS = ("tls.crt", "tls.key")


class Denied(Exception):
    """The API server says no; the words are those that kubectl prints."""


class Hangs(Exception):
    """The API server never answers."""


class Kubernetes:
    """The cluster that a Data Engineering service lives in.

    Args:
        service: the service.
        nodes: returns the names of the nodes, each with its processors and its memory in KiB.
    """

    def __init__(self, service: Service, nodes: Callable[[], Mapping[str, tuple[str, str]]]) -> None:
        self._service, self._nodes = service, nodes

    def asks(self, verb: str, name: str) -> None:
        """Let the fault strike that is set for this call.

        Args:
            verb: of kubectl.
            name: of the object, or its kind where none is named.

        Raises:
            Denied: it fails.
            Hangs: it never ends.
        """
        call = f"kubectl {verb} {name}"
        if self._service.strikes("vc-kubectl-hangs", call):
            raise Hangs
        if self._service.strikes("vc-kubectl-slow", call):
            time.sleep(_SLOWNESS)
        if self._service.strikes("vc-kubectl-down", call):
            raise Denied("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host?")
        if self._service.strikes("vc-kubectl-fails", call):
            raise Denied("Error from server (InternalError): an error on the server has prevented the request")

    @property
    def applies(self) -> bool:
        """Whether server-side apply is to be had."""
        return self._service.switches["vc-server-side-apply"] == "yes"

    @property
    def sealed(self) -> bool:
        """Whether the embedded vault is sealed."""
        return self._service.strikes("vc-vault-sealed")

    @property
    def base(self) -> str:
        """The namespace of the service."""
        return f"dex-base-{self._service.id}"

    def pods(self) -> Sequence[str]:
        """Return the pods that somebody asks for."""
        return ["vault-0"]

    def namespaces(self) -> Sequence[str]:
        """Return all namespaces."""
        own = [f"dex-app-{cluster.identity.id}" for cluster in self._service.clusters()]
        return ["default", self.base, *own, "kube-system", "vault-system"]

    def ingresses(self, space: str) -> Sequence[str]:
        """Return the ingresses of a namespace; all are in the service's (section 8)."""
        own = [f"dex-app-{cluster.identity.id}-api" for cluster in self._service.clusters()]
        return ["dex-base-api", *own] if space == self.base else []

    def nodes(self) -> Sequence[Doc]:
        """Return all nodes; the first is not ready where the fault says so."""
        found = [_node(name, *size) for name, size in self._nodes().items()]
        if found and self._service.strikes("vc-node-not-ready"):
            found[0]["status"]["conditions"][0]["status"] = "Unknown"
        return found

    # -- secrets

    def secrets(self, space: str) -> Mapping[str, Secret]:
        """Return the secrets of a namespace.

        Raises:
            Denied: there is no such namespace.
        """
        if space == self.base:
            return self._certificates()
        if space not in self.namespaces():
            raise Denied(f'Error from server (NotFound): namespaces "{space}" not found')
        cluster = self._of(space)
        return cluster.secrets if cluster else {}

    def put(self, space: str, name: str, data: Secret) -> None:
        """Make or replace a secret.

        Raises:
            Denied: it may not be called so, or cannot be there.
        """
        if not _SECRET_NAME.fullmatch(name):
            raise Denied(f'The Secret "{name}" is invalid: metadata.name: Invalid value: "{name}"')
        self.secrets(space)
        if space == self.base:
            self._install(name, data)
        elif cluster := self._of(space):
            with cluster.lock:
                cluster.put_secret(name, data)

    def drop(self, space: str, name: str) -> bool:
        """Take a secret; return whether there was one."""
        cluster = self._of(space)
        if cluster is None:
            raise Denied(f'Error from server (Forbidden): secrets "{name}" is forbidden')
        with cluster.lock:
            return cluster.drop_secret(name)

    def _of(self, space: str) -> Cluster | None:
        found = [each for each in self._service.clusters() if space == f"dex-app-{each.identity.id}"]
        return found[0] if found else None

    def _certificates(self) -> dict[str, Secret]:
        found: dict[str, Secret] = {}
        for cluster in self._service.clusters():
            if cluster.tls_ready:
                identity = cluster.identity
                found[f"tls-dex-app-{identity.id}"] = self._pair(identity.host)
                found[SHARED] = self._pair(identity.gateway)
        return found

    def _pair(self, host: str) -> Secret:
        path = self._service.folder / "tls" / f"{host}.pem"
        if not path.exists():
            own, key = self._service.tls_pair
            return dict(zip(_TLS, (own.read_bytes(), key.read_bytes()), strict=True))
        content = path.read_bytes()
        place = content.index(b"-----BEGIN CERTIFICATE")
        return dict(zip(_TLS, (content[place:], content[:place]), strict=True))

    def _install(self, name: str, data: Secret) -> None:
        """Let a host show a certificate, as its ingress does once the secret is there."""
        hosts = {f"tls-dex-app-{each.identity.id}": each.identity.host for each in self._service.clusters()}
        if self._service.clusters():
            hosts[SHARED] = self._service.clusters()[0].identity.gateway
        if name not in hosts:
            return
        path = self._service.folder / "tls" / f"{hosts[name]}.pem"
        before = path.read_bytes() if path.exists() else None
        write_whole(path, data.get("tls.key", b"") + data.get("tls.crt", b""), 0o600)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
        except (ssl.SSLError, ValueError) as error:
            path.unlink() if before is None else write_whole(path, before, 0o600)
            raise Denied(f"error: tls: failed to parse certificate and key: {error}") from error


def _node(name: str, cpus: str, memory: str) -> Doc:
    healthy = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    size = {"cpu": cpus, "memory": f"{memory}Ki"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "allocatable": size,
            "capacity": size,
            "conditions": [{"type": kind, "status": status} for kind, status in healthy.items()],
        },
    }
