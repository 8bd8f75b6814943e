"""A TCP proxy that goes wrong at the n-th byte: refuses, resets, cuts, falls silent, delays, throttles, corrupts."""

import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

_BLOCK = 16 * 1024


class Trouble(StrEnum):
    """What happens once so many bytes have passed; of the last three the connection survives."""

    REFUSE = "refuse"  # from then on no connection is accepted
    RESET = "reset"
    CUT = "cut"
    SILENCE = "silence"
    DELAY = "delay"
    THROTTLE = "throttle"
    CORRUPT = "corrupt"


@dataclass
class Fault:
    """A trouble at a byte, counted over all connections in one direction (`up`: towards the server)."""

    trouble: Trouble
    at: int
    up: bool


class Proxy:
    """Forwards connections from a port of its own to a port of loopback."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._over = threading.Event()
        self.passed = {True: 0, False: 0}
        self._fault: Fault | None = None
        self._struck = False
        threading.Thread(target=self._accept, daemon=True).start()

    def begin(self, fault: Fault | None = None) -> None:
        """Count anew, with a fault or none; connections of before are closed."""
        self._over.set()
        with self._lock:
            doomed, self._open = self._open, set()
            self._over, self._fault, self._struck = threading.Event(), fault, False
            self.passed = {True: 0, False: 0}
        for one in doomed:
            _close(one)

    def close(self) -> None:
        """Accept nothing more."""
        self.begin()
        self._server.close()

    @property
    def struck(self) -> bool:
        """Whether the fault came about."""
        return self._struck

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            with self._lock:
                if self._fault and self._fault.trouble is Trouble.REFUSE and self._struck:
                    _reset(near)
                    far.close()
                    continue
                self._open |= {near, far}
                over = self._over
            for pair, up in (((near, far), True), ((far, near), False)):
                threading.Thread(target=self._pump, args=(*pair, up, over), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, up: bool, over: threading.Event) -> None:
        try:
            while not over.is_set() and (block := source.recv(_BLOCK)):
                self._forward(source, target, block, up, over)
        except OSError:
            pass  # the other side went, or the fault struck
        finally:
            for one in (source, target):
                _close(one)

    def _forward(
        self, source: socket.socket, target: socket.socket, block: bytes, up: bool, over: threading.Event
    ) -> None:
        with self._lock:
            begun = self.passed[up]
            self.passed[up] = begun + len(block)
            fault = self._fault
        if over.is_set():
            return
        if fault is None or fault.up is not up or begun + len(block) <= fault.at:
            target.sendall(block)
            return
        first = not self._struck
        self._struck = True
        split = max(fault.at - begun, 0)
        match fault.trouble:
            case Trouble.REFUSE | Trouble.CUT if first:
                target.sendall(block[:split])
                raise OSError
            case Trouble.RESET if first:
                target.sendall(block[:split])
                _reset(target)
                _reset(source)
            case Trouble.SILENCE:
                target.sendall(block[:split])
                over.wait()
            case Trouble.DELAY if first:
                over.wait(2)
            case Trouble.THROTTLE:
                for at in range(0, len(block), 512):
                    target.sendall(block[at : at + 512])
                    over.wait(0.02)
                return
            case Trouble.CORRUPT if first:
                block = block[:split] + bytes([block[split] ^ 0x20]) + block[split + 1 :]
            case _:
                pass
        target.sendall(block)


def _close(one: socket.socket) -> None:
    with suppress(OSError):  # it is closed already
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _reset(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):  # the other side has closed it already
        one.shutdown(socket.SHUT_RD)  # tells that side nothing, but ends a `recv`, which would keep it open
    one.close()
    time.sleep(0)
