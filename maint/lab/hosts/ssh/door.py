"""One lab host's SSH port, and the connections that came in through it."""

import contextlib
import logging
import socket
import threading
from collections.abc import Callable

from paramiko import PKey, SFTPServer

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.ssh.connection import Admits, Connection, Guest
from maint.lab.hosts.ssh.forward import LeadsTo
from maint.lab.hosts.ssh.sftp import TreeSftp

_LOG = "maint.lab.hosts.ssh"
_WAIT = 5.0


class Door:
    """Listens for one machine; a thread of its own takes connections in.

    Args:
        machine: the host.
        address: where to listen; port 0 is any free one.
        host_key: the key that clients know.
        other_key: returns the key that is shown under the fault `wrong-key`.
        admits: decides who is let in.
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
        """Close the port and all connections."""
        self._machine.watchers.remove(self._follow)
        with self._lock:
            self._closed = True
            self._shut()
            self._socket.close()

    def join(self) -> None:
        """Wait for the threads."""
        if self._thread:
            self._thread.join(_WAIT)
        for connection in tuple(self._connections):
            connection.join(_WAIT)

    def _follow(self) -> None:
        """Open or close the port as the machine's fault wants it."""
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
        connection.set_subsystem_handler("sftp", SFTPServer, TreeSftp, self._machine)
        with self._lock:
            if not self._listening:
                connection.close()
                client.close()
                return
            self._connections.add(connection)
        guest = Guest(self._machine, connection, self._admits, self._leads_to)
        connection.start_server(event=threading.Event(), server=guest)


def _bound(address: tuple[str, int]) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound
