"""What killed runs leave, and when it is cleared away."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from maint.snapshots.capture import take
from maint.snapshots.catalogue import entries, sweep
from maint.snapshots.in_progress import begin, others_storing, storing, unfinished
from maint.snapshots.manifest import new_id, stamp

Run = Callable[..., Any]


def put(place: Any, name: str) -> None:
    with place.store.create(name) as file:
        file.write(b"part")


@pytest.fixture
def dead(place: Any) -> str:
    """The id of a snapshot of which only a part is there."""
    found = new_id(place.clock.now())
    put(place, f"prod/{found}/deployment.json.zst.age")
    return found


def test_what_this_machine_began_and_did_not_end_goes_at_once(place: Any, dead: str) -> None:
    begin(place.state, dead, place.store.location)
    assert sweep(place, place.clock.now()) == 1
    assert list(place.store.names()) == []
    assert unfinished(place.state, place.store.location) == set()


@pytest.mark.parametrize(("hours", "removed"), [(23, 0), (25, 1)])
def test_what_another_machine_began_goes_after_a_day(place: Any, dead: str, hours: int, removed: int) -> None:
    assert sweep(place, place.clock.now() + timedelta(hours=hours)) == removed


def test_what_was_begun_in_another_store_is_that_stores_affair(place: Any, dead: str) -> None:
    begin(place.state, dead, "sftp://elsewhere/srv")
    assert sweep(place, place.clock.now()) == 0
    assert unfinished(place.state, "sftp://elsewhere/srv") == {dead}


def test_a_snapshot_that_is_whole_stays_even_where_its_end_was_not_noted(place: Any, run: Run) -> None:
    snapshot = run(take(place)).snapshot.id
    begin(place.state, snapshot, place.store.location)
    assert sweep(place, place.clock.now()) == 0
    assert [entry.id for entry in entries(place)] == [snapshot]


@pytest.mark.parametrize(("hours", "removed"), [(23, 0), (25, 1)])
def test_a_signature_whose_record_never_came_goes_after_a_day(place: Any, hours: int, removed: int) -> None:
    put(place, f"prod/records/{stamp(place.clock.now())}-verify-20261121T021500.123Z-4f3a.json.sig")
    assert sweep(place, place.clock.now() + timedelta(hours=hours)) == removed


def test_a_record_with_its_signature_stays(place: Any, run: Run) -> None:
    run(take(place))
    before = list(place.store.names())
    assert sweep(place, place.clock.now() + timedelta(days=9)) == 0
    assert list(place.store.names()) == before


def test_flags_of_whom_nobody_knows_stay_and_are_told_until_they_are_a_day_old(place: Any) -> None:
    others = [f"{stamp(place.clock.now() - timedelta(hours=hours))}-0123456789abcdef" for hours in (1, 25)]
    for name in (*others, "of-tomorrow"):
        put(place, f"prod/under-way/{name}")
    assert len(others_storing(place)) == 2
    with storing(place):
        assert len(others_storing(place)) == 2
    left = {name.rpartition("/")[2] for name in place.store.names("prod/under-way")}
    assert left == {others[0], "of-tomorrow"}


def test_an_odd_signature_among_the_records_stays(place: Any) -> None:
    put(place, "prod/records/odd.json.sig")
    assert sweep(place, place.clock.now() + timedelta(days=9)) == 0
