"""A real OpenSSH server on loopback, and a relay that can cut connections to it."""

import getpass
import importlib.util
import os
import platform
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from maint.adapters.ssh.shell import FabricShell
from maint.config.schema import HostSettings, ManagerSettings, SiteSettings, SshSettings
from maint.model.secret import Secret
from tests.adapters.no_links import NUMBERS
from tests.ports import free_port
from tests.s3_server import s3_server

LONG = 200.0  # seconds; no more than an end for what never comes
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
SFTP = shutil.which("sftp-server", path="/usr/lib/openssh:/usr/libexec/openssh:/usr/lib/ssh")


@dataclass(frozen=True)
class Sshd:
    """A running server, and what a client needs for it."""

    folder: Path
    port: int
    user: str
    key: Path
    host_key: str  # ssh-ed25519 AAAA…
    fingerprint: str

    def known_as(self, *ports: int) -> str:
        """Return lines of known_hosts."""
        return "".join(f"[127.0.0.1]:{port} {self.host_key}\n" for port in ports or (self.port,))


def make_key(path: Path, kind: str = "ed25519") -> str:
    """Make a key pair and return its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", path], check=True)
    return path.with_name(path.name + ".pub").read_text().strip()


def _wait_for_banner(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    limit = time.monotonic() + LONG
    while time.monotonic() < limit:
        if process.poll() is not None:
            missing(f"sshd does not run here: {log.read_text()[-300:]}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as sock:
                if sock.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"sshd did not answer: {log.read_text()}")


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other accounts can enter, which pytest's own do not allow."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def missing(words: str) -> NoReturn:
    """Skip, or fail where every part must be there."""
    if os.environ.get("MAINT_TESTS_NEED_REAL_PARTS"):
        pytest.fail(words)
    pytest.skip(words)


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """A process that speaks S3, with a bucket `backups`; yields its endpoint.

    `MAINT_TESTS_S3` names another server's, which lets `some-id` with `some-secret` in.
    """
    if elsewhere := os.environ.get("MAINT_TESTS_S3"):
        yield elsewhere
        return
    if not importlib.util.find_spec("moto") or not importlib.util.find_spec("flask"):
        missing("moto[server] is not installed")
    with s3_server("backups") as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)  # sshd reads authorized_keys as the account that logs in
        yield from serve_sshd(Path(name))


@pytest.fixture(scope="session")
def no_links() -> list[str]:
    """Words before a program's that keep it from making hard links."""
    if platform.machine() not in NUMBERS:
        pytest.skip("numbers of system calls")
    return [sys.executable, str(Path(__file__).with_name("no_links.py"))]


@pytest.fixture(scope="session")
def sshd_without_links(no_links: list[str]) -> Iterator[Sshd]:
    """A server whose SFTP can make no hard links."""
    if SFTP is None:
        missing("OpenSSH's sftp-server is not installed")
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield from serve_sshd(Path(name), shlex.join([*no_links, SFTP]))


def serve_sshd(folder: Path, sftp: str = "internal-sftp") -> Iterator[Sshd]:
    """Serve from a folder that the accounts may enter until this generator is closed."""
    if SSHD is None or not shutil.which("ssh-keygen"):
        missing("OpenSSH's sshd is not installed")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
    port = free_port()
    host_key = make_key(folder / "host")
    make_key(folder / "second", "ecdsa")
    (folder / "authorized_keys").write_text(make_key(folder / "id") + "\n")
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nHostKey {folder}/second\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nMaxStartups 200\nMaxSessions 50\nAllowTcpForwarding yes\n"
        f"Subsystem sftp {sftp}\n"
        "SetEnv SHLVL=2\n"  # else bash runs the account's ~/.bashrc, whatever that may take
    )
    shown = subprocess.run(["ssh-keygen", "-lf", folder / "host"], capture_output=True, check=True, text=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=log)
    try:
        _wait_for_banner(port, process, folder / "log")
        yield Sshd(folder, port, getpass.getuser(), folder / "id", host_key, shown.stdout.split()[1])
    finally:
        process.terminate()
        process.wait()


class Relay:
    """Forwards connections to a port until it is told to cut them."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._open: list[socket.socket] = []
        self._silenced: frozenset[socket.socket] = frozenset()
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self.connections += 1
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while block := source.recv(65_536):
                if source not in self._silenced:
                    target.sendall(block)
        except OSError:
            pass  # cut, which is what a relay is for
        finally:
            for sock in (source, target):
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def cut(self) -> None:
        """Close all connections; new ones are forwarded again."""
        doomed, self._open = self._open, []  # connections made meanwhile are not meant
        for sock in doomed:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def silence(self) -> None:
        """Let nothing more through, and close nothing; new connections are forwarded again."""
        self._silenced |= frozenset(self._open)

    def close(self) -> None:
        """Cut, and accept nothing more."""
        self._server.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self._server.close()
        self.cut()


@pytest.fixture
def relay(sshd: Sshd) -> Iterator[Relay]:
    relay = Relay(sshd.port)
    yield relay
    relay.close()


class OneSecret:
    """Every reference leads to the same value."""

    def __init__(self, value: str) -> None:
        self._value = value

    def resolve(self, reference: str) -> Secret:
        return Secret(self._value)


@pytest.fixture
def make_from(tmp_path: Path) -> Iterator[Callable[..., FabricShell]]:
    """Makes shells for hosts on loopback: ports by name, then `SshSettings` and a secret."""
    shells = []

    def shell(ports: Mapping[str, int], *, secret: str = "", **options: Any) -> FabricShell:
        site = SiteSettings.model_construct(
            name="prod",
            manager=ManagerSettings(host="cm.example.internal", password="prompt"),
            state=tmp_path,
            ssh=SshSettings.model_construct(**{"connect_timeout": 20.0, "command_timeout": 20.0} | options),
            hosts=[HostSettings(name=name, address="127.0.0.1", port=port) for name, port in ports.items()],
        )
        shells.append(FabricShell(site, OneSecret(secret)))
        return shells[-1]

    yield shell
    for made in shells:
        made.close()


@pytest.fixture
def make(sshd: Sshd, make_from: Callable[..., FabricShell], tmp_path: Path) -> Callable[..., FabricShell]:
    """Makes shells for two hosts, `one` and `two`, that are both the server on loopback."""

    def shell(*, port: int = sshd.port, known: str | None = None, **options: Any) -> FabricShell:
        known_hosts = tmp_path / f"known_hosts-{os.urandom(4).hex()}"
        known_hosts.write_text(sshd.known_as(port) if known is None else known)
        usual = {"user": sshd.user, "key": sshd.key, "known_hosts": known_hosts}
        return make_from({"one": port, "two": port}, **usual | options)

    return shell
