import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from msgspec.structs import replace
from pytest_httpserver import HTTPServer

from maint.adapters.http.request import HttpCall, Timeouts
from maint.adapters.http.transport import Peer, Transport, Untrusted
from maint.errors import CannotReach, NotTrusted, Transient
from maint.model.manager import Door
from tests.adapters.manager.conftest import PASSWORD, Bench
from tests.ports import closed_port

Start = Callable[[trustme.LeafCert], HTTPServer]


@pytest.mark.parametrize("status", [200, 401, 403, 404])
def test_a_plain_port_that_answers_itself_serves(bench: Bench, plain: HTTPServer, status: int) -> None:
    plain.expect_request("/api/version").respond_with_data("", status=status)
    found = bench.client().presence()
    assert (found.door, found.plain, found.tls) == (Door.PLAIN, f"answers {status}", "refused")


def test_nobody_at_home_is_told_without_raising(bench: Bench) -> None:
    found = bench.client(plain_port=closed_port()).presence()
    assert (found.door, found.plain, found.tls) == (Door.CLOSED, "refused", "refused")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_plain_port_that_redirects_means_tls(secure: Bench, plain: HTTPServer, tls: HTTPServer, status: int) -> None:
    plain.expect_request("/api/version").respond_with_data("", status=status, headers={"Location": tls.url_for("/")})
    tls.expect_request("/api/version").respond_with_data("v49")
    client = secure.client()
    assert client.presence().door is Door.TLS
    assert client.api_version() == 49
    assert all("Authorization" not in request.headers for request, _ in plain.log)


