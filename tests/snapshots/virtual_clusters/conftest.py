"""A site with a scripted manager and a scripted virtual cluster; stores, seals and signatures are real."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer

from maint.adapters.http.request import Timeouts
from maint.adapters.undo_store import SealedUndo
from maint.adapters.virtual_clusters.calls import Patience, ServiceCalls
from maint.adapters.virtual_clusters.client import VirtualClusterClient
from maint.config.schema import VirtualClusterSettings, VirtualClusterUser
from maint.model.json import Json
from maint.model.secret import Secret
from maint.model.snapshot import Snapshot
from maint.snapshots.catalogue import entries
from tests.adapters.virtual_clusters.conftest import Hurried
from tests.adapters.virtual_clusters.server import PASSWORD, Api
from tests.servers import ScriptedServer
from tests.snapshots.conftest import EXAMPLE, Place, run

__all__ = ["run"]
JOBS = Path(__file__).parents[3] / "maint" / "lab" / "data" / "jobs-example.json"
VC = "default-vc"


class Vault:
    """Secrets as the site's, and the user's password."""

    def resolve(self, reference: str) -> Secret:
        return Secret(PASSWORD)


class Signed(Api):
    """An API that also signs resources, as the real one does (contract section 5.3)."""

    def _listed(self, key: str, items: list[dict[str, Any]], query: Any) -> Any:
        if key == "resources":
            items = [self._resource(item["name"], with_files=False) for item in items]
        return super()._listed(key, items, query)

    def _resource(self, name: str, *, with_files: bool) -> dict[str, Any]:
        files = sorted(self.files.get(name, {}).items(), key=lambda pair: pair[0].encode())
        joined = "".join(hashlib.sha1(content).hexdigest() for _, content in files)
        signed = {"signature": hashlib.sha1(joined.encode()).hexdigest()} if files else {}
        return {**super()._resource(name, with_files=with_files), **signed}


class Ground(Place):
    """A place with virtual clusters."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, EXAMPLE.read_bytes())
        self.clients: dict[str, VirtualClusterClient] = {}
        self.undo = SealedUndo(self.state, self.seal)

    def add(self, address: str, name: str = VC, **more: Any) -> VirtualClusterClient:
        users = (VirtualClusterUser(name="etl_user", principal="etl_user@EXAMPLE.COM", keytab="file:keytab"),)
        settings = VirtualClusterSettings(
            name=name,
            base_url=f"{address}/dex/api/v1",
            auth_url=address,
            username="etl_user",
            password="file:p",
            users=users,
            **more,
        )
        known = [one for one in self.settings.virtual_clusters if one.name != name]
        self.settings = self.settings.model_copy(update={"virtual_clusters": (*known, settings)})
        limits = Timeouts(connect=60, read=60, write=60)
        client = VirtualClusterClient(
            ServiceCalls(settings, Vault(), Hurried(), warn=print, timeouts=limits, patience=Patience(attempts=1))
        )
        self.clients[name] = client
        return client

    def virtual_cluster(self, name: str) -> VirtualClusterClient:
        return self.clients[self.settings.virtual_cluster(name).name]


def fill(api: Api) -> None:
    """Load the example set of the contract."""
    example = json.loads(JOBS.read_text())
    for raw in example["resources"]:
        files = example["resourceFiles"][raw["name"]]
        bare = {key: value for key, value in raw.items() if key != "signature"}
        api.resources[raw["name"]] = bare
        api.files[raw["name"]] = {file["path"]: base64.b64decode(file["contentBase64"]) for file in files}
    api.jobs.update({raw["name"]: raw for raw in example["jobs"]})


@pytest.fixture(scope="module")
def server() -> Iterator[HTTPServer]:
    """One for all tests of a file: each scripts it anew."""
    with ScriptedServer(host="127.0.0.1", threaded=True) as server:
        yield server


@pytest.fixture
def api(server: HTTPServer) -> Api:
    """A virtual cluster with the example set."""
    return example(server)


def example(server: HTTPServer) -> Signed:
    """Let a server be a virtual cluster with the example set, and nothing else any more."""
    made = Signed()
    fill(made)
    server.clear()  # type: ignore[no-untyped-call]
    made.serve(server)
    return made


def captured(server: HTTPServer, folder: Path, work: Callable[[Ground], Iterator[str]]) -> tuple[Ground, Snapshot]:
    """Return a site whose virtual cluster held the example set when a snapshot was taken of it, and that snapshot."""
    example(server)
    ground = Ground(folder)
    with closing(ground.add(f"http://127.0.0.1:{server.port}")):
        for _ in work(ground):
            pass
    (found,) = entries(ground)
    assert found.snapshot
    return ground, found.snapshot


@pytest.fixture
def ground(tmp_path: Path, api: Api, server: HTTPServer) -> Iterator[Ground]:
    """A site whose virtual cluster holds the example set."""
    ground = Ground(tmp_path)
    ground.add(f"http://127.0.0.1:{server.port}")
    yield ground
    for client in ground.clients.values():
        client.close()


class Notes:
    """The work of one action, kept over its lives."""

    def __init__(self) -> None:
        self.notes: dict[str, Json] = {}
        self.run, self.resumed, self.timeout = "run-1", False, None

    def note(self, key: str, value: Json) -> None:
        self.notes[key] = value

    def noted(self, key: str) -> Json:
        return self.notes.get(key)


@pytest.fixture
def work() -> Notes:
    return Notes()


def hide_from_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lists leave out what is hidden."""
    plain = Api._listed

    def hiding(self: Api, key: str, items: list[dict[str, Any]], query: Any) -> Any:
        return plain(self, key, [one for one in items if not one.get("hidden")], query)

    monkeypatch.setattr(Api, "_listed", hiding)


def lie_about(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let the API answer with other bytes where a file of that path is fetched."""
    plain = Api._file

    def lying(self: Api, method: str, resource: str, path: str, body: Any) -> Any:
        answer = plain(self, method, resource, path, body)
        if path == name and method == "GET":
            answer.set_data(b"other bytes")
        return answer

    monkeypatch.setattr(Api, "_file", lying)
