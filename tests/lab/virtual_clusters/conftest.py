"""A virtual cluster for tests: asked directly, without a network, at a time of our choosing."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from maint.lab.http.messages import Response
from maint.lab.manager.load import default_deployment
from maint.lab.manager.world import World
from maint.lab.switches import Switches
from maint.lab.virtual_clusters import create, tick
from maint.lab.virtual_clusters.api.answer import Admitted, admit, handle
from maint.lab.virtual_clusters.cluster import Cluster, Identity
from maint.lab.virtual_clusters.engine import Engine
from maint.lab.virtual_clusters.gateway import ACCESS, Gateway, TokenSigner, User, Users
from maint.lab.virtual_clusters.messages import Request, printed

BEGIN = datetime(2025, 3, 12, 9, 31, tzinfo=UTC)
PEOPLE = [
    User("etl_user", "secret", ["DEUser"]),
    User("guest", "secret"),
    User("admin", "secret", ["Admin"], local=True),
]


@dataclass
class Answer:
    """What came back."""

    status: int
    content: bytes
    response: Response

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)


@dataclass
class Api:
    """A virtual cluster and whoever asks it."""

    cluster: Cluster
    world: World
    gateway: Gateway
    time: list[datetime] = field(default_factory=lambda: [BEGIN])

    def ask(
        self, method: str, target: str, body: Any = None, *, upload: bytes | None = None, user: str = "etl_user"
    ) -> Answer:
        """Send one request below /dex/api/v1."""
        split = urlsplit("/dex/api/v1" + target)
        token = self.gateway.mint.make(user, ACCESS, self.time[0] + timedelta(hours=1))
        request = Request(
            method, split.path, query=parse_qs(split.query, keep_blank_values=True),
            headers={"authorization": f"Bearer {token}"}, content=b"" if body is None else json.dumps(body).encode(),
        )  # fmt: skip
        admitted = admit(self.cluster, self.gateway, request)
        if isinstance(admitted, Response):
            return Answer(admitted.status, admitted.printed(printed).text or b"", admitted)
        fields = {name: getattr(admitted.request, name) for name in Request.__struct_fields__}
        if upload is not None:
            fields["upload"] = self.cluster.files.stage([upload])
        response = handle(self.cluster, Admitted(Request(**fields), admitted.handler, admitted.uploads))
        if response.stream:
            with response.stream as stream:
                return Answer(response.status, stream.read(), response)
        return Answer(response.status, response.text or b"", response)

    def get(self, target: str, **more: Any) -> Any:
        """Return the JSON of a GET that is answered 200."""
        answer = self.ask("GET", target, **more)
        assert answer.status == 200, answer.content
        return answer.json

    def switch(self, **chosen: str) -> None:
        """Choose behaviours, `vc_…` for `vc-…`."""
        named = {f"vc-{name.replace('_', '-')}": value for name, value in chosen.items()}
        self.world.switches = Switches({**self.world.switches.chosen, **named})

    def strike(self, fault: str, target: str = "") -> None:
        """Set a fault."""
        self.world.faults.add(target, fault)

    def pass_(self, **time: float) -> None:
        """Let time pass."""
        self.time[0] += timedelta(**time)
        tick.settle(self.cluster)

    def resource(self, name: str, files: dict[str, bytes], kind: str = "files") -> None:
        """Make a resource with files."""
        assert self.ask("POST", "/resources", {"name": name, "type": kind, "hidden": False}).status == 201
        for path, content in files.items():
            assert self.ask("PUT", f"/resources/{name}/{path}", upload=content).status == 201

    def spark(self, name: str, **more: Any) -> Answer:
        """Create a spark job."""
        return self.ask("POST", "/jobs", {"name": name, "type": "spark", "spark": {"file": "https://x/y.jar"}, **more})


Make = Callable[..., Api]


@pytest.fixture
def make_api(tmp_path: Path) -> Iterator[Make]:
    """Make virtual clusters; keyword arguments are switches without `vc-` and with `_` for `-`."""
    made: list[tuple[Cluster, Engine | None]] = []

    def make(*, engine: bool = False, loaded: bool = False, **chosen: str) -> Api:
        world = World(default_deployment("7.6.5", random.Random(1)))
        identity = Identity("Default-VC-abc12345", "k7m2q9xz", "abc12345", "apps.example.internal")
        time = [BEGIN]
        clock = (lambda: datetime.now(UTC)) if engine else (lambda: time[0])
        cluster = Cluster(tmp_path / f"vc{len(made)}", identity, world, clock)
        cluster.set_tls(True)
        cluster.set_kerberos("etl_user", "etl_user@EXAMPLE.COM")
        made.append((cluster, Engine(cluster) if engine else None))
        gateway = Gateway(
            TokenSigner(b"key", "lab"), Users(PEOPLE), lambda: world.switches, cluster.strikes, cluster.now,
            "abc12345", "crn:env", "", dict,
        )  # fmt: skip
        api = Api(cluster, world, gateway, [clock()] if engine else time)
        api.switch(**chosen)
        if loaded:
            create.load_example(cluster)
        return api

    yield make
    for cluster, runner in made:
        if runner:
            runner.stop()
        cluster.close()


@pytest.fixture
def api(make_api: Make) -> Api:
    """An empty virtual cluster."""
    return make_api()


@pytest.fixture
def loaded(make_api: Make) -> Api:
    """A virtual cluster with the example set."""
    return make_api(loaded=True)
