"""The delays between tries and looks: computed here alone; how often and for how long is the caller's policy."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from maint.errors import DeadlinePassed, TimedOut

_THREAD = threading.local()
_LAST = 10.0  # seconds for what is put in order where something has failed


def heed(stop: threading.Event) -> None:
    """Have the waits of this thread end once an event is set: what it works for is over, and nobody interrupts it."""
    _THREAD.stop = stop


def heeded() -> threading.Event | None:
    """Return what ends the waits of this thread, None where nothing does."""
    return getattr(_THREAD, "stop", None)


def delays(first: float, longest: float, *, times: int | None = None, factor: float = 2.0) -> Iterator[float]:
    """Yield the pauses between tries.

    Args:
        first: seconds of the first pause.
        longest: seconds that no pause exceeds.
        times: how many pauses there are; None for no end.
        factor: how much longer each pause is than the one before.
    """
    pause, left = min(first, longest), times
    while left is None or left > 0:
        yield pause
        pause = min(pause * factor, longest)
        left = None if left is None else left - 1


class _Clock(Protocol):
    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


def looks(clock: _Clock, limit: float, pauses: Iterator[float]) -> Iterator[None]:
    """Yield once for each look, pausing in between, until a look has ended after the limit (seconds)."""
    begun = clock.monotonic()
    for pause in pauses:
        yield
        if clock.monotonic() - begun >= limit:
            return
        clock.sleep(pause)


class _Limits(Protocol):
    def monotonic(self) -> float: ...

    def limit(self, seconds: float | None) -> AbstractContextManager[object]: ...


@contextmanager
def briefly(clock: _Limits) -> Iterator[None]:
    """Put in order, on the way out of a failure, what may be silent by now: after some seconds it stays as it is."""
    until = clock.monotonic() + _LAST
    try:
        with clock.limit(_LAST):
            yield
    except DeadlinePassed:
        if clock.monotonic() < until:
            raise  # it is one around this


@contextmanager
def answering(clock: _Limits, seconds: float, what: str, hint: str) -> Iterator[None]:
    """Raise TimedOut where what is looked at does not answer in so many seconds; a limit around this ends all as ever.

    Args:
        what: begins the message, such as a location with a colon.
    """
    own: object = None
    try:
        with clock.limit(seconds) as put_off:
            own = getattr(put_off, "__self__", None)
            yield
    except DeadlinePassed as error:
        if error.limit is not own:
            raise
        words = f"{what}no {'good ' if error.detail else ''}answer within {seconds:g} s"
        raise TimedOut(words, detail=error.detail, hint=hint) from None
