"""One lock per site, told by the kernel: two real processes, and one that is killed."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maint.adapters.clock import SystemClock
from maint.config.schema import ManagerSettings, SiteSettings
from maint.engine.lock import holder, is_held, manager_lock, site_lock, works_on
from maint.errors import Locked, NotWritten, WorkFailed
from maint.files import locked
from maint.model.formatting import tell_times

HOLD = """
import sys
from pathlib import Path
from maint.adapters.clock import SystemClock
from maint.engine.lock import site_lock
with site_lock(Path(sys.argv[1]), "prod", "playbook stop-cluster", SystemClock()):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the lock."""
    words = [sys.executable, "-c", HOLD, str(tmp_path)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def take(state):
    with site_lock(state, "prod", "playbook probe", SystemClock()):
        return True


def test_a_second_run_is_told_who_holds_the_lock_since_when_and_doing_what_or_that_it_wrote_no_name(tmp_path, other):
    with pytest.raises(Locked) as caught:
        take(tmp_path)
    error = caught.value
    assert (error.exit_code, "prod" in error.message) == (6, True)
    assert f"process {other.pid}" in error.detail[0]
    assert "playbook stop-cluster" in error.detail[0]
    assert tell_times(holder(tmp_path).since) in error.detail[0]
    (tmp_path / "lock").write_text("")
    with pytest.raises(Locked, match="another run works on site prod"):
        take(tmp_path)


def test_the_lock_is_free_after_the_work_and_names_nobody(tmp_path, other):
    other.communicate("go\n")
    assert holder(tmp_path) is None
    assert take(tmp_path)


def test_a_process_that_was_begun_under_the_lock_does_not_hold_it_on(tmp_path):
    with site_lock(tmp_path, "prod", "a test", SystemClock()):
        handle = next(int(one.name) for one in Path("/proc/self/fd").iterdir() if one.resolve() == tmp_path / "lock")
        child = subprocess.Popen(["sleep", "60"], pass_fds=[handle])  # as any has it open until it is another program
    try:
        assert not is_held(tmp_path)
    finally:
        child.kill()
        child.wait()


def test_a_failure_under_the_lock_frees_it(tmp_path):
    with pytest.raises(ZeroDivisionError), site_lock(tmp_path, "prod", "x", SystemClock()):
        raise ZeroDivisionError
    assert take(tmp_path)


def test_a_state_folder_that_cannot_be_made_is_a_clear_failure(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WorkFailed, match="state folder") as caught:
        take(tmp_path / "file" / "state")
    assert "MAINT_STATE" in caught.value.hint


def test_a_killed_process_holds_no_lock_as_the_kernel_says_and_not_a_process_number(tmp_path, other):
    assert is_held(tmp_path)
    other.kill()
    other.wait()
    assert holder(tmp_path).pid == other.pid  # a killed process leaves its name, and its number may be used again
    assert not is_held(tmp_path)
    assert not is_held(tmp_path / "nowhere")
    assert take(tmp_path)


def test_a_lock_that_cannot_be_opened_is_not_called_free(tmp_path):
    (tmp_path / "lock").symlink_to("lock")
    with pytest.raises(WorkFailed, match="cannot be opened"):
        is_held(tmp_path)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])  # NFS, Lustre and others say it so
def test_a_file_system_without_locks_is_told_as_that_and_is_no_bug(tmp_path, monkeypatch, number):
    def lockless(*_):
        raise OSError(number, os.strerror(number))

    assert take(tmp_path)
    monkeypatch.setattr(fcntl, "flock", lockless)  # no such file system can be counted on to be at hand
    for asked in take, is_held:
        with pytest.raises(WorkFailed, match=f"lock cannot be taken: {os.strerror(number)}") as caught:
            asked(tmp_path)
        assert "local disk" in caught.value.hint
    with pytest.raises(NotWritten, match=os.strerror(number)), locked(tmp_path):
        pass


def test_a_user_without_a_name_takes_the_lock(tmp_path, monkeypatch):
    def nameless(_):
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("pwd.getpwuid", nameless)
    with site_lock(tmp_path, "prod", "playbook probe", SystemClock()):
        assert holder(tmp_path).user == f"uid {os.getuid()}"


def test_a_full_disk_keeps_nobody_from_taking_the_lock(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    assert take(tmp_path)
    monkeypatch.undo()
    with site_lock(tmp_path, "prod", "playbook probe", SystemClock()):
        monkeypatch.setattr(type(tmp_path), "open", full)
        works_on(tmp_path, "20260101T000000.000Z-0000")


def test_a_lock_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / "lock").mkdir()
    with pytest.raises(WorkFailed, match="cannot be opened: Is a directory"):
        take(tmp_path)


def site(state, name, host="cm.example.internal", port=7180):
    manager = ManagerSettings.model_construct(host=host, plain_port=port, tls_port=7183)
    return SiteSettings.model_construct(name=name, state=state / name, manager=manager)


def test_two_sites_at_one_manager_hold_each_other_off_and_other_managers_do_not(tmp_path):
    clock = SystemClock()
    with manager_lock(site(tmp_path, "prod"), "playbook stop-cluster", clock):
        with pytest.raises(Locked) as caught, manager_lock(site(tmp_path, "twin", "CM.example.internal"), "x", clock):
            pass
        assert caught.value.message == "another run works on the manager of site twin"
        assert "playbook stop-cluster, for site prod" in caught.value.detail[0]
        with manager_lock(site(tmp_path, "other", port=17180), "playbook probe", clock):
            pass
    with manager_lock(site(tmp_path, "twin"), "playbook probe", clock):
        pass


def test_a_folder_of_all_states_that_is_not_ours_keeps_no_run_from_working(tmp_path):
    Path(tmp_path, ".managers").write_text("in the way")
    with manager_lock(site(tmp_path, "prod"), "playbook probe", SystemClock()):
        assert Path(tmp_path, ".managers").read_text() == "in the way"
