"""The private folder on a host, made by real shells: bytes whole, nobody else lets in, wiped however it ends."""

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from maint.steps.virtual_clusters.init_host import fed, script, sweeping
from maint.steps.virtual_clusters.step import own_prefix

FILES = {"principal": b"etl_user@EXAMPLE.COM\n", "keytab": bytes(range(256)) * 40, "empty": b""}


@pytest.fixture(params=["dash", "bash"])
def shell(request):
    if not shutil.which(request.param):
        pytest.skip(f"no {request.param}")
    return request.param


def folders(state):
    return [path for place in ("/run", "/tmp") for path in Path(place).glob(f"{own_prefix(state)}init.*")]


def call(shell, state, body):
    return subprocess.run([shell, "-c", script(state, FILES, body)], input=fed(FILES), capture_output=True, check=False)


def test_files_arrive_whole_and_for_nobody_else(shell, tmp_path):
    body = f'stat -c %a "$d" "$d/in" "$d/in/keytab" > {tmp_path}/modes; cp "$d"/in/* {tmp_path}; pwd > {tmp_path}/where'
    ended = call(shell, tmp_path, body)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "modes").read_text().split() == ["700", "700", "600"]
    assert {name: (tmp_path / name).read_bytes() for name in FILES} == FILES
    assert own_prefix(tmp_path) in (tmp_path / "where").read_text()
    assert folders(tmp_path) == []


def test_how_it_ends_and_what_it_says_come_through(shell, tmp_path):
    ended = call(shell, tmp_path, "echo said aloud; echo why it failed >&2; read -r line || echo no input >&2; exit 7")
    assert (ended.returncode, ended.stdout) == (7, b"")
    assert ended.stderr == b"why it failed\nno input\n"
    assert folders(tmp_path) == []


def test_a_folder_that_cannot_be_filled_is_wiped_too(shell, tmp_path):
    ended = subprocess.run(
        [shell, "-c", script(tmp_path, FILES, f"touch {tmp_path}/ran")], input=b"no base64!\n", capture_output=True
    )
    assert ended.returncode != 0
    assert not (tmp_path / "ran").exists()
    assert folders(tmp_path) == []


def test_what_has_begun_goes_on_to_its_end_when_nobody_listens_any_more(shell, tmp_path):
    """As sshd leaves it when the connection is lost: no terminal, pipes closed, perhaps a hangup."""
    body = f"echo begun > {tmp_path}/begun; sleep 0.3; echo aloud; echo aloud >&2; echo done > {tmp_path}/done"
    process = subprocess.Popen(
        [shell, "-c", script(tmp_path, FILES, body)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    process.stdin.write(fed(FILES))
    process.stdin.close()
    awaited(tmp_path / "begun")
    process.stdout.close()
    process.stderr.close()
    os.killpg(process.pid, signal.SIGHUP)
    process.wait(200)
    assert (tmp_path / "done").exists()
    assert folders(tmp_path) == []


def awaited(path):
    limit = time.monotonic() + 200
    while not path.exists():
        assert time.monotonic() < limit, f"{path} never came"
        time.sleep(0.01)


def test_what_a_killed_one_left_goes_with_the_next_and_nobody_elses(shell, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    process = subprocess.Popen(
        [shell, "-c", script(tmp_path, FILES, f"touch {tmp_path}/begun; exec sleep 60")],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    process.stdin.write(fed(FILES))
    process.stdin.close()
    awaited(tmp_path / "begun")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (left,) = folders(tmp_path)
    assert (left / "in" / "keytab").read_bytes() == FILES["keytab"]
    subprocess.run([shell, "-c", sweeping(other)], check=True)
    assert folders(tmp_path) == [left]
    assert call(shell, tmp_path, "true").returncode == 0
    assert folders(tmp_path) == []


def test_one_that_goes_on_after_its_run_was_killed_is_waited_for_and_not_wiped(shell, tmp_path):
    body = f"touch {tmp_path}/begun; sleep 1.2; cat ../in/principal > {tmp_path}/done"
    process = subprocess.Popen([shell, "-c", script(tmp_path, FILES, body)], stdin=subprocess.PIPE)
    process.stdin.write(fed(FILES))
    process.stdin.close()
    awaited(tmp_path / "begun")
    reaper = threading.Thread(target=process.wait)  # as sshd does: one that nobody reaps seems to live
    reaper.start()
    subprocess.run([shell, "-c", sweeping(tmp_path)], check=True)
    assert (tmp_path / "done").read_bytes() == FILES["principal"]
    reaper.join(20)
    assert process.returncode == 0
    assert folders(tmp_path) == []
