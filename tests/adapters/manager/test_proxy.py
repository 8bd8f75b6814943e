"""A manager behind an HTTP proxy: each connection is a tunnel, and what the proxy does wrong is told as its own."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
import trustme
from msgspec.structs import replace
from pytest_httpserver import HTTPServer

from maint.errors import CannotReach
from maint.model.manager import Door
from tests.adapters.manager.conftest import PASSWORD, Bench
from tests.ports import closed_port
from tests.servers import ConnectProxy

FAR = "cm.behind.invalid"  # only the proxy finds it


@pytest.fixture
def proxy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectProxy]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with closing(ConnectProxy()) as found:
        bench.proxy = found.url
        yield found


def test_every_connection_to_a_manager_goes_through_the_proxy(
    bench: Bench,
    proxy: ConnectProxy,
    tls_server: Callable[[trustme.LeafCert], HTTPServer],
    authority: trustme.CA,
    ca_file: object,
) -> None:
    """Probe, login and the look at the certificate: the host has no address here."""
    tls = tls_server(authority.issue_cert(FAR))
    tls.expect_request("/api/version").respond_with_data("v49")
    client = bench.client(host=FAR, tls_port=tls.port, ca=ca_file)
    assert client.api_version() == 49
    assert client.presence().door is Door.TLS
    assert client.certificate_end() is not None
    assert {f"{FAR}:{tls.port}", f"{FAR}:{bench.settings.plain_port}"} == set(proxy.led)
    assert not any(b"uthorization" in head for head in proxy.heads)
    assert any("Authorization" in request.headers for request, _ in tls.log)


def test_a_port_without_tls_is_reached_in_a_tunnel_too(bench: Bench, proxy: ConnectProxy, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")
    assert bench.client(host=FAR).api_version() == 49
    assert {request.host for request, _ in plain.log} == {f"{FAR}:{plain.port}"}
    assert proxy.led.count(f"{FAR}:{bench.settings.tls_port}") == 1  # by a second look a server that starts may be up


def test_what_no_proxy_names_is_reached_without_it(
    bench: Bench, proxy: ConnectProxy, plain: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")
    monkeypatch.setenv("no_proxy", "elsewhere.invalid,127.0.0.0/8")
    assert bench.client().api_version() == 49
    assert proxy.led == []


def test_a_certificate_that_is_not_trusted_behind_a_proxy_is_shown(
    bench: Bench,
    proxy: ConnectProxy,
    tls_server: Callable[[trustme.LeafCert], HTTPServer],
    authority: trustme.CA,
    ca_file: object,
) -> None:
    tls = tls_server(authority.issue_cert("other.behind.invalid"))
    with pytest.raises(CannotReach) as failure:
        bench.client(host=FAR, tls_port=tls.port, ca=ca_file).log_in()
    told = "; ".join(failure.value.detail)
    assert "for: other.behind.invalid" in told
    assert f"through the proxy {proxy.url.removeprefix('http://')}" in told
    assert not any("Authorization" in request.headers for request, _ in tls.log)


@pytest.mark.parametrize(
    ("says", "words", "hint"),
    [
        (None, "refused the connection", "is it up"),
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answered 407", "cannot hold a login"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "answered 403 Forbidden", "must be allowed"),
        (b"", "closed the connection", "is it up"),
        (b"SSH-2.0-none\r\n", "does not speak HTTP", "is it up"),
    ],
)
def test_what_a_proxy_does_wrong_is_told_as_its_own(
    bench: Bench, proxy: ConnectProxy, plain: HTTPServer, says: bytes | None, words: str, hint: str
) -> None:
    with closing(ConnectProxy(says)) as wrong:
        bench.proxy = wrong.url if says is not None else f"http://127.0.0.1:{closed_port()}"
        with pytest.raises(CannotReach) as failure:
            bench.client(host=FAR).log_in()
    assert failure.value.exit_code == 4
    told = "; ".join(failure.value.detail)
    assert f"the proxy {bench.proxy.removeprefix('http://')} " in told
    assert words in told
    assert hint in str(failure.value.hint)
    assert plain.log == []


def test_a_silent_proxy_is_given_up(bench: Bench, proxy: ConnectProxy, raw: Callable[..., int]) -> None:
    bench.proxy = f"http://127.0.0.1:{raw(lambda connection: connection.recv(1) and connection.recv(1 << 20, 0x100))}"
    bench.timeouts = replace(bench.timeouts, connect=0.2)
    with pytest.raises(CannotReach) as failure:
        bench.client(host=FAR).log_in()
    assert any("gave no answer in" in line for line in failure.value.detail)


def test_a_proxy_whose_answer_drips_is_given_up(bench: Bench, proxy: ConnectProxy, raw: Callable[..., int]) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        for _ in range(400):
            connection.sendall(b"x")
            time.sleep(0.05)

    bench.proxy = f"http://127.0.0.1:{raw(drip)}"
    bench.timeouts = replace(bench.timeouts, connect=0.5)
    with pytest.raises(CannotReach) as failure:
        bench.client(host=FAR).log_in()
    assert any("gave no answer in" in line for line in failure.value.detail)


def test_a_proxy_that_keeps_us_from_the_tls_port_sends_no_password_in_clear(
    bench: Bench, proxy: ConnectProxy, plain: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")
    lead = ConnectProxy._serve

    def only_plain(self: ConnectProxy, near: object) -> None:
        self._says = None if not self.led else b"HTTP/1.1 403 Forbidden\r\n\r\n"
        lead(self, near)

    monkeypatch.setattr(ConnectProxy, "_serve", only_plain)
    with pytest.raises(CannotReach, match="no port of"):
        bench.client(host=FAR).log_in()
    assert len(plain.log) == 1
    assert "Authorization" not in plain.log[0][0].headers
    assert PASSWORD not in "".join(bench.warnings)


def test_what_is_cut_in_a_tunnel_names_the_proxy_it_went_through(bench: Bench, proxy: ConnectProxy) -> None:
    with closing(ConnectProxy(b"HTTP/1.1 200 Connection established\r\n\r\n")) as cutting:
        bench.proxy = cutting.url
        with pytest.raises(CannotReach) as failure:
            bench.client(host=FAR).log_in()
    told = [
        line for line in failure.value.detail if f", through the proxy {cutting.url.removeprefix('http://')}" in line
    ]
    assert len(told) == 2  # both ports
    assert "a proxy may do it" in str(failure.value.hint)
