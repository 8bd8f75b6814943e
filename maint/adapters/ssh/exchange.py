"""Run one command over an SSH channel: its input, both its outputs, and how it ended."""

import select
from collections.abc import Callable

from maint.adapters.ssh.channel_guard import outlet_of, request
from maint.adapters.ssh.paramiko_import import Channel
from maint.adapters.ssh.sudo import SudoGate
from maint.errors import CannotReach, TimedOut
from maint.ports import Ran

_BLOCK = 32 * 1024
_WINDOW_PAUSE = 0.02  # paramiko tells nobody when the far side makes room for more input
_IDLE_PAUSE = 1.0
KILLED = -1


class Lost(CannotReach):
    """The connection went away while the command ran."""


class Exchange:
    """A command on a channel, until it ends.

    Args:
        host: where, for messages.
        channel: what it runs on.
        stdin: its input.
        held: whether the input stays open afterwards; else its end follows.
        gate: sudo's, where the command goes through it.
        timeout: seconds; None is no limit.
        monotonic: seconds that never go back.
    """

    def __init__(
        self,
        host: str,
        channel: Channel,
        *,
        stdin: bytes,
        held: bool = False,
        gate: SudoGate | None,
        timeout: float | None,
        monotonic: Callable[[], float],
    ) -> None:
        self._host = host
        self._channel = channel
        self._stdin = stdin
        self._gate = gate
        self._timeout = timeout
        self._monotonic = monotonic
        self._deadline = None if timeout is None else monotonic() + timeout
        self._pending = memoryview(b"")
        self._input_given = False
        self._input_ended = held
        self._out = bytearray()
        self._err = bytearray()

    def begin(self, command: str) -> None:
        """Send the command, and wait until the host has taken it.

        Raises:
            TimedOut: it did not in time.
            OSError, SSHException, EOFError: it said no, or the connection was lost.
        """
        line = self._gate.command(command) if self._gate else command
        try:
            request(self._channel, "exec", line, self._timeout)
        except TimeoutError:
            raise self._late() from None

    def finish(self) -> Ran:
        """Return how it ended; the status is -1 when a signal killed it.

        Raises:
            TimedOut: it did not end in time.
            Lost: the connection went away.
            LoginRefused: sudo did not let it begin.
        """
        poller = select.poll()
        poller.register(self._channel.fileno(), select.POLLIN)
        while not self._drained():
            self._write()
            self._wait(poller)
            self._read()
        return self._ended()

    @property
    def received(self) -> bytes:
        """What it has printed so far."""
        return bytes(self._out)

    def _ended(self) -> Ran:
        status = self._status()
        if self._gate and not self._gate.opened:
            raise self._gate.refusal()
        return Ran(status=status, out=bytes(self._out), err=bytes(self._err))

    def _drained(self) -> bool:
        # In this order: what came before the end is in the buffers by the time that the end is seen.
        ended = self._channel.eof_received or self._channel.closed
        return bool(ended) and not self._channel.recv_ready() and not self._channel.recv_stderr_ready()

    def _write(self) -> None:
        if not self._input_given and (self._gate is None or self._gate.opened):
            self._pending = memoryview(self._stdin)
            self._input_given = True
        try:
            while self._pending and self._channel.send_ready():
                sent = self._channel.send(bytes(self._pending[:_BLOCK]))
                self._pending = self._pending[sent:]
            if self._input_given and not self._pending and not self._input_ended:
                self._input_ended = True
                self._channel.shutdown_write()
        except OSError:
            # A command may end without having read its input; how it ended is told by its status.
            self._pending = memoryview(b"")
            self._input_ended = True

    def _wait(self, poller: select.poll) -> None:
        pause = _WINDOW_PAUSE if self._pending else _IDLE_PAUSE
        poller.poll(1000 * min(pause, self._left()))

    def _left(self) -> float:
        if self._deadline is None:
            return _IDLE_PAUSE
        left = self._deadline - self._monotonic()
        if left <= 0:
            raise self._late()
        return left

    def _late(self) -> TimedOut:
        return TimedOut(
            f"{self._host}: a command did not end within {self._timeout:g} s",
            detail=["it may still run there"],
            hint="give it more time (ssh.command_timeout, or the step's timeout)",
        )

    def _read(self) -> None:
        while self._channel.recv_ready():
            self._out += self._channel.recv(_BLOCK)
        self._read_errors()

    def _read_errors(self) -> None:
        while self._channel.recv_stderr_ready():
            block = self._channel.recv_stderr(_BLOCK)
            if self._gate is None:
                self._err += block
                continue
            own, answer = self._gate.feed(block)
            self._err += own
            if answer:
                self._pending = memoryview(answer)

    def _status(self) -> int:
        # A command may close its outputs and run on.
        while not self._channel.status_event.wait(min(self._left(), _IDLE_PAUSE)):
            pass
        if self._channel.exit_status != -1:
            return self._channel.exit_status
        # Without a status: killed by a signal, after which the host closes the channel; or the connection is gone.
        if outlet_of(self._channel).hung_up:
            return KILLED
        raise Lost(f"{self._host}: the connection was lost while a command ran")
