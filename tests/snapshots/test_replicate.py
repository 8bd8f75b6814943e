"""Several stores: each gets what it lacks, each is believed only for what it holds itself."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

import pytest

from maint.adapters.sign import load_or_make_signer
from maint.adapters.stores.local import LocalStore
from maint.errors import Refused, StoreFailed, WorkFailed
from maint.model.snapshot import Purpose, Trust
from maint.ports import Site
from maint.snapshots.capture import take
from maint.snapshots.catalogue import entries, load, newest_restorable
from maint.snapshots.holds import add_hold, begin_restore
from maint.snapshots.manifest import MANIFEST
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.records import read_all, read_records, write_record
from maint.snapshots.replicate import copy_records, replicate, with_store
from maint.snapshots.verify import record, verify
from tests.snapshots.liar import Liar

Run = Callable[..., Any]


@pytest.fixture
def second(place: Any, tmp_path: Path) -> Path:
    place.copies = [LocalStore(tmp_path / "second")]
    return tmp_path / "second"


def taken(place: Any, run: Run, **more: Any) -> str:
    place.clock.sleep(60)
    return str(run(take(place, **more)).snapshot.id)


def block(folder: Path) -> None:
    """Make a store impossible: a file stands where its folder should be."""
    if folder.is_dir():
        folder.rename(folder.with_name(f"{folder.name}-away"))
    folder.write_text("")


def unblock(folder: Path) -> None:
    folder.unlink()
    if folder.with_name(f"{folder.name}-away").is_dir():
        folder.with_name(f"{folder.name}-away").rename(folder)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def ids(place: Any, store: Any) -> list[str]:
    return [entry.id for entry in entries(with_store(place, store))]


def test_a_copy_holds_the_same_bytes_and_is_verified_on_its_own(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    assert run(replicate(place)) == []
    assert bytes_of(second / "prod" / snapshot) == bytes_of(place.folder(snapshot))
    (kept,) = [one for one in read_records(with_store(place, place.copies[0])) if one.kind == "verify"]
    assert (kept.facts["level"], kept.facts["result"]) == (3, Trust.VERIFIED.value)


@pytest.mark.parametrize("added", [" (conflicted copy)", ".sync-conflict-20261121-021500-ABCDEFG", "~1"])
def test_what_a_program_that_syncs_folders_leaves_beside_a_record_is_none(
    place: Any, second: Path, run: Run, added: str
) -> None:
    held = place.root / add_hold(place, taken(place, run), "an audit", None, "ops")
    shutil.copy(held, held.with_stem(f"{held.stem}{added}"))
    assert run(replicate(place)) == []
    found, doubtful, _ = read_all(place)
    assert ([one.kind for one in found], doubtful) == (["verify", "hold"], [])


def test_a_copy_that_does_not_show_its_newest_any_more_offers_no_older_one(place: Any, second: Path, run: Run) -> None:
    older, newest = taken(place, run), taken(place, run)
    run(replicate(place))
    copy = with_store(place, place.copies[0])
    shutil.rmtree(second / "prod" / newest)
    for path in (second / "prod/records").glob(f"*{newest}*"):
        path.unlink()
    with pytest.raises(Refused, match=f"{newest}.*not shown there any more") as told:
        newest_restorable(copy)
    assert older in " ".join(told.value.detail)
    run(replicate(place))
    assert newest_restorable(copy).id == newest


def test_who_watches_learns_of_every_byte_that_is_stored_and_copied(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    run(replicate(place))
    part = load(place, snapshot).part(DEPLOYMENT)
    assert place.seen[f"storing {DEPLOYMENT}"] == (part.content_bytes, part.content_bytes)
    assert place.seen[f"copying {DEPLOYMENT}"] == (part.bytes, part.bytes)
    assert place.seen[f"reading {DEPLOYMENT}"][1] == part.bytes


def test_copying_again_changes_nothing(place: Any, second: Path, run: Run) -> None:
    taken(place, run)
    run(replicate(place))
    before = sorted(path for path in second.rglob("*"))
    place.clock.sleep(60)
    assert run(replicate(place)) == []
    assert sorted(path for path in second.rglob("*")) == before


def test_a_copy_that_was_down_is_told_and_brought_up_to_date_by_the_next_run(
    place: Any, second: Path, run: Run
) -> None:
    block(second)
    first = taken(place, run)
    (problem,) = run(replicate(place))
    assert str(second) in problem
    unblock(second)
    later = taken(place, run)
    assert run(replicate(place)) == []
    assert ids(place, place.copies[0]) == [first, later]


def test_a_copy_cut_short_is_no_snapshot_and_is_completed_by_the_next_run(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    run(replicate(place))
    (second / "prod" / snapshot / MANIFEST).unlink()
    (second / "prod" / snapshot / "RESTORE.txt").unlink()
    assert ids(place, place.copies[0]) == []
    place.clock.sleep(60)
    assert run(replicate(place)) == []
    assert verify(with_store(place, place.copies[0]), snapshot, 1).result is Trust.VERIFIED


def test_when_the_first_store_is_down_the_snapshot_goes_into_the_copy_and_comes_home_later(
    place: Any, second: Path, run: Run
) -> None:
    before = taken(place, run)
    run(replicate(place))
    block(place.root)
    stray = taken(place, run)
    assert stray in ids(place, place.copies[0])
    assert run(replicate(place)) != []
    unblock(place.root)
    place.clock.sleep(60)
    assert ids(place, place.store) == [before]
    assert run(replicate(place)) == []
    assert ids(place, place.store) == [before, stray]
    assert verify(place, stray, 3).result is Trust.VERIFIED


def test_while_the_first_store_is_down_a_copy_leads_the_others(
    place: Any, second: Path, run: Run, tmp_path: Path
) -> None:
    place.copies.append(LocalStore(tmp_path / "third"))
    block(place.root)
    stray = taken(place, run)
    (problem,) = run(replicate(place))
    assert str(place.root) in problem
    assert ids(place, place.copies[1]) == [stray]
    unblock(place.root)
    place.clock.sleep(60)
    assert run(replicate(place)) == []
    assert ids(place, place.store) == [stray]


def test_what_was_pruned_from_the_first_store_does_not_come_back_from_a_copy(
    place: Any, second: Path, run: Run
) -> None:
    block(place.root)
    stray = taken(place, run)
    unblock(place.root)
    place.root.mkdir(exist_ok=True)
    ordinary = taken(place, run)
    run(replicate(place))
    for snapshot in (stray, ordinary):
        shutil.rmtree(place.folder(snapshot))
    place.clock.sleep(60)
    assert run(replicate(place)) == []
    assert ids(place, place.store) == []
    assert ids(place, place.copies[0]) == [stray, ordinary]


def test_when_no_store_can_hold_it_the_run_fails(place: Any, second: Path, run: Run) -> None:
    block(place.root)
    block(second)
    with pytest.raises(StoreFailed):
        taken(place, run)


def test_a_safety_snapshot_makes_no_detour(place: Any, second: Path, run: Run) -> None:
    block(place.root)
    with pytest.raises(StoreFailed):
        taken(place, run, purpose=Purpose.SAFETY)
    assert not second.exists()


def test_a_rule_that_no_longer_holds_says_nothing_against_a_copy(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    place.clock.sleep(-86_400)  # so that it seems to come from the future, which breaks a rule
    assert run(replicate(place)) == []
    (kept,) = [one for one in read_records(with_store(place, place.copies[0])) if one.kind == "verify"]
    assert (kept.snapshot, kept.facts["level"], kept.facts["result"]) == (snapshot, 1, Trust.VERIFIED.value)


def test_rotten_bytes_are_not_copied(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    part = place.folder(snapshot) / "deployment.json.zst.age"
    part.write_bytes((whole := part.read_bytes())[:-1] + bytes([whole[-1] ^ 1]))
    (problem,) = run(replicate(place))
    assert "is not what was stored" in problem
    assert ids(place, place.copies[0]) == []


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / DEPLOYMENT).unlink(), f"was not copied to .*{DEPLOYMENT} is missing in"),
        (lambda folder: (folder / MANIFEST).write_bytes(b"{}"), "was not copied to .*second: "),
    ],
)
def test_what_is_no_whole_snapshot_is_not_copied_and_every_run_says_so(
    place: Any, second: Path, run: Run, damage: Callable[[Path], None], words: str
) -> None:
    snapshot = taken(place, run)
    damage(place.folder(snapshot))
    for _ in range(2):
        (problem,) = run(replicate(place))
        assert re.search(f"{snapshot} {words}", problem)
    assert ids(place, place.copies[0]) == []


@pytest.mark.parametrize("silent", [DEPLOYMENT, MANIFEST, "RESTORE.txt"])
def test_a_file_that_the_first_store_does_not_give_hinders_the_copy_of_no_other_snapshot(
    place: Any, second: Path, run: Run, silent: str
) -> None:
    old, new = taken(place, run), taken(place, run)
    place.store = liar = Liar(place.store, lambda *_: None)
    liar.silent = f"{old}/{silent}"
    (problem,) = run(replicate(place))
    assert re.search(f"{old}.*: cannot read prod/{old}/{silent}; timed out", problem)
    assert ids(place, place.copies[0]) == [new]
    liar.silent = ""
    assert run(replicate(place)) == []
    assert ids(place, place.copies[0]) == [old, new]


def test_a_record_that_the_first_store_does_not_give_hinders_the_copy_of_no_other(
    place: Any, second: Path, run: Run
) -> None:
    snapshot = taken(place, run)
    old = add_hold(place, snapshot, "an audit", None, "ops")
    place.clock.sleep(60)
    new = add_hold(place, snapshot, "another", None, "ops")
    place.store = liar = Liar(place.store, lambda *_: None)
    liar.silent = old
    _, problem = run(replicate(place))  # the first tells of the snapshot
    assert f"{old} in {place.store.location} is not copied: cannot read {old}" in problem
    assert (second / new).is_file() and not (second / old).exists()
    liar.silent = "-hold-"
    for number in range(3):
        place.clock.sleep(60)
        add_hold(place, snapshot, f"number {number}", None, "ops")
    assert len(run(replicate(place))) == 1


def test_a_copy_that_does_not_give_back_what_it_took_is_told(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    place.copies = [Liar(place.copies[0], lambda name, _: b"rotten" if name.endswith(DEPLOYMENT) else None)]
    (problem,) = run(replicate(place))
    assert f"the copy of {snapshot} in {second} is not sound: failed" in problem


def test_a_copy_that_could_not_be_read_back_is_told_and_looked_at_again_until_it_is_proven(
    place: Any, second: Path, run: Run
) -> None:
    taken(place, run)
    place.copies = [copy := Liar(place.copies[0], lambda *_: None)]
    copy.silent = DEPLOYMENT
    for _ in range(3):
        (problem,) = run(replicate(place))
        assert "could not be read: cannot read" in problem
        place.clock.sleep(60)
    copy.silent = ""
    assert run(replicate(place)) == []
    (entry,) = entries(with_store(place, copy))
    assert entry.verified is not None and entry.verified.result is Trust.VERIFIED


def test_a_copy_whose_manifest_the_store_does_not_give_is_told_and_left_as_it_is(
    place: Any, second: Path, run: Run
) -> None:
    snapshot = taken(place, run)
    run(replicate(place))
    before = bytes_of(second / "prod" / snapshot)
    place.copies = [copy := Liar(place.copies[0], lambda *_: None)]
    copy.silent = MANIFEST
    (problem,) = run(replicate(place))
    assert problem.startswith(f"{snapshot} in {second} could not be read: cannot read")
    copy.silent = ""
    assert run(replicate(place)) == []
    assert bytes_of(second / "prod" / snapshot) == before


class Deaf(Liar):
    """Takes a file whose name fits `unheard`, says that it did not, and from then on gives and removes nothing."""

    unheard, gone, dies = "", False, False

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        with self._store.create(name) as file:
            yield file
        if self.unheard and re.search(self.unheard, name):
            self.gone = self.dies
            raise StoreFailed(f"cannot write {name}")

    def remove(self, name: str) -> None:
        if self.gone:
            raise StoreFailed(f"cannot remove {name}")
        self._store.remove(name)


@pytest.mark.parametrize(("silent", "unheard", "dies", "words"), [
    (DEPLOYMENT, "", False, "is stored, and is not proven"),
    (MANIFEST, "", False, "is stored, and is not proven"),
    ("", "-verify-", False, "is stored, and is not proven"),
    ("", f"/{MANIFEST}$", True, "whether snapshot .* is stored in .* is not known"),
])  # fmt: skip
def test_what_the_first_store_took_and_does_not_give_back_is_not_taken_again_under_the_same_id(
    place: Any, second: Path, run: Run, silent: str, unheard: str, dies: bool, words: str
) -> None:
    def fail(name: str, _: int) -> None:
        if silent and name.endswith(silent) and list(place.root.glob("prod/*/manifest.json")):
            raise StoreFailed(f"cannot read {name}")

    place.store = Deaf(first := place.store, fail)
    place.store.unheard, place.store.dies = unheard, dies
    with pytest.raises(WorkFailed, match=words) as failed:
        run(take(place))
    assert not isinstance(failed.value, StoreFailed)
    assert len(ids(place, first)) == 1
    assert ids(place, place.copies[0]) == []


def test_a_manifest_of_which_the_answer_was_lost_is_taken_back_before_a_copy_takes_the_snapshot(
    place: Any, second: Path, run: Run
) -> None:
    place.store = Deaf(first := place.store, lambda *_: None)
    place.store.unheard = f"/{MANIFEST}$"
    snapshot = run(take(place)).snapshot
    assert list(first.names("prod")) == []
    assert ids(place, place.copies[0]) == [snapshot.id]


def test_a_failure_that_the_store_does_not_record_is_told_all_the_same(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    rot(place.folder(snapshot) / DEPLOYMENT)
    place.store = Deaf(place.store, lambda *_: None)
    place.store.unheard = "-verify-"
    with pytest.raises(WorkFailed, match="must not be relied on, and that could not be recorded") as failed:
        record(place, verify(place, snapshot, 1))
    assert not isinstance(failed.value, StoreFailed)
    assert "other bytes" in failed.value.in_a_line and "cannot write" in failed.value.in_a_line


def test_a_copy_that_rots_is_told_apart_from_its_original(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    run(replicate(place))
    part = second / "prod" / snapshot / "deployment.json.zst.age"
    part.write_bytes((whole := part.read_bytes())[:-1] + bytes([whole[-1] ^ 1]))
    assert verify(place, snapshot, 1).result is Trust.VERIFIED
    assert verify(with_store(place, place.copies[0]), snapshot, 1).result is Trust.FAILED


def rot(part: Path) -> bytes:
    """Change a file's last byte; return what it was."""
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    return whole


