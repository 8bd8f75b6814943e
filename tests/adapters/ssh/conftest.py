"""Fleets to be asked: real OpenSSH on loopback, and the lab's hosts."""

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.ssh.shell import FabricFleet
from maint.config.schema import HostSettings, ManagerSettings, SiteSettings, SshSettings
from maint.files import write_whole
from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.ssh_server import SshLab
from maint.model.secret import Secret
from tests.adapters.conftest import SSHD, missing
from tests.ports import free_port

INSTANCES = 3


@dataclass
class OneSecret:
    """Every reference leads to the same value, and is counted."""

    value: str = ""
    asked: int = 0

    def resolve(self, reference: str) -> Secret:
        assert self.value, reference
        self.asked += 1
        return Secret(self.value)


@dataclass
class Ground:
    """Hosts that answer, and how to log in to them."""

    user: str
    key: Path
    known_hosts: Path
    ports: dict[str, int]
    machines: dict[str, Machine] = field(default_factory=dict)

    def fleet(self, ports: Mapping[str, int] | None = None, **options: Any) -> tuple[FabricFleet, list[HostSettings]]:
        """Return a fleet and its hosts; without `ports`, all of them."""
        heard, secrets, stopped = (options.pop(name, None) for name in ("heard", "secrets", "stopped"))
        chosen = ports or self.ports
        hosts = [HostSettings(name=name, address="127.0.0.1", port=port) for name, port in chosen.items()]
        usual = {"user": self.user, "key": self.key, "known_hosts": self.known_hosts}
        settings = SiteSettings.model_construct(
            name="prod",
            manager=ManagerSettings(host="cm.example.internal", password="prompt"),
            state=self.known_hosts.parent,
            ssh=SshSettings.model_construct(**{"connect_timeout": 20.0, "command_timeout": 20.0} | usual | options),
            hosts=hosts,
        )
        return FabricFleet(settings, secrets or OneSecret(), heard=heard, stopped=stopped), hosts


@pytest.fixture(scope="session")
def openssh() -> Iterator[Ground]:
    """Several real servers, each with a key of its own."""
    if SSHD is None or not shutil.which("ssh-keygen"):
        missing("OpenSSH's sshd is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # sshd reads authorized_keys as the account that logs in
        yield from _served(folder)


def _served(folder: Path) -> Iterator[Ground]:
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
    (folder / "authorized_keys").write_text(made(folder / "id") + "\n")
    made(folder / "authority")
    ground = Ground(getpass.getuser(), folder / "id", folder / "known_hosts", {})
    processes, lines = [], []
    try:
        for number in range(INSTANCES):
            port = free_port()
            lines.append(f"[127.0.0.1]:{port} {made(folder / f'host{number}')}\n")
            config = folder / f"config{number}"
            config.write_text(
                f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host{number}\nPidFile none\nStrictModes no\n"
                f"AuthorizedKeysFile {folder}/authorized_keys\nTrustedUserCAKeys {folder}/authority.pub\n"
                "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                "PermitRootLogin prohibit-password\nMaxStartups 500\nMaxSessions 50\n"
                "SetEnv SHLVL=2\n"  # else bash runs the account's ~/.bashrc, whatever that may take
            )
            processes.append(subprocess.Popen([str(SSHD), "-D", "-f", config], stderr=subprocess.DEVNULL))
            ground.ports[f"n{number + 1}"] = port
        ground.known_hosts.write_text("".join(lines))
        for port in ground.ports.values():
            wait_for_banner(port)
        yield ground
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def made(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path.with_name(path.name + ".pub").read_text().strip()


def wait_for_banner(port: int) -> None:
    limit = time.monotonic() + 200
    while time.monotonic() < limit:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as sock:
                if sock.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.05)
    missing("sshd does not answer here")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Ground]:
    yield from _lab(tmp_path, None, INSTANCES)


@pytest.fixture
def lab_beside(openssh: Ground, tmp_path: Path) -> Iterator[Ground]:
    """Five of the lab's hosts, opened by the same account and key as the real ones."""
    yield from _lab(tmp_path, openssh, 5)


def _lab(tmp_path: Path, beside: Ground | None, count: int) -> Iterator[Ground]:
    machines = {f"n{n}": Machine(f"n{n}", tmp_path / f"n{n}", {}) for n in range(1, count + 1)}
    for machine in machines.values():
        furnish_host(machine)
    if beside is not None:
        (tmp_path / "ssh").mkdir(mode=0o700)
        write_whole(tmp_path / "ssh/id_ed25519", beside.key.read_bytes(), 0o600)
    server = SshLab(list(machines.values()), tmp_path / "ssh")
    server.user = beside.user if beside else server.user
    server.start()
    try:
        ports = {name: port for name, (_, port) in server.endpoints.items()}
        yield Ground(server.user, server.key_file, server.known_hosts_file, ports, machines)
    finally:
        server.stop()


@pytest.fixture(params=["openssh", "lab"])
def ground(request: pytest.FixtureRequest) -> Ground:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Ground)
    return found


class Silent:
    """A port that takes connections in and never says a word, or says something that is not SSH."""

    def __init__(self, words: bytes = b"") -> None:
        self._words = words
        self._server = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = int(self._server.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            self._open.append(near)
            if self._words:
                near.sendall(self._words)
                near.close()

    def close(self) -> None:
        """Let go of everybody."""
        self._server.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._server.close()
        for sock in self._open:
            sock.close()


class Full:
    """A port whose queue is full: packets to it are dropped, as by a firewall."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=0)
        self.port = int(self._server.getsockname()[1])
        self._held = []
        for _ in range(4):
            sock = socket.socket()
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", self.port))
            self._held.append(sock)

    def close(self) -> None:
        """Let go of everybody."""
        self._server.close()
        for sock in self._held:
            sock.close()


@pytest.fixture
def silent() -> Iterator[Callable[..., int]]:
    """Makes ports that never answer; `words` are said first."""
    made: list[Silent] = []

    def make(words: bytes = b"") -> int:
        made.append(Silent(words))
        return made[-1].port

    yield make
    for one in made:
        one.close()


@pytest.fixture
def filtered() -> Iterator[int]:
    full = Full()
    yield full.port
    full.close()
