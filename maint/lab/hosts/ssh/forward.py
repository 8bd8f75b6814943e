"""Let a lab host stand as a jump host: connections go on to hosts of the same lab, and nowhere else."""

import contextlib
import socket
import threading
from collections.abc import Callable

from paramiko import Channel

Place = tuple[str, int]
LeadsTo = Callable[[str, int], Place | None]

_WAIT = 5.0
_BLOCK = 32 * 1024


def carry(channel: Channel, place: Place) -> None:
    """Carry a channel's bytes to a port and back, in threads, until either side is done."""
    threading.Thread(target=_carried, args=(channel, place), name="ssh-forward", daemon=True).start()


def _carried(channel: Channel, place: Place) -> None:
    with contextlib.suppress(OSError, EOFError):  # either side may be gone at any time
        try:
            with socket.create_connection(place, _WAIT) as far:
                far.settimeout(None)
                back = threading.Thread(target=_back, args=(far, channel), name="ssh-forward-back", daemon=True)
                back.start()
                while block := channel.recv(_BLOCK):
                    far.sendall(block)
                far.shutdown(socket.SHUT_WR)
                back.join()
        finally:
            channel.close()


def _back(far: socket.socket, channel: Channel) -> None:
    with contextlib.suppress(OSError, EOFError):  # as above
        while block := far.recv(_BLOCK):
            channel.sendall(block)
        channel.close()  # which ends the reading of the other direction, too
