"""SSH for several lab hosts: each on its own port of loopback, one user, one client key."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from maint.lab.machine import Machine
from maint.lab.ssh.keys import ed25519_key


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
    """

    def __init__(self, machines: Sequence[Machine], folder: Path, ports: Mapping[str, int] = {}) -> None:  # noqa: B006 - never changed
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.user = "root"
        self.key_file = folder / "id_ed25519"
        self.known_hosts_file = folder / "known_hosts"
        self.endpoints: dict[str, tuple[str, int]] = {name: ("127.0.0.1", port) for name, port in ports.items()}
        self._machines = machines
        ed25519_key(self.key_file)

    def start(self) -> None:
        """Open the ports and write the known hosts."""

    def stop(self) -> None:
        """Close the ports and all connections."""
