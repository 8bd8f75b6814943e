"""What every fleet gives: real OpenSSH on loopback, and the lab's hosts; a new kind joins by one fixture."""

import signal
import threading
import time

import pytest

from maint.errors import Interrupted
from maint.model.fleet import HostReply, Standing
from tests.adapters.ssh.conftest import Ground

HELLO = b"f() { echo hello; }\nf </dev/null\n"


def asked(ground: Ground, script: bytes, *, timeout: float | None = None, **options: object) -> list[HostReply]:
    fleet, hosts = ground.fleet(**options)
    return list(fleet.ask(hosts, {host.name: script for host in hosts}, timeout=timeout))


def fleet_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("fleet-")]


def test_every_host_answers_its_script_in_the_order_of_the_hosts(ground: Ground) -> None:
    replies = asked(ground, HELLO)
    assert [(r.host, r.out, r.status, r.reason) for r in replies] == [
        (name, b"hello\n", 0, None) for name in ground.ports
    ]


def test_hosts_may_get_different_scripts(ground: Ground) -> None:
    fleet, hosts = ground.fleet()
    scripts = {host.name: f"echo {host.name}\n".encode() for host in hosts}
    assert [reply.out.decode().strip() for reply in fleet.ask(hosts, scripts)] == list(ground.ports)


def test_more_hosts_than_may_be_asked_at_once_all_get_their_turn(ground: Ground) -> None:
    name, port = next(iter(ground.ports.items()))
    fleet, hosts = ground.fleet({f"{name}-{n}": port for n in range(12)}, at_once=3)
    replies = list(fleet.ask(hosts, {host.name: HELLO for host in hosts}))
    assert [reply.host for reply in replies] == [host.name for host in hosts]
    assert {reply.out for reply in replies} == {b"hello\n"}


def test_a_large_script_and_a_large_answer_come_whole(ground: Ground) -> None:
    script = b"# " + b"x" * 300_000 + b"\nseq 1 200000\n"
    for reply in asked(ground, script):
        assert reply.reason is None
        assert reply.out.split()[-1] == b"200000"


def test_a_script_that_does_not_end_in_time_is_told_and_keeps_what_it_said(ground: Ground) -> None:
    for reply in asked(ground, b"echo some\nsleep 30\n", command_timeout=2.0):
        assert reply.out == b"some\n"
        assert reply.reason == "its answer did not end within 2 s"


def test_the_limit_of_the_whole_run_ends_it_with_a_reason_for_each_host(ground: Ground) -> None:
    replies = asked(ground, b"sleep 30\n", timeout=1.0)
    assert [reply.host for reply in replies] == list(ground.ports)
    assert {"limit" in (reply.reason or "") for reply in replies} == {True}
    assert fleet_threads() == []


def test_what_a_host_has_said_when_the_limit_of_the_whole_run_passes_is_kept(ground: Ground) -> None:
    for reply in asked(ground, b"echo some\nsleep 30\n", timeout=3.0):
        assert reply.out == b"some\n" and "limit" in (reply.reason or ""), reply
        assert 0 < reply.sent < reply.received


def test_whoever_stops_listening_leaves_no_thread_behind(ground: Ground) -> None:
    fleet, hosts = ground.fleet()
    replies = fleet.ask(hosts, {h.name: b"echo first\n" if h is hosts[0] else b"sleep 30\n" for h in hosts})
    assert next(replies).out == b"first\n"
    replies.close()
    assert fleet_threads() == []


def test_an_exception_in_the_middle_closes_all_connections(ground: Ground) -> None:
    fleet, hosts = ground.fleet()
    with pytest.raises(KeyboardInterrupt):
        for _ in fleet.ask(hosts, {h.name: HELLO if h is hosts[0] else b"sleep 30\n" for h in hosts}):
            raise KeyboardInterrupt
    while fleet_threads():  # the time limit of the test says when this is too long
        time.sleep(0.05)  # the generator is closed when the last reference to it goes


def test_a_host_that_prints_without_end_is_ended_and_the_others_answer(ground: Ground) -> None:
    fleet, hosts = ground.fleet(command_timeout=60.0)
    endless = b"while :; do seq 1 100000; done\n"
    replies = list(fleet.ask(hosts, {h.name: endless if h is hosts[0] else HELLO for h in hosts}))
    assert "printed more than 8 MiB" in str(replies[0].reason)
    assert len(replies[0].out) < 17 * 1024**2
    assert [reply.out for reply in replies[1:]] == [b"hello\n"] * (len(hosts) - 1)


def test_answers_that_came_before_an_interruption_are_kept(ground: Ground) -> None:
    stops: list[Interrupted] = []
    heard: list[HostReply] = []

    def hear(reply: HostReply) -> None:
        heard.append(reply)
        if len(heard) == len(ground.ports) - 1:
            signal.raise_signal(signal.SIGUSR1)

    def interrupt(number: int, _: object) -> None:
        raise Interrupted(number)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        fleet, hosts = ground.fleet(heard=hear, stopped=stops.append)
        scripts = {h.name: b"sleep 30\n" if h is hosts[0] else HELLO for h in hosts}
        replies = list(fleet.ask(hosts, scripts))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(stops) == 1
    assert replies[0].reason == "not done when it was interrupted"
    assert [reply.out for reply in replies[1:]] == [b"hello\n"] * (len(hosts) - 1)


def test_replies_are_told_as_they_come_whatever_the_order(ground: Ground) -> None:
    heard: list[str] = []
    fleet, hosts = ground.fleet(heard=lambda reply: heard.append(reply.host))
    slow = {h.name: b"sleep 1; echo x\n" if h is hosts[0] else b"echo x\n" for h in hosts}
    assert [reply.host for reply in fleet.ask(hosts, slow)] == list(ground.ports)
    assert heard[-1] == hosts[0].name


def test_the_clock_is_noted_around_the_answer(ground: Ground) -> None:
    before = time.time()
    for reply in asked(ground, HELLO):
        assert before <= reply.sent <= reply.received <= time.time()
        assert 0 < reply.login_seconds <= reply.seconds


def test_the_keys_of_all_hosts_are_shown_without_logging_in(ground: Ground) -> None:
    fleet, hosts = ground.fleet(user="nobody-of-that-name")
    for seen, (name, port) in zip(fleet.keys(hosts), ground.ports.items(), strict=True):
        assert (seen.host, seen.recorded_as, seen.standing) == (name, f"[127.0.0.1]:{port}", Standing.KNOWN)
        assert f"{seen.recorded_as} {seen.type} {seen.key}" in ground.known_hosts.read_text()
        assert seen.fingerprint.startswith("SHA256:")
