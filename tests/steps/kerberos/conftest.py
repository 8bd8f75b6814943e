"""One KDC, one lab whose virtual clusters are not initialised, and an operator with a config of his own."""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from maint.lab.create import SITE
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.lab.virtual_clusters import cluster as kerberos
from maint.lab.virtual_clusters.cluster import Cluster
from tests.forked import Command
from tests.steps.kerberos.kdc import Kdc, lacking, start
from tests.steps.operator import Operator, Said, environment

_LONG = 200.0  # seconds; no more than an end for what never comes
USER, PRINCIPAL = "etl_user", "etl_user@EXAMPLE.COM"
FIRST, SECOND = "Default-VC-abc12345", "second-vc"
MASTER = "ds-01.example.internal"


@pytest.fixture(scope="session")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A KDC with the user's principal."""
    if missing := lacking():
        pytest.skip(f"MIT Kerberos is not installed: no {', '.join(missing)}")
    made, process = start(tmp_path_factory.mktemp("kdc"))
    try:
        made.add(PRINCIPAL)
        yield made
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with two virtual clusters that nobody has initialised."""
    options = Options(switches={"vc-initialised": "no"}, virtual_clusters=[SECOND])
    with Lab(tmp_path_factory.mktemp("vc-init") / "lab", options) as lab:
        yield lab


class Keeper(Operator):
    """Types commands with a config and a state of his own."""

    def __init__(self, lab: Lab, folder: Path, kdc: Kdc) -> None:
        super().__init__(lab)
        self.folder, self.kdc = folder, kdc
        self.state = folder / "state" / SITE
        self.config = str(folder / "config.yaml")
        self.settings: Any = yaml.safe_load((lab.folder / "config.yaml").read_text())
        self.settings["state"] = str(folder / "state")
        self._heard = len(self._commands())

    def __call__(self, *words: str, given: str | None = None, **env: str) -> Said:
        """Run a command in this process, in reach of the KDC unless told otherwise."""
        self.write()
        return super().__call__(*words, given=given, **{**self.kdc.environment, **env})

    def fork(self, *words: str, env: Mapping[str, str] | None = None) -> Command:
        """Begin a command in a process of its own, in reach of the KDC."""
        self.write()
        return super().fork(*words, env=env or environment(**self.kdc.environment))

    def write(self) -> None:
        """Write the config."""
        Path(self.config).write_text(json.dumps(self.settings))

    def vc(self, name: str = FIRST) -> Any:
        """A virtual cluster's part of the config."""
        clusters = self.settings["sites"][SITE]["virtual_clusters"]
        return next(one for one in clusters if one["name"] == name)

    def give(self, keytab: bytes, principal: str | bytes = PRINCIPAL) -> None:
        """Configure the user with a keytab, and with a principal: text, or bytes for a file."""
        path = self.folder / "user.keytab"
        path.write_bytes(keytab)
        path.chmod(0o600)
        if isinstance(principal, bytes):
            (self.folder / "principal").write_bytes(principal)
            principal = "file:principal"
        self.vc()["users"] = [{"name": USER, "principal": principal, "keytab": f"file:{path}"}]

    def cluster(self, name: str = FIRST) -> Cluster:
        """A virtual cluster of the lab."""
        assert self.lab.service is not None
        return self.lab.service.cluster(name)

    def _commands(self) -> list[str]:
        log = self.lab.folder / "hosts" / MASTER / "commands.jsonl"
        return [json.loads(line)["command"] for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def heard(self) -> list[str]:
        """The command lines that reached the master since."""
        return self._commands()[self._heard :]

    @property
    def private(self) -> list[Path]:
        """What lies in private folders on the master, or in places where the utility may leave copies."""
        root = self.lab.folder / "hosts" / MASTER / "root"
        walks = [os.walk(root / place) for place in ("run", "tmp", "root")]  # which bears with what goes meanwhile
        found = [Path(folder, name) for walk in walks for folder, _, names in walk for name in names]
        return [path for path in found if "maint-" in str(path) or "krb5" in path.name]

    def struck(self) -> None:
        """Wait until the fault that was set has struck."""
        limit = time.monotonic() + _LONG
        while self.lab.world.faults.active:
            assert time.monotonic() < limit, "the fault did not strike"
            time.sleep(0.01)

    def quiet(self) -> None:
        """Wait until nothing runs on the master any more that an earlier command began."""
        limit = time.monotonic() + _LONG
        while self.private or self.lab.world.faults.active:
            assert time.monotonic() < limit, "it is never quiet"
            time.sleep(0.02)


@pytest.fixture
def keeper(lab: Lab, tmp_path: Path, kdc: Kdc) -> Iterator[Keeper]:
    """An operator at the lab, whose virtual clusters are as new."""
    assert lab.service is not None
    for cluster in lab.service.clusters():
        with cluster.lock:
            for name in cluster.secrets:
                cluster.drop_secret(name)
            cluster.set_tls(False)
    for path in (lab.folder / "vc" / "tls").glob("[a-z]*.pem"):
        path.unlink()
    root = lab.folder / "hosts" / MASTER / "root"
    for path in root.glob("run/maint-*"):
        shutil.rmtree(path)
    yield Keeper(lab, tmp_path, kdc)
    lab.repair()
    lab.switch("vc-server-side-apply", "yes")


@pytest.fixture
def owner(keeper: Keeper) -> Keeper:
    """An operator whose user has old secrets, and a config with new ones."""
    cluster = keeper.cluster()
    with cluster.lock:
        cluster.set_kerberos(USER, PRINCIPAL)
    keeper.give(keeper.kdc.keytab(PRINCIPAL))
    return keeper


def secrets_of(keeper: Keeper) -> dict[str, bytes]:
    """What the user's secrets hold."""
    found = keeper.cluster().secrets
    return {name: found[name][name] for name in kerberos.secret_names(USER) if name in found}
