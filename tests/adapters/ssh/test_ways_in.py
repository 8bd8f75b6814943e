"""How a fleet gets in where it is not simply let in: jump hosts, sudo, certificates; on real OpenSSH."""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.config.schema import HostSettings, Jump, Sudo
from maint.errors import Invalid
from maint.model.fleet import HostReply
from tests.adapters.conftest import SSHD, Relay, missing
from tests.adapters.ssh.conftest import Ground, OneSecret, made, wait_for_banner
from tests.ports import free_port

WHO = b"id -u\n"


def asked(ground: Ground, script: bytes = WHO, **options: Any) -> list[HostReply]:
    fleet, hosts = ground.fleet(**options)
    return list(fleet.ask(hosts, {host.name: script for host in hosts}))


def jump(ground: Ground, **more: object) -> Jump:
    """Return the first host as the one to go through."""
    return Jump.model_construct(host="127.0.0.1", port=next(iter(ground.ports.values())), **more)


def test_all_hosts_are_reached_through_a_jump_host(ground: Ground) -> None:
    replies = asked(ground, b"echo $((6 * 7))\n", jump=jump(ground))
    assert [(reply.out, reply.reason) for reply in replies] == [(b"42\n", None)] * len(ground.ports)


def test_a_jump_host_that_does_not_answer_is_the_reason_for_each_host(openssh: Ground, filtered: int) -> None:
    ports = dict.fromkeys((f"n{number}" for number in range(20)), 22)
    replies = asked(openssh, ports=ports, jump=Jump(host="127.0.0.1", port=filtered), connect_timeout=1.5)
    for reply in replies:
        assert str(reply.reason).startswith("no way through the jump host 127.0.0.1")
        assert "no answer within 1.5 s" in str(reply.reason)


def test_a_run_that_ends_does_not_wait_for_a_jump_host(openssh: Ground, filtered: int) -> None:
    fleet, hosts = openssh.fleet(jump=Jump(host="127.0.0.1", port=filtered), connect_timeout=600.0)
    replies = list(fleet.ask(hosts, {host.name: WHO for host in hosts}, timeout=0.5))
    assert {"limit" in str(reply.reason) for reply in replies} == {True}


def test_hosts_behind_a_jump_host_are_told_apart_by_their_own_keys(openssh: Ground, tmp_path: Path) -> None:
    first, second, third = openssh.known_hosts.read_text().splitlines()
    (tmp_path / "known").write_text(f"{first}\n{second}\n{third.split(' ')[0]} {second.partition(' ')[2]}\n")
    replies = asked(openssh, known_hosts=tmp_path / "known", jump=jump(openssh))
    assert [reply.reason is None for reply in replies] == [True, True, False]
    assert "HOST KEY HAS CHANGED" in str(replies[2].reason)


def test_the_connection_to_a_jump_host_ends_with_the_run(openssh: Ground) -> None:
    before = set(threading.enumerate())
    asked(openssh, jump=jump(openssh))
    for thread in set(threading.enumerate()) - before:
        thread.join(20)
    assert set(threading.enumerate()) <= before


def test_a_lost_jump_host_is_not_blamed_on_the_hosts_behind_it(openssh: Ground, tmp_path: Path) -> None:
    relay = Relay(next(iter(openssh.ports.values())))
    known = openssh.known_hosts.read_text()
    (tmp_path / "known").write_text(known + f"[127.0.0.1]:{relay.port} {known.partition(' ')[2]}")
    script = f"touch {tmp_path}/begun-$$; sleep 60\n".encode()

    over = threading.Event()

    def cut() -> None:
        while len(list(tmp_path.glob("begun-*"))) < len(openssh.ports) and not over.wait(0.02):
            pass
        relay.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        way = Jump(host="127.0.0.1", port=relay.port)
        replies = asked(openssh, script, known_hosts=tmp_path / "known", jump=way, command_timeout=50.0)
    finally:
        over.set()
        cutter.join()
        relay.close()
    assert {reply.reason for reply in replies} == {"the connection to the jump host was lost"}


