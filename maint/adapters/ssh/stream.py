"""Read what a command on a host prints while it runs, without ever holding all of it."""

import select

from maint.adapters.ssh.exchange import Exchange
from maint.errors import WorkFailed

_BLOCK = 32 * 1024
_LONGEST = 64 * 1024  # bytes of error output that are kept


class Stream(Exchange):
    """A command under way whose output is read block by block; see `Exchange`.

    What nobody reads stays on the host: the channel's window makes the command wait. `timeout` is how many seconds may
    pass without a byte.
    """

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes; b'' once the command has ended well.

        Raises:
            WorkFailed: the command ended with another status than 0.
            TimedOut: nothing came for too long.
            CannotReach: the connection was lost.
        """
        poller = select.poll()
        poller.register(self._channel.fileno(), select.POLLIN)
        while not self._out and not self._drained():
            self._write()
            self._read_some()
            if not self._out:  # only now: what has come while the reader was busy elsewhere is not late
                self._wait(poller)
        if self._out:
            length = len(self._out) if size < 0 else size
            block = bytes(self._out[:length])
            del self._out[:length]
            return block
        self._insist()
        return b""

    def _read_some(self) -> None:
        self._read_errors()
        del self._err[_LONGEST:]
        if self._channel.recv_ready():
            self._out += self._channel.recv(_BLOCK)
            if self._timeout is not None:
                self._deadline = self._monotonic() + self._timeout

    def _insist(self) -> None:
        self._read_errors()
        ran = self._ended()
        if not ran.ok:
            lines = ran.err.decode("utf-8", "replace").splitlines()[:5]
            raise WorkFailed(
                f"{self._host}: a command whose output was read ended with status {ran.status}",
                detail=lines,
            )
