"""A real OpenSSH server on loopback, and a relay that can cut connections to it."""

import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


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


def make_key(path: Path) -> str:
    """Make a key pair and return its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path], check=True)
    return path.with_name(path.name + ".pub").read_text().strip()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_banner(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(200):
        if process.poll() is not None:
            pytest.skip(f"sshd does not run here: {log.read_text()[-300:]}")
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as sock:
                if sock.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(f"sshd did not answer: {log.read_text()}")


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    if SSHD is None or not shutil.which("ssh-keygen"):
        pytest.skip("OpenSSH's sshd is not installed")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
    folder, port = tmp_path_factory.mktemp("sshd"), free_port()
    host_key = make_key(folder / "host")
    (folder / "authorized_keys").write_text(make_key(folder / "id") + "\n")
    folder.chmod(0o755)
    for outer in folder.parents[:2]:
        outer.chmod(0o755)  # another account's sshd process reads authorized_keys
    (folder / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized_keys\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nMaxStartups 200\nMaxSessions 50\nAllowTcpForwarding yes\n"
        "Subsystem sftp internal-sftp\n"
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
        for sock in self._open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue
        self._open.clear()

    def close(self) -> None:
        """Cut, and accept nothing more."""
        self._server.close()
        self.cut()


@pytest.fixture
def relay(sshd: Sshd) -> Iterator[Relay]:
    relay = Relay(sshd.port)
    yield relay
    relay.close()
