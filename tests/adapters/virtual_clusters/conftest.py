"""Virtual clusters that tests script, and clients that talk to them."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from maint.adapters.http.request import Timeouts
from maint.adapters.virtual_clusters.calls import Patience, ServiceCalls
from maint.adapters.virtual_clusters.client import VirtualClusterClient
from maint.config.schema import VirtualClusterSettings
from maint.model.secret import Secret
from maint.ports.virtual_cluster import Content
from maint.steps.virtual_clusters import runs
from tests.adapters.manager.conftest import Patient, authority, ca_file, raw, tls_server
from tests.adapters.virtual_clusters.operator import VcOperator
from tests.adapters.virtual_clusters.server import PASSWORD, Api
from tests.servers import ScriptedServer

__all__ = ["authority", "ca_file", "raw", "tls_server"]  # fixtures that these tests share with those of the manager


class Vault:
    """Secrets by reference: there is one."""

    def resolve(self, reference: str) -> Secret:
        assert reference == "file:password"
        return Secret(PASSWORD)


class Hurried(Patient):
    """Real time, to which pauses are added without waiting for them."""

    def monotonic(self) -> float:
        return super().monotonic() + sum(self.pauses)


@dataclass
class Bench:
    """A virtual cluster, and clients for it."""

    api: Api
    settings: VirtualClusterSettings
    clock: Hurried = field(default_factory=Hurried)
    warnings: list[str] = field(default_factory=list)
    proxy: str | None = None

    def client(self, patience: Patience | None = None, **changes: object) -> VirtualClusterClient:
        settings = self.settings.model_copy(update=changes)
        ways = {"timeouts": Timeouts(connect=60, read=60, write=60), "proxy": self.proxy}
        calls = ServiceCalls(settings, Vault(), self.clock, warn=self.warnings.append, patience=patience, **ways)
        return VirtualClusterClient(calls)


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with ScriptedServer(host="127.0.0.1") as server:
        yield server


@pytest.fixture
def api(server: HTTPServer) -> Api:
    """The state behind the server."""
    made = Api()
    made.serve(server)
    return made


@pytest.fixture
def bench(api: Api, server: HTTPServer) -> Bench:
    """A virtual cluster that answers without TLS."""
    address = f"http://127.0.0.1:{server.port}"
    settings = VirtualClusterSettings(
        name="default-vc",
        base_url=f"{address}/dex/api/v1",
        auth_url=address,
        username="etl_user",
        password="file:password",
    )
    return Bench(api, settings)


@pytest.fixture
def client(bench: Bench) -> VirtualClusterClient:
    """A client for it."""
    return bench.client()


def content(data: bytes) -> Content:
    """Return bytes to upload."""
    return Content(lambda: io.BytesIO(data), len(data))


def spark(name: str, **more: object) -> dict[str, object]:
    """Return a small definition."""
    return {"name": name, "type": "spark", "spark": {"file": "app.py"}, **more}


CONFIG = """\
state: {folder}/state
sites:
  prod:
    manager: {{host: manager.invalid, password: "file:password"}}
    virtual_clusters:
      - name: default-vc
        base_url: {address}/dex/api/v1
        auth_url: {address}
        username: etl_user
        password: file:password
"""


@pytest.fixture
def vc(api: Api, server: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VcOperator:
    """An operator whose config names the virtual cluster; its logs do not come late."""
    monkeypatch.setattr(runs, "_LATE", 1.0)
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "password").write_text(PASSWORD + "\n")
    (folder / "password").chmod(0o600)
    (folder / "config.yaml").write_text(CONFIG.format(folder=folder, address=f"http://127.0.0.1:{server.port}"))
    return VcOperator(api, folder)
