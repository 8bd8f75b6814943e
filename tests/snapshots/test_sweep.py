"""What killed runs leave, and when it is cleared away."""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from maint.snapshots.capture import take
from maint.snapshots.catalogue import entries, sweep
from maint.snapshots.holds import add_hold
from maint.snapshots.in_progress import begin, others_storing, storing, unfinished
from maint.snapshots.manifest import new_id, stamp
from maint.snapshots.records import read_kinds, read_records
from tests.snapshots.liar import Liar

Run = Callable[..., Any]


def put(place: Any, name: str) -> None:
    with place.store.create(name) as file:
        file.write(b"part")


def age(place: Any, name: str, hours: int) -> None:
    """Let a file have been written so long ago by the clock of the store, which this machine's agrees with."""
    then = time.time() - hours * 3600
    place.clock.time = datetime.now(UTC)
    os.utime(place.root / name, (then, then))


@pytest.fixture
def dead(place: Any) -> str:
    """The id of a snapshot of which only a part is there."""
    found = new_id(place.clock.now())
    put(place, f"prod/{found}/deployment.json.zst.age")
    return found


def test_what_this_machine_began_and_did_not_end_goes_at_once(place: Any, dead: str) -> None:
    begin(place.state, dead, place.store.location)
    assert sweep(place) == 1
    assert list(place.store.names()) == []
    assert unfinished(place.state, place.store.location) == set()


@pytest.mark.parametrize(("hours", "removed"), [(23, 0), (25, 1)])
def test_what_another_machine_began_goes_after_a_day_of_the_store(
    place: Any, run: Run, dead: str, hours: int, removed: int
) -> None:
    age(place, f"prod/{dead}/deployment.json.zst.age", hours)
    assert sweep(place) == 0  # no record: nothing tells how late it is there
    run(take(place))
    assert sweep(place) == removed


def test_a_snapshot_whose_manifest_is_not_listed_is_no_leftover(place: Any, run: Run) -> None:
    old = run(take(place)).snapshot
    for path in place.folder(old.id).iterdir():
        age(place, f"prod/{old.id}/{path.name}", 25)
    place.clock.sleep(60)
    run(take(place))
    place.store = Liar(place.store, lambda *_: None)
    place.store.hidden = {f"{old.id}/manifest.json"}
    assert sweep(place) == 0
    assert len(list(place.folder(old.id).iterdir())) == len(old.parts) + 2


@pytest.mark.parametrize("days", [-2, 2])
def test_a_clock_that_is_wrong_takes_nothing_from_a_capture_under_way_elsewhere(
    place: Any, run: Run, days: int
) -> None:
    run(take(place))
    place.clock.time += timedelta(days=days)
    put(place, f"prod/{new_id(place.clock.now())}/deployment.json.zst.age")
    put(place, f"prod/under-way/{stamp(place.clock.now())}-0123456789abcdef")
    place.clock.time -= 2 * timedelta(days=days)
    assert (sweep(place), len(others_storing(place))) == (0, 1)
    with storing(place):
        assert len(others_storing(place)) == 1


def test_a_file_dated_ahead_takes_nothing_from_a_capture_under_way_elsewhere(place: Any, run: Run) -> None:
    run(take(place))
    for name in list(place.store.names("prod/records")):
        age(place, name, -48)  # as rsync keeps it of a machine whose clock was ahead
    put(place, f"prod/{new_id(place.clock.now())}/deployment.json.zst.age")
    put(place, f"prod/under-way/{stamp(place.clock.now())}-0123456789abcdef")
    assert (sweep(place), len(others_storing(place))) == (0, 1)
    with storing(place):
        assert len(others_storing(place)) == 1


def test_what_was_begun_in_another_store_is_that_stores_affair(place: Any, dead: str) -> None:
    begin(place.state, dead, "sftp://elsewhere/srv")
    assert sweep(place) == 0
    assert unfinished(place.state, "sftp://elsewhere/srv") == {dead}


def test_a_snapshot_that_is_whole_stays_even_where_its_end_was_not_noted(place: Any, run: Run) -> None:
    snapshot = run(take(place)).snapshot.id
    begin(place.state, snapshot, place.store.location)
    assert sweep(place) == 0
    assert [entry.id for entry in entries(place)] == [snapshot]


@pytest.mark.parametrize(("hours", "removed"), [(23, 0), (25, 1)])
def test_a_signature_whose_record_never_came_goes_after_a_day(place: Any, run: Run, hours: int, removed: int) -> None:
    name = f"prod/records/{stamp(place.clock.now())}-verify-20261121T021500.123Z-4f3a.json.sig"
    put(place, name)
    age(place, name, hours)
    run(take(place))  # whose records tell how late it is there
    sweep(place)
    assert list(place.store.names("prod/records")).count(name) == 1 - removed


def test_a_record_with_its_signature_stays(place: Any, run: Run) -> None:
    run(take(place))
    before = list(place.store.names())
    assert sweep(place) == 0
    assert list(place.store.names()) == before


def test_a_record_that_is_not_listed_keeps_its_signature(place: Any, run: Run) -> None:
    taken = run(take(place)).snapshot
    signature = f"{add_hold(place, taken.id, 'an audit', None, 'ops')}.sig"
    age(place, signature, 25)
    place.store = Liar(place.store, lambda *_: None)
    place.store.hidden = {"-hold-"}
    names = place.store.names
    place.store.names = lambda prefix="": (*names(prefix), signature)
    assert sweep(place) == 0
    assert place.store.size(signature) is not None


def test_flags_of_whom_nobody_knows_stay_and_are_told_until_they_are_a_day_old(place: Any) -> None:
    flags = {"20261121T000000.000Z-0123456789abcdef": 1, "20261121T000001.000Z-0123456789abcdef": 25, "of-tomorrow": 0}
    for name, hours in flags.items():
        put(place, f"prod/under-way/{name}")
        age(place, f"prod/under-way/{name}", hours)
    assert len(others_storing(place)) == 2
    with storing(place):
        assert len(others_storing(place)) == 2
    left = {name.rpartition("/")[2] for name in place.store.names("prod/under-way")}
    assert left == {name for name, hours in flags.items() if hours < 24}


def test_a_record_under_another_name_than_its_own_counts_for_nothing(place: Any, run: Run) -> None:
    snapshot = run(take(place)).snapshot
    add_hold(place, snapshot.id, "an audit", None, "ops")
    (held,) = place.root.rglob("*-hold-*.json")
    for end in ("", ".sig"):
        other = str(held).replace("-hold-", "-prune-") + end
        Path(other).write_bytes(Path(f"{held}{end}").read_bytes())
    assert [one.kind for one in read_records(place) if one.kind != "verify"] == ["hold"]
    assert read_kinds(place, "prune")[1] != []


def test_an_odd_signature_among_the_records_stays(place: Any) -> None:
    put(place, "prod/records/odd.json.sig")
    age(place, "prod/records/odd.json.sig", 200)
    put(place, f"prod/under-way/{stamp(place.clock.now())}-0123456789abcdef")
    assert sweep(place) == 0
