"""Recorded and invented deployments, and ways to spoil them."""

import json
import os
import re
import shlex
import shutil
import tarfile
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.seal import AgeSeal
from maint.adapters.sign import load_or_make_signer
from maint.adapters.stores.local import LocalStore
from maint.config.schema import BackupSettings, ManagerSettings, SiteSettings, SshSettings
from maint.errors import CannotReach, Invalid
from maint.model.manager import Account, Door, Presence
from maint.model.secret import Secret
from maint.ports import Ran
from maint.ports.hosts import MISSING

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "maint" / "lab" / "data" / "deployment-example.json"
DEPLOYMENTS = [*sorted((ROOT / "tests" / "data" / "recordings").glob("deployment-*.json")), EXAMPLE]

# Passwords of `admin` in the recordings, by the number of the recording.
PASSWORDS = {
    "01": "alder-Admin1", "02": "alder-Admin1", "03": "birch-Admin2", "04": "cedar-Admin3", "05": "walnut-Admin4",
    "06": "walnut-Admin4", "07": "sumac-Admin5", "08": "fern-Admin6", "09": "gorse-Admin7", "10": "hazel-Admin8",
    "11": "iris-Admin9", "12": "juniper-Admin10", "13": "kale-Admin11", "14": "tansy-Admin12", "15": "maple-Admin13",
    "16": "nettle-Admin14", "17": "poplar-Admin16", "18": "holly-Admin17", "19": "sage-Admin18", "20": "thyme-Admin19",
    "21": "willow-Admin20", "example": "admin",
}  # fmt: skip


def number(path: Path) -> str:
    """Return what tells a deployment from the others: `01` … `21` or `example`."""
    found = re.match(r"deployment-(\d+|example)", path.name)
    assert found
    return found.group(1)


@pytest.fixture(params=DEPLOYMENTS, ids=number)
def deployment(request: pytest.FixtureRequest) -> Path:
    """Each deployment in turn."""
    path: Path = request.param
    return path


@pytest.fixture
def recording() -> Callable[[str], Path]:
    """Find one deployment by its number."""
    return lambda wanted: next(path for path in DEPLOYMENTS if number(path) == wanted)


@pytest.fixture
def password_of() -> Callable[[Path], str]:
    """Return what `admin` logs in with."""
    return lambda path: PASSWORDS[number(path)]


def _each(value: Any, spoil: Callable[[dict[str, Any]], None]) -> None:
    if isinstance(value, dict):
        spoil(value)
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _each(child, spoil)


@pytest.fixture
def spoiled() -> Callable[[Path, Callable[[dict[str, Any]], None]], bytes]:
    """Return a document's bytes after a function was applied to every object in it."""

    def spoil(path: Path, change: Callable[[dict[str, Any]], None]) -> bytes:
        document = json.loads(path.read_bytes())
        _each(document, change)
        return json.dumps(document, indent=2, separators=(",", " : ")).encode()

    return spoil


class Clock:
    """A clock that stands still until told otherwise."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 21, 2, 15, 0, 123000, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def limit(self, seconds: float | None, of: float | None = None) -> AbstractContextManager[None]:
        return nullcontext()


class Secrets:
    """Resolves `text:VALUE`."""

    def resolve(self, reference: str) -> Secret:
        kind, _, value = reference.partition(":")
        if kind != "text":
            raise Invalid(f"cannot resolve {reference}")
        return Secret(value)


class Export(BytesIO):
    """A deployment as it is sent."""

    length: int | None = None


class Manager:
    """As much of a manager as a backup asks for; its answers can be cut."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.release_text = json.loads(content)["versionInfo"]["version"]
        self.cut_at: int | None = None
        self.calls: list[str] = []
        self.truststore: Secret | None = None

    def presence(self) -> Presence:
        return Presence(Door.CLOSED, "refused", "refused")

    def truststore_password(self) -> Secret | None:
        return self.truststore

    def log_in(self) -> Account:
        return Account("admin", bootstrap=False)

    def require_api(self, pinned: int) -> str:
        return f"v{pinned}"

    def api_version(self) -> int:
        return 49

    def release(self) -> str:
        return str(self.release_text)

    @contextmanager
    def deployment(self, *, redacted: bool = False) -> Iterator[BytesIO]:
        self.calls.append("redacted" if redacted else "export")
        answer = Export(self.content if self.cut_at is None else self.content[: self.cut_at])
        answer.length = len(self.content)
        if self.cut_at is not None:
            whole, read = answer, answer.read

            def cut(size: int | None = -1, /) -> bytes:
                if block := read(size):
                    return block
                raise CannotReach("the connection was cut")

            whole.read = cut  # type: ignore[method-assign]
        yield answer


