"""Labs for tests: in this process, without SSH, in a folder of their own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.steps.conftest import copy

DATA = Path(__file__).parent.parent / "data" / "recordings"
EXAMPLE = Path(__file__).parents[2] / "maint" / "lab" / "data" / "deployment-example.json"
RESTORE = "/api/v49/cm/deployment?deleteCurrentDeployment=true"


class Client:
    """Talks to a lab as its administrator; never follows redirects, never sends twice."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.account = (lab.status()["manager"]["username"], (lab.folder / "password").read_text())

    @property
    def base(self) -> str:
        """The address that answers now."""
        manager = self.lab.status()["manager"]
        return str(manager["tls"] if self.lab.world.tls else manager["plain"])

    def send(self, method: str, path: str, **more: Any) -> requests.Response:
        """Send one request."""
        more.setdefault("auth", self.account)
        more.setdefault("timeout", 100)
        ca = str(self.lab.folder / "ca/bundle.pem")
        return requests.request(method, self.base + path, allow_redirects=False, verify=ca, **more)

    def get(self, path: str, **more: Any) -> requests.Response:
        """Send one GET."""
        return self.send("GET", path, **more)

    def put_deployment(self, content: bytes, path: str = RESTORE, **more: Any) -> requests.Response:
        """Send one deployment."""
        return self.send("PUT", path, data=content, headers={"Content-Type": "application/json"}, **more)

    def upload_license(self, content: bytes | None = None) -> requests.Response:
        """Send a licence, the lab's own unless told otherwise."""
        content = content or (self.lab.folder / "license.txt").read_bytes()
        return self.send("POST", "/api/v49/cm/license", files={"license": content})

    def log_in_as(self, name: str, password: str) -> "Client":
        """Use another account from now on."""
        self.account = (name, password)
        return self

    def settle(self) -> None:
        """Wait until no command is active."""
        with self.lab.world.lock:
            for command in self.lab.world.commands.values():
                command.seconds = min(command.seconds, 0)


MakeLab = Callable[..., Client]
FAST = {"down-seconds": "0", "starting-seconds": "0", "command-seconds": "0.05"}
# What a lab is laid out by. All other switches are thrown in a copy of one that is laid out without them.
LAID_OUT_BY = {"pwhash-algorithm", "server-instances", "vc-initialised", "vc-appears-seconds", "vc-release"}


@pytest.fixture(scope="session")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> "LayOut":
    """The folder of a lab that never was up, made from these options: one for all tests of this process.

    Its copies have the same ports: those that are up at the same time are of templates with other numbers.
    """
    made: dict[str, Path] = {}

    def lay_out(options: Options, number: int) -> Path:
        folder = made.setdefault(f"{number} {options!r}", tmp_path_factory.mktemp("template") / "lab")
        if not folder.exists():
            Lab(folder, options).stop()
        return folder

    return lay_out


LayOut = Callable[[Options, int], Path]


def bring_up(laid_out: LayOut, folder: Path, number: int, options: Options | None = None, **switches: str) -> Lab:
    """Bring up a copy of the lab that was laid out for a number; keyword arguments are switches with `_` for `-`."""
    given = options or Options()
    chosen = {**{name.replace("_", "-"): value for name, value in switches.items()}, **given.switches}
    fields = {name: getattr(given, name) for name in given.__struct_fields__}
    first = {name: value for name, value in chosen.items() if name in LAID_OUT_BY}
    lab = Lab(copy(laid_out(Options(**{**fields, "switches": {**FAST, **first}, "ssh": False}), number), folder))
    for name, value in chosen.items():
        lab.switch(name, value)
    lab.start()
    return lab


@pytest.fixture
def make_lab(tmp_path: Path, laid_out: LayOut) -> Iterator[MakeLab]:
    """Bring labs up; they go down with the test. Keyword arguments are switches with `_` for `-`."""
    labs: list[Lab] = []

    def make(options: Options | None = None, **switches: str) -> Client:
        labs.append(bring_up(laid_out, tmp_path / f"lab{len(labs)}", len(labs), options, **switches))
        return Client(labs[-1])

    yield make
    for lab in labs:
        lab.stop()


@pytest.fixture(scope="module")
def standing_labs(tmp_path_factory: pytest.TempPathFactory, laid_out: LayOut) -> Iterator[Callable[[Options], Lab]]:
    """Labs that the tests of a module only look at, each up from when it is first asked for, unredacted."""
    up: dict[str, Lab] = {}

    def one(options: Options) -> Lab:
        if repr(options) not in up:
            folder = tmp_path_factory.mktemp("standing") / "lab"
            up[repr(options)] = bring_up(laid_out, folder, -1, options, redaction_default="off")
        return up[repr(options)]

    yield one
    for lab in up.values():
        lab.stop()


@pytest.fixture
def standing(standing_labs: Callable[[Options], Lab]) -> Client:
    """A manager loaded with the example, over TLS, which the tests of a module do not change."""
    return Client(standing_labs(Options()))


@pytest.fixture
def installed(standing_labs: Callable[[Options], Lab]) -> Client:
    """A manager just installed on the example's hosts, licensed, which the tests of a module do not change."""
    client = Client(standing_labs(Options(deployment=EXAMPLE, fresh=True)))
    assert client.upload_license().status_code == 200
    return client


@contextmanager
def switched(client: Client, **switches: str) -> Iterator[Client]:
    """Throw switches of a lab that others look at, too, and take that back; `_` stands for `-`."""
    lab = client.lab
    before = {name.replace("_", "-"): lab.world.switches[name.replace("_", "-")] for name in switches}
    for name, value in zip(before, switches.values(), strict=True):
        lab.switch(name, value)
    try:
        yield client
    finally:
        for name, value in before.items():
            lab.switch(name, value)


@pytest.fixture
def example() -> bytes:
    """The example deployment."""
    return EXAMPLE.read_bytes()


@pytest.fixture
def loaded(make_lab: MakeLab) -> Client:
    """A manager loaded with the example, unredacted, over TLS."""
    return make_lab(redaction_default="off")


@pytest.fixture
def fresh(make_lab: MakeLab) -> Client:
    """A manager just installed on the example's hosts, licensed."""
    client = make_lab(Options(deployment=EXAMPLE, fresh=True), redaction_default="off")
    assert client.upload_license().status_code == 200
    return client
