"""What an ECS cluster leaves on its hosts: parcel, registry, folders, mounts, firewall rules (contract section 6.1)."""

import json
from collections.abc import Iterable, Mapping

from maint.lab.hosts.machine import Machine
from maint.lab.manager.document import Doc, clusters, hosts, items, roles, services
from maint.lab.manager.world import STARTED, STOPPING, World

PARCEL = "/opt/cloudera/parcels/ECS"
REGISTRY_IMAGE = "registry:2"
_DOCKER = b"""#!/bin/sh
exec /opt/cloudera/lib/docker "$@"
"""
_KILLALL = b"""#!/bin/sh
# Ends what rke2 has started on this host and nobody supervises.
echo rke2-killall.sh >> /var/log/lab-commands.log
rm -f /run/k3s/.busy
sort -r /proc/mounts | while read -r source target rest; do
  case $target in /run/k3s/* | /var/lib/kubelet/pods/*) umount "$target" ;; esac
done
iptables -F KUBE-SERVICES 2> /dev/null
true
"""
_UNINSTALL = b"""#!/bin/sh
# Takes rke2 off this host; this script belongs to the parcel, which stays.
echo rke2-uninstall.sh >> /var/log/lab-commands.log
rm -rf /etc/rancher /var/lib/rancher/rke2
"""
_FOLDERS = {
    "/etc/iscsi/initiatorname.iscsi": "InitiatorName=iqn.1994-05.com.redhat:lab\n",
    "/etc/rancher/rke2/config.yaml": "token: lab\n",
    "/opt/cni/bin/calico": "",
    "/opt/containerd/bin/containerd": "",
    "/run/containerd/containerd.sock.lock": "",
    "/run/docker/metadata/lock": "",
    "/run/k3s/containerd/state": "",
    "/run/k3s/.busy": "",
    "/run/longhorn-iscsi.lock": "",
    "/var/lib/calico/nodename": "lab\n",
    "/var/lib/docker_server/certs/ca.pem": "",
    "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n",
    "/var/lib/rancher/rke2/agent/images/lab.txt": "",
    "/var/log/containers/pod.log": "",
    "/var/log/pods/ns_pod/0.log": "",
}
_CLAIM = "/var/lib/kubelet/plugins/kubernetes.io/csi/driver.longhorn.io/1/globalmount"
_MOUNTS = {
    "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/1/rootfs": "overlay {} overlay rw",
    "/var/lib/kubelet/pods/1/volumes/kubernetes.io~projected/token": "tmpfs {} tmpfs rw",
    _CLAIM: "/dev/longhorn/pvc-1 {} ext4 rw",
}
_RULES = """*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:cali-INPUT - [0:0]
-A INPUT -j cali-INPUT
-A FORWARD -j KUBE-SERVICES
-A cali-INPUT -s 10.42.0.0/16 -j ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-POSTROUTING - [0:0]
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-POSTROUTING -j MASQUERADE
COMMIT
"""


def furnish_cluster(machines: Mapping[str, Machine], blueprint: Doc) -> None:
    """Write what the ECS clusters of a deployment have put on their hosts.

    Args:
        machines: the hosts by name.
        blueprint: the deployment.
    """
    for cluster in _clusters(blueprint):
        for name in {name for _, name in _placed(blueprint, cluster)} & set(machines):
            _furnish(machines[name], cluster)


def runs_docker(world: World, name: str) -> bool:
    """Return whether docker's role on a host, by its name, runs as the manager sees it."""
    with world.lock:
        placed = [place for cluster in _clusters(world.deployment) for place in _placed(world.deployment, cluster)]
        mine = [role for role, host in placed if host == name and role.get("type") == "DOCKER_SERVER"]
        return any(world.role_state(role) in (STARTED, STOPPING) for role in mine)


def _placed(deployment: Doc, cluster: Doc) -> Iterable[tuple[Doc, str]]:
    """Yield the roles of a cluster, each with the name of its host."""
    names = {host.get("hostId"): str(host.get("hostname")) for host in hosts(deployment)}
    for role in (role for service in services(cluster) for role in roles(service)):
        yield role, names.get((role.get("hostRef") or {}).get("hostId"), "")


def _clusters(deployment: Doc) -> Iterable[Doc]:
    return (one for one in clusters(deployment) if str(one.get("version", "")).startswith("EXPERIENCE"))


def _settings(cluster: Doc, kind: str) -> dict[str, str]:
    found = [service for service in services(cluster) if service.get("type") == kind]
    return {
        str(item["name"]): str(item.get("value") or "") for service in found for item in items(service.get("config"))
    }


def _furnish(machine: Machine, cluster: Doc) -> None:
    files = machine.files
    docker = _settings(cluster, "DOCKER").get("defaultDataPath", "/var/lib/docker")
    storage = _settings(cluster, "ECS")
    for name, content in (("docker/docker", _DOCKER), ("bin/rke2-killall.sh", _KILLALL)):
        files.write(f"{PARCEL}/{name}", content, 0o755)
    files.write(f"{PARCEL}/bin/rke2-uninstall.sh", _UNINSTALL, 0o755)
    for path, text in _FOLDERS.items():
        files.write(path, text.encode())
    files.write("/etc/docker/daemon.json", json.dumps({"data-root": docker}).encode())
    _mount(machine, {docker: "/dev/sdb1 {} xfs rw,noatime", "/mnt2": "/dev/sdc1 {} xfs rw,noatime", **_MOUNTS})
    files.write(f"{docker}/lab.json", json.dumps(_held(docker)).encode())
    files.write(f"{docker}/volumes/registry/_data/blob", b"layer")
    for name, path in storage.items():
        if name in ("defaultDataPath", "lsoDataPath") and path:
            files.write(f"{path}/replicas/pvc-1/volume.img", b"blocks")
    files.write(f"{_CLAIM}/claimed", b"data of a pod\n")
    files.write("/proc/net/.iptables", _RULES.encode())


def _held(docker: str) -> Doc:
    registry: Doc = {"id": "5f2b8c0d9e1a" + "0" * 52, "image": REGISTRY_IMAGE, "name": "registry", "state": "running"}
    registry["volumes"] = [f"{docker}/volumes/registry"]
    images = [{"id": "sha256:" + "7c" * 32, "name": REGISTRY_IMAGE}, {"id": "sha256:" + "1d" * 32, "name": "pause:3"}]
    return {"containers": [registry], "images": images}


def _mount(machine: Machine, mounted: Mapping[str, str]) -> None:
    table = machine.files.read("/proc/mounts").decode()
    for target, row in mounted.items():
        machine.files.make_folders(target)
        table += f"{row.format(target)} 0 0\n"
    machine.files.write("/proc/mounts", table.encode())
