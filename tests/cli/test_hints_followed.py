"""What stops a command from outside: really caused, then its hint done to the letter, and the command succeeds."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from maint.adapters.clock import SystemClock
from maint.adapters.stores.local import LocalStore
from maint.engine.lease import Lease, Terms
from maint.engine.lock import site_lock
from maint.lab import pki
from maint.lab.create import SITE
from maint.lab.manager import host_files
from maint.lab.running import Lab
from tests.cli.conftest import only_the_manager
from tests.steps.conftest import copy
from tests.steps.operator import Operator, Said, maint

TAKEN = 7  # a backup of a manager that redacts is taken, for audit only


@pytest.fixture(scope="module")
def operator(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """A manager and its host that each test leaves well, by what hints say; `whole.yaml` names all of the lab."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("hints") / "lab")) as lab:
        operator = Operator(lab)
        shutil.copy(operator.config, lab.folder / "whole.yaml")
        yield only_the_manager(operator, hosts=1)


@pytest.fixture
def config(operator: Operator) -> Iterator[Callable[[str, str], None]]:
    """Changes a line of the config, until the test ends."""
    path = Path(operator.config)
    before = path.read_text()

    def change(pattern: str, new: str) -> None:
        changed = re.sub(pattern, new, path.read_text(), count=1)
        assert changed != path.read_text()
        path.write_text(changed)

    yield change
    path.write_text(before)


def backup(operator: Operator) -> Said:
    return operator("backup", "create", "-o", "json")


def stopped(said: Said, code: int, problem: str) -> str:
    """See that a command was stopped by what was caused, and return its hint."""
    error = said.error
    words = "; ".join([error["message"], *error.get("detail", [])])
    assert (said.code, problem in words) == (code, True), said.err
    return str(error["hint"])


def test_a_lock_is_waited_for(operator: Operator) -> None:
    with site_lock(operator.state, SITE, "backup verify", SystemClock()):
        hint = stopped(backup(operator), 6, "backup verify")
    assert hint.startswith("wait until it has ended")  # which it has
    assert backup(operator).code == TAKEN


