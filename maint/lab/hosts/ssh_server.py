"""SSH of the lab's hosts: each on its own port of loopback, one user, one client key, keys made once and kept."""

import base64
import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from paramiko import Channel, Ed25519Key, PKey, ServerInterface, Transport
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED, OPEN_SUCCEEDED
from paramiko.message import Message

from maint.files import as_file, write_whole
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import execute
from maint.lab.hosts.shell.state import Killed, Outgoing, decode
from maint.lab.pki import new_ssh_key

Admits = Callable[[str, PKey | str], bool]
Place = tuple[str, int]
LeadsTo = Callable[[str, int], Place | None]
# Beside a host's tree: every command line that was sent to it; what came over standard input is not in it.
COMMANDS = "commands.jsonl"
_CHANNEL_SUCCESS = 99  # RFC 4254 section 9
_REPLY_WAIT = 1.0
_SLOWNESS = 2.0
_FORWARD_WAIT = 5.0
_BLOCK = 32 * 1024
_JUNK = "*** This host is watched. It is {:%H:%M:%S.%f} ***\n"


def note(log: Path, command: str) -> None:
    """Write down a command line that is about to run."""
    with log.open("a") as file:
        file.write(json.dumps({"time": time.time(), "command": command}) + "\n")


class Connection(Transport):
    """A transport that knows when it is over, and when a request's answer has left."""

    def __init__(self, client: object) -> None:
        self.over = threading.Event()
        self.forwards: dict[int, Place] = {}
        self._waiting: list[threading.Event] = []
        super().__init__(client)  # type: ignore[arg-type]  # a socket; the stub lists protocols that private ones fill

    def run(self) -> None:
        """Serve the connection, then tell those who still work for it."""
        try:
            super().run()
        finally:
            self.over.set()

    def _queue_incoming_channel(self, channel: Channel) -> None:
        # Paramiko keeps channels until they are accepted. Nobody does; but the queue is what keeps a session alive.
        place = self.forwards.pop(channel.get_id(), None)
        if place is not None:
            carry(channel, place)
        else:
            super()._queue_incoming_channel(channel)  # type: ignore[misc]  # the stub leaves private methods out

    def after_reply(self) -> threading.Event:
        """Return an event that is set once the request now being handled has been answered."""
        # A command that ends before the client has heard of its acceptance looks to it like a closed channel.
        event = threading.Event()
        self._waiting.append(event)
        return event

    def _send_user_message(self, data: Message) -> None:
        super()._send_user_message(data)  # type: ignore[misc]  # the stub leaves private methods out
        if data.asbytes()[:1] == bytes([_CHANNEL_SUCCESS]):
            while self._waiting:
                self._waiting.pop().set()


class Guest(ServerInterface):
    """What a client of one machine may do: log in with its key, run commands, go on to the lab's other hosts."""

    def __init__(self, machine: Machine, connection: Connection, admits: Admits, leads_to: LeadsTo) -> None:
        self._machine, self._connection, self._admits, self._leads_to = machine, connection, admits, leads_to

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002 - as paramiko calls it
        return "publickey,password"

    def check_auth_publickey(self, username: str, key: PKey) -> int:
        return self._answer(username, key)

    def check_auth_password(self, username: str, password: str) -> int:
        return self._answer(username, password)

    def _answer(self, username: str, proof: PKey | str) -> int:
        admitted = self._machine.fault != "login-refused" and self._admits(username, proof)
        return AUTH_SUCCESSFUL if admitted else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002 - as paramiko calls it
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_direct_tcpip_request(self, chanid: int, origin: Place, destination: Place) -> int:  # noqa: ARG002 - as paramiko calls it
        """Allow tunnels to hosts of the lab, nowhere else."""
        place = self._leads_to(*destination)
        if place is None:
            return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        self._connection.forwards[chanid] = place
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: Channel, command: bytes) -> bool:
        work = _Work(self._machine, self._connection, channel, decode(command))
        threading.Thread(target=work, args=(self._connection.after_reply(),), name="ssh-exec", daemon=True).start()
        return True


class _Work:
    def __init__(self, machine: Machine, connection: Connection, channel: Channel, command: str) -> None:
        self._machine, self._connection, self._channel, self._command = machine, connection, channel, command

    def __call__(self, accepted: threading.Event) -> None:
        accepted.wait(_REPLY_WAIT)
        try:
            status = self._run()
            if self._machine.fault == "dies-mid-command":
                self._connection.close()
            self._channel.send_exit_status(status)
            self._channel.shutdown_write()
        except (Killed, OSError, EOFError):
            pass  # the client is gone: nobody is left to answer
        finally:
            with contextlib.suppress(OSError, EOFError):  # as above
                self._channel.close()

    def _run(self) -> int:
        fault, over = self._machine.fault, self._connection.over
        if fault == "hangs-after-login":
            over.wait()
        if fault == "slow":
            over.wait(_SLOWNESS)
        if fault == "banner-junk":
            self._send(_JUNK.format(datetime.now()).encode())
        note(self._machine.root.parent / COMMANDS, self._command)
        streams = as_file(self._receive), Outgoing(self._send), Outgoing(self._send_error)
        return execute(self._machine, self._command, *streams, cancelled=over)

    def _receive(self, size: int) -> bytes:
        try:
            return self._channel.recv(size)
        except OSError:
            raise Killed from None

    def _send(self, data: bytes) -> None:
        if self._machine.fault == "dies-mid-command":
            self._sent(self._channel.sendall, data[: len(data) // 2])
            self._connection.close()
        self._sent(self._channel.sendall, data)

    def _send_error(self, data: bytes) -> None:
        self._sent(self._channel.sendall_stderr, data)

    @staticmethod
    def _sent(send: Callable[[bytes], None], data: bytes) -> None:
        try:
            send(data)
        except OSError:
            raise Killed from None


def carry(channel: Channel, place: Place) -> None:
    """Carry a channel's bytes to a port and back, in threads, until either side is done."""
    threading.Thread(target=_carried, args=(channel, place), name="ssh-forward", daemon=True).start()


def _carried(channel: Channel, place: Place) -> None:
    with contextlib.suppress(OSError, EOFError):  # either side may be gone at any time
        try:
            with socket.create_connection(place, _FORWARD_WAIT) as far:
                far.settimeout(None)
                back = threading.Thread(target=_back, args=(far, channel), name="ssh-forward-back", daemon=True)
                back.start()
                while block := channel.recv(_BLOCK):
                    far.sendall(block)
                far.shutdown(socket.SHUT_WR)
                back.join()
        finally:
            channel.close()


def _back(far: socket.socket, channel: Channel) -> None:
    with contextlib.suppress(OSError, EOFError):  # as above
        while block := far.recv(_BLOCK):
            channel.sendall(block)
        channel.close()  # which ends the reading of the other direction, too


LOOPBACK = "127.0.0.1"
_OWN = (LOOPBACK, "localhost")
_LOG = "maint.lab.hosts.ssh_server"
# Refused connections are what faults are made for: nothing to report on the lab's own standard error.
logging.getLogger(_LOG).propagate = False
logging.getLogger(_LOG).addHandler(logging.NullHandler())
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
