"""An operator at a manager that was written from the contract alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.clock import SystemClock
from maint.adapters.seal import AgeSeal
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.ssh_server import SshLab
from maint.lab.manager.simulator import PlainUnit
from tests.acceptance.manager_stub.manager import ACCOUNT, PASSWORD, Manager
from tests.ports import closed_port
from tests.servers import ScriptedServer
from tests.steps.operator import Operator


class _Place:
    """What `Operator` wants to know of a lab."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log: Any = type("Log", (), {"path": folder / "none"})


def configured(folder: Path, plain: int, tls: int, more: str = "") -> Operator:
    """Write the configuration of a site without hosts; its state lies beside it."""
    identity, recipient = AgeSeal().new_identity()
    for name, content in (("password", PASSWORD), ("identity", identity.reveal())):
        (folder / name).touch(0o600)
        (folder / name).write_text(content)
    (folder / "config.yaml").write_text(
        f"state: {folder}/state\nsites:\n  lab:\n    manager:\n      host: 127.0.0.1\n"
        f"      plain_port: {plain}\n      tls_port: {tls}\n      username: {ACCOUNT}\n"
        f"      password: file:{folder}/password\n{more}"
        f"    backup:\n      store: {folder}/backups\n      recipients: [{recipient}]\n"
        f"      identity: file:{folder}/identity\n"
    )
    return Operator(_Place(folder))  # type: ignore[arg-type]  # it asks for no more than that


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager on loopback is asked again soon: how long is waited is held elsewhere."""
    real = SystemClock.sleep
    monkeypatch.setattr(SystemClock, "sleep", lambda clock, seconds: real(clock, min(seconds, 0.05)))


@pytest.fixture
def manager() -> Iterator[Manager]:
    with ScriptedServer(host="127.0.0.1", threaded=True) as server:
        yield Manager(server)


@pytest.fixture
def operator(manager: Manager, tmp_path: Path) -> Operator:
    """Somebody who types commands; the manager's TLS port is closed."""
    return configured(tmp_path, manager.server.port, closed_port())


@pytest.fixture
def hosted(manager: Manager, tmp_path: Path) -> Iterator[Operator]:
    """The same, who can reach the manager's host too; it is the lab's, and knows nothing of this manager."""
    unit = PlainUnit()
    unit.start()
    ssh = SshLab([Machine("cm", tmp_path / "cm", {"cloudera-scm-server": unit})], tmp_path / "ssh")
    ssh.start()
    try:
        more = f"    ssh: {{user: root, key: {ssh.key_file}, known_hosts: {ssh.known_hosts_file}}}\n    hosts:\n"
        more += f"      - {{name: cm, address: 127.0.0.1, port: {ssh.endpoints['cm'][1]}, groups: [manager]}}\n"
        operator = configured(tmp_path, manager.server.port, closed_port(), more)
        said = operator("backup", "create")
        assert said.code == 0, said.err
        manager.log.clear()
        yield operator
    finally:
        ssh.stop()


@pytest.fixture
def proven(operator: Operator, manager: Manager) -> Operator:
    """The same, with a backup that can be restored."""
    said = operator("backup", "create")
    assert said.code == 0, said.err
    manager.log.clear()
    return operator
