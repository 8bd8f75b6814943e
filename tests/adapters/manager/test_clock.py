import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from maint.adapters.clock import SystemClock, is_of_another, seconds_left
from maint.errors import DeadlinePassed


def _wait() -> None:
    time.sleep(30)


def test_a_limit_interrupts_a_wait() -> None:
    with pytest.raises(DeadlinePassed, match="limit of"), SystemClock().limit(0.05):
        _wait()


def test_a_limit_that_is_met_leaves_nothing_behind() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with SystemClock().limit(9000):
        assert (seconds_left() or 0) > 8000
    assert signal.getsignal(signal.SIGALRM) is before
    assert seconds_left() is None


def test_the_nearer_limit_goes_off_and_the_outer_one_comes_back() -> None:
    clock = SystemClock()
    with clock.limit(9000):
        with pytest.raises(DeadlinePassed, match="0\\.1s"), clock.limit(0.1):
            _wait()
        assert (seconds_left() or 0) > 8000


def test_an_outer_limit_goes_off_inside_an_inner_one() -> None:
    clock = SystemClock()
    with pytest.raises(DeadlinePassed, match="0\\.1s"), clock.limit(0.1), clock.limit(9000):
        _wait()


def test_an_outer_limit_still_holds_after_an_inner_one() -> None:
    clock = SystemClock()
    with pytest.raises(DeadlinePassed, match="0\\.2s"), clock.limit(0.2):
        with clock.limit(9000):
            pass
        _wait()


def test_a_limit_that_has_passed_leaves_what_follows_the_failure_alone() -> None:
    clock = SystemClock()
    with clock.limit(0.05):
        with pytest.raises(DeadlinePassed) as failure:
            _wait()
        with clock.limit(9000):
            assert 600 < (seconds_left() or 0) <= 900  # it would pass once more
        assert 600 < (seconds_left() or 0) <= 900
        time.sleep(0.1)
        with pytest.raises(DeadlinePassed, match="0\\.1s") as passed, clock.limit(0.1):
            _wait()
        assert not is_of_another(passed.value)
        time.sleep(1.2)
        assert failure.value.limit  # is held


def test_a_limit_around_is_told_from_ones_own_even_where_both_have_passed() -> None:
    clock = SystemClock()
    with clock.limit(0.05):
        with pytest.raises(DeadlinePassed) as passed, clock.limit(9000) as put_off:
            put_off(clock.monotonic())  # the timer stays set for the one around
            _wait()
        assert is_of_another(passed.value)


def test_limits_of_two_clocks_nest_as_well() -> None:
    with pytest.raises(DeadlinePassed), SystemClock().limit(0.05), SystemClock().limit(9000):
        _wait()


def test_no_limit_is_no_limit() -> None:
    with SystemClock().limit(None):
        assert seconds_left() is None


def test_a_limit_of_nothing_has_passed_at_once() -> None:
    with pytest.raises(DeadlinePassed), SystemClock().limit(0):
        _wait()


def test_a_limit_that_a_library_swallows_passes_again_soon() -> None:
    with pytest.raises(DeadlinePassed), SystemClock().limit(0.1):
        with suppress(Exception):
            _wait()
        _wait()


def test_who_puts_things_in_order_after_a_limit_is_left_in_peace() -> None:
    order: list[int] = []
    with pytest.raises(DeadlinePassed), SystemClock().limit(0.1):
        try:
            _wait()
        finally:
            for number in range(25):
                time.sleep(0.1)
                order.append(number)
    assert len(order) == 25


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.0015])
def test_a_limit_that_passes_while_it_is_set_or_let_go_leaves_none_open(seconds: float) -> None:
    handler = signal.getsignal(signal.SIGALRM)
    for _ in range(300):
        with suppress(DeadlinePassed), SystemClock().limit(seconds):
            time.sleep(seconds)
        assert seconds_left() is None
        assert signal.getsignal(signal.SIGALRM) is handler


def test_the_timer_of_someone_else_is_given_back() -> None:
    rings: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, _: rings.append(number))
    left, _ = signal.setitimer(signal.ITIMER_REAL, 4000, 50)
    try:
        with SystemClock().limit(9000):
            pass
        after, every = signal.getitimer(signal.ITIMER_REAL)
        assert (3000 < after <= 4000, every) == (True, 50)
        signal.raise_signal(signal.SIGALRM)
        assert rings == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, left)


def test_other_threads_run_without_a_limit_of_their_own() -> None:
    done: list[bool] = []

    def work() -> None:
        with SystemClock().limit(0.01):
            time.sleep(0.05)
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_now_is_aware_and_monotonic_time_goes_on() -> None:
    clock = SystemClock()
    assert clock.now().utcoffset() is not None
    first = clock.monotonic()
    clock.sleep(0)
    clock.sleep(-1)
    assert clock.monotonic() >= first


def test_a_limit_counts_and_rings_by_the_clock_that_goes_on_while_the_machine_sleeps() -> None:
    # What sleeps: the interval timer of `setitimer` too, which would let what was under way go on for hours.
    with SystemClock().limit(9000):
        timers = Path("/proc/self/timers").read_text()
    (clock,) = re.findall(r"signal: 14/.*\n.*\nClockID: (\d+)", timers)
    assert int(clock) == time.CLOCK_BOOTTIME


SLEPT = """
import time
from maint.adapters.clock import SystemClock
from maint.errors import DeadlinePassed
print(SystemClock().monotonic() - time.monotonic())
try:
    with SystemClock().limit(0.1):
        time.sleep(30)
except DeadlinePassed:
    print("passed")
"""


def test_a_machine_that_slept_for_a_day_has_lived_a_day_longer() -> None:
    words = ["unshare", "--user", "--map-root-user", "--time", "--boottime", "86400", sys.executable, "-c", SLEPT]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if ended.returncode and "unshare" in ended.stderr:
        pytest.skip("no namespaces of time here")
    slept, passed = ended.stdout.split()
    assert (round(float(slept)), passed) == (86400, "passed"), ended.stderr
