"""Labs for tests: in this process, without SSH, in a folder of their own."""

from collections.abc import Callable, Iterator
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


@pytest.fixture(scope="session")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Options], Path]:
    """The folder of a lab that never was up, made from these options: one for all tests of this process."""
    made: dict[str, Path] = {}

    def lay_out(options: Options) -> Path:
        folder = made.setdefault(repr(options), tmp_path_factory.mktemp("template") / "lab")
        if not folder.exists():
            Lab(folder, options).stop()
        return folder

    return lay_out


@pytest.fixture
def make_lab(tmp_path: Path, laid_out: Callable[[Options], Path]) -> Iterator[MakeLab]:
    """Bring labs up; they go down with the test. Keyword arguments are switches with `_` for `-`."""
    labs: list[Lab] = []

    def make(options: Options | None = None, **switches: str) -> Client:
        chosen = {**FAST, **{name.replace("_", "-"): value for name, value in switches.items()}}
        given = options or Options()
        fields = {name: getattr(given, name) for name in given.__struct_fields__}
        fields |= {"switches": {**chosen, **given.switches}, "ssh": False}
        lab = Lab(copy(laid_out(Options(**fields)), tmp_path / f"lab{len(labs)}"))
        lab.start()
        labs.append(lab)
        return Client(lab)

    yield make
    for lab in labs:
        lab.stop()


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
