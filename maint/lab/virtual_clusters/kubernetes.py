"""What a Data Engineering service has in Kubernetes, and the kubectl of an ECS master (J1, J8, J11)."""

import base64
import json
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from maint.files import write_whole
from maint.lab.hosts.shell.call import Call, NotSimulated, Options
from maint.lab.hosts.shell.state import Killed
from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.cluster import Cluster, Secret
from maint.lab.virtual_clusters.service import Service

SHARED = "tls-dex-base"
_SECRET_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_SLOWNESS = 1.0  # seconds
_TLS = ("tls.crt", "tls.key")
_FLAGS = ("ignore-not-found", "server-side", "force-conflicts", "all-namespaces")
_VALUED = ("namespace=", "output=", "filename=", "field-manager=", "dry-run=", "for=", "timeout=")
_KINDS = {
    "secret": "secret", "secrets": "secret", "namespace": "namespace", "namespaces": "namespace", "ns": "namespace",
    "ingress": "ingress", "ingresses": "ingress", "node": "node", "nodes": "node", "pods": "pod", "pod": "pod",
    "nodes.longhorn.io": "disks",
}  # fmt: skip
_PREFIXES = {"ingress": "ingress.networking.k8s.io"}
_FOREVER = 86400.0  # seconds
_KEY = re.compile(r"\{\.data\.((?:[^.{}\\]|\\\.)+)\}")


class Denied(Exception):
    """The API server says no; the words are those that kubectl prints."""


class Hangs(Exception):
    """The API server never answers."""


class Kubernetes:
    """The cluster that a Data Engineering service runs in.

    Args:
        nodes: returns names with processors and memory in KiB.
        serves: whether its API server runs, which stops with the ECS cluster.
    """

    def __init__(
        self, service: Service, nodes: Callable[[], Mapping[str, tuple[str, str]]], serves: Callable[[], bool]
    ) -> None:
        self._service, self._nodes, self._serves = service, nodes, serves

    def asks(self, verb: str, name: str) -> None:
        """Let the fault strike (Denied, Hangs) that is set for this verb and name, or kind where none is named."""
        call = f"kubectl {verb} {name}"
        if self._service.strikes("vc-kubectl-hangs", call):
            raise Hangs
        if self._service.strikes("vc-kubectl-slow", call):
            time.sleep(_SLOWNESS)
        if self._service.strikes("vc-kubectl-down", call) or not self._serves():
            raise Denied("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host?")
        if self._service.strikes("vc-kubectl-fails", call):
            raise Denied("Error from server (InternalError): an error on the server has prevented the request")

    @property
    def applies(self) -> bool:
        return self._service.switches["vc-server-side-apply"] == "yes"

    @property
    def sealed(self) -> bool:
        return self._service.strikes("vc-vault-sealed")

    @property
    def base(self) -> str:
        return f"dex-base-{self._service.id}"

    def pods(self) -> Sequence[str]:
        return ["vault-0"]

    def namespaces(self) -> Sequence[str]:
        own = [f"dex-app-{cluster.identity.id}" for cluster in self._service.clusters()]
        return ["default", self.base, *own, "kube-system", "vault-system"]

    def ingresses(self, space: str) -> Sequence[str]:
        """Return the ingresses of a namespace; all are in the service's (J8)."""
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
        """Return the secrets of a namespace; Denied where there is none."""
        if space == self.base:
            return self._certificates()
        if space not in self.namespaces():
            raise Denied(f'Error from server (NotFound): namespaces "{space}" not found')
        cluster = self._of(space)
        return cluster.secrets if cluster else {}

    def put(self, space: str, name: str, data: Secret) -> None:
        """Make or replace a secret; Denied where it may not be called so, or cannot be there."""
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


def _disks(node: Doc) -> Doc:
    """Return a node as Longhorn lists it."""
    return {
        "kind": "Node",
        "metadata": node["metadata"],
        "spec": {"disks": {"default": {"allowScheduling": True, "storageReserved": 30_000_000_000}}},
        "status": {"diskStatus": {"default": {"storageAvailable": 180_000_000_000}}},
    }


