"""A whole lab in this process: manager, hosts, SSH, files, configuration."""

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from maint.files import write_whole
from maint.lab import create, pki
from maint.lab.control import MADE_FROM
from maint.lab.faults import AILMENTS, FAULTS, HOST_FAULTS, TARGETS, UnknownFault, unheard_of
from maint.lab.hosts.furnish import (
    Ailments,
    furnish_cluster,
    furnish_host,
    furnish_kerberos,
    runs_docker,
    serves_kubernetes,
)
from maint.lab.hosts.kerberos import Realm
from maint.lab.hosts.machine import Machine, Neighbours, Unit
from maint.lab.hosts.ssh_server import SshLab
from maint.lab.http.server import request_counts
from maint.lab.manager import host_files, jks
from maint.lab.manager.load import Options
from maint.lab.manager.simulator import PlainUnit, Simulator, root_of
from maint.lab.manager.world import NEVER_ENDS
from maint.lab.virtual_clusters import info
from maint.lab.virtual_clusters.create import FACTS
from maint.lab.virtual_clusters.kubernetes import Kubernetes, kubectl
from maint.lab.virtual_clusters.service import Service
from maint.lab.virtual_clusters.utility import KUBECTL, UTILITY, Utility, master_files

_CONFIG_HEAD = "# Written anew whenever the lab comes up or gets a virtual cluster: keep changes in a copy.\n"