def test_the_lease_of_a_dead_machine_lapses_when_the_hint_says(
    operator: Operator, config: Callable[[str, str], None]
) -> None:
    config("    backup:\n", "    shared_state: shared\n    backup:\n")
    assert backup(operator).code == TAKEN
    dead = Lease(
        LocalStore(operator.lab.folder / "shared"),
        SITE,
        SystemClock(),
        "elsewhere",
        "work",
        Terms(lapses=1.0, ends=1.0),
    )
    for _ in dead.take():
        pass
    hint = stopped(backup(operator), 6, "another machine works on site")
    (seconds,) = re.findall(r"where that machine is dead, its lease lapses in (\d+)s", hint)
    time.sleep(int(seconds) + 1)
    assert backup(operator).code == TAKEN


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of a few hundred kB."""
    place = tmp_path / "small"
    place.mkdir()
    given = "size=900k,nr_inodes=200,mode=700"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", given, "tmpfs", place], check=False).returncode:
        pytest.skip("this account may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(small: Path, lacking: str) -> None:
    """Leave a file system no room, or not one inode."""
    with pytest.raises(OSError, match="No space left"):
        for number in range(10_000):
            with (small / f"filler-{number}").open("wb", 0) as file:
                while lacking == "room":
                    file.write(bytes(4096))


@pytest.mark.parametrize("lacking", ["room", "inodes"])
@pytest.mark.parametrize("what", ["store", "state"])
def test_a_full_disk_is_enough_once_there_is_room(
    operator: Operator, config: Callable[[str, str], None], small: Path, what: str, lacking: str
) -> None:
    config(rf"(?m)^( *){what}: .*", rf"\g<1>{what}: {small}/maint")
    fill(small, lacking)
    hint = stopped(backup(operator), 1, "No space left on device")
    place = "there|on the disk of the state folder"
    assert re.match(f"make room ({place}), or inodes where `df -i` shows none, then (run it )?again", hint)
    for filler in small.glob("filler-*"):
        filler.unlink()
    assert backup(operator).code == TAKEN


def test_a_certificate_that_is_not_valid_yet_is_so_once_the_servers_clock_is_right(operator: Operator) -> None:
    settings, authority = operator.lab.world.settings, pki.Authority.load(operator.lab.folder / "ca")
    keystore = host_files.inside(operator.root, settings["KEYSTORE_PATH"])

    def certified(now: datetime) -> None:
        pair = authority.server([*pki.LOOPBACK], now)
        keystore.write_bytes(host_files.keystore_jks(authority, pair, settings["KEYSTORE_PASSWORD"], now))
        operator.lab.server.restart()
        assert operator.lab.server.wait()

    certified(datetime.now(UTC) + timedelta(days=2))  # by a clock that is ahead
    hint = stopped(backup(operator), 4, "the certificate is not valid yet")
    assert hint.startswith("renew the server's certificate, or set the clock right: this machine's or the server's")
    certified(datetime.now(UTC))
    assert backup(operator).code == TAKEN


@pytest.mark.parametrize("way", ["use a key without a passphrase", "load it into an SSH agent and leave ssh.key out"])
def test_an_ssh_key_with_a_passphrase_opens_without_or_by_an_agent(
    operator: Operator, config: Callable[[str, str], None], tmp_path: Path, way: str
) -> None:
    key = operator.lab.folder / "ssh/id_ed25519"
    phrase = ["ssh-keygen", "-q", "-p", "-f", str(key)]
    subprocess.run([*phrase, "-P", "", "-N", "a-phrase"], check=True)
    check = ("host", "check", "--check", "os.tz", "-o", "json")
    hint = stopped(operator(*check), 3, "it has a passphrase")
    assert way in hint
    env = {}
    if "agent" in way:
        asked = tmp_path / "ask"
        asked.write_text("#!/bin/sh\necho a-phrase\n")
        asked.chmod(0o700)
        told = subprocess.run(["ssh-agent", "-s"], check=True, capture_output=True, text=True).stdout
        env = dict(re.findall(r"(SSH_AUTH_SOCK|SSH_AGENT_PID)=([^;]*)", told))
        asking = {**os.environ, **env, "SSH_ASKPASS": str(asked), "SSH_ASKPASS_REQUIRE": "force"}
        try:
            subprocess.run(["ssh-add", "-q", str(key)], env=asking, check=True)
            config(r"(?m)^ *key: .*id_ed25519.*\n", "")
            said = operator(*check, **env)
        finally:
            os.kill(int(env["SSH_AGENT_PID"]), signal.SIGTERM)
        subprocess.run([*phrase, "-P", "a-phrase", "-N", ""], check=True)
    else:
        subprocess.run([*phrase, "-P", "a-phrase", "-N", ""], check=True)
        said = operator(*check)
    assert said.code == 0, said.err


def test_a_key_that_is_missing_is_put_back_where_the_hint_says(operator: Operator) -> None:
    identity = operator.lab.folder / "identity"
    kept = identity.rename(identity.with_name("elsewhere"))
    said = operator("backup", "verify", "-o", "json")
    hint = stopped(said, 3, f"cannot read the secret file {identity}: No such file")
    assert hint == "put it back there, or correct its path"
    kept.rename(identity)
    assert operator("backup", "verify").code == 0


@pytest.mark.parametrize("whose", ["manager", "virtual cluster"])
def test_a_password_that_has_expired_is_exchanged_where_the_hint_says(operator: Operator, whose: str) -> None:
    file = operator.lab.folder / "password"
    command: tuple[str, ...] = ("cluster", "list", "-o", "json")
    whole = str(operator.lab.folder / "whole.yaml")
    if whose != "manager":
        assert operator.lab.service is not None
        file = next((operator.lab.service.folder / "passwords").glob("etl_user"))
        command = ("vc", "status", "-o", "json")
    now = file.read_text()
    file.write_text("that-of-last-year\n")
    hint = stopped(operator(*command, MAINT_CONFIG=whole), 4, "401")
    assert ("manager.password" if whose == "manager" else "password") in hint
    file.write_text(now)
    assert operator(*command, MAINT_CONFIG=whole).code == 0


def test_a_command_to_type_names_the_config_that_was_named_unless_it_is_found_without(operator: Operator) -> None:
    named = maint("backup", "show", "nosuch", "--config", operator.config, "-o", "json").error["hint"]
    command = named.partition("`")[2].partition("`")[0]
    assert command == f"maint backup list --config {operator.config}"
    assert maint(*command.split()[1:], "--allow-plain").code == 0
    found = operator("backup", "show", "nosuch", "-o", "json").error["hint"]
    assert found == named.replace(f" --config {operator.config}", "")
