"""What a connection's end, or its silence, does to those who share it: on real OpenSSH, cut and silenced by a relay."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.ssh.channel_guard import Outlet, outlet_of, request
from maint.adapters.ssh.connection import Line, Lines
from maint.adapters.ssh.paramiko_import import AuthenticationException, Channel, Message, PKey, SSHException, Transport
from maint.adapters.ssh.sftp import Sessions
from maint.adapters.ssh.shell import FabricShell
from maint.adapters.ssh.transports import transport_factory
from maint.config.schema import HostSettings, SshSettings
from maint.errors import CannotReach

OpenLine = Callable[..., Line]
_DATA = b"\x5e"


@pytest.fixture
def open_line(sshd: Any, relay: Any, tmp_path: Path) -> Iterator[OpenLine]:
    """Makes ways to the server, through the relay."""
    made: list[Lines] = []

    def line(monotonic: Callable[[], float] = time.monotonic, **options: Any) -> Line:
        (tmp_path / "known").write_text(sshd.known_as(relay.port))
        usual = {"user": sshd.user, "key": sshd.key, "known_hosts": tmp_path / "known"}
        settings = SshSettings.model_construct(**{"connect_timeout": 20.0, "command_timeout": 20.0} | usual | options)
        made.append(Lines(settings, lambda: None, monotonic, None))
        return made[-1].line(HostSettings(name="one", address="127.0.0.1", port=relay.port))

    yield line
    for lines in made:
        lines.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another thread does."""
    for _ in range(400):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it never came to be")


def data(channel: Channel) -> Message:
    message = Message()
    message.add_byte(_DATA)
    message.add_int(channel.remote_chanid)
    message.add_string(b"too late")
    return message


def closed_tunnel(transport: Transport, port: int) -> tuple[Channel, Message]:
    """Return a channel that both sides have closed, and data that a slower thread had made for it."""
    channel = transport.open_channel("direct-tcpip", ("127.0.0.1", port), ("", 0), timeout=5)
    late = data(channel)
    channel.close()
    until(lambda: outlet_of(channel).hung_up)
    return channel, late


def test_what_a_thread_still_sends_on_a_closed_channel_does_not_end_its_neighbours(
    open_line: OpenLine, sshd: Any
) -> None:
    transport = open_line().transport()
    closed, late = closed_tunnel(transport, sshd.port)
    outlet_of(closed)._send_user_message(late)
    other = transport.open_session(timeout=5)
    request(other, "exec", "echo alive", 5)
    assert other.recv(100) == b"alive\n"
    assert transport.is_active()


def test_without_that_care_the_server_ends_the_whole_connection(open_line: OpenLine, sshd: Any) -> None:
    transport = open_line().transport()
    _, late = closed_tunnel(transport, sshd.port)
    Outlet(transport)._send_user_message(late)  # one that does not know of the end
    until(lambda: not transport.is_active())
    assert "nonexistent channel" in str(transport.get_exception())


def test_a_silent_connection_is_given_up_and_replaced(open_line: OpenLine, relay: Any) -> None:
    line = open_line()
    first = line.transport()
    relay.silence()
    with pytest.raises(TimeoutError) as silence:
        first.open_session(timeout=0.3)
    assert line.gave_up(first, silence.value)
    assert line.run("echo new", stdin=b"", timeout=20, repeatable=False).out == b"new\n"
    assert line.transport() is not first


def test_a_command_that_is_never_taken_is_given_up(open_line: OpenLine, relay: Any) -> None:
    _, channel, _ = open_line().open_channel()
    relay.silence()
    with pytest.raises(TimeoutError):
        request(channel, "exec", "true", 0.3)


def test_a_command_on_a_connection_that_has_just_gone_is_not_waited_for(open_line: OpenLine, relay: Any) -> None:
    _, channel, _ = open_line().open_channel()
    relay.cut()
    until(lambda: channel.closed)
    with pytest.raises((OSError, SSHException, EOFError)) as failure:
        request(channel, "exec", "true", 600)
    assert not isinstance(failure.value, TimeoutError)


