"""Forty hosts of which some are bad, each in its own way: each answers, or its failure has a name."""

import errno
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from paramiko import Channel

from maint.adapters.ssh.connections import Connections
from maint.checks.gather import parse, script
from maint.checks.registry import QUESTIONS
from maint.config.schema import HostSettings, SshSettings
from maint.errors import CannotReach
from tests.adapters.ssh.conftest import Ground

TOKEN = "maint-0123456789abcdef"
ASKED = {name: QUESTIONS[name] for name in ("swappiness", "zone", "os_release", "mounts")}


def test_each_of_forty_hosts_answers_or_has_a_reason(
    openssh: Ground, lab_beside: Ground, silent: Callable[..., int], filtered: int, tmp_path: Path
) -> None:
    lab = lab_beside
    lab.machines["n1"].fault = "dies-mid-command"
    lab.machines["n2"].fault = "banner-junk"
    lab.machines["n3"].fault = "hangs-after-login"
    lab.machines["n4"].fault = "wrong-key"
    lab.machines["n5"].fault = "login-refused"
    good = list(openssh.ports.values())
    ports = {f"wn{n:03}": good[n % len(good)] for n in range(32)}
    bad: dict[str, int] = {
        "filtered": filtered,
        "mute": silent(),
        "dies": lab.ports["n1"],
        "junk": lab.ports["n2"],
        "hangs": lab.ports["n3"],
        "other-key": lab.ports["n4"],
        "other-account": lab.ports["n5"],
    }
    with socket.create_server(("127.0.0.1", 0)) as closed:
        bad["refused"] = closed.getsockname()[1]
    (tmp_path / "known").write_text(openssh.known_hosts.read_text() + lab.known_hosts.read_text())
    fleet, hosts = openssh.fleet(
        bad | ports,  # what is waited for is waited for beside the others
        known_hosts=tmp_path / "known",
        connect_timeout=5.0,
        command_timeout=5.0,
    )
    asked = script(ASKED, {}, TOKEN)
    replies = {reply.host: reply for reply in fleet.ask(hosts, {host.name: asked for host in hosts})}
    for name in ports:
        assert replies[name].reason is None, replies[name]
        assert parse(replies[name].out, TOKEN, ASKED).reason == ""
    assert "refused" in str(replies["refused"].reason)
    assert "no answer within 5 s" in str(replies["filtered"].reason)
    assert replies["mute"].reason
    assert "lost" in str(replies["dies"].reason)
    assert "5 s" in str(replies["hangs"].reason)
    assert "HOST KEY HAS CHANGED" in str(replies["other-key"].reason)
    assert "was not let in" in str(replies["other-account"].reason)
    framed = parse(replies["junk"].out, TOKEN, ASKED)
    assert framed.reason == ""
    assert "watched" in framed.before


def test_a_wrong_key_and_a_wrong_account_are_told_apart(openssh: Ground, tmp_path: Path) -> None:
    first, second = list(openssh.ports)[:2]
    lines = openssh.known_hosts.read_text().splitlines()
    swapped = [line.replace(f":{openssh.ports[first]} ", ":1 ") for line in lines]
    other = lines[1].split(" ", 1)[1]
    (tmp_path / "known").write_text("\n".join([*swapped, f"[127.0.0.1]:{openssh.ports[first]} {other}"]) + "\n")
    fleet, hosts = openssh.fleet(known_hosts=tmp_path / "known")
    replies = {reply.host: reply for reply in fleet.ask(hosts, {host.name: b"echo x\n" for host in hosts})}
    assert "HOST KEY HAS CHANGED" in str(replies[first].reason)
    assert replies[second].out == b"x\n"
    fleet, hosts = openssh.fleet(user="nobody-of-that-name")
    assert {"was not let in" in str(r.reason) for r in fleet.ask(hosts, {h.name: b"" for h in hosts})} == {True}


def test_what_is_no_ssh_server_is_named(openssh: Ground, silent: Callable[..., int]) -> None:
    fleet, hosts = openssh.fleet({"web": silent(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 300)}, connect_timeout=2.0)
    (reply,) = fleet.ask(hosts, {"web": b"echo x\n"})
    assert reply.reason
    (seen,) = fleet.keys(hosts)
    assert seen.reason
    assert seen.fingerprint == ""


def test_a_damaged_greeting_is_a_reason_and_no_crash(openssh: Ground) -> None:
    algorithms = bytes([20]) + bytes(16) + struct.pack(">I", 4) + b"\xff\xfe\xff\xfe"  # names that are not UTF-8
    packet = struct.pack(">IB", 1 + len(algorithms) + 10, 10) + algorithms + bytes(10)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            near, _ = server.accept()
            with near:
                near.sendall(b"SSH-2.0-torn\r\n" + packet)
                while near.recv(65_536):
                    pass

        thread = threading.Thread(target=greet)
        thread.start()
        host = HostSettings.model_construct(name="torn", address="127.0.0.1", port=server.getsockname()[1])
        connections = Connections(SshSettings(user="root", key=openssh.key, connect_timeout=20.0))
        with pytest.raises(CannotReach, match="damaged"):
            connections.open(connections.address(host))
        thread.join()


def test_a_host_for_which_no_pipe_can_be_opened_is_one_failure(
    openssh: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(channel: Channel) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Channel, "fileno", full)
    fleet, hosts = openssh.fleet()
    assert {"Too many open files" in str(reply.reason) for reply in fleet.ask(hosts, {h.name: b"" for h in hosts})} == {
        True
    }


def test_a_name_without_an_address_is_told(openssh: Ground) -> None:

    fleet, hosts = openssh.fleet({"nowhere": 22})
    gone = [hosts[0].model_copy(update={"address": "nowhere.invalid"})]
    (reply,) = fleet.ask(gone, {"nowhere": b""})
    assert "resolved" in str(reply.reason)
