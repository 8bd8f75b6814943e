"""Plain systemd units of the lab's hosts, and what systemd remembers of a start."""

import secrets
import threading
import time
from datetime import UTC, datetime


class Invocation:
    """One start of a unit, as `systemctl show` tells it."""

    def __init__(self) -> None:
        self._id = secrets.token_hex(16)
        self._pid = 2000 + secrets.randbelow(60000)
        self._since = datetime.now(UTC)
        self._monotonic = time.monotonic_ns() // 1000

    def properties(self, active: bool) -> dict[str, str]:
        """Return the properties; a unit that is stopped has no process."""
        return {
            "InvocationID": self._id if active else "",
            "MainPID": str(self._pid if active else 0),
            "ActiveEnterTimestamp": self._since.strftime("%a %Y-%m-%d %H:%M:%S UTC"),
            "ActiveEnterTimestampMonotonic": str(self._monotonic),
        }


class PlainUnit:
    """A unit that does nothing but run, such as an agent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active = False
        self._invocation = Invocation()

    def start(self) -> None:
        """Start it."""
        with self._lock:
            if not self._active:
                self._active, self._invocation = True, Invocation()

    def stop(self) -> None:
        """Stop it."""
        with self._lock:
            self._active = False

    def restart(self) -> None:
        """Stop it and start it."""
        self.stop()
        self.start()

    def active(self) -> bool:
        """Return whether it runs."""
        return self._active

    def properties(self) -> dict[str, str]:
        """Return what `systemctl show` knows."""
        return self._invocation.properties(self._active)
