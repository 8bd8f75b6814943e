"""Hosts of the data services: packages, firewall, network, leftovers, names; and what Kubernetes says of itself."""

import json
import re
from collections.abc import Mapping
from shlex import quote

from maint.checks.check import BEFORE_INSTALL, FAIL, RUNNING, WARN, Check, Verdict, broken, good, held, warned
from maint.checks.facts import NOT_ASKED, CouldNotTell, HostFacts, NotApplicable, SiteFacts, usual_of
from maint.checks.network import own_addresses, sockets
from maint.checks.thresholds import threshold
from maint.model.formatting import show_count
from maint.model.json import Json

PACKAGES = ("nfs-utils", "iscsi-initiator-utils", "e2fsprogs", "iptables")
_LEFT = "/var/lib/rancher /var/lib/longhorn /var/lib/kubelet /var/lib/calico /etc/docker /etc/iscsi /run/k3s"
_SETUP = (
    "export PATH=$PATH:/var/lib/rancher/rke2/bin KUBECONFIG=${KUBECONFIG:-/etc/rancher/rke2/rke2.yaml};"
    " for d in /etc/rancher /etc/rancher/rke2 /var/lib/rancher /var/lib/rancher/rke2; do"
    " [ -d $d ] && ! [ -x $d ] && { echo closed $d; exit 0; }; done;"
    ' [ -e "$KUBECONFIG" ] || [ -e /var/lib/rancher/rke2/server ] || { echo agent-only; exit 0; };'
    ' [ ! -e "$KUBECONFIG" ] || [ -r "$KUBECONFIG" ] || { echo closed "$KUBECONFIG"; exit 0; };'
)
KUBECTL = "KUBECONFIG=/etc/rancher/rke2/rke2.yaml /var/lib/rancher/rke2/bin/kubectl"
"""What people type on an ECS server: a login there has neither in its environment."""
QUESTIONS = {
    "ecs_packages": f"rpm -q {' '.join(PACKAGES)}; command -v iptables > /dev/null && echo has-iptables; true",
    # Each back end holds rules of its own; plain `iptables` is one of the two.
    "iptables_rules": "for i in iptables iptables-legacy iptables-nft; do command -v $i > /dev/null || continue;"
    " for t in filter nat mangle raw security; do $i -t $t -S || [ $? != 4 ] || echo refused; done; done;"
    " case $(iptables -V) in *nf_tables*) command -v iptables-legacy || ! grep -qs . /proc/net/ip_tables_names ||"
    " echo unseen iptables-legacy ;; *) command -v iptables-nft || ! [ -d /sys/module/nf_tables ] ||"
    " echo unseen iptables-nft ;; esac | grep unseen; true",
    "iptables_version": "iptables -V",
    "nm_config": "NetworkManager --print-config",
    "wildcard": '[ -z "$maint_domain" ] || { echo "asked=$maint_domain";'
    ' getent ahostsv4 "maint-$$.$maint_domain" | sed "s/ .*//" | sort -u; true; }',
    "port_53": "ss -H -lnu 'sport = :53'",
    "leftovers": f"for p in {_LEFT}; do [ -e $p ] && echo $p; done; mount | grep -c kubelet; true",
    "resolv": "cat /etc/resolv.conf",
    "nodes": f"{_SETUP} $maint_limit kubectl get nodes -o json",
    "node_use": f"{_SETUP} $maint_limit kubectl describe nodes | grep '^  [cm][a-z]* '",
    "volumes": f"{_SETUP} $maint_limit kubectl get nodes.longhorn.io -n longhorn-system -o json",
    "vault": f"{_SETUP} p=$($maint_limit kubectl get pods -A -o name) || {{ echo refused; exit 0; }};"
    ' case "$p" in *pod/vault-0*) ;; *) echo none; exit 0;; esac;'
    " $maint_limit kubectl exec -n vault-system vault-0 -- vault status -format=json; true",
}
_UNITS = {"Ki": 1 / 1024**2, "Mi": 1 / 1024, "Gi": 1.0, "Ti": 1024.0, "M": 1e6 / 1024**3, "G": 1e9 / 1024**3}
_ASKED_FOR = re.compile(r"^ *(cpu|memory) +(\S+)", re.MULTILINE)  # below "Allocated resources" of a node
_ROOM = ("cpu", "memory")
_BALANCER = "let the record lead to the ECS server; where a load balancer has the address, accept it in the config"
_VCPU, _MEMORY, _STORAGE = 7.0, 15.0, 110.0  # what the service needs: processors, GiB, GB


