"""Hosts over SSH as only real OpenSSH shows: host keys, lost connections, jump hosts, sudo, owners of files."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.ssh.runner import SudoGate
from maint.adapters.ssh.shell import FabricShell
from maint.config.schema import Jump, Sudo
from maint.errors import CannotReach, Invalid, LoginRefused, TimedOut, WorkFailed
from maint.ports.hosts import MISSING, is_there, read_script, write_script
from tests.adapters.conftest import make_key, missing

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change owners")


Make = Callable[..., FabricShell]


@pytest.fixture
def shell(make: Make) -> FabricShell:
    return make()


def test_large_input_and_both_outputs_at_once_do_not_wait_for_each_other(shell: FabricShell) -> None:
    content = os.urandom(5_000_000)
    ran = shell.ask("one", "tee /dev/stderr", stdin=content)
    assert ran.out == content
    assert ran.err == content


SCRIPT = r"""set -f; several="a b
c"
for one in $several; do printf '%s ' "<$one>"; done
if [ "$several" ]; then printf '%s' 'it'"'"'s \\ \n $HOME !x `y` "q" %'; fi; cat
"""


@pytest.mark.parametrize("sudo", [False, True])
@pytest.mark.parametrize("login_shell", ["bash", "dash", "fish", "zsh"])
def test_a_command_is_carried_out_by_sh_whatever_the_login_shell(
    make: Make, sshd: Any, login_shell: str, sudo: bool
) -> None:
    for program in (login_shell, *(["sudo"] if sudo else [])):
        if not shutil.which(program):
            missing(f"{program} is not installed")
    if sudo and os.geteuid() != 0:
        pytest.skip("nobody else may be root without a password")
    key, keys = sshd.folder / f"as-{login_shell}", sshd.folder / "authorized_keys"
    if not key.exists():
        line = f'command="{login_shell} -c \\"$SSH_ORIGINAL_COMMAND\\"" {make_key(key)}\n'
        keys.write_text(keys.read_text() + line)
    ran = make(key=key, **({"sudo": Sudo()} if sudo else {})).ask("one", SCRIPT, stdin=b"input")
    expected = subprocess.run(["/bin/sh", "-c", SCRIPT], input=b"input", capture_output=True, check=True)
    assert (ran.out, ran.status) == (expected.stdout, 0), ran


def test_a_command_that_closes_its_outputs_is_still_waited_for(shell: FabricShell) -> None:
    assert shell.ask("one", "exec >&- 2>&-; sleep 0.3; exit 4").status == 4


def test_a_command_killed_by_a_signal_is_not_taken_for_done(shell: FabricShell) -> None:
    ran = shell.ask("one", "printf x; kill -9 $$")
    assert ran.out == b"x"
    assert not ran.ok


def test_the_sites_own_limit_holds_where_none_is_given(make: Make) -> None:
    with pytest.raises(TimedOut):
        make(command_timeout=0.3).ask("one", "sleep 30")


def test_commands_to_one_host_share_a_connection(make: Make, sshd: Any, relay: Any) -> None:
    shell = make(port=relay.port)
    for _ in range(3):
        shell.ask("one", "true")
    assert relay.connections == 1


def test_closing_ends_the_connections_and_their_threads(make: Make) -> None:
    before = set(threading.enumerate())
    shell = make()
    shell.ask("one", "true")
    ours = set(threading.enumerate()) - before
    assert ours
    shell.close()
    for thread in ours:
        thread.join(200)
    assert not any(thread.is_alive() for thread in ours)
    assert shell.ask("one", "echo again").out == b"again\n"


@pytest.mark.parametrize("stream", ["", " >&2"])
def test_a_command_that_prints_without_end_is_ended(shell: FabricShell, stream: str) -> None:
    with pytest.raises(WorkFailed, match="printed more than 64 MiB"):
        shell.ask("one", f"cat /dev/zero{stream}")
    assert shell.ask("one", "echo alive").out == b"alive\n"


def test_a_command_that_prints_on_and_on_has_no_more_time_than_a_silent_one(shell: FabricShell) -> None:
    with pytest.raises(TimedOut):
        shell.ask("one", "while :; do echo on; sleep 0.01; done", timeout=0.2)


# Connections that break


def test_a_connection_lost_between_commands_is_made_anew(make: Make, relay: Any) -> None:
    shell = make(port=relay.port)
    for way in (shell.ask, shell.run):
        assert way("one", "echo before").out == b"before\n"
        relay.cut()
        assert way("one", "echo after").out == b"after\n"


def test_what_may_have_begun_is_never_repeated(make: Make, relay: Any, tmp_path: Path) -> None:
    shell = make(port=relay.port)
    shell.run("one", "true")
    mark = tmp_path / "begun"
    cutter = threading.Thread(target=cut_once_there, args=(mark, relay))
    cutter.start()
    with pytest.raises(CannotReach) as failure:
        shell.run("one", f"echo x >> {mark}; sleep 20")
    cutter.join()
    assert "may have begun" in failure.value.detail[0]
    assert mark.read_text() == "x\n"
    assert shell.run("one", "echo alive").out == b"alive\n"


def test_a_question_on_a_kept_connection_is_asked_once_more(make: Make, relay: Any, tmp_path: Path) -> None:
    shell = make(port=relay.port)
    shell.ask("one", "true")
    mark = tmp_path / "begun"
    cutter = threading.Thread(target=cut_once_there, args=(mark, relay))
    cutter.start()
    ran = shell.ask("one", f"echo x >> {mark}; [ $(wc -l < {mark}) -gt 1 ] || sleep 20; echo answer")
    cutter.join()
    assert ran.out == b"answer\n"


@pytest.mark.parametrize("kept", [True, False])
def test_of_a_question_that_is_lost_nobody_says_that_it_may_have_changed_something(
    make: Make, relay: Any, tmp_path: Path, kept: bool
) -> None:
    shell = make(port=relay.port)
    if kept:
        shell.ask("one", "true")
    mark, times = tmp_path / "begun", 2 if kept else 1
    cutter = threading.Thread(target=lambda: [cut_once_there(mark, relay, "x\n" * more) for more in (1, 2)[:times]])
    cutter.start()
    with pytest.raises(CannotReach) as failure:
        shell.ask("one", f"echo x >> {mark}; sleep 20")
    cutter.join()
    assert mark.read_text() == "x\n" * times
    assert failure.value.detail == ()
    assert (failure.value.hint or "").endswith("go down? Then again")


def cut_once_there(mark: Path, relay: Any, content: str = "x\n") -> None:
    while not mark.exists() or mark.read_text() != content:
        time.sleep(0.02)
    relay.cut()


# Hosts that do not let us in


def test_a_host_that_is_not_known_is_refused_with_its_fingerprint_and_what_to_do(make: Make, sshd: Any) -> None:
    with pytest.raises(CannotReach, match="not known") as refusal:
        make(known="").ask("one", "true")
    assert sshd.fingerprint in refusal.value.detail[0]
    assert "maint host trust one" in (refusal.value.hint or "")


def test_a_host_whose_key_has_changed_is_refused_loudly(make: Make, sshd: Any, tmp_path: Path) -> None:
    other = public_key(tmp_path / "other")
    with pytest.raises(CannotReach, match="CHANGED") as refusal:
        make(known=f"[127.0.0.1]:{sshd.port} {other}\n").ask("one", "true")
    assert sshd.fingerprint in refusal.value.detail[0]
    assert "--replace" in (refusal.value.hint or "")


def test_a_revoked_key_is_refused_even_where_it_is_recorded(make: Make, sshd: Any) -> None:
    with pytest.raises(CannotReach, match="REVOKED"):
        make(known=f"@revoked * {sshd.host_key}\n{sshd.known_as()}").ask("one", "true")


def public_key(path: Path) -> str:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path.with_name(path.name + ".pub").read_text().strip()


def test_hashed_names_are_understood(make: Make, sshd: Any, tmp_path: Path) -> None:
    (tmp_path / "hashed").write_text(sshd.known_as())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", tmp_path / "hashed"], check=True, capture_output=True)
    known = (tmp_path / "hashed").read_text()
    assert known.startswith("|1|")
    assert make(known=known).ask("one", "echo in").out == b"in\n"


def test_an_old_key_beside_the_present_one_does_no_harm(make: Make, sshd: Any, tmp_path: Path) -> None:
    other = public_key(tmp_path / "other")
    known = f"[127.0.0.1]:{sshd.port} {other}\n{sshd.known_as()}"
    assert make(known=known).ask("one", "echo in").out == b"in\n"


def test_a_host_with_several_keys_is_asked_for_the_one_that_is_recorded(make: Make, sshd: Any) -> None:
    second = (sshd.folder / "second.pub").read_text().strip()
    assert make(known=f"[127.0.0.1]:{sshd.port} {second}\n").ask("one", "echo in").out == b"in\n"


def test_an_account_that_is_not_let_in_is_told(make: Make, tmp_path: Path) -> None:
    public_key(tmp_path / "stranger")
    with pytest.raises(LoginRefused, match="was not let in"):
        make(key=tmp_path / "stranger").ask("one", "true")


def test_a_key_that_others_can_read_is_refused(make: Make, tmp_path: Path) -> None:
    public_key(tmp_path / "key")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(Invalid, match="can be read by others"):
        make(key=tmp_path / "key").ask("one", "true")


@pytest.mark.parametrize("content", ["", "no key", None])
def test_a_key_that_is_none_is_refused(make: Make, tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "key").write_text(content)
        (tmp_path / "key").chmod(0o600)
    with pytest.raises(Invalid, match="SSH key"):
        make(key=tmp_path / "key").ask("one", "true")


def test_a_key_with_a_passphrase_is_refused_with_a_way_out(make: Make, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "canary", "-f", tmp_path / "key"], check=True)
    with pytest.raises(Invalid, match="SSH key") as refusal:
        make(key=tmp_path / "key").ask("one", "true")
    assert "passphrase" in refusal.value.detail[0]
    assert "agent" in str(refusal.value.hint)


def test_a_closed_port_is_told(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(CannotReach, match="Connection refused"):
        make(port=port).ask("one", "true")


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 200])
def test_a_port_that_speaks_something_else_or_nothing_is_told(make: Make, greeting: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            talk, _ = server.accept()
            with talk:
                talk.sendall(greeting)
                talk.recv(1000)
                time.sleep(2)

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(CannotReach, match="one"):
            make(port=server.getsockname()[1], connect_timeout=1.0).ask("one", "true")


def test_nothing_is_printed_when_a_host_cannot_be_reached(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            server.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(CannotReach):
            make(port=server.getsockname()[1]).ask("one", "true")
    assert capfd.readouterr() == ("", "")


# Jump hosts and sudo


def test_a_host_is_reached_through_a_jump_host(make: Make, sshd: Any, relay: Any) -> None:
    shell = make(
        port=sshd.port,
        known=sshd.known_as(relay.port, sshd.port),
        jump=Jump(host="127.0.0.1", port=relay.port, user=sshd.user),
    )
    assert shell.ask("one", "echo in").out == b"in\n"
    assert shell.ask("two", "cat", stdin=b"x" * 300_000).out == b"x" * 300_000
    assert relay.connections == 1
    relay.cut()
    assert shell.ask("one", "echo again").out == b"again\n"


def test_a_jump_hosts_key_is_checked_too(make: Make, sshd: Any, relay: Any) -> None:
    shell = make(known=sshd.known_as(), jump=Jump(host="127.0.0.1", port=relay.port, user=sshd.user))
    with pytest.raises(CannotReach, match="not known"):
        shell.ask("one", "true")


@pytest.fixture(scope="module")
def account(sshd: Any) -> Iterator[str]:
    """An account with a password that sudo asks for."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("sudo", "useradd", "chpasswd"))):
        pytest.skip("needs root, sudo and useradd to make an account that sudo asks for its password")
    name = f"maint{os.getpid()}"
    subprocess.run(["useradd", "-M", "-d", "/", "-s", "/bin/sh", name], check=True)
    rule = Path("/etc/sudoers.d") / name
    try:
        subprocess.run(["chpasswd"], input=f"{name}:pass word\n", text=True, check=True)
        rule.write_text(f"{name} ALL=(ALL) ALL\n")
        rule.chmod(0o440)
        yield name
    finally:
        rule.unlink(missing_ok=True)
        subprocess.run(["userdel", "-f", name], check=False, capture_output=True)


