"""The real clock, and time limits that interrupt whatever the main thread waits for."""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from types import FrameType
from typing import Any

from maint.errors import DeadlinePassed, Interrupted, MaintError, WorkFailed, is_of_a_library
from maint.model.formatting import show_duration
from maint.retry import heeded

_SOON = 0.001  # seconds; setitimer takes 0 for "never"
_GRACE = 900.0  # seconds to put things in order after a limit, before it passes again
# Seconds after which what was raised is looked for, and raised again where a library swallowed it; and after which a
# signal that came between Python's last look and a wait, which it does not interrupt then, is seen: by the next one.
_LOOK = 1.0
_AGAIN = 0.05  # seconds after which what was lost is raised once more
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # the second, where there is no other, sleeps with it


def uptime() -> float:
    """Return seconds that never go back, and pass while the machine sleeps, too: limits and leases count by them."""
    return time.clock_gettime(_CLOCK)


class _Timer:
    """Rings SIGALRM by the clock of `uptime`, and again until it is heard: a limit that passed while the machine slept
    strikes as it wakes.
    """

    def __init__(self) -> None:
        import ctypes  # most commands set no limit

        self._library, self._handle, self._setting = None, ctypes.c_void_p(), ctypes.c_long * 4
        for name in (None, "librt.so.1"):  # where glibc before 2.34 has these functions
            with suppress(OSError, AttributeError):
                library = ctypes.CDLL(name)
                if library.timer_create(_CLOCK, None, ctypes.byref(self._handle)) == 0:
                    self._library = library
                    return

    def set(self, after: float) -> None:
        """Ring after so many seconds, 0: never; where there is none, by the timer that sleeps with the machine."""
        setting = self._setting(int(_LOOK), 0, int(after), int(after % 1 * 1e9))
        if self._library is None or self._library.timer_settime(self._handle, 0, setting, None):
            signal.setitimer(signal.ITIMER_REAL, after, _LOOK)


class _Limit:
    """An open limit; another thread may put its deadline off, and the timer that rings too early is set anew."""

    def __init__(self, deadline: float, of: float) -> None:
        self.deadline = deadline
        self.of = of  # as it was set, in seconds
        self.passed: DeadlinePassed | None = None  # what was raised when it struck

    def put_off(self, until: float) -> None:
        """Set the deadline anew, in the seconds of `uptime`."""
        self.deadline = until

    @property
    def is_swallowed(self) -> bool:
        """Whether nobody holds any more what was raised: whoever handles a failure does, or lets it go on."""
        return self.passed is not None and sys.getrefcount(self.passed) == 2  # here, and as the argument


class _Alarm:
    """The process's one SIGALRM, for the nearest open limit; an earlier user of it gets its timer back at the end."""

    def __init__(self) -> None:
        self._open: list[_Limit] = []  # the outermost first
        self._before: tuple[Any, float, float, float] = (signal.SIG_DFL, 0.0, 0.0, 0.0)  # Any: what getsignal returns

    def push(self, limit: _Limit) -> None:
        if not self._open:
            left, every = signal.setitimer(signal.ITIMER_REAL, 0)
            self._before = (signal.signal(signal.SIGALRM, self._ring), left, every, uptime())
        self._open.append(limit)
        self._arm()

    def pop(self, limit: _Limit) -> None:
        self._timer.set(0)
        if limit in self._open:  # not always the last: what a cycle held is let go later
            self._open.remove(limit)
        if self._open:
            self._arm()
            return
        handler, left, every, since = self._before
        signal.signal(signal.SIGALRM, signal.SIG_DFL if handler is None else handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (uptime() - since), _SOON), every)

    @cached_property
    def _timer(self) -> _Timer:
        return _Timer()

    def left(self) -> float | None:
        deadlines = [limit.deadline for limit in list(self._open)]
        return max(min(deadlines) - uptime(), 0.0) if deadlines else None

    def holds(self, limit: object) -> bool:
        return limit in self._open

    def again(self, lost: object) -> None:
        for limit in self._open:
            if limit is lost:
                limit.put_off(uptime())
                self._timer.set(_AGAIN)

    def _arm(self) -> None:
        self._timer.set(min(max(self.left() or 0.0, _SOON), _LOOK))

    def _ring(self, _signal: int, _frame: FrameType | None) -> None:
        now = uptime()
        passed = [limit for limit in self._open if limit.deadline <= now or limit.is_swallowed]
        for limit in passed:
            limit.put_off(now + _GRACE)
        for first in passed[:1]:
            first.passed = DeadlinePassed(f"the limit of {show_duration(first.of)} has passed", limit=first)
        if self._open:  # where none has passed, one was put off, or the timer's clock ran a hair ahead of ours
            self._arm()
        if passed and passed[0].passed:
            raise passed[0].passed


