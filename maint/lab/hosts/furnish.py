"""Furnish a lab host: files of a healthy machine, of clusters (M6.1), and what can be wrong, planted and taken back."""

import json
import tomllib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from string import Template

from maint.lab.hosts import kerberos
from maint.lab.hosts.kerberos import Realm
from maint.lab.hosts.machine import TRUSTED, Machine
from maint.lab.manager.document import Doc, clusters, hosts, items, roles, services
from maint.lab.manager.world import STARTED, STOPPED, STOPPING, World

PARCEL = "/opt/cloudera/parcels/ECS"
REGISTRY_IMAGE = "registry:2"
_CLAIM = "/var/lib/kubelet/plugins/kubernetes.io/csi/driver.longhorn.io/1/globalmount"
_PROCESSES = "/var/run/cloudera-scm-agent/process"
_CERTIFICATES = "/var/lib/cloudera-scm-agent/agent-cert"
_CDE_KEYTABS = "/opt/cloudera/cde"
_FIRST = 101  # the number of the first process folder
_FILES = tomllib.loads((Path(__file__).parents[1] / "data" / "host-files.toml").read_text())


def furnish_host(machine: Machine, facts: Mapping[str, str] | None = None) -> None:
    """Write the files of a healthy host; files that stand already are left as they are."""
    machine.facts.update(facts or {})
    files = machine.files
    for folder in _FILES["folders"]:
        files.make_folders(folder)
    files.make_folders("/tmp", 0o1777)
    files.own("/tmp", 0o1777)
    files.own("/root", 0o700)
    for path, (content, mode) in _files(machine).items():
        if not files.exists(path, follow=False):
            files.write(path, content.encode(), mode)
    for target, path in (("../proc/mounts", "/etc/mtab"), ("../sysctl.conf", "/etc/sysctl.d/99-sysctl.conf")):
        if not files.exists(path, follow=False):
            files.link(target, path)


def _files(machine: Machine) -> dict[str, tuple[str, int]]:
    facts = _told(machine)
    readable = {path: Template(text).substitute(facts) for path, text in _FILES["healthy"].items()}
    return {path: (content, 0o644) for path, content in readable.items()} | {
        "/etc/shadow": ("root:!:19000::::::\n", 0),
        "/usr/lib/jvm/java-17-openjdk/bin/java": ("#!/bin/sh\n", 0o755),
    }


def _told(machine: Machine) -> dict[str, str]:
    """Return what the texts of a host's files name."""
    short, _, domain = machine.fact("fqdn").partition(".")
    realm, memory = domain.upper() or "EXAMPLE.INTERNAL", int(machine.fact("memory_kb"))
    users = list(enumerate(_FILES["users"], 990 - len(_FILES["users"])))
    return {
        **{name: machine.fact(name) for name in ("fqdn", "os_id", "os_version", "kernel")},
        "address": machine.address, "short": short, "domain": domain, "realm": realm, "realm_domain": realm.lower(),
        "selinux": machine.fact("selinux").lower(),
        "boot_id": str(uuid.uuid4()),
        "people": "".join(f"{user}:x:{n}:{n}::/var/lib/{user}:/sbin/nologin\n" for n, user in users),
        "groups": "".join(f"{user}:x:{n}:\n" for n, user in users),
        "processors": "".join(f"processor\t: {n}\nmodel name\t: Lab CPU\n\n" for n in range(int(machine.fact("cpus")))),
        "memory": f"MemTotal: {memory:13} kB\nMemFree: {memory // 2:14} kB\nMemAvailable: {memory:9} kB\n",
    }  # fmt: skip


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
        mine = [role for role, host in _containers(world, "DOCKER_SERVER") if host == name]
        return any(world.role_state(role) in (STARTED, STOPPING) for role in mine)


def serves_kubernetes(world: World) -> bool:
    """Return whether an API server of Kubernetes runs: all do that the manager has not stopped, known to it or not."""
    with world.lock:
        last = {name: one.name for one in world.commands.values() for name in one.roles}  # each role's last command
        servers = [role for role, _ in _containers(world, "ECS_SERVER")]
        up = [role for role in servers if world.role_state(role) != STOPPED or last.get(str(role["name"])) != "Stop"]
        return bool(up) or not servers


