"""Scripted managers: each test says what every port answers, and looks at what arrived."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trustme
from pytest_httpserver import HTTPServer

from maint.adapters.clock import SystemClock
from maint.adapters.http.request import Timeouts
from maint.adapters.manager.client import ManagerClient
from maint.config.schema import ManagerSettings
from maint.model.secret import Secret
from tests.ports import closed_port
from tests.servers import ScriptedServer

PASSWORD = "päss:w0rd-of-the-site"  # invented
CALM = Timeouts(connect=60, probe=60, read=60, write=60, export=60)  # a busy machine answers late


REFERENCE = "file:/etc/maint/manager-password"


class Vault:
    """Secrets by reference; whatever else is asked for is its own value."""

    def resolve(self, reference: str) -> Secret:
        return Secret(PASSWORD if reference == REFERENCE else reference)


class Patient(SystemClock):
    """Real time, but pauses are only counted."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@dataclass
class Bench:
    """A client, and the two ports it may knock at."""

    settings: ManagerSettings
    clock: Patient = field(default_factory=Patient)
    warnings: list[str] = field(default_factory=list)
    timeouts: Timeouts = CALM
    proxy: str | None = None

    def client(self, *, allow_plain: bool = False, **changes: object) -> ManagerClient:
        settings = self.settings.model_copy(update=changes)
        settings = settings.in_clear() if allow_plain else settings
        ways = {"timeouts": self.timeouts, "proxy": self.proxy}
        return ManagerClient(settings, Vault(), self.clock, warn=self.warnings.append, **ways)


@pytest.fixture
def plain() -> Iterator[HTTPServer]:
    with ScriptedServer(host="127.0.0.1") as server:
        yield server


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


def context_for(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


@pytest.fixture
def tls_server() -> Iterator[Callable[[trustme.LeafCert], HTTPServer]]:
    servers: list[HTTPServer] = []

    def start(certificate: trustme.LeafCert) -> HTTPServer:
        server = ScriptedServer(host="127.0.0.1", ssl_context=context_for(certificate), threaded=True)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def tls(tls_server: Callable[[trustme.LeafCert], HTTPServer], authority: trustme.CA) -> HTTPServer:
    return tls_server(authority.issue_cert("127.0.0.1"))


@pytest.fixture
def bench(plain: HTTPServer) -> Bench:
    """A manager whose plain port answers; its TLS port is closed."""
    ports = {"plain_port": plain.port, "tls_port": closed_port()}
    return Bench(ManagerSettings.model_construct(host="127.0.0.1", password=REFERENCE, **ports))


@pytest.fixture
def secure(bench: Bench, tls: HTTPServer, ca_file: Path) -> Bench:
    """A manager whose TLS port answers with a trusted chain."""
    bench.settings = bench.settings.model_copy(update={"tls_port": tls.port, "ca": ca_file})
    return bench


@pytest.fixture
def raw() -> Iterator[Callable[..., int]]:
    """Start a server that hands every connection's socket to a function; returns its port."""
    listeners: list[socket.socket] = []

    def start(serve: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def loop() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=_shielded, args=(serve, connection), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        return int(listener.getsockname()[1])

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)  # or accept would go on, on whatever gets the number of this file next
        listener.close()


def _shielded(serve: Callable[[socket.socket], None], connection: socket.socket) -> None:
    with connection:
        try:
            serve(connection)
        except OSError:
            return


def request_head(connection: socket.socket) -> str:
    """Read a request's head."""
    head = b""
    while b"\r\n\r\n" not in head:
        part = connection.recv(1)
        if not part:
            break
        head += part
    return head.decode("latin-1")


def answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