class Lab:
    """A lab in a folder; an existing one keeps what it was made from, a new one is made from `options`."""

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = not (self.folder / MADE_FROM).exists()
        if new:
            create.lay_out(self.folder, options or Options())
        self._facts: dict[str, Any] = json.loads((self.folder / MADE_FROM).read_bytes())
        self.remarks: tuple[str, ...] = tuple(self._facts["remarks"])  # what was changed in its copy
        ports = (self._facts["plain_port"], self._facts["tls_port"])
        self._manager = Simulator(self.folder, self.manager_host, ports)
        self.world, self.server, self.log = self._manager.world, self._manager.server, self._manager.log
        addresses = self._facts["addresses"]
        self.world.machines = [(name, addresses.get(name, "127.0.0.1")) for name in self._facts["hosts"]]
        self._realm = Realm(self.folder / "realm.json")
        self.machines = {name: self._machine(name) for name in self._facts["hosts"]}  # the manager's first
        self._neighbours = Neighbours(self.machines, self.manager_host, self.server, self.world.release)
        self._neighbours.introduce()
        self.world.heard = self._heard
        if new:
            self._furnish()
        self._ssh: SshLab | None = None
        self.service = self._service()  # None without Data Engineering
        if self.service:
            self._equip(self.service, new=new)

    def _furnish(self) -> None:
        blueprint = json.loads((self.folder / "blueprint.json").read_bytes())
        with ExitStack() as furnishing:
            for machine in self.machines.values():
                furnishing.enter_context(machine.files.furnishing())
                furnish_host(machine)
            furnish_cluster(self.machines, blueprint)
            furnish_kerberos(self.machines, blueprint, self._realm, self._manager.bundle.read_bytes())

    def __enter__(self) -> "Lab":
        self.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.stop()

    def start(self) -> None:
        """Bring everything up; returns when the manager answers."""
        if self._facts["ssh"]:
            self._ssh = SshLab(list(self.machines.values()), self.folder / "ssh", self._facts["ssh_ports"])
            self._ssh.start()
            self._facts["ssh_ports"] = {name: port for name, (_, port) in self._ssh.endpoints.items()}
            self._write_facts()
        for machine in self.machines.values():
            for unit in machine.units.values():
                unit.start()
        if self.service:
            self.service.start()
            self._publish(self.service)
        self._write_config()
        self.server.wait()

    def stop(self) -> None:
        """Take everything down; files stay."""
        if self._ssh:
            self._ssh.stop()
            self._ssh = None
        if self.service:
            self.service.stop()
        self._manager.stop()

    def lose_database(self) -> None:
        """Make the manager one that was just installed; the hosts' files stay. It is down and up again afterwards."""
        self._manager.lose_database()

    def break_(self, target: str, fault: str) -> None:
        """Set a fault of the manager, or of a host by its name; UnknownFault where it cannot be aimed there."""
        if target in self.machines or fault in HOST_FAULTS:
            self._break_host(target, fault)
            return
        with self.world.lock:
            self.world.faults.add(target, fault)
            self._manager.save()

    def repair(self, fault: str = "", target: str = "") -> int:
        """Clear a fault or all, everywhere or at a target, whose name alone will do; return how many there were."""
        faults, targets = set(FAULTS), {*TARGETS, *self.machines}
        if fault in targets and not target:
            fault, target = "", fault
        for name, known, kind in ((fault, faults, "fault"), (target, targets, "target")):
            if name and name not in known:
                raise unheard_of(kind, name, sorted(known))
        cleared = 0
        for machine in self.machines.values():
            if target not in ("", machine.name):
                continue
            if machine.fault and fault in ("", machine.fault):
                machine.fault = None
                cleared += 1
            kept = tuple(ailment for ailment in machine.ailments if fault not in ("", ailment))
            cleared += len(machine.ailments) - len(kept)
            machine.ailments = kept
        with self.world.lock:
            cleared += self.world.repair(fault, target)
            self._manager.save()
        return cleared

    def switch(self, name: str, value: str) -> None:
        with self.world.lock:
            chosen = {**self.world.switches.chosen, name: value}
            self.world.switches = type(self.world.switches)(chosen)
            self._manager.save()

    def counts(self) -> dict[str, int]:
        """Return how often each "METHOD path" was asked."""
        return request_counts(self.log.path)

    @property
    def manager_host(self) -> str:
        return str(next(iter(self._facts["hosts"])))

    def status(self) -> dict[str, Any]:
        first = self._facts["ssh_ports"].get(self.manager_host, 0)
        return {
            "running": True,
            "config": str(self.folder / "config.yaml"),
            "manager": {
                "plain": f"http://127.0.0.1:{self.server.plain_port}",
                "tls": f"https://127.0.0.1:{self.server.tls_port}",
                "username": self._facts["username"],
                "password_file": str(self.folder / "password"),
                "ca": str(self._manager.bundle),
            },
            "ssh": {
                "host": "127.0.0.1",
                "port": first,
                "user": "root",
                "key": str(self.folder / "ssh/id_ed25519"),
                "known_hosts": str(self.folder / "ssh/known_hosts"),
            },
            "requests": str(self.log.path),
            "virtual_clusters": info.status(self.service, self._manager.bundle) if self.service else [],
            "faults": self._faults(),
            "switches": dict(self.world.switches.chosen),
            "counts": self.counts(),
            "remarks": list(self.remarks),
        }

    # -- parts

    def _service(self) -> Service | None:
        folder = self.folder / "vc"
        if not (folder / FACTS).exists():
            return None
        return Service(folder, self.world, self._manager.authority, self.log, self._write_config)

    def _write_config(self) -> None:
        bundle, service = self._manager.bundle, self.service
        found = create.config(self.folder, self._facts, bundle, info.config(service, bundle) if service else None)
        write_whole(self.folder / "config.yaml", (_CONFIG_HEAD + create.yaml(found)).encode(), 0o600)

    def _faults(self) -> list[dict[str, str]]:
        found = [{"fault": fault, "target": target} for fault, target in self.world.faults.active]
        found += [{"fault": NEVER_ENDS, "target": "commands"} for each in self.world.stuck() if each.parent is None]
        for machine in self.machines.values():
            wrong = ([machine.fault] if machine.fault else []) + list(machine.ailments)
            found += [{"fault": fault, "target": machine.name} for fault in wrong]
        return found

    def _break_host(self, target: str, fault: str) -> None:
        name = target or self.manager_host
        if name not in self.machines:
            raise UnknownFault(f"fault {fault} strikes hosts ({', '.join(self.machines)}), not {target!r}")
        if fault not in HOST_FAULTS:
            raise unheard_of("fault", fault, HOST_FAULTS)
        machine = self.machines[name]
        if fault not in AILMENTS:
            machine.fault = fault
        elif fault not in machine.ailments:
            machine.ailments = (*machine.ailments, fault)

    def _machine(self, name: str) -> Machine:
        groups = self._facts["hosts"][name]
        kinds = ["cloudera-scm-agent", "cloudera-scm-supervisord", "chronyd", "nscd"]
        kinds += ["iscsid", "NetworkManager"] if "ecs" in groups else []
        units: dict[str, Unit] = {kind: PlainUnit() for kind in kinds}
        servers = list(self._facts["hosts"])[: int(self.world.switches.number("server-instances"))]
        if name in servers:  # the others of a highly available manager stand by
            units = {"cloudera-scm-server": self.server if name == self.manager_host else PlainUnit(), **units}
        machine = Machine(name, self._root(name), units, address=self._facts["addresses"].get(name, "127.0.0.1"))
        machine.keystore_opens = _aliases
        machine.docker = lambda: runs_docker(self.world, name)
        machine.login = self._realm.login
        Ailments(machine, lambda: self._expired(name), _strangers)
        return machine

    def _equip(self, service: Service, *, new: bool) -> None:
        # The ECS masters have kubectl and the utility; without any, the manager's host has them.
        self.kubernetes = Kubernetes(service, self._nodes, lambda: serves_kubernetes(self.world))
        masters = [name for name, groups in self._facts["hosts"].items() if "ecs-master" in groups]
        for name in masters or [self.manager_host]:
            machine = self.machines[name]
            machine.programs |= {KUBECTL: partial(kubectl, self.kubernetes), UTILITY: Utility(service, self.kubernetes)}
            for path, content, mode in master_files(self.world.switches["vc-release"]) if new else ():
                machine.files.write(path, content, mode)

    def _heard(self, host: str) -> datetime:
        """Return when an agent last gave a sign of life: now, or when it was stopped."""
        unit = self.machines[host].units.get("cloudera-scm-agent") if host in self.machines else None
        return self.world.now() if not isinstance(unit, PlainUnit) or unit.active() else unit.stopped_at

    def _nodes(self) -> dict[str, tuple[str, str]]:
        # By name: processors, and memory in KiB.
        hosts = {name: groups for name, groups in self._facts["hosts"].items() if "ecs" in groups}
        machines = [self.machines[name] for name in hosts or [self.manager_host]]
        return {machine.name: (machine.fact("cpus"), machine.fact("memory_kb")) for machine in machines}

    def _publish(self, service: Service) -> None:
        ingress = [name for name, groups in self._facts["hosts"].items() if "ecs-master" in groups] or [
            self.manager_host
        ]
        for cluster in service.clusters()[:1]:
            self._neighbours.publish(cluster.identity.domain, self.machines[ingress[0]].address, service.port)

    def _expired(self, name: str) -> bytes:
        chain = self._root(name) / host_files.AGENT_CERT / "cm-auto-host_key_cert_chain.pem"
        return self._manager.authority.expired_copy(chain.read_bytes(), datetime.now(UTC))

    def _root(self, name: str) -> Path:
        return root_of(self.folder, name)

    def _write_facts(self) -> None:
        write_whole(self.folder / MADE_FROM, json.dumps(self._facts, indent=1).encode(), 0o600)


def _strangers() -> bytes:
    return pki.Authority.create(datetime.now(UTC), "Somebody Else's").root.pem


def _aliases(content: bytes, password: str) -> list[str] | None:
    try:
        return [entry.alias for entry in jks.read(content, password)]
    except jks.BadKeystore:
        return None
