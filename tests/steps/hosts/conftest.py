"""Hosts of two kinds, real OpenSSH and the lab's, and playbooks carried out on them."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from maint.lab.create import SITE
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.adapters.conftest import Sshd, sshd
from tests.steps.conftest import FAST
from tests.steps.operator import Said, maint

__all__ = ["sshd"]


@dataclass
class Hosts:
    """Hosts under one configuration.

    Attributes:
        names: two of them; with OpenSSH both are this machine.
        folder: a folder of its own on each.
        root: where the files of the first one really lie.
        local: a local folder.
    """

    config: Path
    names: tuple[str, str]
    folder: str
    root: Path
    local: Path
    state: Path
    lab: Lab | None = None

    def play(self, *steps: dict[str, object], failing: list[dict[str, object]] | None = None) -> Said:
        """Carry a playbook out that is made of these steps."""
        given = [{"name": f"step {number}", **step} for number, step in enumerate(steps)]
        book: dict[str, object] = {"name": "mine", "summary": "Mine.", "parameters": {}, "steps": given}
        if failing:
            book["on_failure"] = [{"name": "after", **step} for step in failing]
        path = self.local / "mine.yaml"
        path.write_text(json.dumps(book))
        return self("playbook", "run", str(path), "--yes", "-o", "json")

    def plan(self, *steps: dict[str, object]) -> Said:
        """Return the plan of a playbook that is made of these steps."""
        given = [{"name": f"step {number}", **step} for number, step in enumerate(steps)]
        path = self.local / "planned.yaml"
        path.write_text(json.dumps({"name": "mine", "summary": "Mine.", "steps": given}))
        return self("playbook", "plan", str(path))

    def __call__(self, *words: str) -> Said:
        return maint(*words, MAINT_CONFIG=str(self.config))

    def file(self, path: str) -> Path:
        """Return where a file of the first host really lies."""
        return self.root / path.lstrip("/")

    def listed(self, path: str) -> list[str]:
        """Return the names in a folder of the first host."""
        return sorted(found.name for found in self.file(path).iterdir())

    def owned(self, path: str) -> tuple[str, str, str]:
        """Return owner, group and mode as the first host sees them."""
        said = self.play(run(self.names[0], f"stat -c '%U %G %a' {path}", reads=True, output=True))
        assert said.code == 0, said.err
        owner, group, mode = said.json["actions"][0]["value"][self.names[0]].split()
        return owner, group, mode


def run(host: str, command: str, **more: object) -> dict[str, object]:
    return {"do": "host.run", "with": {"hosts": [host], "command": command, **more}}


@pytest.fixture(scope="module")
def lab_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("lab")
    with Lab(folder / "lab", Options(switches=FAST, new_password="sesame-canary")) as lab:
        one, two = list(lab.machines)[:2]
        root = folder / "lab/hosts" / one / "root"
        config, state = folder / "lab/config.yaml", folder / "lab/state" / SITE
        yield Hosts(config, (one, two), "", root, folder, state, lab)


@pytest.fixture(scope="module")
def real_hosts(sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    folder = tmp_path_factory.mktemp("real")
    (folder / "known_hosts").write_text(sshd.known_as())
    (folder / "password").write_text("x")
    (folder / "password").chmod(0o600)
    ssh = {"user": sshd.user, "key": str(sshd.key), "known_hosts": str(folder / "known_hosts"), "port": sshd.port}
    hosts = [{"name": name, "address": "127.0.0.1", "groups": ["base"]} for name in ("one", "two")]
    login = {"username": "admin", "password": f"file:{folder}/password"}
    site = {"manager": {"host": "127.0.0.1", "plain_port": 1, "tls_port": 2, **login}, "ssh": ssh, "hosts": hosts}
    (folder / "config.yaml").write_text(json.dumps({"state": str(folder / "state"), "sites": {"prod": site}}))
    return Hosts(folder / "config.yaml", ("one", "two"), "", Path("/"), folder, folder / "state/prod")


@pytest.fixture(params=["real_hosts", "lab_hosts"])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Hosts:
    """Hosts of both kinds, with an empty folder on each and an empty local one."""
    if request.param == "real_hosts" and os.geteuid():
        pytest.skip("what is put on a host is root's, whom nobody else here becomes without a password")
    found: Hosts = request.getfixturevalue(request.param)
    found.folder = str(tmp_path) + "/host"
    found.local = tmp_path / "local"
    found.local.mkdir()
    for number in (0, 1):
        root = found.root if found.lab is None else found.lab.machines[found.names[number]].root
        (root / found.folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return found
