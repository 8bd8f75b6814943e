"""Whoever goes away leaves nothing running on the hosts, nor here; on real OpenSSH."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maint.adapters.ssh.shell import watched
from tests.adapters.conftest import SSHD
from tests.adapters.ssh.conftest import Ground, wait_for_banner
from tests.forked import Command
from tests.ports import free_port
from tests.steps.operator import environment

LONG = 70_000 + os.getpid()  # seconds; nobody else sleeps that long


def sleepers() -> list[str]:
    return subprocess.run(["pgrep", "-f", f"^sleep {LONG}"], capture_output=True, text=True).stdout.split()


def until(condition: Callable[[], bool]) -> bool:
    """Wait for something that another process does."""
    limit = time.monotonic() + 200
    while not (so := condition()) and time.monotonic() < limit:
        time.sleep(0.05)
    return so


@pytest.fixture
def stuck(openssh: Ground, tmp_path: Path) -> Iterator[Path]:
    """A config whose one host has a `df` that never ends."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/df").write_text(f"#!/bin/sh\nsleep {LONG}\n")
    (tmp_path / "bin/df").chmod(0o755)
    port = free_port()
    usual = openssh.key.with_name("config0").read_text().replace(f":{openssh.ports['n1']}\n", f":{port}\n")
    (tmp_path / "sshd_config").write_text(usual.replace("SetEnv ", f"SetEnv PATH={tmp_path}/bin:/usr/bin:/bin "))
    process = subprocess.Popen([str(SSHD), "-D", "-f", tmp_path / "sshd_config"], stderr=subprocess.DEVNULL)
    key = openssh.known_hosts.read_text().split("\n")[0].partition(" ")[2]
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    (tmp_path / "config.yaml").write_text(
        f"sites:\n  prod:\n    manager: {{host: cm.example.internal, username: a, password: 'env:NOBODY'}}\n"
        f"    ssh: {{user: {openssh.user}, key: {openssh.key}, known_hosts: {tmp_path}/known_hosts}}\n"
        f"    hosts:\n      - {{name: stuck, address: 127.0.0.1, port: {port}, groups: [base]}}\n"
    )
    try:
        wait_for_banner(port)
        yield tmp_path / "config.yaml"
    finally:
        process.terminate()
        process.wait()
        for number in sleepers():
            os.kill(int(number), signal.SIGKILL)


@pytest.mark.parametrize(
    ("sent", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
    ids=["ctrl-c", "terminated", "killed"],
)
def test_a_check_that_is_interrupted_leaves_nothing_running(stuck: Path, sent: signal.Signals, code: int) -> None:
    process = Command(["host", "check", "--check", "disk.inodes", "--config", str(stuck)], environment())
    assert until(lambda: bool(sleepers()))
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True).stdout
    assert children == b""  # no ssh process does our work
    process.send_signal(sent)
    out, err = process.communicate(timeout=200)
    assert process.returncode == code
    assert "resume" not in err
    assert (sent == signal.SIGKILL) or ("interrupted" in err and "stuck" in out)
    assert until(lambda: not sleepers())


def test_a_script_that_took_too_long_is_ended_with_all_that_it_started(openssh: Ground) -> None:
    fleet, hosts = openssh.fleet(command_timeout=2.0)
    script = f"echo begun\n(sleep {LONG}; echo later) &\nsleep {LONG}\n".encode()
    for reply in fleet.ask(hosts, {host.name: script for host in hosts}):
        assert reply.out == b"begun\n"
    assert until(lambda: not sleepers())


def test_what_a_script_gives_back_is_its_own(openssh: Ground) -> None:
    fleet, hosts = openssh.fleet()
    scripts = (b"", b"cat; false\n", b"exit 7\n", b"set -eu\nx() { echo inner; }\nx\n")
    for script, out, status in zip(scripts, (b"", b"", b"", b"inner\n"), (0, 1, 7, 0), strict=True):
        reply = next(iter(fleet.ask(hosts[:1], {hosts[0].name: script})))
        assert (reply.out, reply.status, reply.reason) == (out, status, None)


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_every_shell_ends_its_script_when_nobody_listens(shell: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    process = subprocess.Popen(
        [shell, "-s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin and process.stdout
    process.stdin.write(watched(f"echo begun; sleep {LONG}\n".encode()))
    process.stdin.flush()
    assert process.stdout.readline() == b"begun\n"
    process.stdin.close()
    assert process.wait(200) == -signal.SIGTERM
    process.stdout.close()
    assert process.stderr and process.stderr.read() == b""
    process.stderr.close()
    assert until(lambda: not sleepers())


def test_a_shell_that_does_not_lead_its_own_session_harms_nobody_beside_it() -> None:
    mark = "echo beside; sleep 0.1; echo still-here"
    script = watched(b"sleep 1\n").decode()
    words = ["sh", "-c", f"printf '%s' \"$1\" | sh -s; {mark}", "sh", script]
    # A group of its own, which is not a session: where these tests lead one, as under `setsid`, theirs would be ended.
    ended = subprocess.run(words, capture_output=True, text=True, timeout=200, process_group=0)
    assert ended.stdout == "beside\nstill-here\n"
