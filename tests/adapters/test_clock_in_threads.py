"""Waits of threads end with what they work for: a limit or a signal strikes the main thread alone."""

import threading

import pytest

from maint.adapters.clock import SystemClock
from maint.errors import DeadlinePassed, WorkFailed
from maint.snapshots.virtual_clusters.blobs import worker_pool

LONG = 3600  # seconds; no more than an end for what never comes


def test_a_limit_that_passes_ends_what_waits_for_another_try_in_a_thread() -> None:
    clock, waiting, ended = SystemClock(), threading.Event(), list[str]()

    def trying() -> None:
        waiting.set()
        try:
            clock.sleep(LONG)
        except WorkFailed as failure:
            ended.append(failure.message)

    with pytest.raises(DeadlinePassed), clock.limit(0.2), worker_pool() as (hands, _):
        hands.submit(trying)
        waiting.wait()
        clock.sleep(LONG)
    assert ended == ["not tried again: what it was for has ended"]
