"""What goes with a pruning: files of virtual clusters that no snapshot needs, and never one that any needs."""

import hashlib
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maint.adapters.stores.local import LocalStore
from maint.cli.site.page_facts import gather
from maint.config.schema import Keep
from maint.errors import Refused, StoreFailed
from maint.model.snapshot import Judgement, Purpose, Redaction, Snapshot, StoredFile, Trust
from maint.model.virtual_cluster import File
from maint.ports.streams import Cut
from maint.snapshots import prune
from maint.snapshots.capture import recipients_of, take
from maint.snapshots.catalogue import entries
from maint.snapshots.holds import add_hold
from maint.snapshots.in_progress import remember_seen, storing
from maint.snapshots.manifest import new_id
from maint.snapshots.replicate import replicate, with_store
from maint.snapshots.verify import record, verify
from maint.snapshots.virtual_clusters.blobs import collect, object_name, unused
from maint.snapshots.virtual_clusters.capture import take_alone
from maint.snapshots.writer import SnapshotWriter
from maint.steps.snapshots.retention import PruneArguments, PruneSnapshots
from tests.adapters.virtual_clusters.server import Api
from tests.snapshots.conftest import EXAMPLE, Place
from tests.snapshots.liar import Liar
from tests.snapshots.virtual_clusters.conftest import VC, Ground, Notes, lie_about

Run = Callable[[Any], Any]


def stored(site: Any, number: int) -> StoredFile:
    """Store a file, unless it is there."""
    one = StoredFile(f"{number:064x}", 1, hashlib.sha256(b"x").hexdigest())
    if site.store.size(object_name("prod", one.id)) is None:
        with site.store.create(object_name("prod", one.id)) as file:
            file.write(b"x")
    return one


def commit(site: Any, numbers: Sequence[int], purpose: Purpose = Purpose.BACKUP) -> str:
    """Commit a snapshot that needs these files, and return its id."""
    site.clock.time += timedelta(minutes=1)
    snapshot_id = new_id(site.clock.now())
    writing = SnapshotWriter(site, snapshot_id, recipients_of(site))
    judgement = Judgement(Redaction.UNKNOWN, flagged=False, hash_rule=None, counts={}, findings=())
    objects = tuple(stored(site, number) for number in sorted(set(numbers)))
    snapshot = Snapshot(
        id=snapshot_id,
        site="prod",
        taken_at=site.clock.now(),
        purpose=purpose,
        restorable=False,
        parts=(),
        versions={"tool": "0"},
        judgement=judgement,
        objects=objects,
    )
    writing.commit(writing.with_recipe(snapshot))
    return snapshot_id


def needed(site: Any) -> set[str]:
    return {one.id for entry in entries(site) if entry.snapshot for one in entry.snapshot.objects}


def there(site: Any) -> set[str]:
    return {name.rpartition("/")[2].removesuffix(".age") for name in site.store.names("prod/objects")}


def to_the_end(generator: Any) -> Any:
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, EXAMPLE.read_bytes())


class Died(BaseException):
    """What happens to a process between two removals."""


@contextmanager
def dying_after(site: Any, removals: int) -> Iterator[None]:
    remove, left = site.store.remove, [removals]

    def limited(name: str) -> None:
        if left[0] <= 0:
            raise Died
        left[0] -= 1
        remove(name)

    site.store.remove = limited
    try:
        yield
    except Died:
        pass
    finally:
        del site.store.remove


