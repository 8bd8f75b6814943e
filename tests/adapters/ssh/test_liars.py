"""Hosts and SFTP servers that announce more than there is, or never stop: an error, soon, and little is kept."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, cast

import paramiko
import pytest
from paramiko import Channel, SFTPError

from maint.adapters.ssh import sftp
from maint.adapters.ssh.connections import BROKEN, Connections
from maint.adapters.ssh.runner import BEGUN, SudoGate
from maint.adapters.ssh.sftp import Session, Sessions
from maint.adapters.ssh.shell import FabricShell
from maint.adapters.stores import sftp as stores
from maint.config.schema import HostSettings, SshSettings
from maint.errors import CannotReach, LoginRefused, StoreFailed, WorkFailed

VERSION, STATUS, HANDLE, NAME, ATTRS = 2, 101, 102, 104, 105


def packet(kind: int, *fields: bytes) -> bytes:
    """Return an answer as an SFTP server sends it."""
    content = bytes([kind]) + b"".join(fields)
    return struct.pack(">I", len(content)) + content


def number(value: int) -> bytes:
    return struct.pack(">I", value)


def text(words: bytes) -> bytes:
    return number(len(words)) + words


class Server:
    """A channel at whose other end somebody answers as `lie` says: to a request, the bytes that come back."""

    def __init__(self, lie: Callable[[int, bytes], bytes]) -> None:
        self._lie, self._sent, self._waiting = lie, b"", b""

    def send(self, content: bytes) -> int:
        self._sent += content
        while len(self._sent) >= 4 and len(self._sent) >= 4 + (size := int.from_bytes(self._sent[:4], "big")):
            kind, self._sent = self._sent[4], self._sent[4 + size :]
            asked = content[5:9]
            self._waiting += packet(VERSION, number(3)) if kind == 1 else self._lie(kind, asked)
        return len(content)

    sendall = send

    def recv(self, size: int) -> bytes:
        block, self._waiting = self._waiting[:size], self._waiting[size:]
        return block

    def recv_ready(self) -> bool:
        return bool(self._waiting)

    def gettimeout(self) -> float:
        return 5.0

    def get_name(self) -> str:
        return "lies"

    def close(self) -> None:
        pass


def session(lie: Callable[[int, bytes], bytes]) -> Session:
    return Session(cast(Channel, Server(lie)))


def listed(*fields: bytes) -> Callable[[int, bytes], bytes]:
    """Answer a listing with these fields, again and again."""
    return lambda kind, asked: packet(HANDLE, asked, text(b"h")) if kind == 11 else packet(NAME, asked, *fields)


LISTS = {
    "a count that nothing follows": listed(number(0xFFFFFFFF)),
    "a name longer than the answer": listed(number(1), number(1 << 30)),
    "facts without an end": listed(number(1), text(b"a"), text(b"a"), number(1 << 31), number(0xFFFFFFFF)),
    "a folder without an end": listed(number(10_000), (text(b"name") + text(b"long") + number(0)) * 10_000),
    "an answer of a gigabyte": lambda kind, asked: number(1 << 30) + bytes([NAME]) + asked,
    "answers that nobody asked for": lambda kind, asked: packet(STATUS, number(77), number(4)) * 50,
    "an empty answer": lambda kind, asked: number(0),
}


@pytest.mark.parametrize("lie", LISTS.values(), ids=LISTS.keys())
def test_a_server_that_lists_what_cannot_be_is_an_error_and_little_is_kept(
    lie: Callable[[int, bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sftp, "MOST", 50_000)  # what goes on without an end reaches any limit, this one soon
    with pytest.raises(SFTPError):
        session(lie).list("/srv")


class Within(Server):
    """A server in each of whose folders there are others, without end."""

    def __init__(self, folders: int) -> None:
        super().__init__(self._listed)
        self._folders, self._left = folders, 0

    def _listed(self, kind: int, asked: bytes) -> bytes:
        if kind == 11:  # opens a folder
            self._left = 1
            return packet(HANDLE, asked, text(b"h"))
        if kind == 12 and self._left:
            self._left = 0
            names = (text(b"f%d" % n) + text(b"") + number(4) + number(0o40755) for n in range(self._folders))
            return packet(NAME, asked, number(self._folders), *names)
        return packet(STATUS, asked, number(1 if kind == 12 else 0), text(b""), text(b""))


class Lent:
    """One session, lent to a store again and again."""

    def __init__(self, server: Server) -> None:
        self._session = Session(cast(Channel, server))

    @contextmanager
    def session(self) -> Iterator[Session]:
        yield self._session


@pytest.mark.parametrize("folders", [1, 100])
def test_folders_within_folders_without_end_are_an_error(folders: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST", 5_000)
    store = stores.SftpStore(cast(Sessions, Lent(Within(folders))), "/srv", "sftp://lies/srv")
    with pytest.raises(StoreFailed, match="cannot list") as failure:
        list(store.names())
    assert failure.value.detail == ("it has more than 5000 files and folders, or folders without end",)
    assert "a folder that leads into itself" in (failure.value.hint or "")


def test_a_file_whose_facts_have_no_end_is_an_error() -> None:
    with pytest.raises(SFTPError):
        session(lambda kind, asked: packet(ATTRS, asked, number(1 << 31), number(0xFFFFFFFF))).facts("/srv/x")


def test_a_request_of_our_own_is_answered_within_the_same_bounds() -> None:
    with pytest.raises(SFTPError):
        session(lambda kind, asked: number(1 << 30)).request(200, text(b"fsync@openssh.com"))


def reached(port: int) -> CannotReach:
    """Return why a host is not reached."""
    host = HostSettings.model_construct(name="liar", address="127.0.0.1", port=port)
    connections = Connections(SshSettings(user="root", connect_timeout=20.0))
    with pytest.raises(CannotReach) as told:
        connections.open(connections.address(host))
    return told.value


@pytest.fixture
def endless() -> Iterator[Callable[[bytes, bytes], tuple[int, list[int]]]]:
    """Makes servers that send a beginning and then the same block until nobody takes it; and what they sent."""
    servers = list[socket.socket]()

    def make(first: bytes, block: bytes) -> tuple[int, list[int]]:
        servers.append(socket.create_server(("127.0.0.1", 0)))
        sent = [0]

        def pour() -> None:
            near, _ = servers[-1].accept()
            with near:
                try:
                    near.sendall(first)
                    while sent[0] < 200_000_000:
                        sent[0] += near.send(block)
                except OSError:
                    return  # the liar is not listened to any more

        threading.Thread(target=pour, daemon=True).start()
        return servers[-1].getsockname()[1], sent

    yield make
    for server in servers:
        server.close()


@pytest.mark.parametrize(
    ("first", "block"),
    [(b"", b"x" * 65_536), (b"SSH-2.0-liar\r\n\xff\xff\xff\xff\x04\x14", bytes(65_536))],
    ids=["a greeting without an end", "a packet of four gigabytes"],
)
def test_a_host_that_greets_without_an_end_is_left_after_a_few_bytes(
    endless: Callable[[bytes, bytes], tuple[int, list[int]]], first: bytes, block: bytes
) -> None:
    port, sent = endless(first, block)
    assert "no SSH" in reached(port).message
    assert sent[0] < 50_000_000  # what fits into the buffers of both ends


class _Pouring(paramiko.ServerInterface):
    def __init__(self, said: Callable[[Channel], None]) -> None:
        self._said = said

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: Channel, command: bytes) -> bool:
        threading.Thread(target=self._said, args=(channel,), daemon=True).start()
        return True


POURED = threading.Event()


def _pour(channel: Channel) -> None:
    channel.out_window_size = 1 << 40  # as if the other side had said so
    try:
        for _ in range(1000):
            channel.sendall(bytes(32_000))
    except BROKEN:
        pass  # the liar is not listened to any more
    POURED.set()


def _begin_and_pour(channel: Channel) -> None:
    channel.sendall(f"{BEGUN}\n".encode())
    _pour(channel)


def _greet_for_ever(channel: Channel) -> None:
    try:
        while True:
            channel.sendall(b"welcome" * 1000)
    except BROKEN:
        return  # nobody listens any more


def _greet_and_leave(channel: Channel) -> None:
    channel.recv(1)  # the end of the input: by then the command is known to be taken
    channel.sendall(b"This account is for copies alone\n")
    channel.send_exit_status(0)
    channel.close()


Serving = Callable[[Callable[[Channel], None]], AbstractContextManager[FabricShell]]


@pytest.fixture
def serving(make_from: Callable[..., FabricShell], sshd: Any, tmp_path: Path) -> Serving:
    """Return a host whose every command says the same."""

    @contextmanager
    def served(said: Callable[[Channel], None]) -> Iterator[FabricShell]:
        with socket.create_server(("127.0.0.1", 0)) as server:

            def serve() -> None:
                near, _ = server.accept()
                transport = paramiko.Transport(near)
                transport.add_server_key(paramiko.PKey.from_path(sshd.folder / "host"))
                transport.start_server(server=_Pouring(said))

            threading.Thread(target=serve, daemon=True).start()
            port = server.getsockname()[1]
            (tmp_path / "known").write_text(sshd.known_as(port))
            yield make_from({"one": port}, user=sshd.user, key=sshd.key, known_hosts=tmp_path / "known")

    return served


def test_a_host_that_sends_more_than_it_was_given_room_for_is_left(serving: Serving) -> None:
    with serving(_begin_and_pour) as shell, pytest.raises(CannotReach), shell.stream("one", "cat") as answer:
        answer.read(1)
        assert POURED.wait(60)  # meanwhile nobody reads on
        while answer.read():
            pass


def test_a_login_that_prints_without_end_is_left_before_it_fills_the_memory(serving: Serving) -> None:
    with serving(_greet_for_ever) as shell, pytest.raises(WorkFailed, match="more than 64 KiB before the command"):
        shell.ask("one", "true")
    with serving(_greet_for_ever) as shell, pytest.raises(WorkFailed), shell.stream("one", "cat") as answer:
        answer.read()


def test_a_login_that_carries_out_no_command_has_answered_nothing(serving: Serving) -> None:
    with serving(_greet_and_leave) as shell, pytest.raises(WorkFailed, match="carried out no command") as caught:
        shell.read_file("one", "/etc/motto")
    assert caught.value.detail == ("This account is for copies alone",)


def test_a_host_whose_sudo_talks_without_end_is_left_before_it_fills_the_memory() -> None:
    gate = SudoGate("host", None)
    with pytest.raises(LoginRefused) as caught:
        for _ in range(100):
            assert gate.feed(b"lecture " * 4096) == (b"", b"")
    assert len("".join(caught.value.detail)) < 4096
