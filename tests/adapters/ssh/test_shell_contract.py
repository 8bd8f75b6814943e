"""What every host over SSH gives: real OpenSSH on loopback, and the lab's hosts; a new kind joins by one fixture."""

import hashlib
import os
import shlex
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.ssh.shell import FabricShell
from maint.errors import Invalid, TimedOut, WorkFailed
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.ssh_server import SshLab
from maint.ports.hosts import write_script


@pytest.fixture
def openssh(make: Callable[..., FabricShell]) -> FabricShell:
    return make()


@pytest.fixture
def lab(make_from: Callable[..., FabricShell], tmp_path: Path) -> Iterator[FabricShell]:
    lab = SshLab([Machine(name, tmp_path / name, {}) for name in ("one", "two")], tmp_path / "ssh")
    lab.start()
    try:
        yield make_from(
            {name: port for name, (_, port) in lab.endpoints.items()},
            user=lab.user,
            key=lab.key_file,
            known_hosts=lab.known_hosts_file,
        )
    finally:
        lab.stop()


@pytest.fixture(params=["openssh", "lab"])
def shell(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def folder(shell: FabricShell) -> Iterator[str]:
    """A folder of its own on the host."""
    path = f"/tmp/maint-test-{os.urandom(8).hex()}"
    assert shell.run("one", f"mkdir -p {path}").ok
    yield path
    shell.run("one", f"rm -rf {path}")


def listed(shell: FabricShell, folder: str) -> list[bytes]:
    return shell.ask("one", f"ls -A {folder}").out.splitlines()


def test_a_command_tells_its_outputs_and_how_it_ended(shell: FabricShell) -> None:
    ran = shell.run("one", "printf out; printf err >&2; exit 7")
    assert (ran.out, ran.err, ran.status, ran.ok) == (b"out", b"err", 7, False)


def test_a_command_reads_its_input_to_the_end(shell: FabricShell) -> None:
    content = os.urandom(3_000_000)
    ran = shell.ask("one", "sha256sum", stdin=content)
    assert ran.out.split()[0].decode() == hashlib.sha256(content).hexdigest()
    assert shell.ask("one", "cat").out == b""


def test_large_outputs_do_not_wait_for_each_other(shell: FabricShell, folder: str) -> None:
    content = os.urandom(5_000_000)
    ran = shell.ask("one", f"cat > {folder}/x; cat {folder}/x >&2; cat {folder}/x", stdin=content)
    assert ran.out == content
    assert ran.err == content


def test_a_command_that_ends_without_reading_its_input_tells_its_status(shell: FabricShell) -> None:
    assert shell.ask("one", "exit 3", stdin=b"x" * 5_000_000).status == 3


def test_after_a_command_that_did_not_end_in_time_the_next_one_runs(shell: FabricShell) -> None:
    with pytest.raises(TimedOut, match="one") as failure:
        shell.run("one", "sleep 5", timeout=0.3)
    assert failure.value.detail == ("it may still run there",)
    assert shell.ask("one", "echo alive").out == b"alive\n"


def test_many_threads_may_use_many_hosts_at_once(shell: FabricShell) -> None:
    def ask(number: int) -> bytes:
        return shell.ask(("one", "two")[number % 2], f"sleep 0.1; echo {number}").out

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, range(32))) == [b"%d\n" % number for number in range(32)]


def test_a_host_that_the_site_does_not_have_is_refused(shell: FabricShell) -> None:
    with pytest.raises(Invalid, match="no host 'three'"):
        shell.ask("three", "true")


def test_a_command_line_arrives_as_it_was_given(shell: FabricShell) -> None:
    words = ["a b", "it's", '"', "$HOME", "\\", "*", "é", "new\nline"]
    ran = shell.ask("one", "printf '%s\\0' " + shlex.join(words))
    assert ran.out.decode().split("\0")[:-1] == words