@ROOT_ONLY
def test_sudo_makes_a_command_root_and_its_input_stays_its_own(make: Make, account: str) -> None:
    shell = make(user=account, sudo=Sudo(password="env:X"), secret="pass word")
    for _ in range(2):  # the second time sudo may not ask again
        ran = shell.run("one", "id -u; cat", stdin=b"line one\nline two")
        assert (ran.out, ran.err, ran.status) == (b"0\nline one\nline two", b"", 0)
    ran = shell.run("one", "echo it\\'s >&2; exit 1")
    assert (ran.err, ran.status) == (b"it's\n", 1)


@ROOT_ONLY
def test_a_rule_without_password_does_not_hand_the_password_to_the_command(make: Make, sshd: Any) -> None:
    if not shutil.which("sudo"):
        pytest.skip("sudo is not installed")
    shell = make(sudo=Sudo(password="env:X"), secret="canary")
    assert shell.run("one", "cat", stdin=b"content").out == b"content"


@ROOT_ONLY
def test_a_wrong_sudo_password_is_a_refused_login_and_nothing_runs(make: Make, account: str, tmp_path: Path) -> None:
    shell = make(user=account, sudo=Sudo(password="env:X"), secret="wrong")
    with pytest.raises(LoginRefused, match="did not accept") as refusal:
        shell.run("one", f"touch {tmp_path}/ran", stdin=b"content")
    assert "wrong" not in repr(refusal.value) + str(refusal.value.detail)
    assert not (tmp_path / "ran").exists()


