"""What has gone wrong while nobody looked, or soon will, is told by doctor, and gone when its hint was followed."""

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from maint.config.paths import account
from maint.errors import WRITABLE
from maint.lab import pki
from maint.lab.manager import host_files
from maint.lab.running import Lab
from tests.cli.conftest import only_the_manager
from tests.cli.site.test_doctor_hints import lines, restarted, typed_in
from tests.steps.conftest import copy
from tests.steps.operator import Operator


@pytest.fixture(scope="module")
def operator(backed_up, tmp_path_factory):
    """A manager and its host, whose snapshot was verified here; each test leaves it well, by what doctor says."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("doctor") / "lab")) as lab:
        operator = only_the_manager(Operator(lab), hosts=1)
        assert operator("backup", "verify").code == 0
        yield operator


def test_a_drill_that_failed_after_a_good_one_is_no_good_drill(operator):
    assert operator("backup", "drill").code == 0
    part = min((operator.lab.folder / "backups").glob("*/*/deployment.json.zst.age"))
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert operator("backup", "drill").code == 1
    part.write_bytes(whole)  # a sound copy, as the hint wants
    found = operator("doctor", "-o", "json").json["checks"]
    wrong = {one["label"]: one for one in found if one["state"] in ("warn", "FAIL")}
    assert [*wrong] == ["snapshots", "backup", "drill", "last backup drill"]
    assert "failed: it does not pass level 3" in wrong["drill"]["words"]
    typed_in(operator, wrong["snapshots"]["hint"])
    assert {one["state"] for one in operator("doctor", "-o", "json").json["checks"]} <= {"ok", "skip"}


def test_a_verification_that_could_not_be_done_is_told_however_fresh_the_newest_backup_is(operator):
    key = operator.state / "keys/signing"
    kept = key.rename(key.with_name("kept-elsewhere"))
    failed = operator("backup", "verify")  # as a timer does it
    kept.rename(key)
    assert failed.code == 1
    found = lines(operator)
    assert [*found] == ["last backup verify"] and "key that is not trusted" in found["last backup verify"]["words"], (
        found
    )
    typed_in(operator, found["last backup verify"]["hint"])
    assert lines(operator) == {}


def test_nobody_is_told_to_believe_a_key_of_whom_they_do_not_know(operator):
    key = operator.state / "keys/signing"
    kept = key.rename(key.with_name("kept-elsewhere"))
    hint = lines(operator)["snapshots"]["hint"]
    kept.rename(key)
    assert "only if you know which machine took it" in hint and f"put back {key}" in hint


def test_a_certificate_that_ends_tomorrow_is_told_today(operator):
    settings, authority = operator.lab.world.settings, pki.Authority.load(operator.lab.folder / "ca")
    keystore = host_files.inside(operator.root, settings["KEYSTORE_PATH"])
    before = keystore.read_bytes()
    pair = authority.server([*pki.LOOPBACK], datetime.now(UTC) - timedelta(days=364))
    keystore.write_bytes(host_files.keystore_jks(authority, pair, settings["KEYSTORE_PASSWORD"], datetime.now(UTC)))
    restarted(operator)
    found = lines(operator)
    keystore.write_bytes(before)  # a new one
    restarted(operator)
    assert [*found] == ["certificate"] and "then restart it" in found["certificate"]["hint"]
    assert lines(operator) == {}


SHOW = """#!/bin/sh
d={}
case "$*" in
  *enable*) echo enabled > $d/boot ;;
  *start*timer) echo active > $d/timer ;;
  *start*) echo success > $d/result ;;
  *show*-p*) for u in "$@"; do case $u in *.timer)
    printf 'Id=%s\\nActiveState=%s\\nUnitFileState=%s\\n\\n' $u $(cat $d/timer) $(cat $d/boot) ;; *.service)
    printf 'Id=%s\\nActiveState=inactive\\nResult=%s\\n\\n' $u $(cat $d/result) ;; esac; done ;;