class Shell:
    """The manager host as a mapping of files; None is a host that does not answer."""

    def __init__(self, present: dict[str, bytes] | None) -> None:
        self.present = present
        self.cut_at: int | None = None
        self.dump = b""  # what a dump of the database prints
        self.closed: tuple[str, ...] = ()  # what lies in folders that the account may not look into

    def read_file(self, host: str, path: str) -> bytes | None:
        if self.present is None:
            raise CannotReach(f"{host} did not answer")
        return self.present.get(path)

    def ask(self, host: str, command: str, *, stdin: bytes = b"", timeout: float | None = None) -> Ran:
        if self.present is None:
            raise CannotReach(f"{host} did not answer")
        if command.startswith("hostname"):
            return Ran(0, b"cm\n\n--- maint\nLoadState=loaded\n--- maint\nuntried\n--- maint\n", b"")
        if "keytool" in command:  # no truststore lies here: its password cannot be tried
            return Ran(91, b"", b"")
        assert command.startswith("test -e ")
        path = command.split()[2]
        if path.startswith(self.closed):
            return Ran(1, b"", b"/closed: not allowed to look into this folder\n")
        there = any(one == path or one.startswith(f"{path}/") for one in self.present)
        return Ran(0 if there else MISSING, b"", b"")

    @contextmanager
    def stream(self, host: str, command: str, *, timeout: float | None = None) -> Iterator[BytesIO]:
        if self.present is None:
            raise CannotReach(f"{host} did not answer")
        if not command.startswith("tar "):
            yield BytesIO(self.dump)
            return
        operands = shlex.split(command.removeprefix("tar -C / -cf - -- "))
        archive = BytesIO()
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for path, content in self.present.items():
                if any(path == f"/{one}" or path.startswith(f"/{one}/") for one in operands):
                    member = tarfile.TarInfo(path.lstrip("/"))
                    member.size, member.mode = len(content), 0o600
                    tar.addfile(member, BytesIO(content))
        yield BytesIO(archive.getvalue()[: self.cut_at])


class Dated(LocalStore):
    """A folder of a host whose clock is given: it dates the marks by which that is asked."""

    def __init__(self, root: Path, clock: Clock) -> None:
        super().__init__(root)
        self.clock = clock

    @contextmanager
    def create(self, name: str) -> Iterator[Any]:
        with super().create(name) as file:
            yield file
        if "/clock/" in name:
            os.utime(Path(self.location) / name, (self.clock.monotonic(), self.clock.monotonic()))


class Place:
    """A site made of real stores, seals and signatures, with a scripted manager and host."""

    def __init__(self, folder: Path, content: bytes, password: str = "admin") -> None:
        self.seal = AgeSeal()
        self.identity, recipient = self.seal.new_identity()
        self.keys: list[Secret] = [self.identity]
        self.clock = Clock()
        self.secrets = Secrets()
        self.manager: Any = Manager(content)
        self.shell: Any = Shell({"/etc/cloudera-scm-server/uuid": b"guid-1\n"})
        self.state = folder / "state"
        self.root = folder / "store"
        self.root.mkdir()
        self.store = Dated(self.root, self.clock)
        self.copies: list[LocalStore] = []
        self.sign = load_or_make_signer(None, self.state / "keys", ())
        self.fingerprint_key = Secret("ab" * 32)
        self.undo: Any = None
        self.seen: dict[str, tuple[int, int | None]] = {}
        self.settings = SiteSettings.model_construct(
            name="prod",
            manager=ManagerSettings.model_construct(host="cm.example.internal", password=f"text:{password}"),
            state=self.state,
            ssh=SshSettings(),
            backup=BackupSettings(store=str(self.root), recipients=(recipient,)),
        )

    def become(self, other: "Place") -> None:
        """Go on as another site, whose store, state and keys are copied."""
        for own, copied in ((self.state, other.state), (self.root, other.root)):
            shutil.copytree(copied, own, dirs_exist_ok=True)
        self.identity, self.keys, self.clock.time = other.identity, list(other.keys), other.clock.time
        self.sign = load_or_make_signer(None, self.state / "keys", ())
        assert other.settings.backup is not None
        backup = other.settings.backup.model_copy(update={"store": str(self.root)})
        self.settings = self.settings.model_copy(update={"backup": backup})

    def identities(self) -> list[Secret]:
        return self.keys

    def moved(self, what: str, count: int, of: int | None = None) -> None:
        """Keep how many bytes of something were moved in all, and of how many."""
        self.seen[what] = self.seen.get(what, (0, None))[0] + count, of

    def folder(self, snapshot_id: str) -> Path:
        return self.root / "prod" / snapshot_id

    def manage(self, **changes: Any) -> None:
        manager = self.settings.manager.model_copy(update=changes)
        self.settings = self.settings.model_copy(update={"manager": manager})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A site whose manager holds the example deployment."""
    return Place(tmp_path, EXAMPLE.read_bytes())


@pytest.fixture
def place_of(tmp_path: Path) -> Callable[[bytes, str], Place]:
    """Make a site whose manager holds this document."""
    return lambda content, password: Place(tmp_path, content, password)


@pytest.fixture
def run() -> Callable[[Generator[str, None, Any]], Any]:
    """Run a generator to its end and return what it returns."""

    def to_the_end(generator: Generator[str, None, Any]) -> Any:
        while True:
            try:
                next(generator)
            except StopIteration as end:
                return end.value

    return to_the_end
