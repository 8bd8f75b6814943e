"""The lab's SSH: real clients against it."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest
from fabric import Connection

from maint.lab.faults import AILMENTS, HOST_FAULTS
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.ssh_server import SshLab


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine("one", tmp_path / "one", {})


@pytest.fixture
def lab(machine: Machine, tmp_path: Path) -> Iterator[SshLab]:
    lab = SshLab([machine, Machine("two", tmp_path / "two", {})], tmp_path / "ssh")
    lab.start()
    yield lab
    lab.stop()


Connect = Callable[[], paramiko.SSHClient]


@pytest.fixture
def connect(lab: SshLab) -> Iterator[Connect]:
    clients: list[paramiko.SSHClient] = []

    def connected() -> paramiko.SSHClient:
        client = paramiko.SSHClient()
        clients.append(client)
        client.load_host_keys(str(lab.known_hosts_file))
        host, port = lab.endpoints["one"]
        client.connect(
            host, port, lab.user, key_filename=str(lab.key_file), allow_agent=False, look_for_keys=False, timeout=100
        )
        return client

    yield connected
    for client in clients:
        client.close()


def _run(client: paramiko.SSHClient, command: str, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    sent, out, err = client.exec_command(command, timeout=100)
    sent.write(stdin)
    sent.channel.shutdown_write()
    return out.channel.recv_exit_status(), out.read(), err.read()


def _openssh(lab: SshLab, *command: str, stdin: bytes = b"", host: str = "one") -> "subprocess.CompletedProcess[bytes]":
    address, port = lab.endpoints[host]
    options = ["-F", "none", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=yes"]
    files = ["-i", str(lab.key_file), "-o", f"UserKnownHostsFile={lab.known_hosts_file}", "-p", str(port)]
    return subprocess.run(
        ["ssh", *options, *files, f"{lab.user}@{address}", *command], input=stdin, capture_output=True, timeout=200
    )


def test_a_command_gives_output_errors_and_status(connect: Connect) -> None:
    assert _run(connect(), "echo out; echo err >&2; exit 3") == (3, b"out\n", b"err\n")


def test_a_script_on_stdin_is_read_until_it_ends(connect: Connect) -> None:
    assert _run(connect(), "exec /bin/sh -s", b'read -r line\nwhat follows\necho "<$line>"\n') == (
        0,
        b"<what follows>\n",
        b"",
    )


def test_several_channels_share_a_connection(connect: Connect) -> None:
    client = connect()
    first_in, first_out, _ = client.exec_command("read -r x; echo first $x", timeout=100)
    assert _run(client, "echo second")[1] == b"second\n"
    first_in.write(b"late\n")
    first_in.channel.shutdown_write()
    assert first_out.read() == b"first late\n"


def test_many_short_commands_are_never_lost(connect: Connect) -> None:
    client = connect()
    assert [_run(client, f"echo {n}")[1] for n in range(50)] == [f"{n}\n".encode() for n in range(50)]


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client on this machine")
def test_openssh_runs_a_command_with_input(lab: SshLab) -> None:
    done = _openssh(lab, "cat; exit 4", stdin=b"through\n" * 20000)
    assert (done.returncode, done.stdout) == (4, b"through\n" * 20000)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no OpenSSH client on this machine")
def test_openssh_refuses_a_changed_host_key(lab: SshLab, machine: Machine) -> None:
    machine.fault = "wrong-key"
    done = _openssh(lab, "echo no")
    assert done.returncode == 255
    assert b"HOST IDENTIFICATION HAS CHANGED" in done.stderr
    machine.fault = None
    assert _openssh(lab, "echo yes").stdout == b"yes\n"


def test_fabric_runs_commands(lab: SshLab) -> None:
    host, port = lab.endpoints["two"]
    with Connection(host, lab.user, port, connect_kwargs={"key_filename": str(lab.key_file)}) as connection:
        assert connection.run("echo two", hide=True, in_stream=False).stdout == "two\n"


def test_another_key_is_not_let_in(lab: SshLab) -> None:
    host, port = lab.endpoints["one"]
    with paramiko.SSHClient() as client:
        client.load_host_keys(str(lab.known_hosts_file))
        with pytest.raises(paramiko.AuthenticationException):
            client.connect(
                host, port, "root", pkey=paramiko.RSAKey.generate(2048), allow_agent=False, look_for_keys=False
            )


def test_keys_survive_a_restart(lab: SshLab, tmp_path: Path) -> None:
    before = lab.key_file.read_bytes(), lab.known_hosts_file.read_text().split()[2]
    again = SshLab([Machine("one", tmp_path / "one", {})], tmp_path / "ssh")
    again.start()
    again.stop()
    assert (again.key_file.read_bytes(), again.known_hosts_file.read_text().split()[2]) == before
    assert again.key_file.stat().st_mode & 0o777 == 0o600


def test_an_unreachable_host_closes_its_port_and_opens_it_again(machine: Machine, connect: Connect) -> None:
    client = connect()
    machine.fault = "unreachable"
    with pytest.raises(OSError):
        connect()
    machine.fault = None
    assert _run(connect(), "echo back")[1] == b"back\n"
    with pytest.raises((OSError, EOFError, paramiko.SSHException)):
        _run(client, "echo still here")


def test_nobody_is_let_in_when_login_is_refused(machine: Machine, connect: Connect) -> None:
    machine.fault = "login-refused"
    with pytest.raises(paramiko.AuthenticationException):
        connect()


def test_a_host_that_dies_gives_part_of_its_answer_and_no_status(machine: Machine, connect: Connect) -> None:
    client = connect()
    machine.fault = "dies-mid-command"
    status, out, _ = _run(client, "echo 1234567890; echo more")
    assert status == -1
    assert out in (b"", b"12345")


def test_a_host_that_hangs_lets_go_when_the_client_leaves(machine: Machine, connect: Connect) -> None:
    machine.fault = "hangs-after-login"
    client = connect()
    _, out, _ = client.exec_command("echo never", timeout=0.3)
    with pytest.raises(TimeoutError):
        out.read()


def test_junk_comes_before_the_answer(machine: Machine, connect: Connect) -> None:
    machine.fault = "banner-junk"
    _, out, _ = _run(connect(), "echo answer")
    assert out.endswith(b"\nanswer\n") and out != b"answer\n"


def test_a_full_disk_refuses_what_writes(machine: Machine, connect: Connect) -> None:
    machine.fault = "disk-full"
    status, _, err = _run(connect(), "echo x > /file")
    assert status != 0 and b"No space left on device" in err


def test_every_fault_is_described() -> None:
    assert all(fault.meaning and name == name.lower() for name, fault in HOST_FAULTS.items())
    assert {"unreachable", "slow", "disk-full"} | set(AILMENTS) <= set(HOST_FAULTS)


def test_a_lab_host_is_a_jump_host_to_the_labs_other_hosts(lab: SshLab, connect: Connect) -> None:
    near = connect().get_transport()
    assert near is not None
    for host, port in (lab.endpoints["two"], ("two", 22)):
        with paramiko.SSHClient() as far:
            far.set_missing_host_key_policy(paramiko.AutoAddPolicy())  # keys have tests of their own
            tunnel = near.open_channel("direct-tcpip", (host, port), ("", 0), timeout=100)
            far.connect(
                host, port, lab.user, sock=tunnel, key_filename=str(lab.key_file), allow_agent=False,
                look_for_keys=False, timeout=100,
            )  # fmt: skip
            assert _run(far, "cat", b"x" * 200_000) == (0, b"x" * 200_000, b"")


def test_a_tunnel_out_of_the_lab_is_refused(lab: SshLab, connect: Connect) -> None:
    import socket

    near = connect().get_transport()
    assert near is not None
    with socket.create_server(("127.0.0.1", 0)) as outside:
        port = outside.getsockname()[1]
        for place in (("127.0.0.1", port), ("localhost", port), ("example.com", 22), ("::1", lab.endpoints["two"][1])):
            with pytest.raises(paramiko.ChannelException, match="prohibited"):
                near.open_channel("direct-tcpip", place, ("", 0), timeout=100)