esac
"""


def test_a_timer_that_starts_nothing_or_what_it_started_and_failed_is_told(operator, tmp_path, monkeypatch):
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(SHOW.format(tmp_path))
    program.chmod(0o755)
    lingering = tmp_path / "lingering"
    lingering.mkdir()
    (program.parent / "loginctl").write_text(f"#!/bin/sh\n[ $1 = enable-linger ] && touch {lingering / account()}\n")
    (program.parent / "loginctl").chmod(0o755)
    subprocess.run([program.parent / "loginctl", "enable-linger"], check=True)
    for name, well in (("timer", "active"), ("boot", "enabled"), ("result", "success")):
        (tmp_path / name).write_text(well)
    monkeypatch.setattr("maint.cli.schedule.units.MANAGED", tmp_path)
    monkeypatch.setattr("maint.cli.site.doctor_backups.MANAGED", tmp_path)
    monkeypatch.setattr("maint.cli.schedule.units.LINGERING", lingering)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    config = Path(operator.config)
    assert operator("schedule", "install", "--user", "--form", "systemd", "--yes").code == 0, config
    assert lines(operator) == {}
    for what, is_, words in (
        ("timer", "inactive", "maint-backup-lab.timer is inactive: nothing starts by itself"),
        ("boot", "disabled", "not after the next boot"),
        ("result", "exit-code", "maint-backup-lab.service ended last with exit-code"),
        ("linger", "", "run only while you are logged in"),
    ):
        if what == "linger":
            (lingering / account()).unlink()
        (tmp_path / what).write_text(is_)
        found = lines(operator)
        assert [*found] == ["schedule"] and words in found["schedule"]["words"], (what, found)
        typed_in(operator, found["schedule"]["hint"].rpartition("then ")[2])
        assert lines(operator) == {}, what
    config.write_text(config.read_text().replace(str(operator.state.parent), f"{tmp_path}/moved state"))
    operator.state.parent.rename(tmp_path / "moved state")
    found = lines(operator)
    assert [*found] == ["schedule"] and "may be at work at once" in found["schedule"]["words"], found
    assert operator("schedule", "install", "--user", "--form", "systemd", "--yes").code == 0
    assert lines(operator) == {}
    config.write_text(config.read_text().replace(f"{tmp_path}/moved state", str(operator.state.parent)))
    (tmp_path / "moved state").rename(operator.state.parent)
    assert operator("schedule", "remove", "--user", "--yes").code == 0


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, which can be mounted read-only."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "tmpfs", place], check=False).returncode:
        pytest.skip("this account may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("what", ["store", "state", "copy"])
def test_what_is_mounted_read_only_is_no_good_place_and_is_mounted_for_writing(operator, disk, what: str):
    config = Path(operator.config)
    text = config.read_text()
    if what == "copy":
        config.write_text(text.replace("    backup:\n", f"    backup:\n      copies: [{disk}]\n"))
        assert operator("playbook", "run", "copy", "--yes").code == 0
    else:
        config.write_text(re.sub(rf"(?m)^( *){what}: .*", rf"\g<1>{what}: {disk}", text, count=1))
    before = lines(operator)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    found = lines(operator)
    (label,) = (one for one in found if one.startswith(what) and "mounted read-only" in found[one]["words"])
    if what == "state":
        refused = operator("backup", "create", "-o", "json")
        assert (refused.code, refused.error["hint"]) == (1, f"{WRITABLE}, then again")
    typed_in(operator, found[label]["hint"])
    assert lines(operator) == before
    config.write_text(text)


def test_a_disk_that_the_kernel_has_given_up_is_no_good_place_however_it_is_mounted(operator, tmp_path):
    image, place = tmp_path / "image", tmp_path / "place"
    image.write_bytes(bytes(64 << 20))
    place.mkdir()
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4 for a disk to break")
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, place], check=False).returncode:
        pytest.skip("this account may not mount a file system")
    config = Path(operator.config)
    text = config.read_text()
    config.write_text(re.sub(r"(?m)^( *)state: .*", rf"\g<1>state: {place}", text, count=1))
    try:
        assert "state" not in lines(operator)
        device = Path(subprocess.check_output(["findmnt", "-no", "SOURCE", place], text=True).strip())
        Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error").write_text("x")
        found = lines(operator)["state"]
        refused = operator("backup", "create", "-o", "json")
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        config.write_text(text)
    assert (found["state"], "cannot be written to" in found["words"]) == ("FAIL", True), found
    assert (refused.code, "once it is repaired" in refused.error["hint"]) == (1, True), refused.err


def test_a_config_on_a_volume_that_is_mounted_read_only_is_no_failure_whatever_its_mode(operator, disk):
    config = disk / "config.yaml"
    shutil.copy(operator.config, config)
    disk.chmod(0o777)
    operator.config = str(config)
    assert lines(operator)["config open"]["state"] == "FAIL"
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    told = lines(operator)["config open"]
    assert (told["state"], told["words"].partition(" read-only")[0]) == ("warn", f"{disk} is mounted")
