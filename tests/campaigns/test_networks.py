"""A network that goes wrong at any byte: no hang past the limit, no false success, nothing sent twice, a reason."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.lab.running import Lab
from maint.model.java_options import redaction_is_off
from tests.campaigns.proxy import Fault, Proxy, Trouble
from tests.campaigns.size import SEED, size, tries
from tests.steps.conftest import copy
from tests.steps.operator import Operator, Said

TRIES = tries(2, 120)  # faults in front of each peer
LIMIT = size(4, 8)  # seconds that a command is given
LATEST = LIMIT + 40  # closing what was opened, and taking back what was stored, has limits of its own
ENDED = {"done", "partly", "refused", "dismissed"}
STOP = "POST /api/v45/clusters/base/commands/stop"


class Wire:
    """An operator who reaches one port through a proxy, and directly with another config."""

    def __init__(self, lab: Lab, port: int, text: str) -> None:
        self.proxy, self.lab = Proxy(port), lab
        direct, through = lab.folder / "config.yaml", lab.folder / f"through-{port}.yaml"
        direct.write_text(text)
        through.write_text(text.replace(f"{port}", f"{self.proxy.port}"))
        through.chmod(0o600)
        known = lab.folder / "ssh/known_hosts"
        if known.exists():
            lines = known.read_text()
            known.write_text(lines + lines.replace(f":{port} ", f":{self.proxy.port} "))
        self.direct, self.through = Operator(lab), Operator(lab)
        self.through.config = str(through)

    def faults(self, *words: str) -> Iterator[Fault]:
        """Yield faults at bytes that an undisturbed run of a command passes, each trouble in turn."""
        self.proxy.begin()
        said = self.through(*words)
        assert said.code in (0, 1, 7), said.err
        chance, passed = random.Random(f"{SEED} {words}"), dict(self.proxy.passed)
        for number in range(TRIES):
            up = chance.random() < 0.5
            at = int(passed[up] ** chance.random())  # early bytes as often as late ones
            yield Fault([*Trouble][number % len(Trouble)], min(at, passed[up] - 1), up)

    def strike(self, fault: Fault, *words: str) -> Said:
        """Run a command with a fault in its way; whatever comes, it ends in time and says why."""
        self.proxy.begin(fault)
        begun = time.monotonic()
        said = self.through(*words, "--timeout", f"{LIMIT}s")
        took = time.monotonic() - begun
        assert took < LATEST, (fault, took, said)
        assert said.code in (0, 1, 4, 5, 7), (fault, said)
        assert "Traceback" not in said.err and "bug in maint" not in said.err, (fault, said)
        if said.code in (1, 4, 5) and words[0] != "host":
            assert "error:" in said.err and "hint:" in said.err, (fault, said)
        self.proxy.begin()
        return said


@pytest.fixture(scope="module")
def lab(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(copy(backed_up, tmp_path_factory.mktemp("network") / "lab")) as lab:
        lab.world.redaction = False
        yield lab


def newest(operator: Operator) -> list[str]:
    return [one["id"] for one in operator("backup", "list", "-o", "json").json["snapshots"]]


def sound_after(wire: Wire, fault: Fault, *words: str) -> None:
    """Take a backup with a fault in the way: what is there afterwards is whole, and success means a further one."""
    before = newest(wire.direct)
    said = wire.strike(fault, *words)
    added = [one for one in newest(wire.direct) if one not in before]
    assert len(added) == 1 if said.code == 0 else len(added) < 2, (fault, said)
    for snapshot in added:
        level = "3" if said.code == 0 else "1"
        checked = wire.direct("backup", "verify", snapshot, "--level", level)
        assert checked.code in ((0,) if said.code == 0 else (0, 1, 7)), (fault, said, checked)


@pytest.mark.timeout(LATEST * TRIES + 120)
def test_a_backup_whose_way_to_the_manager_fails(lab: Lab) -> None:
    wire = Wire(lab, lab.server.plain_port, (lab.folder / "config.yaml").read_text())
    for fault in wire.faults("backup", "create"):
        if fault.trouble is Trouble.CORRUPT:  # without TLS nobody can tell what was changed on the way
            wire.strike(fault, "backup", "create")
        else:
            sound_after(wire, fault, "backup", "create")
    wire.proxy.close()


@pytest.mark.timeout(LATEST * TRIES * 2 + 120)
def test_a_run_whose_way_to_the_manager_fails_and_what_resumes_it_send_a_command_once(lab: Lab) -> None:
    wire = Wire(lab, lab.server.plain_port, (lab.folder / "config.yaml").read_text())
    words = ("cluster", "stop", "base", "--yes")
    for fault in wire.faults(*words):
        assert wire.direct("cluster", "start", "base", "--yes").code == 0
        wire.direct.forget_requests()
        said = wire.strike(fault, *words)
        if fault.trouble is not Trouble.CORRUPT:
            assert said.code or states(wire.direct) <= {"STOPPED", "NA"}, (fault, said)
        history = wire.direct("playbook", "history", "-o", "json").json["runs"]
        if said.code and history[-1]["playbook"] == "stop-cluster" and history[-1]["state"] not in ("done", "refused"):
            resumed = wire.direct("playbook", "resume", history[-1]["id"])
            assert resumed.code == 0 or fault.trouble is Trouble.CORRUPT, (fault, said, resumed)
            if resumed.code:
                wire.direct("playbook", "dismiss", history[-1]["id"], "--reason", "corrupted", "--yes")
        assert wire.direct.sent.count(STOP) < 2, (fault, said)
    wire.proxy.close()


@pytest.mark.timeout(LATEST * TRIES * 4 + 120)
@pytest.mark.parametrize("words", [("cluster", "stop", "base"), ("manager", "export", "--open-window")][: size(1, 2)])
def test_a_machine_that_sleeps_wakes_without_connections_and_does_nothing_twice(
    lab: Lab, words: tuple[str, ...]
) -> None:
    wire = Wire(lab, lab.server.plain_port, (lab.folder / "config.yaml").read_text())
    chance, begun = random.Random(f"{SEED} {words}"), time.monotonic()
    assert wire.through.fork(*words, "--yes").wait(LATEST) == 0
    took = time.monotonic() - begun
    for _ in range(TRIES):
        assert wire.direct("cluster", "start", "base", "--yes").code == 0
        wire.direct.forget_requests()
        process = wire.through.fork(*words, "--yes")
        time.sleep(chance.uniform(0, took))
        process.send_signal(signal.SIGSTOP)
        wire.proxy.begin()
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(LATEST)
        assert process.returncode in (0, 1, 4, 7) and "bug in maint" not in err, (process.returncode, out, err)
        run = wire.direct("playbook", "history", "-o", "json").json["runs"][-1]
        if run["state"] not in ENDED:
            resumed = wire.direct("playbook", "resume", run["id"])
            assert resumed.code == 0, (err, resumed)
        else:
            assert process.returncode == 0 or run["state"] != "done", (run, err)
        assert wire.direct.sent.count(STOP) < 2, err
        assert (wire.direct.window, redaction_is_off(wire.direct.options.read_bytes())) == (False, False), err
    wire.proxy.close()


def states(operator: Operator) -> set[str]:
    found = operator("cluster", "list", "-o", "json").json["clusters"][0]["states"]
    return set(found) if not isinstance(found, dict) else set(map(str, found))


@pytest.mark.timeout(LATEST * TRIES + 120)
def test_a_check_of_hosts_whose_way_to_a_host_fails(lab: Lab) -> None:
    port = lab.status()["ssh"]["port"]
    wire = Wire(lab, port, (lab.folder / "config.yaml").read_text())
    words = ("host", "check", "--host", lab.manager_host)
    for fault in wire.faults(*words):
        said = wire.strike(fault, *words, "-o", "json")
        if said.code in (0, 1) and said.out:
            assert all(one["reached"] for one in said.json["hosts"]) or said.code, (fault, said)
    wire.proxy.close()


@pytest.mark.timeout(LATEST * TRIES + 120)
def test_a_backup_whose_way_to_the_gateway_of_a_virtual_cluster_fails(lab: Lab) -> None:
    told = lab.status()["virtual_clusters"][0]
    port = int(told["base_url"].split("/")[2].rpartition(":")[2])
    wire = Wire(lab, port, (lab.folder / "config.yaml").read_text())
    words = ("vc", "backup", "--accept-empty")
    for fault in wire.faults(*words):
        sound_after(wire, fault, *words)
    wire.proxy.close()


@pytest.mark.timeout(LATEST * TRIES + 120)
def test_a_backup_whose_way_to_an_s3_store_fails(lab: Lab, object_store: str, tmp_path: Path) -> None:
    for name in ("id", "secret"):
        (lab.folder / f"s3-{name}").write_text(f"some-{name}")
        (lab.folder / f"s3-{name}").chmod(0o600)
    before: str = (lab.folder / "config.yaml").read_text()
    at = lab.folder
    service = (
        f"      s3: {{endpoint: '{object_store}', access_key: 'file:{at}/s3-id', secret_key: 'file:{at}/s3-secret'}}\n"
    )
    text = before.replace(f'store: "{at}/backups"', f"store: s3://backups/{os.urandom(4).hex()}\n{service.rstrip()}")
    assert text != before
    wire = Wire(lab, int(object_store.rpartition(":")[2]), text)
    try:
        for fault in wire.faults("backup", "create"):
            sound_after(wire, fault, "backup", "create")
    finally:
        wire.proxy.close()
        (lab.folder / "config.yaml").write_text(before)


@pytest.mark.timeout(LATEST * TRIES + 120)
def test_a_backup_whose_way_to_an_sftp_store_fails(lab: Lab, sshd: Any) -> None:
    before: str = (lab.folder / "config.yaml").read_text()
    known = lab.folder / "ssh/known_hosts"
    known.write_text(known.read_text() + sshd.known_as())
    place = f"sftp://{sshd.user}@127.0.0.1:{sshd.port}{lab.folder}/far\n      sftp: {{key: '{sshd.key}'}}"
    text = before.replace(f'store: "{lab.folder}/backups"', f"store: {place}")
    assert text != before
    wire = Wire(lab, sshd.port, text)
    try:
        for fault in wire.faults("backup", "create"):
            sound_after(wire, fault, "backup", "create")
    finally:
        wire.proxy.close()
        (lab.folder / "config.yaml").write_text(before)
