"""kubectl of an ECS master: get, apply, create, replace, delete, and the vault's status through exec."""

import base64
import json
import posixpath
import re
from typing import Any, NoReturn

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated, Options
from maint.lab.hosts.shell.streams import Killed
from maint.lab.virtual_clusters.kubernetes import Denied, Hangs, Kubernetes

# Any: objects as JSON.
Object = dict[str, Any]

_FLAGS = ("ignore-not-found", "server-side", "force-conflicts", "all-namespaces")
_VALUED = ("namespace=", "output=", "filename=", "field-manager=", "dry-run=", "for=", "timeout=")
_KINDS = {
    "secret": "secret", "secrets": "secret", "namespace": "namespace", "namespaces": "namespace", "ns": "namespace",
    "ingress": "ingress", "ingresses": "ingress", "node": "node", "nodes": "node", "pods": "pod", "pod": "pod",
}  # fmt: skip
_PREFIXES = {"ingress": "ingress.networking.k8s.io"}
_FOREVER = 86400.0  # seconds
_KEY = re.compile(r"\{\.data\.((?:[^.{}\\]|\\\.)+)\}")


def kubectl(call: Call) -> int:
    """Ask the cluster's API server, as root on a master alone may."""
    cluster = _cluster(call)
    verb, *rest = call.args or ["help"]
    known = {"get": _get, "apply": _apply, "create": _create, "replace": _replace, "delete": _delete, "exec": _exec}
    if verb not in known:
        raise NotSimulated(f"command {verb}")
    try:
        return known[verb](call.again("kubectl", rest), cluster)
    except Denied as denial:
        call.stderr.write(f"{denial}\n".encode())
        return 1
    except Hangs:
        wait_for_nothing(call)


def wait_for_nothing(call: Call) -> NoReturn:
    """Never end; the host goes down with all that runs there once whoever called has gone."""
    call.state.life.left.wait(_FOREVER)
    raise Killed


def _cluster(call: Call) -> Kubernetes:
    place = call.state.environment().get("KUBECONFIG") or posixpath.join("/root", ".kube/config")
    cluster = call.machine.kubernetes
    if cluster is None or call.state.user != "root" or not call.files.exists(place):
        raise Failed(
            "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
        )
    return cluster


def _options(call: Call, *, mixed: bool = True) -> Options:
    return call.options("A", "nof", (*_FLAGS, *_VALUED), mixed=mixed)


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


def _found(cluster: Kubernetes, kind: str, space: str) -> dict[str, Object]:
    if kind == "secret":
        return {name: _secret(name, space, data) for name, data in cluster.secrets(space).items()}
    if kind == "node":
        return {str(node["metadata"]["name"]): node for node in cluster.nodes()}
    listed = {"namespace": cluster.namespaces, "ingress": lambda: cluster.ingresses(space), "pod": cluster.pods}[kind]()
    return {name: {"kind": kind.title(), "metadata": {"name": name}} for name in listed}


def _secret(name: str, space: str, data: Any) -> Object:
    encoded = {key: base64.b64encode(content).decode() for key, content in data.items()}
    kind = "kubernetes.io/tls" if "tls.key" in data else "Opaque"
    metadata = {"name": name, "namespace": space, "uid": f"lab-{name}", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}


def _show(call: Call, kind: str, shown: list[Object], form: str, *, single: bool) -> None:
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


def _manifests(call: Call, options: Options) -> list[Object]:
    place = options.get("f") or options.get("filename")
    try:
        given = json.loads(call.open(place).read())
    except ValueError:
        raise Failed("error: error parsing STDIN: invalid JSON") from None
    items: list[Object] = given["items"] if given.get("kind") == "List" else [given]
    if any(item.get("kind") != "Secret" for item in items):
        raise NotSimulated("anything but secrets")
    return items


def _contents(item: Object) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (item.get("data") or {}).items()}


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
    options = _options(call)
    for item in _manifests(call, options):
        name = str(item["metadata"]["name"])
        cluster.asks("create", name)
        if name in cluster.secrets(_space(options)):
            raise Denied(f'Error from server (AlreadyExists): secrets "{name}" already exists')
        cluster.put(_space(options), name, _contents(item))
        call.out(f"secret/{name} created\n")
    return 0


def _replace(call: Call, cluster: Kubernetes) -> int:
    options = _options(call)
    for item in _manifests(call, options):
        name = str(item["metadata"]["name"])
        cluster.asks("replace", name)
        if name not in cluster.secrets(_space(options)):
            raise Denied(f'Error from server (NotFound): error when replacing "STDIN": secrets "{name}" not found')
        cluster.put(_space(options), name, _contents(item))
        call.out(f"secret/{name} replaced\n")
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