@Check(
    id="ecs.packages", profiles="E", severity=FAIL, asks=("ecs_packages", "units"), source="CC EXE FX",
    expected=f"{', '.join(PACKAGES)} installed, iscsid enabled",
    why="Volumes of pods are attached with them.",
    remedy=f"dnf install -y {' '.join(PACKAGES)}; systemctl enable --now iscsid",
).host_rule  # fmt: skip
def _packages(host: HostFacts) -> Verdict:
    lines = host.lines("ecs_packages")
    wrong = [
        f"{name} missing" for name in PACKAGES if any(f"package {name} is not installed" in line for line in lines)
    ]
    if "has-iptables" in lines:  # other packages provide it too
        wrong = [words for words in wrong if not words.startswith("iptables ")]
    if not any(line.startswith(PACKAGES) or "is not installed" in line for line in lines):
        raise CouldNotTell("rpm does not answer")
    if not host.enabled("iscsid"):
        wrong.append("iscsid disabled")
    return held(not wrong, ", ".join(wrong) or "installed")


@Check(
    id="ecs.iptables.rules", profiles="E", severity=FAIL, asks=("iptables_rules",), source="CC EXE FX",
    phases=(BEFORE_INSTALL,),
    expected="no rules beyond the default policies, in either back end",
    why="Rules of an earlier cluster, or of a firewall, cut pods off.",
    remedy="for i in iptables iptables-legacy iptables-nft; do command -v $i > /dev/null || continue;"
    " $i-save > /root/$i.$(date +%s); for c in INPUT FORWARD OUTPUT; do $i -P $c ACCEPT; done;"
    " for t in filter nat mangle raw security; do $i -t $t -F; $i -t $t -X; done; done"
    " # what loads rules at the boot (iptables.service) is to be disabled, too",
).host_rule  # fmt: skip
def _rules(host: HostFacts) -> Verdict:
    lines = host.lines("iptables_rules")
    if not lines:
        raise CouldNotTell("iptables shows nothing: it needs root")
    unseen = "".join(line.removeprefix("unseen ") for line in lines if line.startswith("unseen "))
    told = [line for line in lines if line not in ("refused", f"unseen {unseen}")]
    more = list(dict.fromkeys(line for line in told if not line.startswith("-P ") or not line.endswith("ACCEPT")))
    if "refused" in lines and not more:
        raise CouldNotTell("iptables does not show all tables: it needs root, and nobody else who holds its lock")
    if unseen and not more:
        raise CouldNotTell(
            f"the kernel may hold rules that {unseen} alone shows, and it is not installed", f"install {unseen}"
        )
    return held(not more, f"{show_count(len(more), 'rule')}, such as {more[0]}" if more else "no rules")


@Check(
    id="ecs.iptables.backend", profiles="E", severity=WARN, asks=("iptables_version", "os_release"), source="IPT EXE",
    expected="legacy on RHEL 9 (the guides contradict each other: see the one for your version)",
    why="Rules in both back ends are both applied, and only one of them is seen.",
    remedy="dnf install -y iptables-legacy && update-alternatives --set iptables /usr/sbin/iptables-legacy",
).host_rule  # fmt: skip
def _backend(host: HostFacts) -> Verdict:
    shown = host.text("iptables_version")
    if not shown.startswith("iptables v"):
        raise CouldNotTell(f"iptables says {shown[:40]!r} of its version")
    if not threshold("iptables.legacy", str(host.major)):
        return good(shown)
    return held("nf_tables" not in shown, shown)


