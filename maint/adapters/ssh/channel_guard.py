"""Send on a channel in the order that the protocol wants, and wait for its answers with a limit."""

import errno
import threading
from typing import Any, cast

from maint.adapters.ssh.paramiko_import import Channel, Message, SSHException, Transport

# RFC 4250, 4.1.2
_WINDOW_ADJUST = b"\x5d"
_DATA = (b"\x5e", b"\x5f")  # also what belongs to a second stream, such as stderr
_EOF = b"\x60"
_CLOSE = b"\x61"
_REQUEST = b"\x62"


class Outlet:
    """What a channel sends through, in place of its transport: nothing follows its end (RFC 4254, 5.3).

    paramiko looks whether a channel is open before it sends, not while it does, so that one thread's data may follow
    another thread's end. OpenSSH ends the whole connection over that, with all other channels in it: behind a jump
    host, the connections to all other hosts.

    Args:
        transport: the connection.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._sending = threading.Lock()
        self._no_data = False
        self._closed = False
        self.hung_up = False  # whether the far side has closed the channel, as opposed to the connection being lost

    # The name by which paramiko's channels send.
    def _send_user_message(self, message: Message) -> None:
        kind = message.asbytes()[:1]
        with self._sending:
            if self._closed or (self._no_data and kind in _DATA):
                return
            self._no_data = self._no_data or kind in (_EOF, _CLOSE)
            self._closed = kind == _CLOSE
            self._send(kind, message)

    def _send(self, kind: bytes, message: Message) -> None:
        try:
            self._transport._send_user_message(message)  # type: ignore[attr-defined]  # absent from the stub
        except (EOFError, SSHException) as error:
            # Room is made by whoever reads: what has been read is good, and the next read tells that no more comes.
            if kind not in (_WINDOW_ADJUST, _EOF, _CLOSE):
                raise OSError(errno.ENOTCONN, str(error) or "the connection was lost") from None

    def __getattr__(self, name: str) -> Any:  # Any: whatever a transport has
        return getattr(self._transport, name)


def outlet_of(channel: Channel) -> Outlet:
    """Return what a channel of our transports sends through."""
    return cast(Outlet, channel.transport)


def put_outlet(channel: Channel, transport: Transport) -> None:
    """Let a channel send through an outlet from now on."""
    channel.transport = cast(Transport, Outlet(transport))


def request(channel: Channel, kind: str, words: str, timeout: float | None) -> None:
    """Ask for what a channel is to be: a command (`exec`) or a subsystem; paramiko would wait for ever.

    Args:
        channel: newly opened.
        kind: as RFC 4254, 6.5 calls it.
        words: the command, or the subsystem's name.
        timeout: seconds; None is no limit.

    Raises:
        TimeoutError: no answer in time.
        OSError, SSHException, EOFError: the host said no, or the connection was lost.
    """
    channel.event.clear()
    channel.event_ready = False
    if channel.closed:  # only now: whoever closes it from here on sets the event
        raise _failure(channel)
    outlet_of(channel)._send_user_message(_message(channel, kind, words, answer=True))
    if not channel.event.wait(timeout):
        raise TimeoutError
    if not channel.event_ready:
        raise _failure(channel)


def send_signal(channel: Channel, name: str) -> None:
    """Pass a signal on to a channel's command (RFC 4254, 6.9), for which paramiko has no call.

    OpenSSH does it for all accounts but root.

    Raises:
        OSError: the connection was lost.
    """
    if not channel.closed:
        outlet_of(channel)._send_user_message(_message(channel, "signal", name, answer=False))


def _message(channel: Channel, kind: str, words: str, *, answer: bool) -> Message:
    message = Message()
    message.add_byte(_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string(kind)
    message.add_boolean(answer)
    message.add_string(words)
    return message


def _failure(channel: Channel) -> Exception:
    told = channel.get_transport().get_exception()
    return told if told and str(told) else SSHException("closed by the host")
