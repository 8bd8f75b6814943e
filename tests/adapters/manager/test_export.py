import gzip
import socket
import time
import tracemalloc
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from pytest_httpserver import HTTPServer

from maint.adapters.http import answers
from maint.adapters.http.request import BLOCK
from maint.errors import CannotReach, LoginRefused, Transient, WorkFailed
from tests.adapters.manager.conftest import Bench, answer, request_head

Raw = Callable[[Callable[[socket.socket], None]], int]
PATH = "/api/v49/cm/deployment"
DOCUMENT = b'{ "users" : [ { "pwSalt" : -8906817278156687271 } ] }\n'


@pytest.fixture
def server(plain: HTTPServer) -> HTTPServer:
    plain.expect_request("/api/version").respond_with_data("v49")
    return plain


def export(bench: Bench, **changes: object) -> bytes:
    with bench.client(**changes).deployment() as stream:
        return stream.read()


def scripted(raw: Raw, *parts: bytes, wait: float = 0) -> int:
    """Serve these bytes as the answer to the export, then close."""

    def serve(connection: socket.socket) -> None:
        if "/cm/deployment" not in request_head(connection):
            connection.sendall(answer("200 OK", b"v49"))
            return
        for part in parts:
            connection.sendall(part)
        time.sleep(wait)

    return raw(serve)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json;charset=utf-8\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


def test_the_raw_bytes_come_through(bench: Bench, server: HTTPServer) -> None:
    server.expect_request(PATH, query_string="view=export").respond_with_data(DOCUMENT)
    assert export(bench) == DOCUMENT


def test_it_is_read_bit_by_bit_or_whole(bench: Bench, server: HTTPServer) -> None:
    server.expect_request(PATH, query_string="view=export").respond_with_data(DOCUMENT)
    with bench.client().deployment() as stream:
        assert stream.read(5) == DOCUMENT[:5]
        assert stream.read(0) == b""
        assert stream.read() == DOCUMENT[5:]
        assert stream.read(5) == b""


def test_chunks_are_put_together(bench: Bench, raw: Raw) -> None:
    port = scripted(raw, CHUNKED, chunk(DOCUMENT[:9]), chunk(DOCUMENT[9:]), b"0\r\n\r\n")
    assert export(bench, plain_port=port) == DOCUMENT


def test_compression_is_undone(bench: Bench, server: HTTPServer) -> None:
    packed = gzip.compress(DOCUMENT)
    server.expect_request(PATH).respond_with_data(packed, headers={"Content-Encoding": "gzip"})
    assert export(bench) == DOCUMENT


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param((CHUNKED, chunk(DOCUMENT)), id="no last chunk"),
        pytest.param((CHUNKED, chunk(DOCUMENT)[:-9]), id="within a chunk"),
        pytest.param((HEAD + b"Content-Length: 500\r\n\r\n", DOCUMENT), id="short of its length"),
        pytest.param((HEAD + b"\r\n", DOCUMENT[:-6]), id="no length at all"),
        pytest.param((CHUNKED, chunk(DOCUMENT[:-6]), b"0\r\n\r\n"), id="cut before it was sent"),
    ],
)
def test_a_cut_export_is_never_taken_for_a_whole_one(bench: Bench, raw: Raw, parts: tuple[bytes, ...]) -> None:
    with pytest.raises(CannotReach, match=r"the export was cut off after \d+ bytes"):
        export(bench, plain_port=scripted(raw, *parts))


@pytest.mark.parametrize("said", [b"9" * 5000, b"many", b"-1"])
def test_a_length_that_is_none_counts_as_not_said(bench: Bench, raw: Raw, said: bytes) -> None:
    port = scripted(raw, HEAD + b"Content-Length: " + said + b"\r\n\r\n", DOCUMENT)
    with bench.client(plain_port=port).deployment() as stream:
        assert stream.length is None
        assert stream.read() == DOCUMENT


def test_a_cut_is_noticed_in_small_reads_too(bench: Bench, raw: Raw) -> None:
    port = scripted(raw, CHUNKED, chunk(DOCUMENT))
    with (
        pytest.raises(CannotReach, match="cut off"),
        bench.client(plain_port=port).deployment() as stream,
    ):
        while stream.read(7):
            pass


def test_an_export_without_an_end_is_left(bench: Bench, raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers._STREAMED < 1 << 35  # else the disk of a store is full before
    monkeypatch.setattr(answers, "_STREAMED", 3 * BLOCK)
    port = scripted(raw, CHUNKED, chunk(b"{"), *[chunk(b" " * BLOCK)] * 9)
    with pytest.raises(WorkFailed, match="the export is longer than"):
        export(bench, plain_port=port)


def test_damaged_compression_is_a_cut(bench: Bench, server: HTTPServer) -> None:
    packed = gzip.compress(DOCUMENT)[:30] + b"\xff" * 30
    server.expect_request(PATH).respond_with_data(packed, headers={"Content-Encoding": "gzip"})
    with pytest.raises(CannotReach, match="cut off"):
        export(bench)


def test_half_of_a_compressed_export_is_a_cut(bench: Bench, server: HTTPServer) -> None:
    packed = gzip.compress(DOCUMENT)[:40]
    server.expect_request(PATH).respond_with_data(packed, headers={"Content-Encoding": "gzip"})
    with pytest.raises((CannotReach, WorkFailed)):
        export(bench)


def test_an_export_that_stalls_runs_into_its_time_out(bench: Bench, raw: Raw) -> None:
    bench.timeouts = replace(bench.timeouts, export=1)
    port = scripted(raw, CHUNKED, chunk(DOCUMENT), wait=100)
    with pytest.raises(CannotReach, match="nothing more came in time"):
        export(bench, plain_port=port)


@pytest.mark.parametrize("page", [b"<html>Log in</html>", b"\n  <!DOCTYPE html>", b"[]", b"null"])
def test_a_page_with_200_is_refused_at_its_first_bytes(bench: Bench, server: HTTPServer, page: bytes) -> None:
    server.expect_request(PATH).respond_with_data(page, content_type="text/html")
    with pytest.raises(WorkFailed, match=r"not JSON \(text/html"), bench.client().deployment() as stream:
        stream.read(64)


def test_an_empty_answer_names_the_role_that_may_be_missing(bench: Bench, server: HTTPServer) -> None:
    server.expect_request(PATH).respond_with_data(b"")
    with pytest.raises(WorkFailed, match="empty") as failure:
        export(bench)
    assert "Full Administrator" in (failure.value.hint or "")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(302, CannotReach), (401, LoginRefused), (403, WorkFailed), (500, WorkFailed), (502, Transient)],
)
def test_errors_come_before_the_stream(bench: Bench, server: HTTPServer, status: int, kind: type[Exception]) -> None:
    server.expect_request(PATH).respond_with_data("<html>no</html>", status=status)
    with pytest.raises(kind), bench.client().deployment():
        pytest.fail("nothing must be streamed")


def test_an_export_above_the_servers_version_is_refused(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v45")
    with pytest.raises(WorkFailed, match="up to v45"):
        export(bench)


def test_memory_stays_flat(bench: Bench, raw: Raw) -> None:
    piece = chunk(b" " * BLOCK)
    port = scripted(raw, CHUNKED, chunk(b"{"), *([piece] * 80), chunk(b"}"), b"0\r\n\r\n")
    count = 0
    with bench.client(plain_port=port).deployment() as stream:
        tracemalloc.start()
        while block := stream.read(BLOCK):
            count += len(block)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 80 * BLOCK + 2
    assert peak < 8 * BLOCK