def test_a_redirect_to_a_closed_port_serves_nobody(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("", status=302)
    with pytest.raises(CannotReach, match="no port of") as failure:
        bench.client().log_in()
    assert any("redirects (302)" in line for line in failure.value.detail)
    assert "is the manager up" not in str(failure.value.hint)  # it is
    assert "correct manager.tls_port, or let port " in str(failure.value.hint)
    assert all("Authorization" not in request.headers for request, _ in plain.log)


def test_a_listening_tls_port_is_never_bypassed(bench: Bench, plain: HTTPServer, tls: HTTPServer) -> None:
    """The chain is not trusted here, and the plain port would answer."""
    plain.expect_request("/api/version").respond_with_data("v49")
    tls.expect_request("/api/version").respond_with_data("v49")
    with pytest.raises(CannotReach):
        bench.client(tls_port=tls.port).log_in()
    assert all("Authorization" not in request.headers for server in (plain, tls) for request, _ in server.log)


def _refused(bench: Bench, server: HTTPServer, **changes: object) -> CannotReach:
    server.expect_request("/api/version").respond_with_data("v49")
    client = bench.client(tls_port=server.port, plain_port=closed_port(), **changes)
    with pytest.raises(NotTrusted) as failure:
        client.log_in()
    assert not server.log
    return failure.value


def test_a_chain_of_another_authority_is_refused_and_shown(bench: Bench, tls_server: Start, ca_file: Path) -> None:
    server = tls_server(trustme.CA(organization_name="Strangers").issue_cert("127.0.0.1"))
    told = "\n".join(_refused(bench, server, ca=ca_file).detail)
    assert "has issued it" in told or "not believed" in told
    assert f"trusted: {ca_file}" in told
    assert "organizationName=Strangers" in told
    assert "for: 127.0.0.1" in told


def test_an_expired_certificate_is_called_expired(
    bench: Bench, tls_server: Start, authority: trustme.CA, ca_file: Path
) -> None:
    past = datetime.now(UTC) - timedelta(days=2)
    server = tls_server(authority.issue_cert("127.0.0.1", not_after=past))
    told = "\n".join(_refused(bench, server, ca=ca_file).detail)
    assert "has expired" in told
    assert f"{past:%Y} GMT" in told


def test_a_certificate_for_another_name_is_told_apart(
    bench: Bench, tls_server: Start, authority: trustme.CA, ca_file: Path
) -> None:
    server = tls_server(authority.issue_cert("other.example.internal"))
    told = "\n".join(_refused(bench, server, ca=ca_file, host="localhost").detail)
    assert "another host name than localhost" in told
    assert "for: other.example.internal" in told


def test_an_intermediate_in_the_ca_file_is_enough(
    bench: Bench, tls_server: Start, authority: trustme.CA, tmp_path: Path
) -> None:
    middle = authority.create_child_ca()
    server = tls_server(middle.issue_cert("127.0.0.1"))
    server.expect_request("/api/version").respond_with_data("v49")
    (tmp_path / "middle.pem").write_bytes(middle.cert_pem.bytes())
    client = bench.client(tls_port=server.port, plain_port=closed_port(), ca=tmp_path / "middle.pem")
    assert client.api_version() == 49


def test_a_ca_file_that_is_missing_matters_only_once_tls_is_on(bench: Bench, plain: HTTPServer, tmp_path: Path) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")
    assert bench.client(ca=tmp_path / "not-yet.pem", allow_plain=True).api_version() == 49


def test_a_ca_file_that_is_no_pem_is_named(bench: Bench, tls: HTTPServer, tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    found = bench.client(tls_port=tls.port, ca=tmp_path / "bad.pem").presence()
    assert found.door is Door.TLS
    assert "bad.pem" in (found.chain or "")


def test_a_tls_port_that_never_answers_is_an_end_not_a_wait(bench: Bench, raw: Callable[..., int]) -> None:
    bench.timeouts = replace(bench.timeouts, connect=0.3)
    with pytest.raises(CannotReach) as failure:
        bench.client(tls_port=raw(lambda _: time.sleep(100)), plain_port=closed_port()).log_in()
    assert any("no answer in" in line for line in failure.value.detail)
    assert not isinstance(failure.value, NotTrusted)


def test_a_tls_port_that_does_not_speak_tls_is_told(bench: Bench, raw: Callable[..., int]) -> None:
    port = raw(lambda connection: connection.sendall(b"220 mail.example.internal ESMTP\r\n"))
    found = bench.client(tls_port=port, plain_port=closed_port()).presence()
    assert (found.door, found.silent, found.chain) == (Door.TLS, True, None)
    assert "does not speak TLS" in found.tls


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_tls_port_that_asks_for_a_certificate_of_ours_is_told(
    bench: Bench, raw: Callable[..., int], authority: trustme.CA, ca_file: Path, version: ssl.TLSVersion
) -> None:
    demanding = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(demanding)
    authority.configure_trust(demanding)
    demanding.verify_mode, demanding.maximum_version = ssl.CERT_REQUIRED, version

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            demanding.wrap_socket(connection, server_side=True).recv(4096)

    found = bench.client(tls_port=raw(serve), plain_port=closed_port(), ca=ca_file).presence()
    assert (found.door, found.chain, "site status" in str(found.remedy)) == (Door.TLS, None, False), found
    assert "certificate" in f"{found.tls} {found.remedy}", found


def test_a_plain_port_that_answers_garbage_serves_nobody(bench: Bench, raw: Callable[..., int]) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")

    found = bench.client(plain_port=raw(serve)).presence()
    assert found.door is Door.CLOSED
    assert "not HTTP" in found.plain


def test_a_starting_manager_gets_no_credentials(bench: Bench, plain: HTTPServer) -> None:
    page = "<html><body>Starting</body></html>"
    plain.expect_request("/api/version").respond_with_data(page, status=503, content_type="text/html")
    client = bench.client()
    with pytest.raises(Transient):
        client.log_in()
    assert all("Authorization" not in request.headers for request, _ in plain.log)
    plain.clear()
    plain.expect_request("/api/version").respond_with_data("v49")
    assert client.api_version() == 49


def test_a_manager_that_is_up_is_knocked_at_once(bench: Bench, plain: HTTPServer) -> None:
    plain.expect_request("/api/version").respond_with_data("v49")
    client = bench.client()
    for _ in range(3):
        client.api_version()
    assert sum("Authorization" not in request.headers for request, _ in plain.log) == 1
    client.forget_login()
    client.api_version()
    assert sum("Authorization" not in request.headers for request, _ in plain.log) == 2


def test_insecure_warns_for_every_connection(bench: Bench, tls: HTTPServer) -> None:
    tls.expect_request("/api/version").respond_with_data("v49")
    bench.settings = bench.settings.unverified()
    client = bench.client(tls_port=tls.port, plain_port=closed_port())
    client.log_in()
    client.api_version()
    assert len(bench.warnings) == len(tls.log) == 3
    assert all("not verified" in words for words in bench.warnings)
    assert PASSWORD not in "".join(bench.warnings)


def test_proxies_and_netrc_of_the_environment_are_not_used(
    bench: Bench, plain: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login thief password thief\n")
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    plain.expect_request("/api/version").respond_with_data("v49")
    assert bench.client().api_version() == 49
    assert "Authorization" not in plain.log[0][0].headers


def test_public_authorities_are_not_added_to_the_configured_ca(secure: Bench) -> None:
    from maint.adapters.http import tls

    context = tls.context(secure.settings.ca, insecure=False, hint="")
    assert context.cert_store_stats()["x509"] == 1
    assert context.verify_mode is ssl.CERT_REQUIRED


def test_authorities_that_were_replaced_are_believed_from_the_next_request_on(
    secure: Bench, tls: HTTPServer, ca_file: Path, authority: trustme.CA
) -> None:
    tls.expect_request("/api/version").respond_with_data("v49")
    client = secure.client()
    trustme.CA().cert_pem.write_to_path(str(ca_file))
    with pytest.raises(CannotReach, match="cannot be used"):
        client.api_version()
    authority.cert_pem.write_to_path(str(ca_file))
    assert client.api_version() == 49


def test_reads_that_follow_each_other_believe_what_the_file_of_authorities_says_at_each_connecting(
    tls: HTTPServer, ca_file: Path, authority: trustme.CA
) -> None:
    tls.expect_request("/up").respond_with_data("yes")  # each answer ends its connection
    transport = Transport(Peer(ca=ca_file), Timeouts(), print)

    def read() -> bytes:
        return transport.stream(HttpCall("GET", tls.url_for("/up"), read=5.0), among_reads=True).content

    assert read() == b"yes"
    trustme.CA().cert_pem.write_to_path(str(ca_file))
    with pytest.raises(Untrusted):
        read()
    authority.cert_pem.write_to_path(str(ca_file))
    assert read() == b"yes"
    transport.close()
