"""How long to go on asking: pauses that grow, and a limit for being throttled (contract section 3.5)."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import requests

from maint.adapters.virtual_clusters.answers import wait_asked
from maint.errors import TimedOut
from maint.model.formatting import show_duration
from maint.ports import Clock

_FELT = 5.0  # seconds from which on a wait that the server asks for is told
_QUIET = 60.0  # seconds in which no second wait is told: a crew of threads waits for the same thing


@dataclass(frozen=True, slots=True)
class Patience:
    """When to give up.

    Attributes:
        attempts: tries after the first one, where the answer was a passing error or did not come.
        own: of these, how many where the error was the server's own.
        first: seconds of the first pause; each further one is twice as long.
        longest: seconds of the longest pause.
        throttled: seconds that may be spent on waiting as the server asked.
    """

    attempts: int = 9
    own: int = 3
    first: float = 1.0
    longest: float = 60.0
    throttled: float = 7200.0

    def pause(self, attempt: int) -> float:
        """Return the seconds before a further try, counted from 1."""
        return min(self.first * 2.0 ** (attempt - 1), self.longest)


class Waits:
    """The waits of all calls to a virtual cluster: one that is felt is told at once, not when it is over.

    Args:
        patience: when to give up.
        clock: time.
        tell: told, in words, what is waited for.
    """

    def __init__(self, patience: Patience, clock: Clock, tell: Callable[[str], None]) -> None:
        self._patience = patience
        self._clock = clock
        self._tell = tell
        self._lock = threading.Lock()
        self._told: float | None = None

    def again(self, attempt: int, limit: int, why: str) -> None:
        """Wait before a further try; one that follows at once tells nothing.

        Args:
            attempt: how many tries there were.
            limit: how many may follow the first.
            why: what became of the last one.
        """
        if attempt > 1:
            left = sum(self._patience.pause(one) for one in range(attempt, limit + 1))
            self._say(f"{why}; it is asked again, for {show_duration(left)} at the most")
        self._clock.sleep(self._patience.pause(attempt))

    def asked(self, seconds: float, what: str) -> None:
        """Wait as a server asked that throttles us."""
        if seconds >= _FELT:
            self._say(f"{what}: the virtual cluster throttles us, and is asked again in {show_duration(seconds)}")
        self._clock.sleep(seconds)

    def _say(self, words: str) -> None:
        with self._lock:
            now = self._clock.monotonic()
            if self._told is not None and now - self._told < _QUIET:
                return
            self._told = now
        self._tell(words)


class Throttle:
    """What one call has waited because the server asked for it; such waits are no attempts."""

    def __init__(self, patience: Patience, waits: Waits, what: str) -> None:
        self._patience = patience
        self._waits = waits
        self._what = what
        self._waited = 0.0

    def wait(self, answer: requests.Response) -> None:
        """Wait as a 429 asks.

        Raises:
            TimedOut: it has asked for too much.
        """
        seconds = max(wait_asked(answer, self._patience.pause(3)), 0.1)
        answer.close()
        if self._waited + seconds > self._patience.throttled:
            raise TimedOut(
                f"{self._what}: the virtual cluster throttles us, and asks for {seconds:g} s more",
                hint="try again when fewer programs ask it",
            )
        self._waited += seconds
        self._waits.asked(seconds, self._what)