@ROOT_ONLY
def test_a_sudo_that_wants_a_password_where_none_is_configured_is_a_refused_login(make: Make, account: str) -> None:
    with pytest.raises(LoginRefused, match="sudo refused") as refusal:
        make(user=account, sudo=True).run("one", "true")
    assert "password" in refusal.value.detail[0]


@ROOT_ONLY
def test_a_sudo_that_wants_a_terminal_is_a_refused_login_that_names_what_lets_it_do_without(
    make: Make, account: str
) -> None:
    rule = Path(f"/etc/sudoers.d/{account}-tty")
    rule.write_text(f"Defaults:{account} requiretty\n")
    rule.chmod(0o440)
    try:
        with pytest.raises(LoginRefused, match="sudo refused") as refusal:
            make(user=account, sudo=Sudo(password="env:X"), secret="pass word").run("one", "true")
    finally:
        rule.unlink()
    assert "!requiretty" in str(refusal.value.hint)


def test_a_name_that_holds_tty_is_none() -> None:
    gate = SudoGate("one", None)
    gate.feed(b"betty is not in the sudoers file.\n")
    assert "requiretty" not in str(gate.refusal().hint)


@ROOT_ONLY
def test_a_command_that_does_not_end_in_time_is_stopped(make: Make, account: str) -> None:
    shell = make(user=account)
    with pytest.raises(TimedOut, match="one"):
        shell.run("one", f"exec sleep {600 + os.getpid()}", timeout=0.5)
    limit = time.monotonic() + 200
    while not subprocess.run(["pgrep", "-f", f"sleep {600 + os.getpid()}"], capture_output=True).returncode:
        assert time.monotonic() < limit, "the command is still running"
        time.sleep(0.05)


