import io
import re
import socket
import time
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.clock import SystemClock
from maint.adapters.http.request import BLOCK
from maint.errors import AnswerMissing, CannotReach, DeadlinePassed, LoginRefused, WorkFailed
from maint.model.manager import Place
from maint.ports import Answer, Body
from tests.adapters.manager.conftest import Bench, answer, request_head
from tests.ports import closed_port

_LONG = 100.0  # seconds; the client has gone before, and nobody waits for the thread
Raw = Callable[[Callable[[socket.socket], None]], int]
DOCUMENT = b'{"pwSalt": -8906817278156687271, "x": "' + b"z" * (2 * BLOCK) + b'"}'


@pytest.fixture
def server(plain: HTTPServer) -> HTTPServer:
    plain.expect_request("/api/version").respond_with_data("v49")
    return plain


def put(bench: Bench, body: Body | None = None, *, timeout: float = 60, **changes: object) -> Answer:
    body = body or Body(io.BytesIO(DOCUMENT).read, len(DOCUMENT))
    return bench.client(**changes).put_deployment(body, api=49, delete_current=True, timeout=timeout)


def sent(server: HTTPServer, method: str) -> list[Request]:
    return [request for request, _ in server.log if request.method == method]


def test_a_deployment_arrives_byte_for_byte_with_its_length(bench: Bench, server: HTTPServer) -> None:
    got: list[bytes] = []

    def keep(request: Request) -> Response:
        got.append(request.get_data())
        return Response(b'{"clusters" : [ ]}', content_type="application/json")

    server.expect_request("/api/v49/cm/deployment", method="PUT").respond_with_handler(keep)
    told = put(bench)
    assert told.read() == b'{"clusters" : [ ]}'
    (request,) = sent(server, "PUT")
    assert got == [DOCUMENT]
    assert request.headers["Content-Length"] == str(len(DOCUMENT))
    assert request.headers["Content-Type"] == "application/json"
    assert "Transfer-Encoding" not in request.headers
    assert request.query_string == b"deleteCurrentDeployment=true"


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_the_word_before_the_last_block_comes_exactly_once(bench: Bench, server: HTTPServer, length: int) -> None:
    server.expect_request("/api/v49/cm/deployment", method="PUT").respond_with_data("{}")
    source = io.BytesIO(b"x" * length)
    words: list[int] = []
    put(bench, Body(lambda size: source.read(min(size, 1000)), length, lambda: words.append(source.tell())))
    assert words == [length]
    assert sent(server, "PUT")[0].content_length == length


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_change_that_is_redirected_is_sent_once_and_fails(
    secure: Bench, server: HTTPServer, tls: HTTPServer, status: int, method: str
) -> None:
    """TLS came up after the login; the redirect points to a server that would say yes."""
    port = tls.port
    tls.stop()
    with socket.socket() as held:  # closed, and nobody else is given it
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port))
        client = secure.client(allow_plain=True)
        client.log_in()
    tls.port = port
    tls.start()
    tls.expect_request(re.compile("")).respond_with_data("{}")
    moved = {"Location": f"https://127.0.0.1:{port}/api/v49/cm/deployment", "Set-Cookie": "S=1"}
    server.expect_request(re.compile("^/api/v"), method=method).respond_with_data("", status=status, headers=moved)
    calls: dict[str, Callable[[], object]] = {
        "PUT": lambda: client.put_deployment(Body(io.BytesIO(b"{}").read, 2), api=49, delete_current=True, timeout=60),
        "POST": lambda: client.place_command(Place("c"), "stop"),
        "DELETE": lambda: client.delete_cluster("c"),
    }
    with pytest.raises(WorkFailed, match=str(status)) as failure:
        calls[method]()
    assert "nothing was sent twice" in failure.value.detail[0]
    assert len(sent(server, method)) == 1
    assert tls.log == []


