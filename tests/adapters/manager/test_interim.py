"""Interim answers (1xx) come before the answer, and are none."""

import io
import socket
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from maint.errors import CannotReach
from maint.model.manager import Place
from maint.ports import Body
from tests.adapters.manager.conftest import Bench, answer, request_head

Raw = Callable[[Callable[[socket.socket], None]], int]
INTERIM = [b"HTTP/1.1 102 Processing\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n"]


def server(raw: Raw, interim: bytes, times: int = 1) -> tuple[int, list[str]]:
    arrived: list[str] = []

    def serve(connection: socket.socket) -> None:
        head = request_head(connection)
        arrived.append(" ".join(head.split()[:2]))
        length = next((int(line.split()[1]) for line in head.splitlines() if line.startswith("Content-Length")), 0)
        while length:
            length -= len(connection.recv(length))
        body = (
            b"v49" if "/api/version" in head else b'{"users": [], "items": [], "id": 7, "name": "stop", "active": true}'
        )
        connection.sendall(interim * times + answer("200 OK", body))

    return raw(serve), arrived


@pytest.mark.parametrize("interim", INTERIM)
def test_what_says_that_an_answer_is_to_come_is_not_the_answer(bench: Bench, raw: Raw, interim: bytes) -> None:
    port, arrived = server(raw, interim)
    client = bench.client(plain_port=port)
    assert client.api_version() == 49
    body = Body(io.BytesIO(b"{}").read, 2)
    assert client.put_deployment(body, api=49, delete_current=True, timeout=60).read().startswith(b"{")
    assert client.place_command(Place("c"), "stop").id == 7
    assert [line.split()[0] for line in arrived if not line.startswith("GET")] == ["PUT", "POST"]


def test_answers_that_only_say_that_one_is_to_come_end_with_their_time(bench: Bench, raw: Raw) -> None:
    def serve(connection: socket.socket) -> None:
        if "/api/version" in request_head(connection):
            connection.sendall(answer("200 OK", b"v49"))
            return
        while True:
            connection.sendall(INTERIM[0] * 100)

    bench.timeouts = replace(bench.timeouts, whole=0.3)
    with pytest.raises(CannotReach, match=r"no answer in 0\.3s"):
        bench.client(plain_port=raw(serve)).hosts()