Moves = st.lists(
    st.one_of(
        st.tuples(st.just("backup"), st.frozensets(st.integers(0, 9), max_size=6)),
        st.tuples(st.just("safety"), st.frozensets(st.integers(0, 9), max_size=6)),
        st.tuples(st.just("lost"), st.frozensets(st.integers(10, 14), max_size=3)),
        st.tuples(st.just("remove"), st.integers(0, 5)),
        st.tuples(st.just("killed"), st.integers(0, 4)),
        st.tuples(st.just("collect"), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(Moves)
def test_whatever_happened_before_all_that_is_needed_stays_and_nothing_else(moves: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as folder:
        site: Any = Place(Path(folder), EXAMPLE.read_bytes())
        for move, what in moves:
            if move in ("backup", "safety"):
                commit(site, sorted(what), Purpose(move))
            elif move == "lost":
                [stored(site, number) for number in what]
            elif move == "remove" and (known := entries(site)):
                site.clock.time += timedelta(minutes=1)
                prune.remove(site, known[what % len(known)].id, ["no rule keeps it"])
            elif move == "killed":
                with dying_after(site, what):
                    to_the_end(collect(site))
            elif move == "collect":
                to_the_end(collect(site))
                assert there(site) == needed(site)
            assert needed(site) <= there(site)
        to_the_end(collect(site))
        assert there(site) == needed(site)


def test_where_one_snapshot_cannot_be_believed_nothing_goes(place: Place) -> None:
    broken = commit(place, [1])
    commit(place, [2])
    (place.folder(broken) / "manifest.json").write_bytes(b"{}")
    found = unused(place)
    assert (found.names, broken in found.waits) == ((), True)
    assert to_the_end(collect(place)) == 0
    assert len(there(place)) == 2
    assert unused(place, [broken]).names == (object_name("prod", f"{1:064x}"),)


def test_a_snapshot_that_the_store_does_not_list_keeps_its_files(place: Place) -> None:
    unlisted = commit(place, [1])
    record(place, verify(place, unlisted, 1))
    remember_seen(place, unlisted)
    commit(place, [2])
    whole = place.store
    place.store = liar = Liar(whole, lambda *_: None)  # type: ignore[assignment]
    for hidden in ({f"/{unlisted}/"}, {f"/{unlisted}/", "/records/"}):  # the newest, too, where the list is cut
        liar.hidden = hidden
        found = unused(place)
        assert (found.names, f"does not list {unlisted}, which is there" in found.waits) == ((), True)
    place.store = whole
    shutil.rmtree(place.folder(unlisted))  # by whom no record says, so that it may come back from a copy
    assert (unused(place).names, f"{unlisted}, which is gone, was removed" in unused(place).waits) == ((), True)
    place.clock.time += timedelta(days=31)
    assert unused(place).names == (object_name("prod", f"{1:064x}"),)


def test_a_backup_on_another_machine_makes_it_wait_and_a_dead_one_for_a_day(place: Place, tmp_path: Path) -> None:
    stored(place, 1)
    place.clock.time = datetime.now(UTC)  # as the store's
    other: Any = Place.__new__(Place)
    other.__dict__ |= place.__dict__
    other.settings = place.settings.model_copy(update={"state": tmp_path / "elsewhere"})
    with storing(other):
        assert unused(place).waits
        assert unused(other).names  # its own flag is not an obstacle: whoever holds the lock knows what its own are
        assert to_the_end(collect(place)) == 0
    assert not unused(place).waits
    flag = storing(other)
    flag.__enter__()  # and dies
    with place.store.create("prod/records/later"):
        pass  # tells how late it is by the clock of the store
    left = next(iter((Path(place.settings.backup.store) / "prod/under-way").iterdir()))
    for hours, waits in ((23, True), (25, False)):
        then = time.time() - hours * 3600
        os.utime(left, (then, then))
        assert bool(unused(place).waits) is waits
    assert to_the_end(collect(place)) == 1
    with storing(place):
        pass
    assert list(place.store.names("prod/under-way")) == []


def test_dead_flags_of_this_state_folder_go_with_the_next_backup(place: Place) -> None:
    storing(place).__enter__()
    place.clock.time += timedelta(minutes=1)
    with storing(place):
        assert len(list(place.store.names("prod/under-way"))) == 1
    assert list(place.store.names("prod/under-way")) == []


def test_each_copy_keeps_what_its_own_snapshots_need(place: Place, tmp_path: Path) -> None:
    place.copies = [LocalStore(tmp_path / "second")]
    copy: Any = with_store(place, place.copies[0])
    old, new = commit(place, [1, 2]), commit(place, [2, 3])
    assert to_the_end(replicate(place)) == []
    stored(copy, 9)
    alone = commit(copy, [4])  # such as one that only the copy could take
    place.clock.time += timedelta(minutes=1)
    prune.remove(place, old, ["no rule keeps it"])
    assert to_the_end(collect(place)) == 1
    assert to_the_end(prune.follow(place)) == []
    assert there(place) == needed(place) == {f"{number:064x}" for number in (2, 3)}
    assert there(copy) == needed(copy) == {f"{number:064x}" for number in (2, 3, 4)}
    assert {entry.id for entry in entries(copy)} == {new, alone}


def test_files_that_have_rotted_in_a_copy_are_copied_anew(place: Place, tmp_path: Path) -> None:
    place.copies = [LocalStore(tmp_path / "second")]
    copy: Any = with_store(place, place.copies[0])
    snapshot = commit(place, [1, 2])
    assert to_the_end(replicate(place)) == []
    path = tmp_path / "second" / object_name("prod", f"{1:064x}")
    path.write_bytes(b"y")
    assert record(copy, verify(copy, snapshot, 1))
    assert to_the_end(replicate(place)) == []
    assert path.read_bytes() == b"x"
    assert verify(copy, snapshot, 1).broken_bytes == []


def test_a_file_in_a_copy_that_cannot_be_looked_at_is_told_and_nothing_is_copied_over_it(
    place: Place, tmp_path: Path
) -> None:
    place.copies = [copy := Liar(LocalStore(tmp_path / "second"), lambda *_: None)]  # type: ignore[list-item]
    snapshot = commit(place, [1])
    there_already: Any = with_store(place, copy)
    stored(there_already, 1)  # such as of a copying that was killed
    copy.silent = "/objects/"
    (problem,) = to_the_end(replicate(place))
    assert f"{object_name('prod', f'{1:064x}')} in {copy.location} could not be read: cannot read" in problem
    assert (entries(there_already), len(there(there_already))) == ([], 1)
    copy.silent = ""
    assert to_the_end(replicate(place)) == []
    assert verify(there_already, snapshot, 1).broken_bytes == []


def test_a_dry_run_counts_them_and_a_pruning_removes_them(ground: Ground, api: Api, run: Run) -> None:
    backup = ground.settings.backup
    assert backup is not None
    ground.settings = ground.settings.model_copy(
        update={"backup": backup.model_copy(update={"keep": Keep(last=1), "minimum": 0})}
    )
    run(take(ground))
    files = len(there(ground))
    api.files["etl-scripts"]["basket.py"] = b"changed"
    ground.clock.time += timedelta(minutes=5)
    run(take(ground))
    (action,) = PruneSnapshots().plan(PruneArguments(), ground)
    assert "remove 1 of 2 snapshots" in action.summary
    assert "remove 1 file of virtual clusters" in action.summary
    assert len(there(ground)) == files + 1
    result = run(PruneSnapshots().apply(action, ground, Notes()))
    assert result.value["files"] == 1
    (left,) = entries(ground)
    assert there(ground) == needed(ground)
    assert verify(ground, left.id, 2).result is Trust.VERIFIED


def test_a_held_snapshot_keeps_its_files(place: Place) -> None:
    backup = place.settings.backup
    assert backup is not None
    place.settings = place.settings.model_copy(
        update={"backup": backup.model_copy(update={"keep": Keep(last=1), "minimum": 0})}
    )
    held = commit(place, [1])
    add_hold(place, held, "audit", None, "ops")
    place.clock.time += timedelta(days=60)
    commit(place, [2])
    assert held not in prune.verdict(place).removed
    assert unused(place, prune.verdict(place).removed).names == ()


def test_when_the_first_store_is_down_a_backup_of_a_virtual_cluster_goes_into_a_copy_and_comes_home(
    ground: Ground, run: Run, tmp_path: Path
) -> None:
    ground.copies = [LocalStore(tmp_path / "second")]
    run(take_alone(ground, VC, recipients_of(ground)))
    away = ground.root.rename(tmp_path / "away")
    ground.root.write_text("no folder")
    ground.clock.time += timedelta(minutes=5)
    with pytest.raises(StoreFailed):
        run(take_alone(ground, VC, recipients_of(ground), purpose=Purpose.SAFETY))
    taken = run(take_alone(ground, VC, recipients_of(ground)))
    assert taken.verification.result is Trust.VERIFIED
    ground.root.unlink()
    away.rename(ground.root)
    ground.clock.time += timedelta(minutes=5)
    assert run(replicate(ground)) == []
    for site in (ground, with_store(ground, ground.copies[0])):
        assert len(entries(site)) == 2
        assert all(verify(site, entry.id, 2).result is Trust.VERIFIED for entry in entries(site))


def test_a_file_that_is_cut_on_its_way_is_asked_for_again(
    ground: Ground, api: Api, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, cuts = ground.clients[VC], [3]
    real = client.download

    @contextmanager
    def cut(resource: str, file: File) -> Iterator[Any]:
        with real(resource, file) as answer:
            if cuts[0] and file.path == "basket.py":
                cuts[0] -= 1
                yield _Cut(answer.read(3))
            else:
                yield answer

    monkeypatch.setattr(client, "download", cut)
    snapshot = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    assert snapshot.virtual_clusters[0].problems == ()
    assert cuts == [0]
    assert not [name for name in ground.root.rglob("*") if name.name.startswith(".staging")]


class _Cut(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        if block := super().read(size):
            return block
        raise Cut("cut off")


def test_an_incomplete_backup_of_a_virtual_cluster_does_not_let_the_last_whole_one_go(
    ground: Ground, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = ground.settings.backup.model_copy(update={"keep": Keep(last=1), "minimum": 1})
    ground.settings = ground.settings.model_copy(update={"backup": backup})
    whole = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    ground.clock.time += timedelta(days=40)
    for path in (ground.root / "prod" / "objects").iterdir():
        path.unlink()
    lie_about(monkeypatch, "basket.py")
    run(take(ground))
    (said,) = [one.reasons for one in prune.verdict(ground, thaw=True).decisions if one.id == whole.id]
    assert said == (f"the newest that holds virtual cluster {VC} whole",)


def test_the_page_of_a_site_says_of_no_snapshot_that_it_goes_which_pruning_keeps(ground: Any, run: Run) -> None:
    backup = ground.settings.backup.model_copy(update={"keep": Keep(last=1), "minimum": 1})
    ground.settings = ground.settings.model_copy(update={"backup": backup})
    alone = run(take_alone(ground, VC, recipients_of(ground))).snapshot.id
    whole = ground.settings
    ground.settings = whole.model_copy(update={"virtual_clusters": ()})  # as where it does not answer
    for _ in range(3):
        ground.clock.time += timedelta(days=20)
        run(take(ground))
    ground.settings = whole
    assert alone not in prune.verdict(ground).removed
    assert [one.goes for one in gather(ground).shots if one.id == alone] == [None]


def test_the_page_of_a_site_says_that_the_newest_backup_of_a_virtual_cluster_goes_once_the_next_ones_hold_it(
    ground: Any, run: Run
) -> None:
    backup = ground.settings.backup.model_copy(update={"keep": Keep(last=1), "minimum": 1})
    ground.settings = ground.settings.model_copy(update={"backup": backup})
    for _ in range(2):
        ground.clock.time += timedelta(days=1)
        run(take(ground))
    newest = gather(ground).shots[-1]
    assert newest.id not in prune.verdict(ground).removed
    assert newest.goes == ground.clock.time + timedelta(days=1)


@pytest.fixture
def aging(ground: Ground, run: Run) -> Any:
    """A site with a backup of its virtual cluster that is proven, and three of its manager, of which one is to go."""
    whole = ground.settings
    backup = whole.backup.model_copy(update={"keep": Keep(last=1), "minimum": 1})  # type: ignore[union-attr]
    ground.settings = whole.model_copy(update={"backup": backup})
    run(take_alone(ground, VC, recipients_of(ground)))
    for _ in range(3):
        ground.clock.time += timedelta(days=20)
        ground.settings = whole.model_copy(update={"backup": backup, "virtual_clusters": ()})
        run(take(ground))
    ground.settings = whole.model_copy(update={"backup": backup})
    return ground


def test_nothing_is_removed_while_the_backup_of_a_virtual_cluster_that_stays_has_rotted_unnoticed(aging: Any) -> None:
    (action,) = PruneSnapshots().plan(PruneArguments(), aging)
    alone, *others = entries(aging)
    file = aging.root / object_name("prod", alone.snapshot.objects[0].id)
    *kept, last = file.read_bytes()
    file.write_bytes(bytes([*kept, last ^ 1]))
    with pytest.raises(Refused, match=f"{alone.id}, which was to stay, is damaged"):
        [*PruneSnapshots().apply(action, aging, Notes())]
    assert [one.id for one in entries(aging)] == [alone.id, *(one.id for one in others)]


def test_a_copy_that_lacks_the_backup_of_a_virtual_cluster_that_stays_keeps_what_was_pruned(
    aging: Any, run: Run, tmp_path: Path
) -> None:
    aging.copies = [LocalStore(tmp_path / "second")]
    run(replicate(aging))
    alone, *_ = entries(aging)
    shutil.rmtree(tmp_path / "second/prod" / alone.id)  # as if the copy had been down that day
    for snapshot_id in prune.verdict(aging).removed:
        prune.remove(aging, snapshot_id, ["no rule keeps it"])
    (problem,) = run(prune.follow(aging))
    assert f"lacks {alone.id}" in problem
    run(replicate(aging))
    assert run(prune.follow(aging)) == []
    assert [one.id for one in entries(with_store(aging, aging.copies[0]))] == [one.id for one in entries(aging)]


def test_a_backup_of_a_virtual_cluster_that_nobody_verified_does_not_let_the_last_verified_one_go(
    aging: Any, run: Run
) -> None:
    proven, *_ = entries(aging)
    before = set((aging.root / "prod" / "records").iterdir())
    aging.clock.time += timedelta(days=1)
    run(take_alone(aging, VC, recipients_of(aging)))
    for path in set((aging.root / "prod" / "records").iterdir()) - before:
        path.unlink()
    assert entries(aging)[-1].proven is None
    (said,) = [one.reasons for one in prune.verdict(aging, thaw=True).decisions if one.id == proven.id]
    assert said == (f"the newest that holds virtual cluster {VC} whole and verified",)
