"""A secret of its own in every slot of an export, and none of them anywhere but under encryption.

Looked at: what commands say, stores (compressed parts opened), state folders, temporary files, and the arguments and
environment of every process that lives while they run; in runs that succeed and in runs that fail. Each command and
shipped playbook is carried out with `-v` as it is, and once more for each fault of a few.
"""

import json
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard

from maint.adapters.clock import SystemClock
from maint.lab.create import SITE
from maint.lab.faults import FAULTS, HOST_FAULTS
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.campaigns.grounds import Template, confirmed, filled, ground_in
from tests.campaigns.size import FULL, SEED, size, tries
from tests.cli.test_dry_run import LOOKS, PLANS, TELLS
from tests.snapshots.conftest import EXAMPLE
from tests.steps.conftest import FAST, copy
from tests.steps.operator import Operator, Said, environment

MARK = "cafe5afe77"  # in hexadecimal digits, so that a hash can hold it too
SALT = 770_077_007_000_000_000
PASSWORD = f"pw-{MARK}-manager"
AGAIN = 0.02  # seconds until a process is looked at again
SHORTEST = 8  # shorter values are ordinary words
WITHIN_TEXTS = {  # secrets that no flag names
    "hive_service_config_safety_valve": "<name>fs.s3a.secret.key</name><value>{}</value>",
    "java_opts": "-Xmx1g -Dssl.trustStorePassword={} -Dx=y",
    "jdbc_url": "jdbc:mysql://db/hive?user=hive&password={}&ssl=true",
    "proxy_address": "http://user:{}@proxy:80",
}
LINES = [line for line in (*PLANS, *TELLS, *LOOKS) if not line.startswith(("lab ", "generate ", "help", "version"))]
_SAMPLED = LINES if FULL else [line for line in LINES if "@" not in line]  # for which nothing has to be prepared
CASES = random.Random(SEED).sample(_SAMPLED, min(tries(3, len(LINES)), len(_SAMPLED)))


class Planter:
    """Replaces each secret of a document by one of its own."""

    def __init__(self) -> None:
        self.planted = 0

    def mark(self, length: int = 0) -> str:
        self.planted += 1
        return f"{MARK}{self.planted:04x}".ljust(length, "0")

    def plant(self, value: Any) -> None:
        """Replace in place, however deep."""
        if isinstance(value, list):
            for child in value:
                self.plant(child)
        if not isinstance(value, dict):
            return
        if value.get("sensitive") is True and "value" in value:
            value["value"] = f"s-{self.mark()}"
        for name, length in (("pwHash", 64), ("password", 0)):
            if isinstance(value.get(name), str):
                value[name] = self.mark(length)
        if "pwSalt" in value:
            self.planted += 1
            value["pwSalt"] = SALT + self.planted
        for child in value.values():
            self.plant(child)


def planted() -> tuple[bytes, int]:
    """Return a document full of canaries, and how many there are."""
    document, planter = json.loads(EXAMPLE.read_bytes()), Planter()
    planter.plant(document)
    service = document["clusters"][0]["services"][1]
    (secret,) = [item["value"] for item in service["config"]["items"] if item["name"].startswith("http_auth_signature")]
    text = f"<property><name>x</name><value>{secret}</value></property> curl -u admin:{secret}@host"
    service["config"]["items"].append({"name": "core_site_safety_valve", "value": text, "sensitive": False})
    service["config"]["items"].append({"name": "env_safety_valve", "value": f"TOKEN={secret}"})
    for name, text in WITHIN_TEXTS.items():
        item = {"name": name, "value": text.format(f"s-{planter.mark()}"), "sensitive": False}
        service["config"]["items"].append(item)
    return json.dumps(document, indent=2).encode(), planter.planted


