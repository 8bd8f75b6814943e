"""Another machine removes a snapshot while this one reads it: it is gone, and neither damaged nor a problem."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.errors import StoreFailed
from maint.restore.drill import drill
from maint.snapshots import prune
from maint.snapshots.catalogue import Gone, entries, load
from maint.snapshots.holds import add_hold
from maint.snapshots.manifest import MANIFEST, SIGNATURE
from maint.snapshots.parts import DEPLOYMENT, RECIPE
from maint.snapshots.records import PRUNE, drills, read_of
from maint.snapshots.replicate import replicate, with_store
from maint.snapshots.verify import verify
from tests.restore.drill.test_wrong_manager import Rehearsal
from tests.snapshots.test_prune import aged, ids, laid_out

__all__ = ["aged", "laid_out"]

Run = Callable[..., Any]
ANY = pytest.mark.parametrize("name", [MANIFEST, SIGNATURE, DEPLOYMENT, RECIPE])


def removed_at(place: Any, name: str, *, told: bool = True) -> str:
    """Have another machine remove the oldest snapshot just before a file of it is opened; return its id."""
    oldest, opened = ids(place)[0], place.store.open

    def late(wanted: str) -> Any:
        if wanted == f"prod/{oldest}/{name}":
            place.store.open = opened
            if told:
                prune.remove(place, oldest, ["no rule keeps it"])
            else:
                (place.root / wanted).unlink()
        return opened(wanted)

    place.store.open = late
    return oldest


@pytest.mark.parametrize("name", [MANIFEST, SIGNATURE])
def test_the_list_leaves_it_out(aged: Any, name: str) -> None:
    oldest = removed_at(aged, name)
    found = entries(aged)
    assert [one.id for one in found if one.problem] == []
    assert len(found) == 4
    assert oldest not in ids(aged)


@ANY
def test_it_is_not_found_damaged(aged: Any, name: str) -> None:
    oldest = removed_at(aged, name)
    with pytest.raises(Gone, match=f"snapshot {oldest} was removed from {aged.root} while it was read"):
        verify(aged, oldest, 3)


@ANY
def test_no_drill_of_it_has_failed(aged: Any, run: Run, name: str) -> None:
    snapshot = load(aged, ids(aged)[0])
    removed_at(aged, name)
    with pytest.raises(Gone):
        run(drill(aged, Rehearsal(""), snapshot))  # type: ignore[arg-type]
    assert drills(aged) == []


def test_no_drill_of_it_has_failed_where_it_goes_once_it_is_proven(aged: Any, run: Run) -> None:
    snapshot, rehearsal = load(aged, ids(aged)[0]), Rehearsal("")
    rehearsal.admit = rehearsal.restart = lambda: prune.remove(  # type: ignore[method-assign]
        aged, snapshot.id, ["no rule keeps it"]
    )
    with pytest.raises(Gone):
        run(drill(aged, rehearsal, snapshot))  # type: ignore[arg-type]
    assert drills(aged) == []


@ANY
def test_that_it_was_not_copied_is_no_problem(aged: Any, run: Run, tmp_path: Path, name: str) -> None:
    aged.copies = [LocalStore(tmp_path / "second")]
    oldest = removed_at(aged, name)
    assert run(replicate(aged)) == []
    assert oldest not in ids(with_store(aged, aged.copies[0]))


def test_what_a_copy_lost_since_it_was_pruned_is_told_there_too(aged: Any, run: Run, tmp_path: Path) -> None:
    aged.copies = [LocalStore(tmp_path / "second")]
    copy, oldest = with_store(aged, aged.copies[0]), ids(aged)[0]
    run(replicate(aged))
    prune.remove(aged, oldest, ["no rule keeps it"])
    assert run(prune.follow(aged)) == []
    assert oldest not in ids(copy)
    assert len([*read_of(copy, oldest, PRUNE)]) == 1


@pytest.mark.parametrize("name", [MANIFEST, DEPLOYMENT])
def test_what_no_record_tells_of_is_damaged(aged: Any, name: str) -> None:
    oldest = removed_at(aged, name, told=False)
    assert [one.words for one in verify(aged, oldest, 3).failures] == [f"{name} is missing"]


def test_a_full_copy_gets_room_although_it_cannot_be_told_why(aged: Any, run: Run, tmp_path: Path) -> None:
    aged.copies = [LocalStore(tmp_path / "second")]
    copy, oldest = with_store(aged, aged.copies[0]), ids(aged)[0]
    run(replicate(aged))
    prune.remove(aged, oldest, ["no rule keeps it"])

    def full(name: str) -> Any:
        raise StoreFailed(f"cannot write {name}", detail=["No space left on device"])

    aged.copies[0].create = full
    assert run(prune.follow(aged)) == []
    assert oldest not in ids(copy)


def test_a_record_that_lost_its_signature_keeps_no_copy_from_following(aged: Any, run: Run, tmp_path: Path) -> None:
    aged.copies = [LocalStore(tmp_path / "second")]
    copy, (oldest, *_, newest) = with_store(aged, aged.copies[0]), ids(aged)
    run(replicate(aged))
    add_hold(aged, newest, "agreed", None, "ops")
    next((aged.root / "prod" / "records").glob("*-hold-*.sig")).unlink()
    prune.remove(aged, oldest, ["no rule keeps it"])
    assert [one for one in run(replicate(aged)) if "-hold-" not in one] == []
    assert run(prune.follow(aged)) == []
    assert oldest not in ids(copy)
    assert len([*read_of(copy, oldest, PRUNE)]) == 1