def test_a_session_too_many_is_refused_and_ends_none_of_the_others(open_line: OpenLine) -> None:
    line = open_line()
    transport, first, _ = line.open_channel()
    with pytest.raises(CannotReach, match=r"no session: .*open failed"):
        kept = [line.open_channel()[1] for _ in range(100)]
        assert not kept
    assert line.transport() is transport
    request(first, "exec", "echo alive", 5)
    assert first.recv(100) == b"alive\n"


def test_whoever_notices_an_end_late_does_not_close_what_replaced_it(open_line: OpenLine, relay: Any) -> None:
    line = open_line()
    first = line.transport()
    relay.cut()
    until(lambda: not first.is_active())
    second = line.transport()
    assert second is not first
    line.drop(first)
    assert line.transport() is second
    assert second.is_active()


def test_a_connection_lost_during_the_login_is_not_blamed_on_the_account(sshd: Any, relay: Any) -> None:
    import socket

    sock = socket.create_connection(("127.0.0.1", relay.port))
    transport = transport_factory(["ssh-ed25519"], brief=True)(sock)
    try:
        transport.start_client(timeout=5)
        relay.cut()
        with pytest.raises((OSError, EOFError, SSHException)) as failure:
            transport.auth_publickey(sshd.user, PKey.from_path(sshd.key))
        assert not isinstance(failure.value, AuthenticationException)
    finally:
        transport.close()


def test_what_came_while_its_reader_was_busy_is_not_late(open_line: OpenLine) -> None:
    clock = [0.0]
    line = open_line(monotonic=lambda: clock[0])
    with line.stream("printf early; exec sleep 0.1", timeout=5.0) as output:
        until(output._channel.recv_ready)
        clock[0] += 100
        assert output.read() == b"early"
        assert output.read() == b""


def test_a_lost_jump_host_is_named(make: Callable[..., FabricShell], sshd: Any, relay: Any, tmp_path: Path) -> None:
    way = {"host": "127.0.0.1", "port": relay.port, "user": sshd.user}
    shell = make(port=sshd.port, known=sshd.known_as(relay.port, sshd.port), jump=way)

    def cut() -> None:
        until((tmp_path / "begun").exists)
        relay.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    with pytest.raises(CannotReach, match=r"one.*: the connection to the jump host was lost"):
        shell.run("one", f"touch {tmp_path}/begun; sleep 30")
    cutter.join()
    assert shell.run("one", "echo again").out == b"again\n"


def test_a_kept_sftp_channel_that_went_silent_is_told_in_time_and_the_next_call_has_a_new_connection(
    open_line: OpenLine, relay: Any
) -> None:
    sessions = Sessions(open_line(), 20.0)
    with sessions.session() as session:
        channel = session.get_channel()
        assert channel is not None
        channel.settimeout(0.3)
    relay.silence()
    with pytest.raises(TimeoutError), sessions.session() as session:
        session.listdir("/")
    with sessions.session() as session:
        assert session.listdir("/")
    assert relay.connections == 2


def test_a_kept_sftp_channel_whose_connection_was_cut_is_replaced_without_a_word(
    open_line: OpenLine, relay: Any
) -> None:
    line = open_line()
    sessions = Sessions(line, 20.0)
    with sessions.session() as session:
        session.listdir("/")
    transport = line.transport()
    relay.cut()
    until(lambda: not transport.is_active())
    with sessions.session() as session:
        assert session.listdir("/")


def test_commands_that_end_without_reading_their_input_leave_the_connection_to_others(
    make: Callable[..., FabricShell], relay: Any
) -> None:
    shell = make(port=relay.port)
    shell.ask("one", "true")
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(4):
                assert shell.run("one", "exit 3", stdin=bytes(200_000)).status == 3
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert relay.connections == 1
