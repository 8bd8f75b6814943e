"""Furnish a lab host: the files of a healthy machine, of a cluster with Kerberos and TLS, of an ECS cluster (M6.1)."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping

from maint.lab.hosts.kerberos import Realm
from maint.lab.hosts.machine import TRUSTED, Machine
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
_LEFT_FILES = {
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
_PROCESSES = "/var/run/cloudera-scm-agent/process"
_CERTIFICATES = "/var/lib/cloudera-scm-agent/agent-cert"
_CDE_KEYTABS = "/opt/cloudera/cde"
_FIRST = 101  # the number of the first process folder
_FOLDERS = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/etc/cloudera-scm-agent",
    "/etc/cloudera-scm-server",
    "/etc/default",
    "/etc/security/limits.d",
    "/etc/sysctl.d",
    "/etc/systemd/system",
    "/home",
    "/opt/cloudera/parcels",
    "/opt/cloudera/cm",
    "/proc/sys/vm",
    "/run",
    "/root",
    "/srv",
    "/usr/bin",
    "/usr/java",
    "/usr/lib/systemd/system",
    "/usr/share/java",
    "/var/lib",
    "/var/log",
    "/var/run",
    "/var/tmp",
]
_USERS = ("cloudera-scm", "hdfs", "hive", "yarn", "impala", "hue", "zookeeper", "ozone", "ranger", "kafka", "spark")


def furnish_host(machine: Machine, facts: Mapping[str, str] | None = None) -> None:
    """Write the files of a healthy host; files that stand already are left as they are."""
    machine.facts.update(facts or {})
    files = machine.files
    for folder in _FOLDERS:
        files.make_folders(folder)
    files.make_folders("/tmp", 0o1777)
    files.own("/tmp", 0o1777)
    files.own("/root", 0o700)
    for path, (content, mode) in _files(machine).items():
        if not files.exists(path, follow=False):
            files.write(path, content.encode(), mode)
    if not files.exists("/etc/mtab", follow=False):
        files.link("../proc/mounts", "/etc/mtab")


def _files(machine: Machine) -> dict[str, tuple[str, int]]:
    readable = _identity(machine) | _kernel(machine) | _settings(machine)
    return {path: (content, 0o644) for path, content in readable.items()} | {
        "/etc/shadow": ("root:!:19000::::::\n", 0),
        "/usr/lib/jvm/java-17-openjdk/bin/java": ("#!/bin/sh\n", 0o755),
    }


def _identity(machine: Machine) -> dict[str, str]:
    full = machine.fact("fqdn")
    short = full.partition(".")[0]
    version, kind = machine.fact("os_version"), machine.fact("os_id")
    # A host on loopback still knows itself by an address of its own; the names of 127.0.0.1 stay what they are.
    own = f"{machine.address} {full} {short}\n"
    numbered = list(enumerate(_USERS, 990 - len(_USERS)))
    people = "".join(f"{user}:x:{n}:{n}::/var/lib/{user}:/sbin/nologin\n" for n, user in numbered)
    return {
        "/etc/os-release": f'NAME="Lab Linux"\nID="{kind}"\nVERSION_ID="{version}"\nPRETTY_NAME="{kind} {version}"\n',
        "/etc/redhat-release": f"Red Hat Enterprise Linux release {version} (Lab)\n",
        "/etc/hostname": f"{full}\n",
        "/etc/hosts": f"127.0.0.1 localhost localhost.localdomain\n{own}",
        "/etc/passwd": f"root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/sbin/nologin\n{people}",
        "/etc/group": "root:x:0:\nnobody:x:65534:\n" + "".join(f"{user}:x:{n}:\n" for n, user in numbered),
        "/etc/resolv.conf": f"search {full.partition('.')[2]}\nnameserver 192.0.2.53\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }


def _kernel(machine: Machine) -> dict[str, str]:
    memory = int(machine.fact("memory_kb"))
    mounted = "/dev/sda2 / xfs rw,noatime 0 0\ntmpfs /tmp tmpfs rw,nosuid,nodev 0 0\n"
    processors = "".join(f"processor\t: {n}\nmodel name\t: Lab CPU\n\n" for n in range(int(machine.fact("cpus"))))
    return {
        "/proc/mounts": mounted,
        "/proc/cpuinfo": processors,
        "/proc/meminfo": f"MemTotal: {memory:13} kB\nMemFree: {memory // 2:14} kB\nMemAvailable: {memory:9} kB\n",
        "/proc/loadavg": "0.10 0.10 0.10 1/200 4242\n",
        "/proc/uptime": "864000.00 13000000.00\n",
        "/proc/sys/kernel/random/boot_id": f"{uuid.uuid4()}\n",
        "/proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro quiet transparent_hugepage=never\n",
        "/proc/sys/net/core/somaxconn": "16384\n",
        "/proc/sys/kernel/random/poolsize": "256\n",
        "/proc/version": f"Linux version {machine.fact('kernel')}\n",
        "/proc/self/limits": "Max processes             65536                65536                processes\n"
        "Max open files            65536                65536                files\n",
        "/proc/sys/vm/swappiness": "1\n",
        "/proc/sys/vm/overcommit_memory": "1\n",
        "/proc/sys/kernel/random/entropy_avail": "256\n",
        "/proc/sys/net/ipv6/conf/all/disable_ipv6": "1\n",
        "/proc/sys/net/ipv6/conf/default/disable_ipv6": "1\n",
        "/sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        "/sys/kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise madvise [never]\n",
        "/sys/class/net/eth0/mtu": "1500\n",
        "/sys/class/net/eth0/speed": "10000\n",
    }


def _settings(machine: Machine) -> dict[str, str]:
    realm = machine.fact("fqdn").partition(".")[2].upper() or "EXAMPLE.INTERNAL"
    return {
        "/etc/krb5.conf": "[libdefaults]\n"
        f" default_realm = {realm}\n dns_lookup_kdc = false\n ticket_lifetime = 24h\n renew_lifetime = 7d\n"
        " forwardable = true\n udp_preference_limit = 1\n"
        f"[realms]\n {realm} = {{\n  kdc = kdc.{realm.lower()}\n }}\n",
        "/etc/selinux/config": f"SELINUX={machine.fact('selinux').lower()}\nSELINUXTYPE=targeted\n",
        "/etc/sysctl.conf": "vm.swappiness = 1\nvm.overcommit_memory = 1\n",
        "/etc/security/limits.d/20-nproc.conf": "* soft nproc 65536\nroot soft nproc unlimited\n",
        "/etc/cloudera-scm-agent/config.ini": "[General]\nserver_host=localhost\nserver_port=7182\n",
        "/etc/nscd.conf": "enable-cache hosts yes\nenable-cache passwd no\nenable-cache group no\n",
        "/etc/NetworkManager/conf.d/rke2-canal.conf": "[keyfile]\n"
        "unmanaged-devices=interface-name:cali*;interface-name:flannel*\n",
        "/usr/lib/jvm/java-17-openjdk/release": 'IMPLEMENTOR="Red Hat, Inc."\nJAVA_VERSION="17.0.11"\n',
        "/usr/lib/jvm/java-17-openjdk/conf/security/java.security": "crypto.policy=unlimited\n"
        "sun.security.krb5.disableReferrals=true\n",
        "/etc/chrony.conf": "pool 2.rhel.pool.ntp.org iburst\n",
    }


def furnish_kerberos(machines: Mapping[str, Machine], blueprint: Doc, realm: Realm, authorities: bytes) -> None:
    """Write keytabs, krb5.conf and the PEM certificates of trusted authorities on all hosts of the blueprint."""
    for name, machine in machines.items():
        machine.files.write(TRUSTED, authorities, 0o444)
        for entry in machine.files.walk(_CERTIFICATES) if machine.files.exists(_CERTIFICATES) else ():
            if machine.files.entry(entry).is_folder:
                continue
            closed = 0o400 if entry.endswith(("key.pem", "key.pw", "chain.pem", "keystore.jks")) else 0o444
            machine.files.own(entry, closed, "cloudera-scm", "cloudera-scm")
        full = machine.fact("fqdn")
        domain = (full.partition(".")[2] or "example.internal").upper()
        for number, (service, kind) in enumerate(_roles(blueprint, name), _FIRST):
            path = f"{_PROCESSES}/{number}-{service}-{kind}/{service}.keytab"
            machine.files.write(path, realm.keytab(f"{service}/{full}@{domain}"), 0o600, service, service)
        if any(kind == "ECS_SERVER" for _, kind in _roles(blueprint, name, containers=True)):
            machine.files.write(f"{_CDE_KEYTABS}/cde.keytab", realm.keytab(f"cde@{domain}"), 0o600)


def _roles(blueprint: Doc, name: str, *, containers: bool = False) -> Iterator[tuple[str, str]]:
    """Yield service and type of each role on a host: those of base clusters, or those of the data services."""
    ids = {host.get("hostId") for host in hosts(blueprint) if host.get("hostname") == name}
    for cluster in clusters(blueprint):
        if str(cluster.get("version", "")).startswith("EXPERIENCE") is not containers:
            continue
        for service in services(cluster):
            for role in roles(service):
                if (role.get("hostRef") or {}).get("hostId") in ids and role.get("type") != "GATEWAY":
                    yield str(service.get("type", "")).lower(), str(role.get("type"))


def furnish_cluster(machines: Mapping[str, Machine], blueprint: Doc) -> None:
    """Write what the ECS clusters of a deployment have put on their hosts."""
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


def _service_settings(cluster: Doc, kind: str) -> dict[str, str]:
    found = [service for service in services(cluster) if service.get("type") == kind]
    return {
        str(item["name"]): str(item.get("value") or "") for service in found for item in items(service.get("config"))
    }


def _furnish(machine: Machine, cluster: Doc) -> None:
    files = machine.files
    docker = _service_settings(cluster, "DOCKER").get("defaultDataPath", "/var/lib/docker")
    storage = _service_settings(cluster, "ECS")
    for name, content in (("docker/docker", _DOCKER), ("bin/rke2-killall.sh", _KILLALL)):
        files.write(f"{PARCEL}/{name}", content, 0o755)
    files.write(f"{PARCEL}/bin/rke2-uninstall.sh", _UNINSTALL, 0o755)
    for path, text in _LEFT_FILES.items():
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
