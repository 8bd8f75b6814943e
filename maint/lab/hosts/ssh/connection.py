"""One SSH connection to a lab host: who is let in, the commands it runs, and the way on to other hosts of the lab."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from paramiko import Channel, PKey, ServerInterface, Transport
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED, OPEN_SUCCEEDED
from paramiko.message import Message

from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import execute
from maint.lab.hosts.shell.state import Incoming, Killed, Outgoing, decode

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
_JUNK = b"*** This host is watched. Last login: a moment ago ***\n"


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
            self._send(_JUNK)
        note(self._machine.root.parent / COMMANDS, self._command)
        streams = Incoming(self._receive), Outgoing(self._send), Outgoing(self._send_error)
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