@Check(
    id="ecs.nm", profiles="E", severity=FAIL, asks=("nm_config", "units"), source="RKE2 CC EXE",
    expected="NetworkManager leaves cali* and flannel* alone",
    why="It takes the pods' interfaces over, and their network breaks at random.",
    remedy="printf '[keyfile]\\nunmanaged-devices+=interface-name:cali*;interface-name:flannel*\\n'"
    " > /etc/NetworkManager/conf.d/rke2-canal.conf; systemctl reload NetworkManager # only *.conf is read",
).host_rule  # fmt: skip
def _network_manager(host: HostFacts) -> Verdict:
    if not host.active("NetworkManager"):
        raise NotApplicable("NetworkManager does not run")
    seen = ";".join(line.partition("=")[2] for line in host.lines("nm_config") if line.startswith("unmanaged-devices"))
    missing = [name for name in ("cali*", "flannel*") if f"interface-name:{name}" not in seen]
    return held(not missing, f"{', '.join(missing)} not listed" if missing else "both listed")


@Check(
    id="ecs.nm_cloud_setup", profiles="E", severity=WARN, asks=("units",), source="RKE2",
    expected="disabled or absent",
    why="It rewrites routes that the pods' network needs.",
    remedy="systemctl disable --now nm-cloud-setup.service nm-cloud-setup.timer",
).host_rule  # fmt: skip
def _cloud_setup(host: HostFacts) -> Verdict:
    found = [name for name in ("nm-cloud-setup.service", "nm-cloud-setup.timer") if host.enabled(name)]
    shown = f"{', '.join(found)} enabled" if found else "disabled or absent"
    return held(not found, shown, f"systemctl disable --now {' '.join(found)}")


@Check(
    id="ecs.dns.wildcard", profiles="BE", severity=FAIL, asks=("wildcard", "own_addresses"), source="FX PS",
    expected="any name below the app domain resolves, on all hosts to the ECS server or the same load balancer",
    why="Every virtual cluster gets names of its own there.",
    remedy="add a wildcard record *.APP_DOMAIN to DNS (/etc/hosts knows no wildcards)",
).cross_rule  # fmt: skip
def _wildcard(site: SiteFacts) -> Mapping[str, Verdict]:
    if not site.setting.app_domain:
        raise NotApplicable("app_domain is not configured")
    seen = {h.name: _asked_wildcard(h) for h in site.answering("wildcard") if set("BE") & set(h.profiles)}
    usual = usual_of(" ".join(found) for found in seen.values() if found)
    servers = [own_addresses(h) for h in site.answering("own_addresses") if "E" in h.profiles]
    strange = bool(servers) and not set().union(*servers) & set(usual.split())
    record = f"let the DNS that this host asks (/etc/resolv.conf) have a record *.{site.setting.app_domain}"
    record += f" that leads to {usual or 'the ECS server'} (/etc/hosts knows no wildcards)"
    return {name: _leads(found, usual, strange, record) for name, found in seen.items()}


def _leads(found: list[str], usual: str, strange: bool, record: str) -> Verdict:
    shown = ", ".join(found) or "does not resolve"
    if not found or " ".join(found) != usual:
        return broken(shown, record)
    if strange:
        return warned(f"{shown}, which none of the ECS hosts has: is it the load balancer's?", _BALANCER)
    return good(shown)


def _asked_wildcard(host: HostFacts) -> list[str]:
    lines = host.lines("wildcard")
    if lines[:1] != [f"asked={host.site.setting.app_domain}"]:
        raise CouldNotTell("names below the domain were not asked for")
    return lines[1:]


@Check(
    id="ecs.domain.length", profiles="E", severity=WARN, asks=(), source="FX",
    expected="the app domain, without `apps.`, has at most 29 characters",
    why="Names below it must fit into 64 characters of a certificate.",
    remedy="choose a shorter app domain before the installation, and name it as `app_domain`",
).cross_rule  # fmt: skip
def _domain_length(site: SiteFacts) -> Mapping[str, Verdict]:
    domain, most = site.setting.app_domain.removeprefix("apps."), threshold("domain.most", site.manager.release)
    if not domain:
        raise NotApplicable("app_domain is not configured")
    where = "`app_domain` of the plan" if site.setting.plan else "`app_domain: apps.…` in the config"
    remedy = f"before the installation, choose an app domain of {most} characters at most, and name it as {where}"
    return {"": held(len(domain) <= most, f"{domain}: {len(domain)}", remedy)}


@Check(
    id="ecs.port53", profiles="E", severity=WARN, asks=("port_53",), source="PS",
    expected="nobody listens on UDP 53 but systemd-resolved on 127.0.0.53",
    why="The cluster's own name service needs the port.",
    remedy="stop and disable the name server there: `ss -lnup 'sport = :53'` shows which program it is",
).host_rule  # fmt: skip
def _port_53(host: HostFacts) -> Verdict:
    found = [row[3] for row in sockets(host, "port_53") if not row[3].startswith(("127.0.0.53", "127.0.0.54"))]
    return held(not found, ", ".join(found) or "free")


_UNMOUNTED = "for m in $(mount | grep kubelet | sed 's/.* on //;s/ type .*//' | sort -r); do umount $m; done"


@Check(
    id="ecs.leftovers", profiles="E", severity=FAIL, asks=("leftovers",), source="FX",
    phases=(BEFORE_INSTALL,),
    expected="nothing of an earlier cluster",
    why="The installer takes what it finds for its own, and fails half-way.",
    remedy="remove the folders, unmount what lies below kubelet",
).host_rule  # fmt: skip
def _leftovers(host: HostFacts) -> Verdict:
    lines = host.lines("leftovers")
    found = [line for line in lines if line.startswith("/")]
    mounted = next((int(line) for line in lines if line.isdigit()), 0)
    shown = [*found, *([f"{show_count(mounted, 'mount')} of kubelet"] if mounted else [])]
    commands = [_UNMOUNTED] if mounted else []
    commands += [f"rm -r --one-file-system {' '.join(map(quote, found))}"] if found else []
    return held(not shown, ", ".join(shown) or "nothing", "; ".join(commands))


@Check(
    id="ecs.resolv", profiles="E", severity=WARN, asks=("resolv",), source="own",
    phases=(RUNNING, BEFORE_INSTALL),
    expected="at most 3 name servers, none of them 127.*, at most 6 search domains",
    why="Pods inherit the file; to a pod 127.0.0.1 is itself.",
    remedy="name 1 to 3 servers in /etc/resolv.conf, none of them 127.*, and 6 search domains at most; where"
    " NetworkManager writes the file, in its connection (nmcli)",
).host_rule  # fmt: skip
def _resolv(host: HostFacts) -> Verdict:
    rows = [line.split() for line in host.text("resolv").splitlines() if line.strip() and line.strip()[0] not in "#;"]
    servers = [row[1] for row in rows if row[0] == "nameserver" and len(row) > 1]
    search = [row[1:] for row in rows if row[0] == "search"]
    wrong = [show_count(len(servers), "name server")] if len(servers) > 3 or not servers else []
    wrong += [
        f"name server {server}" for server in servers if server.startswith(("127.", "::1")) and server != "127.0.0.53"
    ]
    stub = "127.0.0.53" in servers
    wrong += [f"{len(search[-1])} search domains"] if search and len(search[-1]) > 6 else []
    shown = (
        f"{show_count(len(servers), 'name server')}, {show_count(len(search[-1]) if search else 0, 'search domain')}"
    )
    if wrong:
        return broken("; ".join(wrong))
    unstubbed = "ln -sf /run/systemd/resolve/resolv.conf /etc/resolv.conf"
    return warned(f"{shown}; the stub of systemd-resolved, which pods cannot use", unstubbed) if stub else good(shown)


def _server_only(host: HostFacts, question: str) -> str:
    text = host.text(question)
    if text.startswith("agent-only"):
        raise NotApplicable("this host is not an ECS server")
    if place := closed_place(text):
        raise CouldNotTell(f"this account may not look into {place}")
    return text


