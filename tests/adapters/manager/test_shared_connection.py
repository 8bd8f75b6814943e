"""Reads that follow each other share a connection; whatever may happen once only has one of its own."""

import gc
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pytest_httpserver import HTTPServer
from urllib3.connectionpool import HTTPConnectionPool

from maint.adapters.http import transport
from tests.adapters.manager.conftest import Bench


class Manager(ThreadingHTTPServer):
    """Knows no cluster, keeps connections open unless it `leaves`, and notes which one each request came by."""

    daemon_threads = True
    leaves = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.came: list[tuple[str, int]] = []  # method and path, and the port of whoever asked

    def by(self, words: str) -> list[int]:
        return [port for request, port in self.came if request.startswith(words)]


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Manager

    def do_GET(self) -> None:
        # Without a word of it in the head, and said before the answer: whoever has that may set it anew.
        self.close_connection |= self.server.leaves
        self.server.came.append((f"{self.command} {self.path}", self.client_address[1]))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b"v49" if self.path == "/api/version" else b'{"items": []}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET

    def log_message(self, *words: object) -> None:
        """Say nothing."""


@pytest.fixture
def manager() -> Iterator[Manager]:
    with Manager() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def test_reads_that_follow_each_other_share_a_connection_and_changes_have_their_own(
    bench: Bench, manager: Manager
) -> None:
    client = bench.client(plain_port=manager.server_port)
    client.clusters()
    client.upload_license(b"x")
    client.clusters()
    client.hosts()
    client.close()
    reads = manager.by("GET /api/v4")
    others = [*manager.by("GET /api/version"), *manager.by("POST")]
    assert (len(reads), len(set(reads)), len(manager.by("POST"))) == (3, 1, 1)
    assert len({*others, *reads}) == len(others) + 1


def test_a_read_that_comes_later_or_finds_its_connection_closed_gets_a_new_one(
    bench: Bench, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = bench.client(plain_port=manager.server_port)
    manager.leaves = True
    for _ in range(3):
        client.hosts()
    assert len(set(manager.by("GET /api/v4"))) == 3
    manager.leaves = False
    monkeypatch.setattr(transport, "_FRESH", 0.0)  # whatever follows comes too late
    for _ in range(3):
        client.hosts()
    assert len(set(manager.by("GET /api/v4"))) == 6


def test_of_a_connection_nothing_stays_behind_once_its_answer_is_read_however_long_a_command_goes_on_asking(
    secure: Bench, tls: HTTPServer
) -> None:
    tls.expect_request("/api/version").respond_with_data("v49")
    tls.expect_request("/api/v49/cm/license", method="POST").respond_with_json({})
    client = secure.client()
    gc.collect()
    before = [id(one) for one in gc.get_objects() if isinstance(one, HTTPConnectionPool)]
    for _ in range(3):
        client.upload_license(b"x")
    client.close()
    del client
    gc.collect()
    assert [one for one in gc.get_objects() if isinstance(one, HTTPConnectionPool) and id(one) not in before] == []