def test_an_answer_that_is_lost_leaves_it_open_and_is_not_sent_again(bench: Bench, raw: Raw) -> None:
    requests: list[str] = []

    def serve(connection: socket.socket) -> None:
        head = request_head(connection)
        requests.append(head.split("\r\n")[0].split(" ")[0])
        if head.startswith("PUT"):
            left = len(DOCUMENT)
            while left:
                left -= len(connection.recv(left))
            return  # applied, and then the connection is gone
        connection.sendall(answer("200 OK", b"v49"))

    with pytest.raises(AnswerMissing) as failure:
        put(bench, plain_port=raw(serve))
    assert failure.value.whole
    assert requests.count("PUT") == 1


def test_a_slow_answer_runs_into_the_time_given(bench: Bench, raw: Raw) -> None:
    puts: list[int] = []

    def serve(connection: socket.socket) -> None:
        if not request_head(connection).startswith("PUT"):
            connection.sendall(answer("200 OK", b"v49"))
            return
        puts.append(1)
        while connection.recv(65536):
            pass

    with pytest.raises(AnswerMissing, match="no answer in") as failure:
        put(bench, plain_port=raw(serve), timeout=1)
    assert failure.value.whole
    assert puts == [1]


def test_a_server_that_stops_reading_runs_into_the_time_given(bench: Bench, raw: Raw) -> None:
    def serve(connection: socket.socket) -> None:
        if request_head(connection).startswith("PUT"):
            time.sleep(_LONG)
        else:
            connection.sendall(answer("200 OK", b"v49"))

    size = 40 * BLOCK
    with pytest.raises(AnswerMissing) as failure:
        put(bench, Body(lambda n: b"x" * n, size), plain_port=raw(serve), timeout=0.5)
    assert not failure.value.whole


@pytest.mark.parametrize("status", ["401 Bad credentials", "413 Too Large"])
def test_an_answer_before_the_end_of_the_body_is_that_answer(bench: Bench, raw: Raw, status: str) -> None:
    def serve(connection: socket.socket) -> None:
        if request_head(connection).startswith("PUT"):
            connection.sendall(answer(status, b'{"message" : "Too much."}'))
            connection.shutdown(socket.SHUT_WR)
            time.sleep(0.2)  # then it closes, with most of the body unread
        else:
            connection.sendall(answer("200 OK", b"v49"))

    begun: list[int] = []
    body = Body(lambda n: b"x" * n, 400 * BLOCK, lambda: begun.append(1))
    with pytest.raises((WorkFailed, LoginRefused)) as failure:
        put(bench, body, plain_port=raw(serve))
    assert not isinstance(failure.value, AnswerMissing)
    assert begun == []


def test_a_success_before_the_end_of_the_body_is_not_believed(bench: Bench, raw: Raw) -> None:
    def serve(connection: socket.socket) -> None:
        request_head(connection)
        connection.sendall(answer("200 OK", b"v49"))

    with pytest.raises(AnswerMissing) as failure:
        put(bench, Body(lambda n: b"x" * n, 400 * BLOCK), plain_port=raw(serve))
    assert not failure.value.whole


@pytest.mark.parametrize(("status", "body"), [("202 Accepted", b'{"clusters" : [ ]}'), ("204 No Content", b"")])
def test_another_success_than_a_restore_has_is_told_as_what_it_is_and_leaves_it_open(
    bench: Bench, server: HTTPServer, status: str, body: bytes
) -> None:
    server.expect_request("/api/v49/cm/deployment", method="PUT").respond_with_data(body, int(status[:3]))
    with pytest.raises(AnswerMissing, match=f"its answer is no clear one: {status}, where") as failure:
        put(bench)
    assert (failure.value.whole, len(sent(server, "PUT"))) == (True, 1)


def test_no_connection_means_nothing_was_sent(bench: Bench, plain: HTTPServer, server: HTTPServer) -> None:
    client = bench.client()
    client.log_in()
    plain.stop()
    try:
        with pytest.raises(CannotReach, match="refused"):
            client.delete_cluster("c")
    finally:
        plain.start()