def test_the_key_of_a_jump_host_is_shown_although_it_is_not_known_yet(openssh: Ground, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    fleet, hosts = openssh.fleet(known_hosts=tmp_path / "known", jump=jump(openssh))
    first, *others = fleet.keys([HostSettings(name="bastion", address="127.0.0.1", port=hosts[0].port), *hosts[1:]])
    assert first.fingerprint.startswith("SHA256:")
    assert {
        "maint host trust 127.0.0.1" in str(reply.hint)
        for reply in asked(openssh, known_hosts=tmp_path / "known", jump=jump(openssh))
    } == {True}
    assert {"not known" in str(other.reason) for other in others} == {True}


def test_a_jump_host_that_forbids_forwarding_is_told_with_what_to_look_at(openssh: Ground, tmp_path: Path) -> None:
    config, port = openssh.key.with_name("config0").read_text(), free_port()
    (tmp_path / "config").write_text(
        config.replace(f":{openssh.ports['n1']}\n", f":{port}\n") + "AllowTcpForwarding no\n"
    )
    known = openssh.known_hosts.read_text()
    (tmp_path / "known").write_text(f"{known}[127.0.0.1]:{port} {known.partition(' ')[2]}")
    process = subprocess.Popen([str(SSHD), "-D", "-f", tmp_path / "config"], stderr=subprocess.DEVNULL)
    try:
        wait_for_banner(port)
        way = Jump(host="127.0.0.1", port=port)
        replies = asked(openssh, known_hosts=tmp_path / "known", jump=way)
    finally:
        process.terminate()
        process.wait()
    assert {reply.reason for reply in replies} == {"the jump host does not get there: forwarding is forbidden there"}
    assert {"AllowTcpForwarding" in str(reply.hint) for reply in replies} == {True}


def test_a_host_that_a_jump_host_cannot_reach_is_told_apart_from_its_neighbours(openssh: Ground) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    ports = {"gone": port} | openssh.ports
    replies = asked(openssh, ports=ports, jump=jump(openssh))
    assert [reply.reason is None for reply in replies] == [False, True, True, True]
    assert str(replies[0].reason).startswith("the jump host does not get there: Connect")


@pytest.fixture(scope="module")
def account() -> Iterator[str]:
    """An account whose sudo wants a password."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("sudo", "useradd", "chpasswd"))):
        missing("needs root, sudo and useradd to make an account that sudo asks for its password")
    name = f"maintf{os.getpid()}"
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


@pytest.mark.parametrize("through", [False, True], ids=["straight", "through-a-jump-host"])
def test_sudo_makes_the_script_root_and_its_password_is_looked_up_once(
    openssh: Ground, account: str, through: bool
) -> None:
    secrets = OneSecret("pass word")
    way = jump(openssh, user=openssh.user) if through else None
    replies = asked(openssh, user=account, sudo=Sudo(password="prompt"), secrets=secrets, jump=way)
    assert [(reply.out, reply.reason) for reply in replies] == [(b"0\n", None)] * len(openssh.ports)
    assert secrets.asked == 1


def test_a_wrong_sudo_password_is_told_for_each_host_and_nothing_runs(
    openssh: Ground, account: str, tmp_path: Path
) -> None:
    script = f"touch {tmp_path}/ran\n".encode()
    replies = asked(
        openssh, script, user=account, sudo=Sudo(password="env:X"), secrets=OneSecret("canary"),
        jump=jump(openssh, user=openssh.user),
    )  # fmt: skip
    for reply in replies:
        assert reply.reason == "sudo did not accept the password"
        assert reply.out == b""
        assert "canary" not in repr(reply)
    assert not (tmp_path / "ran").exists()


def test_a_sudo_password_that_cannot_be_looked_up_is_told_before_anybody_is_asked(openssh: Ground) -> None:
    class Nothing(OneSecret):
        def resolve(self, reference: str) -> Any:
            raise Invalid(f"{reference} is not set")

    with pytest.raises(Invalid, match="env:X is not set"):
        asked(openssh, sudo=Sudo(password="env:X"), secrets=Nothing())


Sign = Callable[..., Path]


@pytest.fixture
def sign(openssh: Ground, tmp_path: Path) -> Sign:
    """Makes a key that no server knows, with a certificate of the authority that all of them believe."""

    def make(principal: str, *, valid: str) -> Path:
        key = tmp_path / f"visitor-{principal}"
        made(key)
        authority = openssh.key.with_name("authority")
        words = ["ssh-keygen", "-q", "-s", authority, "-I", "visitor", "-n", principal, "-V", valid, f"{key}.pub"]
        subprocess.run(words, check=True)
        return key

    return make


def test_a_certificate_beside_the_key_lets_in(openssh: Ground, sign: Sign) -> None:
    key = sign(openssh.user, valid="-1h:+1h")
    assert {reply.reason for reply in asked(openssh, key=key)} == {None}
    key.with_name(f"{key.name}-cert.pub").unlink()
    assert {"was not let in" in str(reply.reason) for reply in asked(openssh, key=key)} == {True}


def test_a_certificate_for_somebody_else_or_of_yesterday_does_not(openssh: Ground, sign: Sign) -> None:
    for key in (sign("somebody-else", valid="-1h:+1h"), sign(openssh.user, valid="-2h:-1h")):
        assert {"was not let in" in str(reply.reason) for reply in asked(openssh, key=key)} == {True}


def test_a_certificate_also_opens_the_jump_host(openssh: Ground, sign: Sign) -> None:
    key = sign(openssh.user, valid="-1h:+1h")
    assert {reply.reason for reply in asked(openssh, key=key, jump=jump(openssh))} == {None}
