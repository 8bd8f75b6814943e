"""A virtual cluster behind an HTTP proxy."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trustme
from pytest_httpserver import HTTPServer

from tests.adapters.virtual_clusters.conftest import Bench
from tests.adapters.virtual_clusters.server import Api
from tests.servers import ConnectProxy


def test_every_connection_to_a_virtual_cluster_goes_through_the_proxy(
    api: Api,
    bench: Bench,
    tls_server: Callable[[trustme.LeafCert], HTTPServer],
    authority: trustme.CA,
    ca_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Token, jobs, the look whether it answers and the look at its certificates: its names have no address here."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    server = tls_server(authority.issue_cert("vc.behind.invalid", "gateway.behind.invalid"))
    api.serve(server)
    base, gateway = (
        f"https://vc.behind.invalid:{server.port}/dex/api/v1",
        f"https://gateway.behind.invalid:{server.port}",
    )
    with closing(ConnectProxy()) as proxy:
        bench.proxy = proxy.url
        with closing(bench.client(base_url=base, auth_url=gateway, ca=ca_file)) as client:
            assert client.info()
            assert {one.split(":")[0] for one in proxy.led} == {"vc.behind.invalid", "gateway.behind.invalid"}
            assert client.answers(base)
            assert set(client.certificates()) == {"vc.behind.invalid", "gateway.behind.invalid"}
            assert len(proxy.led) == 5