def found_damaged(place: Any, store: Any, snapshot: str) -> None:
    place.clock.sleep(60)
    copy: Any = with_store(place, store)
    verification = verify(copy, snapshot, 1)
    assert verification.result is Trust.FAILED
    record(copy, verification)
    place.clock.sleep(60)


@pytest.mark.parametrize("name", ["deployment.json.zst.age", "RESTORE.txt", "manifest.json", "manifest.json.sig"])
def test_a_copy_that_was_found_damaged_is_taken_anew(place: Any, second: Path, run: Run, name: str) -> None:
    snapshot = taken(place, run)
    run(replicate(place))
    rot(second / "prod" / snapshot / name)
    found_damaged(place, place.copies[0], snapshot)
    assert run(replicate(place)) == []
    assert bytes_of(second / "prod" / snapshot) == bytes_of(place.folder(snapshot))
    (entry,) = entries(with_store(place, place.copies[0]))
    assert entry.verified is not None and entry.verified.result is Trust.VERIFIED
    place.clock.sleep(60)
    assert run(replicate(place)) == []


def test_where_the_original_is_damaged_too_neither_is_touched_and_every_run_says_so(
    place: Any, second: Path, run: Run
) -> None:
    snapshot = taken(place, run)
    run(replicate(place))
    rot(second / "prod" / snapshot / "deployment.redacted.json.zst")
    rot(place.folder(snapshot) / "deployment.json.zst.age")
    before = bytes_of(second / "prod" / snapshot), bytes_of(place.folder(snapshot))
    found_damaged(place, place.copies[0], snapshot)
    for _ in range(2):
        (problem,) = run(replicate(place))
        assert "is damaged, and so is what" in problem
    assert (bytes_of(second / "prod" / snapshot), bytes_of(place.folder(snapshot))) == before


