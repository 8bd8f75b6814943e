"""How long to go on asking: pauses that grow, and a limit for being throttled (contract section 3.5)."""

from dataclasses import dataclass

import requests

from maint.adapters.vc.answers import wait_asked
from maint.errors import TimedOut
from maint.ports import Clock


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


class Throttle:
    """What one call has waited because the server asked for it; such waits are no attempts."""

    def __init__(self, patience: Patience, clock: Clock, what: str) -> None:
        self._patience = patience
        self._clock = clock
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
        self._clock.sleep(seconds)
