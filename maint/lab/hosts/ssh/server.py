"""SSH of the lab's hosts: each on its own port of loopback, one user, one client key, keys made once and kept."""

import base64
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from paramiko import Ed25519Key, PKey

from maint.lab.files import write_whole
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.ssh.connection import Admits, Connection, Guest, LeadsTo
from maint.lab.pki import new_ssh_key

LOOPBACK = "127.0.0.1"
_OWN = (LOOPBACK, "localhost")
_LOG = "maint.lab.hosts.ssh"
_WAIT = 5.0


def ed25519_key(path: Path) -> Ed25519Key:
    """Return the key in a file, making file (0600) and key where there is none."""
    if not path.exists():
        write_whole(path, new_ssh_key(), 0o600)
    return Ed25519Key.from_private_key_file(str(path))


class Door:
    """Listens for one machine; a thread of its own takes connections in.

    Args:
        other_key: returns the key that is shown under the fault `wrong-key`.
        leads_to: tells where a tunnel to a host and port goes, None for nowhere.
    """

    def __init__(
        self,
        machine: Machine,
        address: tuple[str, int],
        *,
        host_key: PKey,
        other_key: Callable[[], PKey],
        admits: Admits,
        leads_to: LeadsTo = lambda _host, _port: None,
    ) -> None:
        # Refused connections are what faults are made for: nothing to report on the lab's own standard error.
        logging.getLogger(_LOG).propagate = False
        logging.getLogger(_LOG).addHandler(logging.NullHandler())
        self.host_key = host_key
        self._machine, self._other_key, self._admits = machine, other_key, admits
        self._leads_to = leads_to
        self._lock = threading.Lock()
        self._connections: set[Connection] = set()
        self._closed = False
        self._socket = _bound(address)
        self._address: tuple[str, int] = self._socket.getsockname()
        self._listening = False
        self._thread: threading.Thread | None = None
        machine.watchers.append(self._follow)
        self._follow()

    @property
    def port(self) -> int:
        """The port, which stays the same while the host is unreachable."""
        return self._address[1]

    def close(self) -> None:
        self._machine.watchers.remove(self._follow)
        with self._lock:
            self._closed = True
            self._shut()
            self._socket.close()

    def join(self) -> None:
        if self._thread:
            self._thread.join(_WAIT)
        for connection in tuple(self._connections):
            connection.join(_WAIT)

    def _follow(self) -> None:
        wanted = self._machine.fault != "unreachable"
        with self._lock:
            if self._closed or wanted == self._listening:
                return
            if wanted:
                self._listen()
            else:
                self._shut()
                self._socket.close()
                # Bound but not listening: connections are refused, and nobody else gets the port.
                self._socket = _bound(self._address)

    def _listen(self) -> None:
        self._socket.listen(128)
        self._listening = True
        self._thread = threading.Thread(target=self._take_in, args=(self._socket,), daemon=True)
        self._thread.start()

    def _shut(self) -> None:
        self._listening = False
        with contextlib.suppress(OSError):  # it was not listening
            self._socket.shutdown(socket.SHUT_RDWR)
        for connection in tuple(self._connections):
            connection.close()

    def _take_in(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # the port was closed
            self._connections = {c for c in self._connections if c.is_alive()}
            with contextlib.suppress(OSError, EOFError):  # the client is gone already
                self._welcome(client)

    def _welcome(self, client: socket.socket) -> None:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(client)
        connection.daemon = True
        connection.set_log_channel(_LOG)
        connection.add_server_key(self._other_key() if self._machine.fault == "wrong-key" else self.host_key)
        with self._lock:
            if not self._listening:
                connection.close()
                client.close()
                return
            self._connections.add(connection)
        guest = Guest(self._machine, connection, self._admits, self._leads_to)
        connection.start_server(event=threading.Event(), server=guest)


class SshLab:
    """SSH servers of several machines; keys in `folder` are used again, a machine without a port gets a free one."""

    # endpoints: machine name to address and port, once started; password: let in beside the key, or None.

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
        """Open the ports and write the known hosts; OSError where a port is taken."""
        try:
            for machine in self._machines:
                self._open(machine)
        except OSError:
            self.stop()
            raise
        write_whole(self.known_hosts_file, "".join(self._known(door) for door in self._doors).encode(), 0o600)

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


def _bound(address: tuple[str, int]) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