def test_a_damaged_copy_stays_while_the_original_cannot_be_read_and_is_then_taken_anew(
    place: Any, second: Path, run: Run
) -> None:
    snapshot = taken(place, run)
    run(replicate(place))
    rot(second / "prod" / snapshot / DEPLOYMENT)
    found_damaged(place, place.copies[0], snapshot)
    before = bytes_of(second / "prod" / snapshot)
    place.store = liar = Liar(place.store, lambda *_: None)
    liar.silent = DEPLOYMENT
    (problem,) = run(replicate(place))
    assert re.search("is damaged, and stays for now: .* could not be read: cannot read", problem)
    assert bytes_of(second / "prod" / snapshot) == before
    liar.silent = ""
    assert run(replicate(place)) == []
    assert bytes_of(second / "prod" / snapshot) == bytes_of(place.folder(snapshot))


def test_a_copy_that_could_only_not_be_read_then_stays(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    run(replicate(place))
    part = second / "prod" / snapshot / "RESTORE.txt"
    whole = rot(part)
    found_damaged(place, place.copies[0], snapshot)
    part.write_bytes(whole)
    inode = part.stat().st_ino
    assert run(replicate(place)) == []
    assert part.stat().st_ino == inode
    (entry,) = entries(with_store(place, place.copies[0]))
    assert entry.verified is not None and entry.verified.result is Trust.VERIFIED


def test_what_could_not_come_home_is_tried_again(place: Any, second: Path, run: Run) -> None:
    block(place.root)
    stray = taken(place, run)
    unblock(place.root)
    place.root.mkdir(exist_ok=True)
    part = second / "prod" / stray / "deployment.json.zst.age"
    whole = rot(part)
    (problem,) = run(replicate(place))
    assert "is not what was stored" in problem
    part.write_bytes(whole)
    place.clock.sleep(60)
    assert run(replicate(place)) == []
    assert ids(place, place.store) == [stray]


def test_holds_go_along_and_verifications_do_not(place: Any, second: Path, run: Run) -> None:
    snapshot = taken(place, run)
    write_record(place, "hold", snapshot, {"reason": "audit"}, place.clock.now() + timedelta(seconds=1))
    run(replicate(place))
    kinds = [record.kind for record in read_records(with_store(place, place.copies[0]))]
    assert sorted(kinds) == ["hold", "verify"]
    assert kinds.count("verify") < 2


def test_a_site_at_another_store_is_the_site_in_all_else(tmp_path: Path) -> None:
    own = sorted({name for kind in Site.__mro__ for name, one in vars(kind).items() if isinstance(one, property)})
    found: list[tuple[str, object]] = []
    site: Any = SimpleNamespace(
        **{name: object() for name in own}, identities=lambda: ["key"], virtual_cluster=lambda name: f"{name}, found",
        find_at=lambda *told: found.append(told),
    )  # fmt: skip
    store = LocalStore(tmp_path)
    there = with_store(site, store)
    assert (there.store, there.copies) == (store, ())
    assert [name for name in own if getattr(there, name) is not getattr(site, name)] == ["copies", "store"]
    there.find_at("vc", {"ca": "x"})
    assert (there.identities(), there.virtual_cluster("vc"), found) == (["key"], "vc, found", [("vc", {"ca": "x"})])


def test_a_snapshot_that_comes_home_is_held_there_as_people_held_it_in_the_copy(
    place: Any, second: Path, run: Run
) -> None:
    block(place.root)
    stray = taken(place, run)
    copy = with_store(place, place.copies[0])
    add_hold(copy, stray, "an audit", None, "me")
    begin_restore(copy, stray, "run-1", "root@one")
    unblock(place.root)
    place.clock.sleep(60)
    assert run(replicate(place)) == []
    assert [hold.reason for hold in entries(place)[0].holds] == ["an audit"]


def test_a_part_that_is_longer_than_its_manifest_says_is_left_where_it_should_end(
    place: Any, second: Path, run: Run
) -> None:
    snapshot = taken(place, run)
    part = load(place, snapshot).part(DEPLOYMENT)
    os.truncate(place.folder(snapshot) / DEPLOYMENT, 1 << 30)
    (problem,) = run(replicate(place))
    assert "larger than what was stored" in problem
    assert place.seen[f"copying {DEPLOYMENT}"][0] == part.bytes + 1
    assert ids(place, place.copies[0]) == []


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(path.read_bytes().replace(b"audit", b"autid")),
                                    lambda path: path.with_name(f"{path.name}.sig").unlink()])  # fmt: skip