@pytest.mark.parametrize("name", ["plain", "with blank", 'it\'s "quoted"', "$(touch x) `id`", "-rf", "ümläut"])
def test_a_file_is_written_and_read_whatever_its_name(shell: FabricShell, folder: str, name: str) -> None:
    content = os.urandom(200_000)
    path = f"{folder}/{name}"
    assert shell.read_file("one", path) is None
    shell.write_file("one", path, content)
    assert shell.read_file("one", path) == content
    assert shell.ask("one", f"stat -c %a {shlex.quote(path)}").out == b"644\n"
    shell.write_file("one", path, b"")
    assert shell.read_file("one", path) == b""
    assert len(listed(shell, folder)) == 1


def test_a_replaced_file_keeps_its_mode(shell: FabricShell, folder: str) -> None:
    shell.run("one", f"echo old > {folder}/file; chmod 4750 {folder}/file")
    shell.write_file("one", f"{folder}/file", b"new")
    assert shell.ask("one", f"cat {folder}/file; stat -c %a {folder}/file").out == b"new4750\n"


def test_a_symbolic_link_stays_one_and_its_target_is_replaced(shell: FabricShell, folder: str) -> None:
    shell.run("one", f"mkdir {folder}/real; echo old > {folder}/real/file; ln -s real/file {folder}/link")
    shell.write_file("one", f"{folder}/link", b"new")
    assert shell.ask("one", f"[ -L {folder}/link ] && cat {folder}/real/file").out == b"new"
    assert shell.read_file("one", f"{folder}/link") == b"new"


def test_a_file_that_cannot_be_written_is_a_failure_and_leaves_nothing(shell: FabricShell, folder: str) -> None:
    shell.run("one", f"mkdir {folder}/folder")
    for path in (f"{folder}/missing/file", f"{folder}/folder"):
        with pytest.raises(WorkFailed, match="cannot write"):
            shell.write_file("one", path, b"x")
    assert listed(shell, folder) == [b"folder"]
    assert listed(shell, f"{folder}/folder") == []


def test_content_that_does_not_arrive_whole_is_never_put_in_place(shell: FabricShell, folder: str) -> None:
    shell.run("one", f"printf old > {folder}/file")
    ran = shell.run("one", write_script(f"{folder}/file", b"whole content"), stdin=b"whole")
    assert not ran.ok
    assert b"did not arrive whole" in ran.err
    assert shell.read_file("one", f"{folder}/file") == b"old"
    assert listed(shell, folder) == [b"file"]


def test_what_is_there_but_no_file_is_told_apart_from_what_is_missing(shell: FabricShell, folder: str) -> None:
    shell.run("one", f"touch {folder}/file; ln -s nowhere {folder}/dangling")
    for missing in ("nothing", "no/such/folder", "file/below", "dangling"):
        assert shell.read_file("one", f"{folder}/{missing}") is None
    with pytest.raises(WorkFailed, match="cannot read"):
        shell.read_file("one", folder)


def test_what_a_command_prints_is_read_while_it_runs_and_its_end_is_told(shell: FabricShell, folder: str) -> None:
    content = os.urandom(3_000_000)
    shell.run("one", f"cat > {folder}/x", stdin=content)
    with shell.stream("one", f"cat {folder}/x") as output:
        blocks = list(iter(lambda: output.read(100_000), b""))
    assert b"".join(blocks) == content
    assert max(map(len, blocks)) <= 100_000


def test_a_streamed_command_that_fails_at_its_end_is_told_with_its_own_words(shell: FabricShell) -> None:
    with shell.stream("one", "echo some; echo reason >&2; exit 3") as output:
        assert output.read(100) == b"some\n"
        with pytest.raises(WorkFailed, match="status 3") as failure:
            output.read(100)
    assert failure.value.detail == ("reason",)


def test_whoever_stops_reading_a_stream_can_go_on_with_the_host(shell: FabricShell) -> None:
    with shell.stream("one", "seq 1 200000") as output:
        assert output.read(2) == b"1\n"
    assert shell.ask("one", "echo still here").out == b"still here\n"


def test_a_stream_on_which_nothing_comes_is_given_up(shell: FabricShell) -> None:
    with pytest.raises(TimedOut), shell.stream("one", "sleep 5", timeout=0.2) as output:
        output.read(1)
