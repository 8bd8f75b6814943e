"""What Kubernetes says about itself on an ECS server."""

import json

from maint.checks.check import FAIL, WARN, Check, Verdict, broken, good, held
from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable
from maint.model.json import Json

_SETUP = (
    "export PATH=$PATH:/var/lib/rancher/rke2/bin KUBECONFIG=${KUBECONFIG:-/etc/rancher/rke2/rke2.yaml};"
    " for d in /etc/rancher /etc/rancher/rke2 /var/lib/rancher /var/lib/rancher/rke2; do"
    " [ -d $d ] && ! [ -x $d ] && { echo closed $d; exit 0; }; done;"
    ' [ -e "$KUBECONFIG" ] || [ -e /var/lib/rancher/rke2/server ] || { echo agent-only; exit 0; };'
)
QUESTIONS = {
    "nodes": f"{_SETUP} $maint_limit kubectl get nodes -o json",
    "vault": f"{_SETUP} p=$($maint_limit kubectl get pods -A -o name) || {{ echo refused; exit 0; }};"
    ' case "$p" in *pod/vault-0*) ;; *) echo none; exit 0;; esac;'
    " $maint_limit kubectl exec -n vault-system vault-0 -- vault status -format=json; true",
}
_UNITS = {"Ki": 1 / 1024**2, "Mi": 1 / 1024, "Gi": 1.0, "Ti": 1024.0}
_VCPU, _MEMORY = 7.0, 15.0  # what the service needs, GiB


def _server_only(host: HostFacts, question: str) -> str:
    text = host.text(question)
    if text.startswith("agent-only"):
        raise NotApplicable("this host is no ECS server")
    if text.startswith("closed"):
        raise CouldNotTell(f"this account may not look into {text.partition(' ')[2]}")
    return text


def nodes(host: HostFacts) -> list[dict[str, Json]]:
    """Return the nodes as Kubernetes lists them."""
    try:
        listed = json.loads(_server_only(host, "nodes"))
    except json.JSONDecodeError:
        raise CouldNotTell("kubectl does not answer with JSON") from None
    return [item for item in listed.get("items", []) if isinstance(item, dict)]


def _of(item: Json, *path: str) -> Json:
    for name in path:
        item = item.get(name) if isinstance(item, dict) else None
    return item


@Check(
    id="ecs.kubelet.nodes", profiles="E", severity=FAIL, asks=("nodes",), source="FX",
    expected="all nodes Ready, none under pressure",
    why="Pods are moved away from a node that is not ready, or not at all.",
    remedy="kubectl describe node NAME shows the condition's reason",
).host_rule  # fmt: skip
def kubelet_nodes(host: HostFacts) -> Verdict:
    """Judge ecs.kubelet.nodes."""
    found = nodes(host)
    wrong = []
    for node in found:
        conditions = _of(node, "status", "conditions")
        states = {
            str(_of(c, "type")): str(_of(c, "status")) for c in (conditions if isinstance(conditions, list) else [])
        }
        name = _of(node, "metadata", "name")
        wrong += [f"{name} is not Ready"] if states.get("Ready") != "True" else []
        wrong += [f"{name}: {kind}" for kind, value in states.items() if kind.endswith("Pressure") and value == "True"]
    if not found:
        return broken("no nodes")
    return held(not wrong, "; ".join(wrong) or f"{len(found)} nodes Ready")


@Check(
    id="ecs.vault", profiles="E", severity=FAIL, asks=("vault",), source="FX",
    expected="unsealed",
    why="After a restart of its pod a sealed vault gives no secret to anybody.",
    remedy="unseal the vault in the manager: the ECS service's actions",
).host_rule  # fmt: skip
def vault(host: HostFacts) -> Verdict:
    """Judge ecs.vault."""
    text = _server_only(host, "vault")
    if text == "refused":
        raise CouldNotTell(f"kubectl does not show the pods: {host.answer('vault').words or 'it said nothing'}")
    if text == "none":
        raise NotApplicable("there is no embedded vault")
    try:
        sealed = json.loads(text).get("sealed")
    except (json.JSONDecodeError, AttributeError):
        raise CouldNotTell("the vault does not answer") from None
    return held(sealed is False, "sealed" if sealed else "unsealed")


def _amount(text: str) -> float:
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)


@Check(
    id="cde.capacity", profiles="C", severity=WARN, asks=("nodes",), source="CDE",
    expected="7 processors and 15 GiB allocatable for the service, and the virtual clusters' own beside that",
    why="A service that finds no room stays half installed.",
    remedy="add a node, or lower the quotas of the virtual clusters",
).host_rule  # fmt: skip
def capacity(host: HostFacts) -> Verdict:
    """Judge cde.capacity."""
    found = nodes(host)
    cpu = sum(_amount(str(_of(node, "status", "allocatable", "cpu") or "0")) for node in found)
    memory = sum(_amount(str(_of(node, "status", "allocatable", "memory") or "0")) for node in found)
    shown = (
        f"{cpu:g} processors, {memory:.0f} GiB allocatable (what pods have taken of it, only `kubectl describe` says)"
    )
    return good(shown) if cpu >= _VCPU and memory >= _MEMORY else broken(shown)


CHECKS = (kubelet_nodes, vault, capacity)
