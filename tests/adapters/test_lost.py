"""What a connection's end, or its silence, does to those who share it: on real OpenSSH, cut and silenced by a relay."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paramiko import Channel, Message, Transport
from paramiko.packet import Packetizer
from paramiko.ssh_exception import SSHException

from maint.adapters.ssh import transport as transport_module
from maint.adapters.ssh.connections import Connections, KeptConnection, alive
from maint.adapters.ssh.known_hosts import Standing
from maint.adapters.ssh.runner import BEGUN, RemoteCommand
from maint.adapters.ssh.sftp import Sessions
from maint.adapters.ssh.shell import FabricShell
from maint.adapters.ssh.transport import begin, transport_factory
from maint.config.schema import HostSettings, Jump, SshSettings
from maint.errors import CannotReach, LoginRefused

Keep = Callable[..., KeptConnection]
_DATA = b"\x5e"


@pytest.fixture
def keep(sshd: Any, relay: Any, tmp_path: Path) -> Iterator[Keep]:
    """Makes connections to the server, through the relay."""
    made: list[Connections] = []

    def kept(**options: Any) -> KeptConnection:
        (tmp_path / "known").write_text(sshd.known_as(relay.port))
        usual = {"user": sshd.user, "key": sshd.key, "known_hosts": tmp_path / "known"}
        settings = {"connect_timeout": 20.0, "command_timeout": 20.0} | usual | options
        made.append(Connections(SshSettings.model_construct(**settings)))
        host = HostSettings(name="one", address="127.0.0.1", port=relay.port)
        return KeptConnection(made[-1], made[-1].address(host))

    yield kept
    for connections in made:
        connections.close()


def command(channel: Channel, monotonic: Callable[[], float] = time.monotonic) -> RemoteCommand:
    return RemoteCommand("one", channel, None, timeout=5.0, monotonic=monotonic)


def transport_of(kept: KeptConnection) -> Transport:
    transport = kept.live()[0].transport
    assert isinstance(transport, Transport)
    return transport


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
    until(lambda: transport._channels.get(channel.chanid) is None)  # type: ignore[attr-defined]  # absent from the stub
    # Its end of the inner connection may have closed the channel before ours came, and it lets go of the channel only
    # once it has read all that came together: what it answers to now came later.
    transport.global_request("keepalive@openssh.com", wait=True)
    return channel, late


def test_what_a_thread_still_sends_on_a_closed_channel_does_not_end_its_neighbours(keep: Keep, sshd: Any) -> None:
    transport = transport_of(keep())
    closed, late = closed_tunnel(transport, sshd.port)
    assert closed.closed
    transport.packetizer.send_message(late)
    other = transport.open_session(timeout=5)
    begin(other, "exec", "echo alive", 5)
    assert other.recv(100) == b"alive\n"
    assert transport.is_active()


def test_without_that_care_the_server_ends_the_whole_connection(keep: Keep, sshd: Any) -> None:
    transport = transport_of(keep())
    _, late = closed_tunnel(transport, sshd.port)
    Packetizer.send_message(transport.packetizer, late)  # paramiko's own, which does not know of the end
    transport.join(20)  # its thread ends with the connection
    assert not transport.is_alive()


def test_a_silent_connection_is_given_up_and_replaced(keep: Keep, relay: Any) -> None:
    kept = keep()
    first, _ = kept.live()
    relay.silence()
    with pytest.raises(TimeoutError) as silence:
        first.transport.open_session(timeout=0.3)
    assert kept.gave_up(first, silence.value)
    second, channel, reused = kept.session()
    assert not reused
    assert command(channel).begin("echo new").finish().out == b"new\n"
    assert second is not first


def test_a_peer_that_takes_nothing_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_DEAD_AFTER", 0.3)
    near, far = socket.socketpair()
    with near, far:
        packets = transport_factory([])(near).packetizer
        near.settimeout(0.05)
        with pytest.raises(EOFError):
            packets.write_all(bytes(50_000_000))
        assert packets.failed


def test_a_command_that_is_never_taken_is_given_up(keep: Keep, relay: Any) -> None:
    _, channel, _ = keep().session()
    relay.silence()
    with pytest.raises(TimeoutError):
        begin(channel, "exec", "true", 0.3)


def test_a_command_on_a_connection_that_has_just_gone_is_not_waited_for(keep: Keep, relay: Any) -> None:
    _, channel, _ = keep().session()
    relay.cut()
    until(lambda: channel.closed)
    with pytest.raises((OSError, SSHException, EOFError)) as failure:
        begin(channel, "exec", "true", 600)
    assert not isinstance(failure.value, TimeoutError)


def test_a_session_too_many_is_refused_and_ends_none_of_the_others(keep: Keep) -> None:
    kept = keep()
    connection, first, _ = kept.session()
    with pytest.raises(CannotReach, match=r"no session: .*open failed"):
        channels = [kept.session()[1] for _ in range(100)]
        assert not channels
    assert kept.live()[0] is connection
    begin(first, "exec", "echo alive", 5)
    assert first.recv(100) == b"alive\n"


def test_whoever_notices_an_end_late_does_not_close_what_replaced_it(keep: Keep, relay: Any) -> None:
    kept = keep()
    first, _ = kept.live()
    relay.cut()
    until(lambda: not alive(first))
    second, _ = kept.live()
    assert second is not first
    kept.drop(first)
    assert kept.live()[0] is second
    assert alive(second)


def test_a_connection_lost_during_the_login_is_not_blamed_on_the_account(
    keep: Keep, relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_before_the_login(*_: object) -> Standing:
        relay.cut()
        return Standing.KNOWN

    kept = keep()
    monkeypatch.setattr(kept.connections.known, "judge", cut_before_the_login)
    with pytest.raises(CannotReach) as failure:
        kept.live()
    assert not isinstance(failure.value, LoginRefused)


def test_what_came_while_its_reader_was_busy_is_not_late(keep: Keep) -> None:
    clock = [0.0]
    _, channel, _ = keep().session()
    output = command(channel, monotonic=lambda: clock[0]).begin("printf early; exec sleep 0.1")
    until(lambda: len(channel.in_buffer) == len(f"{BEGUN}\nearly"))
    clock[0] += 100
    assert output.read() == b"early"
    assert output.read() == b""


def test_a_lost_jump_host_is_named(make: Callable[..., FabricShell], sshd: Any, relay: Any, tmp_path: Path) -> None:
    way = Jump(host="127.0.0.1", port=relay.port, user=sshd.user)
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
    keep: Keep, relay: Any
) -> None:
    sessions = Sessions(keep(), 20.0)
    with sessions.session() as session:
        session.channel.settimeout(0.3)
    relay.silence()
    with pytest.raises(TimeoutError), sessions.session() as session:
        session.list("/")
    with sessions.session() as session:
        assert session.list("/")
    assert relay.connections == 2


def test_a_kept_sftp_channel_whose_connection_was_cut_is_replaced_without_a_word(keep: Keep, relay: Any) -> None:
    kept = keep()
    sessions = Sessions(kept, 20.0)
    with sessions.session() as session:
        session.list("/")
    connection, _ = kept.live()
    relay.cut()
    until(lambda: not alive(connection))
    with sessions.session() as session:
        assert session.list("/")


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