# Files


@ROOT_ONLY
@pytest.mark.parametrize("mode", [0o600, 0o4755, 0o640])
def test_a_replaced_file_keeps_owner_and_mode(shell: FabricShell, tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    nobody = pwd.getpwnam("nobody").pw_uid
    os.chown(path, nobody, 12)
    path.chmod(mode)
    shell.write_file("one", str(path), b"new")
    now = path.stat()
    assert (path.read_text(), now.st_uid, now.st_gid, now.st_mode & 0o7777) == ("new", nobody, 12, mode)


def test_what_a_dead_writer_left_goes_with_the_next_write(shell: FabricShell, tmp_path: Path) -> None:
    dead, alive, other = (tmp_path / name for name in (f".maint-{'0' * 16}", f".maint-{'1' * 16}", ".maint-notes"))
    for path in (dead, alive, other):
        path.write_text("x")
    for path in (dead, other):
        os.utime(path, (0, 0))
    shell.write_file("one", str(tmp_path / "file"), b"new")
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} >= {"file", alive.name, other.name}
    assert not dead.exists()


@ROOT_ONLY
def test_what_may_not_be_read_is_told_apart_from_what_is_missing(make: Make, account: str, public_folder: Path) -> None:
    shell = make(user=account)
    (public_folder / "secret").write_text("x")
    (public_folder / "secret").chmod(0o600)
    (public_folder / "closed").mkdir(mode=0o700)
    for path in ("secret", "closed/file", "closed/deep/file"):
        with pytest.raises(WorkFailed, match="cannot read"):
            shell.read_file("one", str(public_folder / path))
    assert shell.read_file("one", str(public_folder / "nothing")) is None
    for path in ("closed/file", "closed/deep/file"):
        with pytest.raises(WorkFailed, match="cannot be seen"):
            is_there(shell, "one", str(public_folder / path))
    there = {path: is_there(shell, "one", str(public_folder / path)) for path in ("secret", "closed", "no", "no/no")}
    assert there == {"secret": True, "closed": True, "no": False, "no/no": False}
    assert not is_there(shell, "one", "no path at all")


def test_the_scripts_for_files_run_under_any_posix_shell(tmp_path: Path) -> None:
    shells = [["sh"], *([["busybox", "sh"]] if shutil.which("busybox") else []), ["bash", "--posix"]]
    path = str(tmp_path / "it's")
    for words in shells:
        assert subprocess.run([*words, "-c", read_script(path + words[0])]).returncode == MISSING
        script = write_script(path + words[0], b"x")
        ended = subprocess.run([*words, "-c", script], input=b"x", capture_output=True)
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert subprocess.run([*words, "-c", read_script(path + words[0])], capture_output=True).stdout == b"x"


def test_fabric_is_not_imported_before_a_host_is_reached() -> None:
    script = "import sys; import maint.cli.composition; sys.exit('fabric' in sys.modules or 'paramiko' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