def closed_place(answer: str) -> str:
    """Return which folder or file the account may not read that asks for Kubernetes; empty where it answers."""
    return answer.partition(" ")[2].strip() if answer.startswith("closed ") else ""


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
    remedy=f"on an ECS server, `{KUBECTL} describe nodes` shows the condition's reason",
).host_rule  # fmt: skip
def _kubelet_nodes(host: HostFacts) -> Verdict:
    found = nodes(host)
    wrong, odd = [], []
    for node in found:
        conditions = _of(node, "status", "conditions")
        states = {
            str(_of(c, "type")): str(_of(c, "status")) for c in (conditions if isinstance(conditions, list) else [])
        }
        name = str(_of(node, "metadata", "name"))
        said = [f"{name} is not Ready"] if states.get("Ready") != "True" else []
        said += [f"{name}: {kind}" for kind, value in states.items() if kind.endswith("Pressure") and value == "True"]
        wrong += said
        odd += [quote(name)] if said else []
    if not found:
        return broken("no nodes", "start the ECS service in the manager: its agents register as nodes")
    shown = f"on an ECS server, `{KUBECTL} describe node {' '.join(odd)}` shows why"
    remedy = f"{shown}; start its kubelet (the ECS agent) or give it room"
    return held(not wrong, "; ".join(wrong) or f"{show_count(len(found), 'node')} Ready", remedy)


@Check(
    id="ecs.vault", profiles="E", severity=FAIL, asks=("vault",), source="FX",
    expected="unsealed",
    why="After a restart of its pod a sealed vault gives no secret to anybody.",
    remedy="unseal the vault in the manager: the ECS service's actions",
).host_rule  # fmt: skip
def _vault(host: HostFacts) -> Verdict:
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
    id="cde.capacity", profiles="C", severity=WARN, asks=("nodes", "node_use", "volumes"), source="CDE",
    expected="7 processors, 15 GiB and 110 GB of Longhorn's disks free for the service, and the virtual clusters' own"
    " beside that",
    why="A service that finds no room stays half installed.",
    remedy="add hosts to the ECS cluster, or lower what pods ask for",
).host_rule  # fmt: skip
def _capacity(host: HostFacts) -> Verdict:
    lacking, shown = _computing(host)
    mend = []
    if lacking:
        mend = [f"{' and '.join(lacking)} more: add hosts to the ECS cluster in the manager, or end pods of those that"]
        mend = [f"{mend[0]} `{KUBECTL} describe nodes` on an ECS server lists with what they ask for"]
        mend = [f"{mend[0]} (quotas alone free nothing)"]
    if _server_only(host, "volumes") != NOT_ASKED:
        room = _storage(host)
        shown = f"{shown}, {room:.0f} GB of volumes"
        more = (
            f"{_STORAGE - room:.0f} GB of volumes more: give Longhorn another disk, or remove volumes that nobody uses"
        )
        mend += [more] if room < _STORAGE else []
    return held(not mend, shown, "; ".join(mend))


def _storage(host: HostFacts) -> float:
    """Return how much Longhorn's disks have left, in GB, but for what they keep back."""
    try:
        listed = json.loads(_server_only(host, "volumes"))
    except json.JSONDecodeError:
        raise CouldNotTell("kubectl does not show Longhorn's disks") from None
    free = 0.0
    for node in listed.get("items", []):
        disks, states = (_of(node, *path) for path in (("spec", "disks"), ("status", "diskStatus")))
        for name, state in states.items() if isinstance(states, dict) else ():
            kept = float(str(_of(disks, name, "storageReserved") or 0))
            free += max(0.0, float(str(_of(state, "storageAvailable") or 0)) - kept)
    return free / 1e9


def _computing(host: HostFacts) -> tuple[list[str], str]:
    """Return which processors and memory are lacking, and what is free of both in words."""
    found = nodes(host)
    whole = [sum(_amount(str(_of(one, "status", "allocatable", what) or "0")) for one in found) for what in _ROOM]
    asked = _ASKED_FOR.findall(_server_only(host, "node_use"))
    if len(asked) < len(found) * len(_ROOM):
        raise CouldNotTell("kubectl describe does not show what pods of each node have asked for")
    free = [
        of - sum(_amount(text) for kind, text in asked if kind == what) for of, what in zip(whole, _ROOM, strict=True)
    ]
    shown = f"free: {free[0]:g} of {show_count(f'{whole[0]:g}', 'processor')}, {free[1]:.0f} of {whole[1]:.0f} GiB"
    lacking = [f"{_VCPU - free[0]:.3g} processors"] if free[0] < _VCPU else []
    return [*lacking, *([f"{_MEMORY - free[1]:.3g} GiB"] if free[1] < _MEMORY else [])], shown