def test_a_damaged_record_is_told_and_takes_no_name_in_a_copy_that_the_sound_one_needs(
    place: Any, second: Path, run: Run, damage: Callable[[Path], object]
) -> None:
    snapshot = taken(place, run)
    spoiled = place.root / write_record(place, "hold", snapshot, {"reason": "audit", "until": "", "by": "a"})
    sound = bytes_of(spoiled.parent)
    later = write_record(place, "hold", snapshot, {"reason": "other", "until": "", "by": "a"})
    damage(spoiled)
    (problem,) = run(replicate(place))
    assert f"{spoiled.name} in {place.store.location} is not copied: " in problem and "from there" in problem
    folder = second / "prod/records"
    assert not list(folder.glob(f"{spoiled.name}*")) and (second / later).exists()
    for name, content in sound.items():
        (spoiled.parent / name).write_bytes(content)
    assert run(replicate(place)) == []
    assert (folder / spoiled.name).read_bytes() == sound[spoiled.name]


def test_a_record_goes_into_a_copy_as_it_was_proven_and_not_as_the_store_gives_it_then(
    place: Any, second: Path, run: Run
) -> None:
    add_hold(place, taken(place, run), "so", None, "ops")
    (name,) = (
        one for one in place.store.names(f"{place.settings.name}/records") if "-hold-" in one and one.endswith(".json")
    )
    store = place.store
    place.store = Liar(store, lambda one, number: b"{}" if one.startswith(name) and number > 1 else None)
    copy_records(place, with_store(place, place.copies[0]))
    for one in (name, f"{name}.sig"):
        with store.open(one) as file:
            assert (second / one).read_bytes() == file.read()


def test_a_store_that_gives_no_record_any_more_is_away_and_not_asked_for_each_of_them(
    place: Any, second: Path, run: Run
) -> None:
    snapshot = taken(place, run)
    for reason in ("a", "b", "c", "d", "e", "f"):
        add_hold(place, snapshot, reason, None, "ops")
        place.clock.time += timedelta(seconds=1)
    place.store = liar = Liar(place.store, lambda *_: None)
    liar.silent = "-hold-"
    with pytest.raises(StoreFailed, match="cannot read"):
        copy_records(place, with_store(place, place.copies[0]))
    assert len([name for name in liar.read if "-hold-" in name]) == 4


def test_a_record_of_a_machine_that_is_not_trusted_here_is_copied_for_those_who_trust_it(
    place: Any, second: Path, run: Run
) -> None:
    snapshot = taken(place, run)
    name = write_record(place, "hold", snapshot, {"reason": "audit", "until": "", "by": "a"})
    place.sign = load_or_make_signer(None, second.parent / "other", [])
    run(replicate(place))
    assert (second / name).read_bytes() == (place.root / name).read_bytes()