def processes() -> list[str]:
    """Return the numbers of all processes there are."""
    return [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - read very often


class Watch:
    """Reads arguments and environment of every process that begins meanwhile, over and over, until told to end."""

    def __init__(self, needles: list[bytes], temporary: Path) -> None:
        self._needles, self._temporary = needles, temporary
        self._older = set(processes())  # they have begun before the command, and know nothing of it
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen: set[str] = set()
        self.found: set[str] = set()

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        read: dict[str, float] = {}
        while not self._over.is_set():
            # A new process is read at once, an old one now and then: it may have become another program.
            living = processes()
            self._older.intersection_update(living)
            for process in living:
                if process not in self._older and time.monotonic() - read.get(process, 0.0) > AGAIN:
                    self._read(Path("/proc") / process / "cmdline", process)
                    self._read(Path("/proc") / process / "environ", process)
                    read[process] = time.monotonic()
            for folder, _, names in os.walk(self._temporary):
                for name in names:
                    self._read(Path(folder, name), "")
            time.sleep(0.01)

    def _read(self, path: Path, process: str) -> None:
        try:
            content = path.read_bytes()
        except OSError:  # it has ended, or is gone
            return
        self.seen.add(process)
        self.found |= {f"{path}: {needle!r}" for needle in self._needles if needle in content}


class Site:
    """A lab full of canaries in a folder, its operator, and all that they were told."""

    def __init__(self, folder: Path) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        options = Options(deployment=folder / "export.json", new_password=PASSWORD, switches=FAST)
        self.lab = Lab(folder / "lab", options)
        self.lab.start()
        self.operator = Operator(self.lab)
        self.told: list[tuple[str, bytes]] = []
        self.needles = needles_of(self.lab)

    def start(self, *words: str) -> int:
        """Run a command in a process of its own, watched."""
        with Watch(self.needles, self.temporary) as watch:
            process = self.operator.start(*words, env=environment(TMPDIR=str(self.temporary)), stdin=subprocess.DEVNULL)
            out, err = process.communicate(timeout=500)
        assert str(process.pid) in watch.seen
        return self._looked_at(watch, words, Said(int(process.returncode), out, err))

    def run(self, *words: str) -> int:
        """Run a command in this process, with short pauses between its tries, and watch whatever it starts."""
        sleep = SystemClock.sleep
        with pytest.MonkeyPatch.context() as patch, Watch(self.needles, self.temporary) as watch:
            patch.setattr(tempfile, "tempdir", str(self.temporary))
            patch.setattr(SystemClock, "sleep", lambda clock, seconds: sleep(clock, min(seconds, 0.1)))
            said = self.operator(*words, TMPDIR=str(self.temporary))
        return self._looked_at(watch, words, said)

    def _looked_at(self, watch: Watch, words: tuple[str, ...], said: Said) -> int:
        assert watch.found == set(), words
        self.told += [(" ".join(words), said.out.encode()), (" ".join(words), said.err.encode())]
        return said.code

    def hits(self) -> list[str]:
        """Return where a canary was found."""
        return hits(self.needles, [*self.told, *held(self.lab.folder / "backups"), *held(self.lab.folder / "state")])


def hits(needles: Iterable[bytes], places: Iterable[tuple[str, bytes]]) -> list[str]:
    """Return where one of them stands."""
    return [f"{where}: {needle!r}" for where, content in places for needle in needles if needle in content]


def held(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Return what the files below a folder hold, compressed parts opened."""
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            if path.suffix == ".zst":
                content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
                content = _without_what_the_server_shows(path, content)
            yield str(path.relative_to(folder)), content


def needles_of(lab: Lab) -> list[bytes]:
    """Return what nobody may see of a lab full of canaries."""
    world = (lab.folder / "world/deployment.json").read_text()
    found = sorted({MARK.encode(), str(SALT)[:9].encode(), PASSWORD.encode(), *_hashes(json.loads(world))})
    return [*found, (lab.folder / "identity").read_text().strip().splitlines()[-1].encode()]


def _without_what_the_server_shows(path: Path, content: bytes) -> bytes:
    """Leave out the free texts of an export that the server itself redacted.

    It shows them to everyone who may read the API, and nothing in such an export tells that there is a secret in them.
    """
    manifest = json.loads((path.parent / "manifest.json").read_bytes())
    if manifest["judgement"]["redaction"] != "redacted":
        return content
    return without_free_texts(content)


def without_free_texts(content: bytes) -> bytes:
    return b"\n".join(line for line in content.splitlines() if b"curl -u admin" not in line and b"TOKEN=" not in line)


def _hashes(document: Any) -> set[bytes]:
    """Return the hashes and salts of the accounts as the lab has them now: one got a new password."""
    found = [str(user.get(key, "")) for user in document["users"] for key in ("pwHash", "pwSalt")]
    return {text.encode() for text in found if len(text) > SHORTEST}


@dataclass(frozen=True)
class Begun:
    """A site that was backed up through the window and is down now, and what that command told."""

    folder: Path
    planted: int
    told: list[tuple[str, bytes]]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begun:
    folder = tmp_path_factory.mktemp("canaries") / "site"
    folder.mkdir()
    content, count = planted()
    (folder / "export.json").write_bytes(content)
    site = Site(folder)
    try:
        assert site.start("-v", "backup", "create", "--open-window", "--yes") == 0
    finally:
        site.lab.stop()
    return Begun(folder, count, site.told)


@pytest.fixture
def site(tmp_path: Path, begun: Begun) -> Iterator[Site]:
    """A site of one's own, backed up through the window."""
    shutil.copytree(begun.folder, tmp_path / "site", symlinks=True)
    site = Site(tmp_path / "site")
    site.told += begun.told
    yield site
    site.lab.stop()


def parts(lab: Path, name: str) -> list[Path]:
    return sorted((lab / "backups").glob(f"*/*/{name}"))


def test_the_canaries_are_there_to_be_found(begun: Begun) -> None:
    assert begun.planted > 60
    lab = begun.folder / "lab"
    (raw,) = parts(lab, "deployment.json.zst.age")
    words = ["age", "-d", "-i", str(lab / "identity"), str(raw)]
    try:
        sealed = subprocess.run(words, capture_output=True, check=True).stdout
    except FileNotFoundError:
        assert not os.environ.get("MAINT_TESTS_NEED_REAL_PARTS"), "age is not installed"
        pytest.skip("age is not installed")
    opened = zstandard.ZstdDecompressor().decompressobj().decompress(sealed)
    assert opened.count(MARK.encode()) > 50
    (redacted,) = parts(lab, "deployment.redacted.json.zst")
    assert b"core_site_safety_valve" in zstandard.ZstdDecompressor().decompressobj().decompress(redacted.read_bytes())


def test_no_canary_shows_when_all_goes_well(site: Site) -> None:
    assert site.run("backup", "create") == 7
    (first, *_) = [path.parent.name for path in parts(site.lab.folder, "manifest.json")]
    for words in (
        ["backup", "list", "-o", "json"],
        ["backup", "show", first, "-o", "json"],
        ["backup", "verify", first, "--level", "3", "-o", "json"],
        ["restore", "plan", "--snapshot", first, "-o", "json"],
        ["config", "show", "--origin", "-o", "json"],
    ):
        assert site.run(*words) in (0, 1, 5), words
    site.lab.lose_database()
    assert site.run("restore", "plan", "-o", "json") == 0
    assert site.start("-v", "restore", "run", "--confirm", SITE, "-o", "json") == 0
    assert site.run("playbook", "history", "-o", "json") == 0
    assert site.hits() == []


def test_no_canary_shows_when_a_run_fails(site: Site) -> None:
    for target, fault, words in (
        ("export", "error-500", ["backup", "create"]),
        ("export", "error-500", ["backup", "create", "--open-window", "--yes", "-o", "json"]),
        ("restore", "put-fails", ["restore", "run", "--confirm", SITE]),
        ("restore", "put-answer-lost", ["restore", "run", "--confirm", SITE]),
    ):
        if target == "restore":
            site.lab.lose_database()
        site.lab.break_(target, fault)
        code = site.run(*words)
        assert code not in (2, 3, 70), (fault, words)
        if fault != "put-answer-lost":
            assert code == 1 or code == 4, (fault, words, code)
        site.lab.repair()
        site.run("playbook", "resume", "-o", "json")
        assert site.hits() == [], (fault, words)


def test_no_canary_shows_when_a_damaged_snapshot_is_refused(site: Site) -> None:
    (part,) = parts(site.lab.folder, "deployment.json.zst.age")
    content = part.read_bytes()
    for spoiled in (content[: len(content) // 2], content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]):
        part.write_bytes(spoiled)
        assert site.run("backup", "verify", "-o", "json") == 1, len(spoiled)
        site.lab.lose_database()
        assert site.run("restore", "run", "--confirm", SITE) == 5, len(spoiled)
        assert site.hits() == [], len(spoiled)


@pytest.fixture(scope="module")
def full(begun: Begun, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """The folder of a lab full of canaries, now down, in which each of these commands finds something to do."""
    with Lab(copy(begun.folder / "lab", tmp_path_factory.mktemp("canaries") / "lab")) as lab:
        return lab.folder, filled(lab) if any("@" in line for line in CASES) else {}


@pytest.mark.parametrize("line", CASES)
def test_no_canary_shows_whatever_is_typed_and_whatever_fails(
    full: Template, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, temporary = random.Random(f"{SEED} {line}"), tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with ground_in(full, tmp_path / "lab") as ground:
        operator, lab, told = ground.operator, ground.operator.lab, list[tuple[str, bytes]]()
        needles = needles_of(lab)
        for fault in ("", *chance.sample(sorted(FAULTS), size(1, 3))):
            if fault:
                lab.break_(lab.manager_host if fault in HOST_FAULTS else "", fault)
            new = tmp_path / f"new {fault}"
            new.mkdir()
            words = ground.spelled(line, new).split()
            said = operator(*words, "-v", "--yes", "--confirm", confirmed(line), "--timeout", "6s")
            assert "bug in maint" not in said.err, (line, fault, said)
            out = said.out.encode()  # settings are shown as the server shows them
            out = without_free_texts(out) if line.startswith("setting list") else out
            told += [(f"{line} {fault}", out), (f"{line} {fault}", said.err.encode()), *held(new)]
            lab.repair()
        kept = (lab.folder / "backups", lab.folder / "second", lab.folder / "state", lab.folder / "kept", temporary)
        assert hits(needles, [*told, *(one for folder in kept for one in held(folder))]) == []