_ALARM = _Alarm()


@contextmanager
def looking_up() -> Iterator[None]:
    """Have the waits of the main thread interrupted once a second, by nothing: a signal that came too late is seen."""
    if seconds_left() is not None:  # a limit around this rings as often
        yield
        return
    before = signal.signal(signal.SIGALRM, _nothing)
    left, every = signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, every)
        if callable(before):  # else what does nothing stays: the last ring may be on its way
            signal.signal(signal.SIGALRM, before)


def _nothing(_signal: int, _frame: FrameType | None) -> None:
    """Do nothing: that it was called is enough."""


def seconds_left() -> float | None:
    """Return the seconds until the nearest open limit, or None; for waits in threads, which no signal interrupts."""
    return _ALARM.left()


def is_of_another(passed: DeadlinePassed) -> bool:
    """Whether a limit around this one has passed, not one that was opened and let go here."""
    return _ALARM.holds(passed.limit)


def raise_again(lost: object) -> None:
    """Have what a signal or a limit raised raised once more, a moment later: Python ignored it, as in a finalizer."""
    if isinstance(lost, DeadlinePassed):
        _ALARM.again(lost.limit)
    elif isinstance(lost, Interrupted):
        _thread.start_new_thread(_signal_main, (lost.signal_number,))  # `threading` may hold its locks just now


def _signal_main(number: int) -> None:
    time.sleep(_AGAIN)
    signal.pthread_kill(threading.main_thread().ident or 0, number)


def _nowhere(until: float) -> None:
    """Put off nothing: there is no limit."""


class SystemClock:
    """The clock of the machine; implements `ports.Clock`."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return what `uptime` does."""
        return uptime()

    def sleep(self, seconds: float) -> None:
        """Wait; WorkFailed in a thread whose work is over."""
        stop = heeded()
        if stop is not None and stop.wait(max(seconds, 0)):
            raise WorkFailed("not tried again: what it was for has ended", hint="see what ended it")
        if seconds > 0 and stop is None:
            time.sleep(seconds)

    @contextmanager
    def limit(self, seconds: float | None, of: float | None = None) -> Iterator[Callable[[float], None]]:
        """Raise `DeadlinePassed` inside the block once the seconds have passed; None is not a limit.

        Limits nest; outside the main thread, which alone gets signals, the block runs without one of its own. What is
        yielded puts the limit off, from any thread, until a time of `monotonic`.

        Args:
            of: the whole limit of which the seconds are what is left, for the message.
        """
        if seconds is None or threading.current_thread() is not threading.main_thread():
            yield _nowhere
            return
        limit = _Limit(uptime() + seconds, of or seconds)
        try:
            _ALARM.push(limit)
            yield limit.put_off
        except Exception as error:  # such as of a library in Rust, which makes a failure of its own of what was raised
            if limit.passed is not None and not isinstance(error, MaintError) and is_of_a_library(error):
                raise limit.passed from error
            raise
        finally:
            try:
                _ALARM.pop(limit)
            except DeadlinePassed:  # at this very moment: a limit that stays open would end what comes later
                _ALARM.pop(limit)
                raise