def kubectl(cluster: Kubernetes, call: Call) -> int:
    """Ask the cluster's API server, as a host with its kubeconfig may."""
    place = call.state.environment().get("KUBECONFIG") or "/root/.kube/config"
    if not call.files.exists(place):
        call.stderr.write(
            b"The connection to the server localhost:8080 was refused - did you specify the right host?\n"
        )
        return 1
    verb, *rest = call.args or ["help"]
    known = {
        "get": _get,
        "describe": _describe,
        "apply": _apply,
        "create": _create,
        "replace": _replace,
        "delete": _delete,
        "exec": _exec,
    }
    if verb not in known:
        raise NotSimulated(f"command {verb}")
    try:
        return known[verb](call.again("kubectl", rest), cluster)
    except Denied as denial:
        call.stderr.write(f"{denial}\n".encode())
        return 1
    except Hangs:
        never_end(call)


def never_end(call: Call) -> NoReturn:
    """Never end; the host goes down with all that runs there once the caller has gone."""
    call.state.lifetime.left.wait(_FOREVER)
    raise Killed


def _options(call: Call) -> Options:
    return call.options("An:o:f:", (*_FLAGS, *_VALUED))


def _space(options: Options) -> str:
    return options.get("n") or options.get("namespace") or "default"


def _get(call: Call, cluster: Kubernetes) -> int:
    options = _options(call)
    kind, names = _KINDS.get((options.operands or [""])[0], ""), options.operands[1:]
    if not kind:
        raise NotSimulated(f"get {' '.join(options.operands)}")
    cluster.asks("get", names[0] if names else kind)
    found = _found(cluster, kind, _space(options))
    missing = [name for name in names if name not in found]
    status = 0
    if missing and "ignore-not-found" not in options:
        call.stderr.write(f'Error from server (NotFound): {kind}s "{missing[0]}" not found\n'.encode())
        status = 1
    shown = [found[name] for name in (names or found) if name in found]
    _show(call, kind, shown, options.get("o") or options.get("output"), single=len(names) == 1)
    return status


def _describe(call: Call, cluster: Kubernetes) -> int:
    """`kubectl describe nodes|node NAME…`, of which a reader needs conditions and what pods have asked for."""
    kind, *names = _options(call).operands or [""]
    if _KINDS.get(kind) != "node":
        raise NotSimulated(f"describe {' '.join(call.args)}")
    cluster.asks("get", "node")
    found = _found(cluster, "node", "")
    for name in names or found:
        if name not in found:
            raise Denied(f'Error from server (NotFound): nodes "{name}" not found')
        size = found[name]["status"]["allocatable"]
        lines = [f"Name:               {name}", "Conditions:", "  Type             Status"]
        lines += [f"  {one['type']:16} {one['status']}" for one in found[name]["status"]["conditions"]]
        lines += ["Capacity:"]
        lines += [f"  {kind}:  {amount}" for kind, amount in size.items()]
        lines += ["Allocated resources:", "  Resource           Requests      Limits"]
        lines += ["  cpu                850m (10%)    0 (0%)", "  memory             1536Mi (9%)   0 (0%)", ""]
        call.out("\n".join(lines) + "\n")
    return 0


def _found(cluster: Kubernetes, kind: str, space: str) -> dict[str, Doc]:
    if kind == "secret":
        return {name: _secret(name, space, data) for name, data in cluster.secrets(space).items()}
    if kind == "disks":
        return {str(node["metadata"]["name"]): _disks(node) for node in cluster.nodes()}
    if kind == "node":
        return {str(node["metadata"]["name"]): node for node in cluster.nodes()}
    listed = {"namespace": cluster.namespaces, "ingress": lambda: cluster.ingresses(space), "pod": cluster.pods}[kind]()
    return {name: {"kind": kind.title(), "metadata": {"name": name}} for name in listed}


def _secret(name: str, space: str, data: Secret) -> Doc:
    encoded = {key: base64.b64encode(content).decode() for key, content in data.items()}
    kind = "kubernetes.io/tls" if "tls.key" in data else "Opaque"
    metadata = {"name": name, "namespace": space, "uid": f"lab-{name}", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}


def _show(call: Call, kind: str, shown: list[Doc], form: str, *, single: bool) -> None:
    if form == "json":
        if single and not shown:
            return
        listed = {"apiVersion": "v1", "kind": "List", "items": shown}
        call.out(json.dumps(shown[0] if single else listed, indent=4) + "\n")
    elif form.startswith("jsonpath="):
        key = _KEY.fullmatch(form.removeprefix("jsonpath="))
        if key is None:
            raise NotSimulated(f"-o {form}")
        call.out("".join(str(one.get("data", {}).get(key[1].replace("\\.", "."), "")) for one in shown))
    elif form == "name":
        call.out("".join(f"{_PREFIXES.get(kind, kind)}/{one['metadata']['name']}\n" for one in shown))
    elif form:
        raise NotSimulated(f"-o {form}")
    else:
        call.out("NAME\n" + "".join(f"{one['metadata']['name']}\n" for one in shown))


