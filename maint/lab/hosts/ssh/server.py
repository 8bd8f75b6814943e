"""SSH for several lab hosts: each on its own port of loopback, one user, one client key."""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from paramiko import PKey

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.ssh.door import Door
from maint.lab.hosts.ssh.keys import ed25519_key, write_private

LOOPBACK = "127.0.0.1"
_OWN = (LOOPBACK, "localhost")


class SshLab:
    """SSH servers of several machines.

    Args:
        machines: the hosts.
        folder: where keys and known hosts are kept; what is there is used again.
        ports: port by machine name; a machine without one gets a free port.

    Attributes:
        endpoints: machine name to address and port, once started.
        user: the one account.
        key_file: private key of the client, 0600.
        known_hosts_file: host keys of all endpoints.
        password: a password that is let in beside the key, or None.
    """

    def __init__(self, machines: Sequence[Machine], folder: Path, ports: Mapping[str, int] = {}) -> None:
        self._folder = folder
        self._hosts = folder / "hosts"
        self._hosts.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.user = "root"
        self.password: str | None = None
        self.key_file = folder / "id_ed25519"
        self.known_hosts_file = folder / "known_hosts"
        self.endpoints: dict[str, tuple[str, int]] = {}
        self._machines = machines
        self._ports = ports
        self._client = ed25519_key(self.key_file)
        self._doors: list[Door] = []

    def start(self) -> None:
        """Open the ports and write the known hosts.

        Raises:
            OSError: a port is taken.
        """
        try:
            for machine in self._machines:
                self._open(machine)
        except OSError:
            self.stop()
            raise
        write_private(self.known_hosts_file, "".join(self._known(door) for door in self._doors).encode())

    def stop(self) -> None:
        """Close the ports and all connections, and wait for their threads."""
        for door in self._doors:
            door.close()
        for door in self._doors:
            door.join()
        self._doors.clear()
        self.endpoints.clear()

    def _open(self, machine: Machine) -> None:
        door = Door(
            machine,
            (LOOPBACK, self._ports.get(machine.name, 0)),
            host_key=ed25519_key(self._hosts / f"{machine.name}.key"),
            other_key=lambda: ed25519_key(self._hosts / f"{machine.name}.wrong"),
            admits=self._admits,
            leads_to=self._leads_to,
        )
        self._doors.append(door)
        self.endpoints[machine.name] = (LOOPBACK, door.port)

    def _admits(self, user: str, proof: PKey | str) -> bool:
        if user != self.user:
            return False
        if isinstance(proof, str):
            return self.password is not None and proof == self.password
        return proof == self._client

    def _leads_to(self, host: str, port: int) -> tuple[str, int] | None:
        """Return where a tunnel goes: hosts of this lab only, by name or by the port that they really have."""
        if host in self.endpoints:
            return self.endpoints[host]
        return (LOOPBACK, port) if (LOOPBACK, port) in self.endpoints.values() and host in _OWN else None

    def _known(self, door: Door) -> str:
        key = base64.b64encode(door.host_key.asbytes()).decode()
        return f"[{LOOPBACK}]:{door.port} {door.host_key.get_name()} {key}\n"
