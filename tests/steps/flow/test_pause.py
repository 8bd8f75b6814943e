"""A run waits for a while, or until a time; one that is taken up waits for what is left."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pytest

from maint.errors import Invalid
from maint.steps.flow import Pause, PauseArguments
from tests.engine.conftest import Bench, bench, site, steps

__all__ = ["bench", "site", "steps"]
NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)


class Hands:
    """A clock that goes on only when somebody sleeps."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    @contextmanager
    def limit(self, seconds: float | None, of: float | None = None) -> Iterator[None]:
        yield


@pytest.fixture
def hands(bench: Bench) -> Hands:
    bench.site.clock = Hands()  # type: ignore[assignment]  # a clock whose waits take no time
    return bench.site.clock  # type: ignore[return-value]


def book(how: str) -> str:
    return f"name: x\nsummary: X.\nsteps:\n  - {{name: P, do: pause, with: {{{how}}}}}\n"


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("duration: 5m", NOON + timedelta(minutes=5)),
        ('until: "22:30"', NOON.replace(hour=22, minute=30)),
        ('until: "11:59"', NOON.replace(day=3, hour=11, minute=59)),
        ("until: 2026-01-02T14:00:00+01:00", NOON + timedelta(hours=1)),
    ],
)
def test_it_waits_as_long_as_it_is_told(bench: Bench, hands: Hands, how: str, end: datetime) -> None:
    bench.run(book(how))
    assert hands.time == end
    assert bench.events[-1].detail == f"waited until {end:%Y-%m-%d %H:%M:%S} UTC"


def test_a_run_that_is_taken_up_waits_for_what_is_left(bench: Bench, hands: Hands) -> None:
    class Noted:
        notes: ClassVar = {"until": (NOON + timedelta(minutes=1)).isoformat()}

        def noted(self, key: str) -> str | None:
            return self.notes.get(key)

    [action] = Pause().plan(PauseArguments(duration=300), bench.site)
    list(Pause().apply(action, bench.site, Noted()))  # type: ignore[arg-type]  # all that a pause asks of its work
    assert hands.time == NOON + timedelta(minutes=1)


@pytest.mark.parametrize(
    "how",
    [
        "",
        "duration: 5m, until: '22:30'",
        "until: '24:30'",
        "until: 2026-01-02T14:00:00",
        "until: 9999-12-31T23:59:59-05:00",
        "duration: 9999999d",
    ],
)
def test_what_is_no_time_is_refused_before_anything_is_done(bench: Bench, how: str) -> None:
    with pytest.raises(Invalid):
        bench.plan(book(how))
