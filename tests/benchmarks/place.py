"""A manager that only exports and takes, over TLS on loopback, and a configured site that talks to it."""

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme

from maint.adapters.seal import AgeSeal
from tests.benchmarks.exports import PASSWORD
from tests.benchmarks.measure import Cost, run

_CHUNK = 256 * 1024  # bytes
MAINT = (sys.executable, "-c", "import sys; from maint.cli.start import main; sys.exit(main())")


class Place:
    """A site in a folder.

    Attributes:
        folder: where all of it is.
        url: of the manager, TLS.
        recipient: the age public key of the backups.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.url = folder, f"https://localhost:{port}"
        self.identity = folder / "identity"
        self.authority = folder / "ca.pem"
        secret, self.recipient = AgeSeal().new_identity()
        _private(self.identity, secret.reveal())
        _private(folder / "password", PASSWORD)
        self._config = folder / "config.yaml"
        self._config.write_text(
            f"""state: {folder}/state
sites:
  bench:
    manager:
      host: localhost
      plain_port: 1
      tls_port: {port}
      username: admin
      password: file:{folder}/password
      ca: {self.authority}
    hosts: []
    backup:
      store: {folder}/store
      recipients: [{self.recipient}]
      identity: file:{self.identity}
"""
        )

    def maint(self, *words: str, accept: tuple[int, ...] = (0,)) -> Cost:
        """Run a command of maint and measure it."""
        return run(
            [*MAINT, *words, "--config", str(self._config)], env={**os.environ, "MAINT_COLOR": "never"}, accept=accept
        )

    def newest(self) -> str:
        """Return the id of the newest snapshot."""
        return max(path.parent.name for path in (self.folder / "store" / "bench").glob("*/manifest.json"))

    def deployment(self, snapshot: str) -> Path:
        """Return the raw part of a snapshot."""
        return self.folder / "store" / "bench" / snapshot / "deployment.json.zst.age"


@contextmanager
def serving(folder: Path, export: Path) -> Iterator[Place]:
    """Serve an export in a process of its own, and give a site in `folder` that is configured for it."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.benchmarks.place", str(folder), str(export)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    try:
        yield Place(folder, int(server.stdout.readline()))
    finally:
        server.terminate()
        server.wait()


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    export: Path

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.endswith("/cm/deployment"):
            self._stream()
        elif path == "/api/version":
            self._say(b"v49", "text/plain")
        else:
            self._say(b'{ "version" : "7.6.5", "items" : [ ] }', "application/json")

    def do_PUT(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                _skip(self.rfile.read, size + 2)
            self.rfile.readline()
        else:
            _skip(self.rfile.read, int(self.headers["Content-Length"]))
        self._say(b"{ }", "application/json")

    def _stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with self.export.open("rb") as file:
            while block := file.read(_CHUNK):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
        self.wfile.write(b"0\r\n\r\n")

    def _say(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
        """Say nothing."""


def _skip(read: object, size: int) -> None:
    assert callable(read)
    while size:
        size -= len(read(min(size, _CHUNK)))


def _serve(folder: Path, export: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    _Handler.export = export
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    threading.stack_size(1 << 20)
    _serve(Path(sys.argv[1]), Path(sys.argv[2]))
