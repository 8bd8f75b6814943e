"""Trust: the CA file, names that do not resolve, and the one way to switch verification off."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from pytest_httpserver import HTTPServer

from maint.errors import CannotReach, Invalid
from tests.adapters.virtual_clusters.conftest import Bench
from tests.adapters.virtual_clusters.server import Api

HOST, GATEWAY = "k7m2q9xz.cde-abc12345.apps.invalid", "service.cde-abc12345.apps.invalid"
Settings = dict[str, object]


@pytest.fixture
def named(api: Api, tls_server: Callable[[trustme.LeafCert], HTTPServer], authority: trustme.CA) -> Settings:
    """Settings for a virtual cluster whose names do not resolve, and which answers behind one address."""
    server = tls_server(authority.issue_cert(HOST, GATEWAY))
    api.serve(server)
    return {
        "base_url": f"https://{HOST}/dex/api/v1",
        "auth_url": f"https://{GATEWAY}",
        "connect_to": f"127.0.0.1:{server.port}",
    }


def test_names_that_do_not_resolve_are_reached_where_connect_to_says(
    bench: Bench, named: Settings, ca_file: Path
) -> None:
    assert bench.client(ca=ca_file, **named).info()["appName"] == "Default-VC-abc12345"
    assert {headers["Host"] for headers in bench.api.headers} == {HOST, GATEWAY}


def test_the_name_is_still_verified(bench: Bench, named: Settings, ca_file: Path) -> None:
    with pytest.raises(CannotReach, match="another host name"):
        bench.client(ca=ca_file, **{**named, "auth_url": "https://other.apps.invalid"}).info()
    assert bench.api.tokens == 0


def test_an_unknown_authority_is_not_trusted_and_the_way_out_is_told(bench: Bench, named: Settings) -> None:
    with pytest.raises(CannotReach) as failure:
        bench.client(**named).info()
    assert "cannot be trusted" in failure.value.message
    assert "init-virtual-cluster" in str(failure.value.hint)
    assert bench.api.headers == []


def test_verification_is_off_only_where_the_settings_say_so_and_each_client_warns(
    bench: Bench, named: Settings
) -> None:
    bench.settings = bench.settings.unverified()
    for number in (1, 2):
        assert bench.client(**named).info()
        assert len(bench.warnings) == number
    assert HOST in bench.warnings[0]


def test_a_ca_file_that_is_none_is_invalid(bench: Bench, named: Settings, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(Invalid, match="CA file"):
        bench.client(ca=tmp_path / "none.pem", **named).info()


def test_a_named_pipe_in_the_place_of_a_ca_file_is_invalid_and_nobody_is_waited_for(
    bench: Bench, named: Settings, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe.pem")
    with pytest.raises(Invalid, match="CA file") as caught:
        bench.client(ca=tmp_path / "pipe.pem", **named).info()
    assert "a pipe" in f"{caught.value.message} {caught.value.detail}"


def test_a_name_that_does_not_resolve_is_told_at_once(bench: Bench) -> None:
    with pytest.raises(CannotReach, match="not known") as caught:
        bench.client(auth_url=f"https://{GATEWAY}").info()
    assert "connect_to" in (caught.value.hint or "")
    assert bench.clock.pauses == []


def test_a_host_that_has_answered_is_asked_again_when_it_restarts(bench: Bench, server: HTTPServer) -> None:
    client = bench.client()
    client.info()
    port = server.port
    server.stop()

    def back(seconds: float) -> None:
        bench.clock.pauses.append(seconds)
        if not server.is_running():
            server.port = port
            server.start()

    bench.clock.sleep = back  # type: ignore[method-assign]  # the server comes back while we wait
    assert client.info()["appName"] == "Default-VC-abc12345"
    assert bench.clock.pauses == [1.0]