def test_a_document_that_shrinks_is_not_sent_whole(bench: Bench, server: HTTPServer) -> None:
    with pytest.raises(WorkFailed, match="shorter"):
        put(bench, Body(io.BytesIO(b"short").read, 10))


def test_a_document_that_can_be_read_no_further_leaves_it_open_whether_what_has_left_was_enough(
    bench: Bench, raw: Raw
) -> None:
    whole = DOCUMENT.ljust(3 * BLOCK)  # and nothing but blanks in the last block

    def taken(connection: socket.socket) -> None:
        if "/api/version" in request_head(connection):
            connection.sendall(answer("200 OK", b"v49"))
        else:
            connection.settimeout(_LONG)
            while connection.recv(65536):
                pass

    with pytest.raises(AnswerMissing, match="shorter"):
        put(bench, Body(io.BytesIO(whole).read, len(whole) + BLOCK), plain_port=raw(taken))


@pytest.mark.parametrize("status", [400, 403, 404, 500, 503])
def test_a_restore_that_is_refused_tells_the_servers_words(bench: Bench, server: HTTPServer, status: int) -> None:
    told = {"message": "No admin user.", "causes": ["none left"]}
    server.expect_request("/api/v49/cm/deployment", method="PUT").respond_with_json(told, status)
    with pytest.raises(WorkFailed, match=f"{status} .*No admin user.; none left") as failure:
        put(bench)
    assert not isinstance(failure.value, AnswerMissing)
    assert len(sent(server, "PUT")) == 1


@pytest.mark.parametrize(
    ("status", "page"),
    [
        *((status, "<html>Gateway Time-out</html>") for status in (500, 502, 503, 504)),
        *((status, '{"message": "The upstream server is timing out"}') for status in (502, 504)),
    ],
)
def test_a_proxys_answer_leaves_a_restore_open(bench: Bench, server: HTTPServer, status: int, page: str) -> None:
    server.expect_request("/api/v49/cm/deployment", method="PUT").respond_with_data(page, status=status)
    with pytest.raises(AnswerMissing, match=str(status)) as failure:
        put(bench)
    assert failure.value.whole
    assert len(sent(server, "PUT")) == 1


@pytest.mark.parametrize("status", ["400 Bad Request", "500 Server Error", "502 Bad Gateway"])
def test_a_refusal_that_is_cut_off_leaves_a_restore_open(bench: Bench, raw: Raw, status: str) -> None:
    def serve(connection: socket.socket) -> None:
        if request_head(connection).startswith("PUT"):
            connection.sendall(answer(status, b'{"message" : "It broke."}')[:-3])
        else:
            connection.sendall(answer("200 OK", b"v49"))

    with pytest.raises(AnswerMissing, match="cut off") as failure:
        put(bench, Body(io.BytesIO(b"{}").read, 2), plain_port=raw(serve))
    assert failure.value.whole