def _containers(world: World, kind: str) -> Iterable[tuple[Doc, str]]:
    """Yield the roles of a kind in ECS clusters, each with the name of its host."""
    placed = (place for cluster in _clusters(world.deployment) for place in _placed(world.deployment, cluster))
    return (place for place in placed if place[0].get("type") == kind)


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
    left = _FILES["ecs"]
    for name, text in left["programs"].items():
        files.write(f"{PARCEL}/{name}", text.encode(), 0o755)
    for path, text in left["files"].items():
        files.write(path, text.encode())
    files.write("/etc/docker/daemon.json", json.dumps({"data-root": docker}).encode())
    _mount(machine, {docker: "/dev/sdb1 {} xfs rw,noatime", "/mnt2": "/dev/sdc1 {} xfs rw,noatime", **left["mounts"]})
    files.write(f"{docker}/lab.json", json.dumps(_held(docker)).encode())
    files.write(f"{docker}/volumes/registry/_data/blob", b"layer")
    for name, path in storage.items():
        if name in ("defaultDataPath", "lsoDataPath") and path:
            files.write(f"{path}/replicas/pvc-1/volume.img", b"blocks")
    files.write(f"{_CLAIM}/claimed", b"data of a pod\n")


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


_HOSTS, _OPTIONS = "/etc/hosts", "/etc/default/cloudera-scm-server"
_CHAIN = "/var/lib/cloudera-scm-agent/agent-cert/cm-auto-host_key_cert_chain.pem"


class Ailments:
    """Plants what ails a machine, any number of things at once, and takes it back when it goes.

    Args:
        expired: returns an expired certificate chain for it.
        strangers: returns the certificates of an authority that has to do with nobody here.
    """

    def __init__(self, machine: Machine, expired: Callable[[], bytes], strangers: Callable[[], bytes]) -> None:
        self._machine = machine
        self._expired = expired
        self._strangers = strangers
        self._files: dict[str, bytes] = {}
        self._modes: dict[str, int] = {}
        self._facts: dict[str, str] | None = None
        self._planted: tuple[str, ...] = ()
        machine.watchers.append(self.follow)

    def follow(self) -> None:
        if self._machine.ailments == self._planted:
            return
        self._take_back()
        self._planted = self._machine.ailments
        if self._planted:
            self._facts = dict(self._machine.facts)
        for ailment in self._planted:
            self._machine.facts |= _FACTS.get(ailment, {})
            for path, content in self._contents(ailment).items():
                self._files.setdefault(path, self._machine.files.read(path))
                self._put(path, content)
            if ailment == "keytab-readable":
                for path in self._keytabs():
                    self._modes.setdefault(path, self._machine.files.entry(path).mode & 0o7777)
                    self._machine.files.own(path, 0o644)

    def _keytabs(self) -> list[str]:
        files = self._machine.files
        return [p for top in _WITH_KEYTABS if files.exists(top) for p in files.walk(top) if p.endswith(".keytab")]

    def _contents(self, ailment: str) -> Mapping[str, bytes]:
        read, machine = self._machine.files.read, self._machine
        if ailment == "expired-host-certificate" and machine.files.exists(_CHAIN):
            return {_CHAIN: self._expired()}
        if ailment == "untrusted-chain" and machine.files.exists(TRUSTED):
            return {TRUSTED: self._strangers()}
        if ailment in _SPOILING:
            return {path: _SPOILING[ailment](self._files.get(path) or read(path)) for path in self._keytabs()}
        if ailment == "wrong-dns":
            return {_HOSTS: read(_HOSTS).replace(machine.address.encode() + b" ", b"198.51.100.66 ")}
        if ailment == "redaction-twice" and machine.files.exists(_OPTIONS):
            twice = b" -Dcom.cloudera.api.redaction=true -Dcom.cloudera.api.redaction=false"
            return {_OPTIONS: read(_OPTIONS) + b'export CMF_JAVA_OPTS="${CMF_JAVA_OPTS}' + twice + b'"\n'}
        return {path: content.encode() for path, content in _FILES["planted"].get(ailment, {}).items()}

    def _take_back(self) -> None:
        for path, content in self._files.items():
            self._put(path, content)
        self._files.clear()
        for path, mode in self._modes.items():
            self._machine.files.own(path, mode)
        self._modes.clear()
        if self._facts is not None:
            self._machine.facts.clear()
            self._machine.facts.update(self._facts)
            self._facts = None

    def _put(self, path: str, content: bytes) -> None:
        self._machine.files.write(path, content)  # mode and owner stay


_WITH_KEYTABS = ("/var/run/cloudera-scm-agent/process", "/opt/cloudera/cde")
_SPOILING: dict[str, Callable[[bytes], bytes]] = {
    "keytab-wrong-principal": kerberos.with_wrong_principal,
    "keytab-rc4": kerberos.with_rc4_alone,
    "keytab-stale": kerberos.with_old_keys,
    "keytab-truncated": kerberos.cut_off,
}
_FACTS: dict[str, dict[str, str]] = {
    "kdc-silent": {"cut_off_from": "kdc"},
    "disk-97": {"disk_used_percent": "97"},
    "clock-7s": {"clock_drift": "7"},
    "clock-skew": {"clock_drift": "420", "clock_offset": "420"},
}