def _manifests(call: Call, options: Options) -> list[Doc]:
    place = options.get("f") or options.get("filename")
    try:
        given = json.loads(call.open(place).read())
    except ValueError:
        raise Denied("error: error parsing STDIN: invalid JSON") from None
    is_list = isinstance(given, dict) and given.get("kind") == "List"
    items: list[Doc] = (given.get("items") or []) if is_list else [given]
    for item in items:
        if not isinstance(item, dict) or "kind" not in item:
            raise Denied("error: error validating STDIN: error validating data: kind not set")
        if item["kind"] != "Secret":
            raise NotSimulated("anything but secrets")
        if not isinstance(name := (item.get("metadata") or {}).get("name"), str) or not name:
            raise Denied("error: error when retrieving current configuration of STDIN: resource name may not be empty")
    return items


def _contents(item: Doc) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(text, validate=True) for key, text in (item.get("data") or {}).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise Denied(f"error: illegal base64 data in data of secret {item['metadata']['name']}") from error


def _apply(call: Call, cluster: Kubernetes) -> int:
    options = _options(call)
    if "server-side" in options and not cluster.applies:
        call.stderr.write(b"error: unknown flag: --server-side\nSee 'kubectl apply --help' for usage.\n")
        return 1
    dry, way = options.get("dry-run"), "serverside-applied" if "server-side" in options else "configured"
    for item in _manifests(call, options):
        name = str(item["metadata"]["name"])
        if not dry:
            cluster.asks("apply", name)
            kept = dict(cluster.secrets(_space(options)).get(name, {})) if "server-side" in options else {}
            cluster.put(_space(options), name, kept | _contents(item))
        elif _space(options) not in cluster.namespaces():
            raise Denied(f'Error from server (NotFound): namespaces "{_space(options)}" not found')
        call.out(f"secret/{name} {way}{f' ({dry} dry run)' if dry else ''}\n")
    return 0


def _create(call: Call, cluster: Kubernetes) -> int:
    return _made(call, cluster, "create", again='Error from server (AlreadyExists): secrets "{}" already exists')


def _replace(call: Call, cluster: Kubernetes) -> int:
    missing = 'Error from server (NotFound): error when replacing "STDIN": secrets "{}" not found'
    return _made(call, cluster, "replace", fresh=missing)


def _made(call: Call, cluster: Kubernetes, verb: str, *, again: str = "", fresh: str = "") -> int:
    """Put secrets; `again` is the refusal of one that is there, `fresh` that of one that is not."""
    space = _space(options := _options(call))
    for item in _manifests(call, options):
        name = str(item["metadata"]["name"])
        cluster.asks(verb, name)
        if refusal := again if name in cluster.secrets(space) else fresh:
            raise Denied(refusal.format(name))
        cluster.put(space, name, _contents(item))
        call.out(f"secret/{name} {verb.removesuffix('e')}ed\n")
    return 0


def _delete(call: Call, cluster: Kubernetes) -> int:
    options = _options(call)
    kind, *names = [*options.operands, ""]
    if _KINDS.get(kind) != "secret":
        raise NotSimulated(f"delete {kind}")
    for name in filter(None, names):
        cluster.asks("delete", name)
        if cluster.drop(_space(options), name):
            call.out(f'secret "{name}" deleted\n')
        elif "ignore-not-found" not in options:
            raise Denied(f'Error from server (NotFound): secrets "{name}" not found')
    return 0


def _exec(call: Call, cluster: Kubernetes) -> int:
    """`kubectl exec -n vault-system vault-0 -- vault status -format=json`: 2 where it is sealed, as vault says."""
    if call.args[-4:] != ["--", "vault", "status", "-format=json"] or "vault-0" not in call.args:
        raise NotSimulated(" ".join(call.args))
    cluster.asks("exec", "vault-0")
    call.out(json.dumps({"type": "shamir", "initialized": True, "sealed": cluster.sealed}, indent=2) + "\n")
    return 2 if cluster.sealed else 0
