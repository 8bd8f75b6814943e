"""The manager's export, asked for again where its connection breaks off."""

from collections.abc import Callable
from typing import TypeVar

from maint.ports import Sight
from maint.ports.streams import Cut, Sized
from maint.retry import delays

_TIMES = 2  # further tries, as of any other read
_PAUSE, _LONGEST = 1.0, 5.0  # seconds

T = TypeVar("T")


def exported(sight: Sight, use: Callable[[Sized], T]) -> T:
    """Return what is made of the present deployment as it comes.

    Args:
        use: reads it to its end, and leaves nothing behind where that raises; it is called again where it was cut.

    Raises:
        Cut: it was cut off each time, or nothing more came in time.
    """
    for pause in delays(_PAUSE, _LONGEST, times=_TIMES):
        try:
            return _once(sight, use)
        except Cut as failure:
            if failure.late:
                raise
            sight.clock.sleep(pause)
    return _once(sight, use)


def _once(sight: Sight, use: Callable[[Sized], T]) -> T:
    with sight.manager.deployment() as answer:
        return use(answer)