def test_a_restore_never_uses_a_version_the_server_lacks(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v48")
    with pytest.raises(WorkFailed, match="v49"):
        put(bench)
    assert sent(plain, "PUT") == []


def test_the_operators_limit_ends_a_wait_for_an_answer(bench: Bench, raw: Raw) -> None:
    def serve(connection: socket.socket) -> None:
        if request_head(connection).startswith("DELETE"):
            time.sleep(_LONG)
        else:
            connection.sendall(answer("200 OK", b"v49"))

    client = bench.client(plain_port=raw(serve))
    client.log_in()
    with pytest.raises(DeadlinePassed), SystemClock().limit(0.3):
        client.delete_cluster("c")


def test_deleting_answers_with_the_cluster_and_waits_for_no_command(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/clusters/base", method="DELETE").respond_with_json({"name": "base"})
    assert bench.client().delete_cluster("base")


def test_deleting_what_is_gone_is_told_as_such(bench: Bench, server: HTTPServer) -> None:
    told = {"message": "Cluster 'base' not found."}
    server.expect_request("/api/v45/clusters/base", method="DELETE").respond_with_json(told, 404)
    assert not bench.client().delete_cluster("base")


def test_a_404_of_something_else_is_not_taken_for_gone(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v45/clusters/base", method="DELETE").respond_with_data("<html>", status=404)
    with pytest.raises(WorkFailed, match="404"):
        bench.client().delete_cluster("base")


def test_a_delete_without_an_answer_is_left_open(bench: Bench, raw: Raw) -> None:
    def serve(connection: socket.socket) -> None:
        if not request_head(connection).startswith("DELETE"):
            connection.sendall(answer("200 OK", b"v49"))

    with pytest.raises(AnswerMissing):
        bench.client(plain_port=raw(serve)).delete_cluster("c")


def test_a_delete_that_takes_too_long_is_left_open(bench: Bench, raw: Raw) -> None:
    def serve(connection: socket.socket) -> None:
        if request_head(connection).startswith("DELETE"):
            time.sleep(_LONG)
        else:
            connection.sendall(answer("200 OK", b"v49"))

    bench.timeouts = replace(bench.timeouts, write=0.3)
    with pytest.raises(AnswerMissing, match="no answer in"):
        bench.client(plain_port=raw(serve)).delete_cluster("c")


def test_a_licence_is_uploaded_unchanged_in_one_part(bench: Bench, server: HTTPServer) -> None:
    content = b"-----BEGIN PGP SIGNED MESSAGE-----\r\nHash: SHA1\r\n\n{}\xff\n"
    got: list[tuple[list[str], bytes]] = []

    def keep(request: Request) -> Response:
        got.append((list(request.files), request.files["license"].read()))
        return Response('{"owner" : "Example", "uuid" : "u"}', content_type="application/json")

    server.expect_request("/api/v49/cm/license", method="POST").respond_with_handler(keep)
    assert bench.client().upload_license(content).owner == "Example"
    assert got == [(["license"], content)]


def test_an_invalid_licence_is_refused_in_the_servers_words(bench: Bench, server: HTTPServer) -> None:
    server.expect_request("/api/v49/cm/license", method="POST").respond_with_json({"message": "Bad licence."}, 400)
    with pytest.raises(WorkFailed, match="Bad licence"):
        bench.client().upload_license(b"x")
    assert len(sent(server, "POST")) == 1


def test_a_closed_server_gets_no_change(bench: Bench) -> None:
    with pytest.raises(CannotReach):
        bench.client(plain_port=closed_port()).delete_cluster("c")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ('{"message" : "Cannot lock the database.", "causes" : [ "a backup" ]}', "says, with 200: Cannot lock"),
        ("{ }", "is JSON of another kind"),
        ('{"status" : "queued"}\n', "is JSON of another kind"),
        ('{"clusters" : 1} }', "is JSON of another kind"),
    ],
)
def test_a_200_to_a_restore_that_is_no_deployment_says_nothing_of_what_became_of_it(
    bench: Bench, server: HTTPServer, answer: str, words: str
) -> None:
    server.expect_request("/api/v49/cm/deployment", method="PUT").respond_with_data(answer)
    told = put(bench)
    with pytest.raises(WorkFailed, match=words):
        told.read()


def test_a_change_that_is_answered_200_with_an_error_is_left_open(bench: Bench, server: HTTPServer) -> None:
    told = {"message": "It broke.", "causes": ["a disk"]}
    place = Place("base")
    for method, path in (("DELETE", ""), ("PUT", "/config"), ("POST", "/commands/stop")):
        server.expect_request(f"/api/v45/clusters/base{path}", method=method).respond_with_json(told)
    client = bench.client()
    for change in (
        lambda: client.delete_cluster("base"),
        lambda: client.configure(place, "x", "1", "so"),
        lambda: client.place_command(place, "stop"),
    ):
        with pytest.raises(AnswerMissing, match=r"no clear one: 200 OK, with an error: It broke\.; a disk"):
            change()
