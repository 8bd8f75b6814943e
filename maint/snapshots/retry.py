"""Ask anew for a file that was cut on its way: a few times, with pauses that grow (contract section 3.5)."""

from collections.abc import Callable
from typing import TypeVar

from maint.ports import Clock
from maint.ports.streams import Cut

_TIMES = 9
_LONGEST = 60.0  # seconds before it is asked for anew

T = TypeVar("T")


def until_whole(clock: Clock, fetch: Callable[[], T]) -> T:
    """Return what `fetch` returns; where it says that a body was cut, it is called again.

    Args:
        clock: for the pauses: 1, 2, 4 s and so on.
        fetch: begins from the start each time that it is called, and leaves nothing behind when it fails.

    Raises:
        Cut: it was cut each time.
    """
    for attempt in range(_TIMES):
        try:
            return fetch()
        except Cut:
            clock.sleep(min(2.0**attempt, _LONGEST))
    return fetch()
