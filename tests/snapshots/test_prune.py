"""Pruning, holds and the list, on real stores with real signatures."""

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from maint.adapters.stores.local import LocalStore
from maint.config.schema import Keep
from maint.errors import Invalid, OfLaterVersion, Refused, StoreFailed
from maint.model.formatting import parse_time
from maint.model.plan import Effect
from maint.model.snapshot import Purpose, RuleResult, Trust
from maint.snapshots import prune, recipients, records
from maint.snapshots.capture import take
from maint.snapshots.catalogue import Entry, entries, newest_restorable, sweep
from maint.snapshots.holds import add_hold, begin_restore, end_of, end_restore, release_holds, words_of
from maint.snapshots.manifest import MANIFEST, SIGNATURE
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.records import read_records, write_record
from maint.snapshots.replicate import replicate, with_store
from maint.snapshots.verify import record, verify
from maint.steps.snapshots.retention import HoldArguments, HoldSnapshot, PruneArguments, PruneSnapshots
from tests.snapshots.conftest import EXAMPLE, Clock, Dated, Manager
from tests.snapshots.conftest import Place as Site
from tests.snapshots.liar import Liar
from tests.snapshots.virtual_clusters.conftest import Notes

Place = Any  # the fixture of this folder's conftest.py
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A site with five daily backups, of which its policy keeps two; beside its folder a copy of that."""
    folder = tmp_path_factory.mktemp("aged") / "site"
    folder.mkdir()
    place = Site(folder, EXAMPLE.read_bytes())
    backup = place.settings.backup.model_copy(update={"keep": Keep(last=2), "minimum": 1})
    place.settings = place.settings.model_copy(update={"backup": backup})
    for _ in range(5):
        list(take(place))
        place.clock.time += DAY
    shutil.copytree(folder, folder.with_name("copy"))
    return place


@pytest.fixture
def aged(laid_out: Place) -> Place:
    """That site, its folder as it was laid out."""
    folder, place = laid_out.root.parent, copy.copy(laid_out)
    shutil.rmtree(folder)
    shutil.copytree(folder.with_name("copy"), folder)
    place.clock, place.keys, place.copies, place.seen = copy.copy(place.clock), [*place.keys], [], {}
    place.store, place.manager = Dated(place.root, place.clock), Manager(EXAMPLE.read_bytes())
    return place


def ids(place: Place) -> list[str]:
    return [one.id for one in entries(place)]


def prune_all(place: Place) -> list[str]:
    removed = []
    for snapshot_id, why in prune.by_id(prune.verdict(place)).items():
        prune.remove(place, snapshot_id, why)
        removed.append(snapshot_id)
    return removed


@contextmanager
def dying_after(place: Place, files: int) -> Iterator[None]:
    """Let the store die once it has removed so many files."""
    remove, left = place.store.remove, [files]

    def limited(name: str) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        remove(name)

    place.store.remove = limited
    with pytest.raises(KeyboardInterrupt):
        yield
    del place.store.remove


def test_what_the_policy_does_not_keep_is_removed_with_all_its_files(aged: Place) -> None:
    before = ids(aged)
    assert prune_all(aged) == before[:3]
    assert ids(aged) == before[3:]
    assert not any(name.split("/")[1] in before[:3] for name in aged.store.names("prod"))


def test_nothing_is_removed_while_what_stays_has_rotted_unnoticed(aged: Place) -> None:
    (action,) = PruneSnapshots().plan(PruneArguments(), aged)
    *older, newest = ids(aged)
    part = aged.folder(newest) / DEPLOYMENT
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(Refused, match=f"nothing is removed: snapshot {newest}, which was to stay, is damaged"):
        [*PruneSnapshots().apply(action, aged, Notes())]
    assert ids(aged) == [*older, newest]
    assert newest not in [entry.id for entry in entries(aged) if prune.good(entry)]  # it counts no more


def test_a_removal_leaves_a_signed_record_with_its_reasons(aged: Place) -> None:
    removed = prune_all(aged)
    told = {one.snapshot: one.facts["reasons"] for one in read_records(aged) if one.kind == "prune"}
    assert told == {one: ["no rule keeps it"] for one in removed}


@pytest.mark.parametrize("files", range(5))
def test_a_removal_killed_anywhere_shows_a_whole_snapshot_or_none_and_is_finished_by_the_next(
    aged: Place, files: int
) -> None:
    oldest = ids(aged)[0]
    with dying_after(aged, files):
        prune.remove(aged, oldest, ["no rule keeps it"])
    if files:
        assert oldest not in ids(aged)
        assert prune.leftovers(aged) == [oldest]
    else:
        assert verify(aged, oldest, 1).failures == []
    aged.clock.time += timedelta(seconds=1)
    prune.clean_up(aged)
    prune_all(aged)
    assert not any(f"/{oldest}/" in name for name in aged.store.names("prod") if "/records/" not in name)


def test_parts_of_a_capture_under_way_are_no_leftovers_of_a_removal(aged: Place) -> None:
    with aged.store.create("prod/20261126T000000.000Z-0000/deployment.json.zst.age") as file:
        file.write(b"half")
    assert prune.clean_up(aged) == []
    sweep(aged)
    assert list(aged.store.names("prod/20261126T000000.000Z-0000"))


def test_a_held_snapshot_stays_until_it_is_released(aged: Place) -> None:
    oldest = ids(aged)[0]
    add_hold(aged, oldest, "asked for by audit", None, "ops")
    assert oldest not in prune.verdict(aged).removed
    aged.clock.time += timedelta(seconds=1)
    release_holds(aged, oldest, "audit is over", "ops")
    assert oldest in prune.verdict(aged).removed


def test_a_hold_and_a_failure_count_although_a_clock_was_ahead_before(aged: Place) -> None:
    oldest, *_ = ids(aged)
    now = aged.clock.time
    aged.clock.time = now + 400 * DAY
    release_holds(aged, oldest, "audit is over", "ops")
    record(aged, verify(aged, oldest, 1))
    aged.clock.time = now
    add_hold(aged, oldest, "asked for by another audit", None, "ops")
    assert oldest not in prune.verdict(aged).removed
    part = next(path for path in aged.folder(oldest).iterdir() if path.name.startswith("deployment.json"))
    part.write_bytes(part.read_bytes()[:-1])
    record(aged, verify(aged, oldest, 1))
    assert not entries(aged)[0].restorable
    release_holds(aged, oldest, "audit is over", "ops")
    assert entries(aged)[0].holds == ()


def test_a_hold_until_a_day_counts_through_that_day(aged: Place) -> None:
    oldest, today = ids(aged)[0], aged.clock.now().date()
    add_hold(aged, oldest, "audit", end_of(today), "ops")
    aged.clock.time = aged.clock.time.replace(hour=23, minute=59)
    assert oldest not in prune.verdict(aged).removed
    aged.clock.time += timedelta(minutes=1)
    assert oldest in prune.verdict(aged).removed


def test_several_holds_whose_records_have_rotted_are_told_in_one_line(aged: Place) -> None:
    oldest = entries(aged)[0].id
    for reason in ("audit", "another audit"):
        path = aged.root / add_hold(aged, oldest, reason, None, "ops")
        path.write_text(path.read_text().replace("audit", "aud1t"))
    add_hold(aged, oldest, "a word", None, "ops")
    known = entries(aged)[0].holds
    first, second = words_of(known, aged.clock.now())
    assert (len(known), first) == (3, "held by ops: a word")
    assert second.startswith("held: 2 records of holds or restores, such as ") and "cannot be verified" in second


def test_a_hold_whose_record_has_rotted_keeps_and_is_told_until_it_is_released(aged: Place) -> None:
    oldest = ids(aged)[0]
    name = add_hold(aged, oldest, "audit", None, "ops")
    path = aged.root / name
    path.write_bytes(path.read_bytes().replace(b"audit", b"other"))
    assert oldest not in prune_all(aged)
    assert (
        "a record of a hold" in prune.held_since(aged, oldest)
        and "cannot be verified" in entries(aged)[0].holds[0].words
    )
    aged.clock.time += timedelta(seconds=1)
    release_holds(aged, oldest, "audit is over", "ops")
    assert entries(aged)[0].holds == ()


def test_a_later_shallow_verification_does_not_hide_a_deeper_one(aged: Place) -> None:
    aged.clock.time += DAY
    record(aged, verify(aged, ids(aged)[0], 1))
    oldest = entries(aged)[0]
    assert (oldest.verified.level, oldest.proven.level) == (1, 3)
    assert prune.good(oldest)


def test_a_failed_verification_overturns_all_before_it_and_the_snapshot_is_not_removed(aged: Place) -> None:
    oldest = ids(aged)[0]
    part = next(path for path in aged.folder(oldest).iterdir() if path.name.startswith("deployment.json"))
    part.write_bytes(part.read_bytes()[:-1])
    record(aged, verify(aged, oldest, 1))
    entry = entries(aged)[0]
    assert entry.proven is None
    assert not prune.good(entry)
    assert oldest not in prune.verdict(aged).removed


def test_a_damaged_manifest_is_kept_and_told(aged: Place) -> None:
    oldest = ids(aged)[0]
    (aged.folder(oldest) / MANIFEST).write_bytes(b"{}")
    decision = prune.verdict(aged).decisions[0]
    assert (decision.id, decision.keep) == (oldest, True)
    assert "cannot be believed" in decision.reasons[0]


def test_safety_copies_are_kept_beside_what_the_policy_counts(aged: Place, run: Callable[..., Any]) -> None:
    taken = run(take(aged, purpose=Purpose.SAFETY)).snapshot.id
    verdict = prune.verdict(aged)
    assert taken in verdict.kept
    assert len(verdict.kept) == 3


def test_the_last_verified_success_is_the_newest_that_counts(aged: Place, run: Callable[..., Any]) -> None:
    run(take(aged, purpose=Purpose.SAFETY))
    newest = prune.newest_good(entries(aged), aged.clock.now())
    assert newest is not None
    assert newest.id == ids(aged)[-2]
    assert prune.newest_good(entries(aged), aged.clock.now() - 9 * DAY) is None


@pytest.mark.parametrize("broken", [False, True])
def test_a_copy_that_lacks_what_always_stays_keeps_as_many_of_those_that_it_has(
    aged: Place, tmp_path: Path, run: Callable[..., Any], broken: bool
) -> None:
    aged.copies = [LocalStore(tmp_path / "copy")]
    before, copy = ids(aged), with_store(aged, aged.copies[0])
    run(replicate(aged))
    for one in before[3:]:
        shutil.rmtree(tmp_path / "copy/prod" / one)  # as if the copy had been down, or full, since
    if broken:
        (tmp_path / "copy/prod" / before[2] / DEPLOYMENT).write_bytes(b"rotten")
    prune_all(aged)
    (problem,) = run(prune.follow(aged))
    kept = before[:3] if broken else before[2:3]  # the one that is not pruned for want of a newer one is read first
    assert f"lacks {before[-1]}, which the next backup copies" in problem
    assert f"until then it keeps {len(kept)} pruned snapshot" in problem
    assert [one.id for one in entries(copy)] == kept
    aged.clock.time += DAY
    run(replicate(aged))
    assert run(prune.follow(aged)) == []
    assert [one.id for one in entries(copy)] == before[3:]


def test_a_copy_that_holds_nothing_but_what_was_pruned_keeps_it_until_the_newest_is_there(
    aged: Place, tmp_path: Path, run: Callable[..., Any]
) -> None:
    aged.copies = [LocalStore(tmp_path / "copy")]
    oldest, *others = ids(aged)
    run(replicate(aged))
    for one in others:
        shutil.rmtree(tmp_path / "copy/prod" / one)
    prune_all(aged)
    (problem,) = run(prune.follow(aged))
    assert "until then it keeps 1 pruned snapshot" in problem
    assert [one.id for one in entries(with_store(aged, aged.copies[0]))] == [oldest]


def test_a_copy_takes_the_newest_first_where_there_may_not_be_room_or_time_for_all(aged: Place, tmp_path: Path) -> None:
    aged.copies = [LocalStore(tmp_path / "copy")]
    told = [words.split()[1] for words in replicate(aged) if words.startswith("copying ")]
    assert told == [*reversed(ids(aged))]


def test_a_copy_follows_what_was_pruned_and_loses_nothing_else(aged: Place, tmp_path: Path) -> None:
    aged.copies = [LocalStore(tmp_path / "copy")]
    list(replicate(aged))
    before = ids(aged)
    prune_all(aged)
    list(prune.follow(aged))
    assert [one.id for one in entries(with_store(aged, aged.copies[0]))] == before[3:]
    for path in (aged.root / "prod").iterdir():
        if path.name in before:
            shutil.rmtree(path)
    list(prune.follow(aged))
    assert [one.id for one in entries(with_store(aged, aged.copies[0]))] == before[3:]


def shrunk(entry: Entry, **counts: int) -> Entry:
    assert entry.snapshot is not None
    judgement = replace(entry.snapshot.judgement, counts={**entry.snapshot.judgement.counts, **counts})
    return replace(entry, snapshot=replace(entry.snapshot, judgement=judgement))


def test_a_backup_that_shrank_by_half_is_doubtful(aged: Place) -> None:
    *before, latest = entries(aged)
    assert prune.doubt([*before, latest], aged.clock.now()) is None
    found = prune.doubt([*before, shrunk(latest, roles=0)], aged.clock.now())
    assert found is not None
    assert "holds 0 roles" in found


def empty_backups(place: Place, run: Callable[..., Any], count: int) -> list[str]:
    """Take backups of a manager that has lost what it configured; return their ids."""
    document = json.loads(place.manager.content)
    whole = {key: document[key] for key in ("timestamp", "users", "versionInfo", "managerSettings")}
    place.manager.content = json.dumps({**whole, "clusters": [], "hosts": []}).encode()
    taken = []
    for _ in range(count):
        place.clock.time += DAY
        taken.append(run(take(place)).snapshot)
    assert all(one.restorable for one in taken)
    return [one.id for one in taken]


def test_backups_of_a_manager_that_lost_its_configuration_push_out_none_that_still_has_it(
    aged: Place, run: Callable[..., Any]
) -> None:
    full, content = ids(aged)[-1], aged.manager.content
    empty = empty_backups(aged, run, 3)
    with pytest.raises(Refused, match=f"{empty[-1]} holds 0 hosts, and {full} holds 5"):
        [*PruneSnapshots().plan(PruneArguments(), aged)]
    with pytest.raises(Refused, match=f"the newest restorable snapshot {empty[-1]} holds 0 hosts") as failure:
        newest_restorable(aged)
    assert "name the snapshot that is meant" in str(failure.value.hint)
    aged.manager.content = content
    aged.clock.time += DAY
    again = run(take(aged)).snapshot.id
    assert newest_restorable(aged).id == again
    assert prune.doubt(entries(aged), aged.clock.now()) is None


def test_that_so_little_is_well_is_said_once_and_not_of_what_shrinks_later(
    aged: Place, run: Callable[..., Any]
) -> None:
    content, lost = aged.manager.content, empty_backups(aged, run, 2)[-1]
    (action,) = PruneSnapshots().plan(PruneArguments(thaw="the clusters have moved"), aged)
    assert action.effect is Effect.CHANGE and f"believe {lost} from now on" in action.summary
    said = [*PruneSnapshots().apply(action, aged, Notes())]
    assert f"{lost} is believed from now on: the clusters have moved" in said
    aged.clock.time += DAY
    newest = run(take(aged)).snapshot.id
    assert newest_restorable(aged).id == newest
    [*PruneSnapshots().plan(PruneArguments(), aged)]
    aged.manager.content = content
    aged.clock.time += DAY
    run(take(aged))
    assert f"{empty_backups(aged, run, 1)[0]} holds 0 hosts" in str(prune.doubt(entries(aged), aged.clock.now()))


@pytest.mark.parametrize("opened", [True, False])
def test_backups_for_a_key_that_never_opened_one_push_out_none_that_can_be_opened(
    aged: Place, run: Callable[..., Any], opened: bool
) -> None:
    old = ids(aged)[-1]
    new, recipient = aged.seal.new_identity()
    backup = aged.settings.backup.model_copy(update={"recipients": (recipient,)})
    aged.settings = aged.settings.model_copy(update={"backup": backup})
    for _ in range(3):
        taken = run(take(aged)).snapshot.id
        aged.clock.time += DAY
    with pytest.raises(Refused, match=f"{taken} is encrypted for other keys than {old}, and none was seen to open one"):
        [*PruneSnapshots().plan(PruneArguments(), aged)]
    if opened:
        aged.keys = [new]
        record(aged, verify(aged, taken, 2))
    else:
        (action,) = PruneSnapshots().plan(PruneArguments(thaw="its key is in the vault"), aged)
        [*PruneSnapshots().apply(action, aged, Notes())]
    assert [*PruneSnapshots().plan(PruneArguments(), aged)]
    run(take(aged))
    assert [*PruneSnapshots().plan(PruneArguments(), aged)]


def test_a_latest_backup_that_nobody_verified_is_doubtful_and_freezes(aged: Place) -> None:
    for path in (aged.root / "prod/records").glob(f"*-verify-{ids(aged)[-1]}.json"):
        path.unlink()
    assert prune.verdict(aged).removed == ()
    assert "is not verified" in prune.verdict(aged).decisions[0].reasons[-1]
    assert prune.verdict(aged, thaw=True).removed


def test_without_a_policy_nothing_is_decided(place: Place) -> None:
    with pytest.raises(Refused, match="no retention policy"):
        prune.verdict(place)


def test_an_audit_only_snapshot_breaks_rules_of_a_restore_and_is_no_damaged_one_for_that(
    aged: Place, run: Callable[..., Any]
) -> None:
    aged.manager.content = aged.manager.content.replace(b'"pwHash"', b'"noHash"')
    taken = run(take(aged)).snapshot
    assert not taken.restorable
    aged.clock.time += timedelta(seconds=1)
    record(aged, verify(aged, taken.id, 3))
    entry = entries(aged)[-1]
    assert entry.verified.result is Trust.FAILED
    assert prune.damage(entry) is None
    assert prune.doubt(entries(aged), aged.clock.now()) is None
    part = next(path for path in aged.folder(taken.id).iterdir() if path.name.startswith("deployment.json"))
    part.write_bytes(part.read_bytes()[:-1])
    aged.clock.time += timedelta(seconds=1)
    record(aged, verify(aged, taken.id, 2))
    assert prune.damage(entries(aged)[-1]) == "its verification failed"


def test_a_snapshot_whose_drill_failed_does_not_count_until_one_passes(aged: Place) -> None:
    newest = ids(aged)[-1]
    for result, counts in (("failed", False), ("passed", True)):
        write_record(aged, "drill", newest, {"result": result})
        aged.clock.time += timedelta(seconds=1)
        assert prune.good(entries(aged)[-1]) is counts
        assert prune.damage(entries(aged)[-1]) == (None if counts else "its drill failed")


def elsewhere(place: Place) -> None:
    place.settings = place.settings.model_copy(update={"state": place.state / "another"})


def test_another_machine_keeps_what_a_begun_restore_needs_until_it_has_ended(aged: Place) -> None:
    oldest, *_ = ids(aged)
    begin_restore(aged, oldest, "run-1", "root@one")
    begin_restore(aged, oldest, "run-1", "root@one")
    (entry, *_) = entries(aged)
    assert [one.words for one in entry.holds] == [
        "held by root@one: restore run-1 has begun, and may have to be resumed"
    ]
    elsewhere(aged)
    aged.clock.time += 400 * DAY
    assert oldest not in prune_all(aged)
    aged.clock.time -= 500 * DAY  # the clock of the machine that ends it is behind
    end_restore(aged, "run-1", "root@one")
    aged.clock.time += 500 * DAY
    assert oldest in prune_all(aged)


def test_what_another_machine_holds_or_restores_from_while_others_are_pruned_stays(aged: Place) -> None:
    first, second, third, *_, last = ids(aged)
    add_hold(aged, last, "of no one's business here", None, "ann@two")
    (action,) = PruneSnapshots().plan(PruneArguments(), aged)
    said, opened, real = list[str](), list[str](), aged.store.open
    aged.store.open = lambda name: opened.append(name) or real(name)  # type: ignore[func-returns-value, method-assign]
    for words in PruneSnapshots().apply(action, aged, Notes()):
        said.append(words)
        if words.startswith("reading "):  # which takes hours where there is much
            add_hold(aged, first, "a person needs it", None, "ann@two")
        if words.startswith(f"removed {second}"):
            begin_restore(aged, third, "run-1", "ann@two")
            opened.clear()
        if words.startswith(f"{third} stays"):
            # of all records that of this restore, and its signature; then whether it has ended is looked for in all
            assert opened[:2] and len(opened) == 2 + 2 * 3, opened
    assert ids(aged)[:2] == [first, third]
    assert f"{third} stays: held by ann@two: restore run-1 has begun, and may have to be resumed" in said


def test_nothing_goes_by_a_clock_that_is_ahead_of_the_stores(aged: Place, tmp_path: Path) -> None:
    before, copy = ids(aged), tmp_path / "copy"
    add_hold(aged, before[0], "the audit", aged.clock.time + 10 * DAY, "ann")
    aged.store.clock = Clock()  # stands where this one stood at first
    (action,) = PruneSnapshots().plan(PruneArguments(thaw="as if"), aged)
    aged.store.clock.time, aged.clock.time = aged.clock.time, aged.clock.time + 400 * DAY
    with pytest.raises(Refused, match="clock is ahead of the one of") as failure:
        [*PruneSnapshots().apply(action, aged, Notes())]
    assert ids(aged) == before and "timedatectl" in str(failure.value.hint)
    assert not [path for path in (aged.root / "prod" / "clock").rglob("*") if path.is_file()]
    aged.copies = [LocalStore(copy)]
    aged.store.clock.time = aged.clock.time
    [*replicate(aged)]
    (action,) = PruneSnapshots().plan(PruneArguments(thaw="as if"), aged)
    [*PruneSnapshots().apply(action, aged, Notes())]
    assert ids(aged) == before[-2:]


def test_a_clone_of_this_machine_that_asks_for_the_time_at_the_same_moment_is_in_nobodys_way(aged: Place) -> None:
    create = aged.store.create

    def second(name: str) -> Any:
        if "/clock/" in name:
            with create(name) as file:
                file.write(b"\n")
        return create(name)

    before, aged.store.create = ids(aged), second  # type: ignore[method-assign]
    (action,) = PruneSnapshots().plan(PruneArguments(thaw="as if"), aged)
    [*PruneSnapshots().apply(action, aged, Notes())]
    assert len(ids(aged)) < len(before)


def test_a_restore_of_two_snapshots_that_was_killed_as_it_ended_holds_neither(aged: Place) -> None:
    first, second, *_ = ids(aged)
    for one in (first, second):
        begin_restore(aged, one, "run-1", "root@one")
    create = aged.store.create

    def once(name: str) -> Any:
        if name.endswith(".json") and "-restore-" in name:
            aged.store.create = killed  # type: ignore[method-assign]
        return create(name)

    def killed(name: str) -> Any:
        raise KeyboardInterrupt

    aged.store.create = once  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        end_restore(aged, "run-1", "root@one")
    aged.store.create = create  # type: ignore[method-assign]
    end_restore(aged, "run-1", "root@one")
    (action,) = PruneSnapshots().plan(PruneArguments(), aged)
    [*PruneSnapshots().apply(action, aged, Notes())]
    assert {first, second}.isdisjoint(ids(aged))


def lose(place: Place, kind: str) -> None:
    """Let the store lose the newest record of a kind, as one that is put back to an earlier state does."""
    path = max((place.root / "prod" / "records").glob(f"*-{kind}-*.json"))
    path.unlink()
    path.with_name(f"{path.name}.sig").unlink()


@pytest.mark.parametrize("last", [True, False])
def test_a_hold_that_the_store_has_lost_keeps_and_is_told_until_it_is_released(aged: Place, last: bool) -> None:
    oldest, *_ = ids(aged)
    add_hold(aged, oldest, "the audit", None, "ann")
    if not last:
        write_record(aged, "note", oldest, {})
        elsewhere(aged)  # a later record tells any machine, and the last one this one alone
    lose(aged, "hold")
    (entry, *_) = entries(aged)
    assert [one.words.partition(", 2")[0] for one in entry.holds] == ["held: a record of a hold"]
    assert "or is gone: what it may need stays" in entry.holds[0].words
    assert oldest not in prune_all(aged)
    release_holds(aged, oldest, "looked at", "ann")
    assert oldest in prune_all(aged)


def test_nothing_is_removed_by_a_store_that_was_put_back_to_an_earlier_state(aged: Place) -> None:
    folder, before = aged.root / "prod", aged.root.parent / "before"
    shutil.copytree(folder, before)
    add_hold(aged, ids(aged)[0], "the audit", None, "ann")
    record(aged, verify(aged, ids(aged)[-1], 3))
    shutil.rmtree(folder)
    before.rename(folder)
    write_record(aged, "note", ids(aged)[-1], {})
    with pytest.raises(Refused, match="has lost 1 record") as failure:
        [*PruneSnapshots().plan(PruneArguments(), aged)]
    assert "list --rebuild" in str(failure.value.hint)
    assert [*PruneSnapshots().plan(PruneArguments(thaw="looked at"), aged)]
    gone = records.lost(aged)
    write_record(aged, records.MISSED, ids(aged)[-1], {"names": [*gone]})
    assert records.lost(aged) == [] and [*PruneSnapshots().plan(PruneArguments(), aged)]


def test_a_hold_that_a_list_leaves_out_counts(aged: Place) -> None:
    oldest, *_ = ids(aged)
    add_hold(aged, oldest, "the audit", None, "ann")
    names = aged.store.names
    aged.store.names = lambda prefix="": (one for one in names(prefix) if "-hold-" not in one)
    assert [one.words for one in entries(aged)[0].holds] == ["held by ann: the audit"]


def test_of_several_records_that_a_list_leaves_out_each_counts(aged: Place) -> None:
    oldest, *_, newest = ids(aged)
    bad = [RuleResult(records.PART, False, "a part has other bytes")]
    record(aged, replace(verify(aged, newest, 1), findings=bad, depth=0, at=aged.clock.time))
    late = {f"-verify-{newest}", "-hold-", "-note-"}
    add_hold(aged, oldest, "the audit", None, "ann")
    write_record(aged, "note", oldest, {})
    names = aged.store.names
    aged.store.names = lambda prefix="": (one for one in names(prefix) if not any(part in one for part in late))
    assert [one.words for one in entries(aged)[0].holds] == ["held by ann: the audit"]
    assert prune.damage(entries(aged)[-1]) == "its verification failed"


def test_what_is_lost_behind_a_record_that_a_list_leaves_out_is_missed(aged: Place) -> None:
    newest = ids(aged)[-1]
    record(aged, verify(aged, newest, 1))
    write_record(aged, "note", newest, {})
    lose(aged, "verify")
    names = aged.store.names
    aged.store.names = lambda prefix="": (one for one in names(prefix) if "-note-" not in one)
    (gone,) = records.lost(aged)
    assert gone.endswith(f"-verify-{newest}.json")


def test_a_record_that_the_store_does_not_give_keeps_its_snapshot_and_lets_others_go(aged: Place) -> None:
    oldest, *_ = ids(aged)
    aged.store = liar = Liar(aged.store, lambda *_: None)
    liar.silent = f"-verify-{oldest}"
    (action,) = PruneSnapshots().plan(PruneArguments(), aged)
    assert action.arguments["remove"] and oldest not in cast(list[str], action.arguments["remove"])


def test_a_failed_verification_that_the_store_has_lost_is_not_taken_for_none(aged: Place) -> None:
    newest, sound = ids(aged)[-1], verify(aged, ids(aged)[-1], 1)
    bad = [RuleResult(records.PART, False, "a part has other bytes")]
    record(aged, replace(sound, findings=bad, depth=0, at=aged.clock.time))
    lose(aged, "verify")
    (gone,) = records.lost(aged)
    assert gone.endswith(f"-verify-{newest}.json")
    with pytest.raises(Refused, match="has lost 1 record"):
        [*PruneSnapshots().plan(PruneArguments(), aged)]


def test_what_is_removed_while_it_is_being_held_is_not_said_to_be_held(aged: Place, run: Callable[..., Any]) -> None:
    oldest, create = ids(aged)[0], aged.store.create
    (action,) = HoldSnapshot().plan(HoldArguments(snapshot=oldest, reason="a person needs it"), aged)

    def late(name: str) -> Any:
        if name.endswith(".json") and "-hold-" in name:
            prune.remove(aged, oldest, ["no rule keeps it"])
        return create(name)

    aged.store.create = late
    with pytest.raises(Invalid, match=f"{oldest} is gone"):
        run(HoldSnapshot().apply(action, aged, Notes()))


def test_the_end_of_one_restore_frees_nothing_that_another_or_a_person_holds(aged: Place) -> None:
    oldest, *_ = ids(aged)
    begin_restore(aged, oldest, "run-1", "root@one")
    begin_restore(aged, oldest, "run-2", "root@two")
    end_restore(aged, "run-1", "root@one")
    assert [one.run for one in entries(aged)[0].holds] == ["run-2"]
    aged.clock.time += timedelta(seconds=1)
    release_holds(aged, oldest, "both machines are gone", "me")
    assert entries(aged)[0].holds == ()


@pytest.mark.parametrize("spoil", [b"{}", None], ids=["forged", "without a signature"])
def test_a_record_of_a_restore_that_cannot_be_verified_keeps_and_is_told_and_frees_nothing(
    aged: Place, spoil: bytes | None
) -> None:
    oldest, *_ = ids(aged)
    begin_restore(aged, oldest, "run-1", "root@one")
    aged.clock.time += timedelta(seconds=1)
    end_restore(aged, "run-1", "root@one")
    assert entries(aged)[0].holds == ()
    *_, ended = sorted((aged.root / "prod/records").glob("*-restore-*.json"))
    if spoil is None:
        ended.with_name(f"{ended.name}.sig").unlink()
    else:
        ended.write_bytes(spoil)
    elsewhere(aged)
    assert oldest not in prune_all(aged)
    assert any("cannot be verified" in one.words for one in entries(aged)[0].holds)


def test_a_snapshot_from_the_future_is_not_counted_into_the_floor(aged: Place, run: Callable[..., Any]) -> None:
    *_, newest = ids(aged)
    now = aged.clock.time
    aged.clock.time = now + 400 * DAY
    future = run(take(aged)).snapshot.id
    aged.clock.time = now
    words = list(prune.insist_on_the_floor(aged))
    assert words == [f"reading {newest}, which stays"]
    assert future not in " ".join(words)
    aged.store = liar = Liar(aged.store, lambda *_: None)
    liar.silent = f"{newest}/{DEPLOYMENT}"
    with pytest.raises(Refused, match=f"nothing is removed: snapshot {newest}, which was to stay, could not be read"):
        list(prune.insist_on_the_floor(aged))
    assert prune.damage(entries(aged)[4]) is None


def test_two_records_of_one_millisecond_are_both_kept(aged: Place) -> None:
    for number in range(3):
        write_record(aged, "note", ids(aged)[0], {"number": number})
    assert [one.facts["number"] for one in read_records(aged) if one.kind == "note"] == [0, 1, 2]


def test_a_copy_that_cannot_be_asked_keeps_what_was_pruned_and_is_told(aged: Place, tmp_path: Path) -> None:
    aged.copies = [LocalStore(tmp_path / "copy")]
    list(replicate(aged))
    prune_all(aged)
    (tmp_path / "copy").rename(tmp_path / "away")
    (tmp_path / "copy").write_text("")
    following = prune.follow(aged)
    problems: list[str] = []
    try:
        while True:
            next(following)
    except StopIteration as end:
        problems = end.value
    assert len(problems) == 1 and str(tmp_path / "copy") in problems[0]


def test_a_latest_backup_that_cannot_be_read_is_doubtful_and_every_decision_has_its_line(aged: Place) -> None:
    newest = ids(aged)[-1]
    told = list(prune.lines(prune.verdict(aged)))
    assert [(one, what) for one, what, _ in told][-1] == (newest, "keep") and all(why for _, _, why in told)
    path = aged.folder(newest) / MANIFEST
    path.write_bytes(b"{}")
    assert "cannot be believed" in str(prune.doubt(entries(aged), aged.clock.now()))


@pytest.mark.parametrize("which", [0, -1])
def test_a_manifest_that_the_store_does_not_give_is_neither_damaged_nor_good_nor_removed(
    aged: Place, which: int
) -> None:
    known, later = ids(aged), aged.clock.time + 40 * DAY
    aged.store = liar = Liar(aged.store, lambda *_: None)
    liar.silent = f"{known[which]}/{MANIFEST}"
    one = entries(aged)[which]
    assert one.unread and one.problem is not None and one.problem.startswith("could not be read: cannot read")
    assert prune.damage(one) is None and not prune.good(one) and not one.offered
    with pytest.raises(StoreFailed, match="cannot read"):  # so that no record condemns it
        verify(aged, one.id, 1)
    if which:
        assert "could not be read" in str(prune.doubt(entries(aged), aged.clock.now()))
        with pytest.raises(Refused, match=r"which this machine has verified in .* could not be read") as refused:
            newest_restorable(aged)
        assert f"name it; {one.remedy}" in str(refused.value.hint)
    aged.clock.time = later
    decided = prune.verdict(aged, damaged=True, thaw=True)
    assert sum(two not in decided.removed for two in known) == 3 and one.id not in decided.removed


@pytest.mark.parametrize("which", [0, -1])
def test_a_snapshot_of_a_later_format_is_neither_condemned_nor_removed(aged: Place, which: int) -> None:
    one = ids(aged)[which]
    content = (aged.folder(one) / MANIFEST).read_bytes().replace(b"maint-snapshot/1", b"maint-snapshot/2")
    content = content.replace(b'"purpose"', b'"reason"')  # whatever its keys are by then
    for name, written in ((MANIFEST, content), (SIGNATURE, aged.sign.sign(content))):
        (aged.folder(one) / name).write_bytes(written)
    entry = entries(aged)[which]
    assert entry.unread and not entry.offered and prune.damage(entry) is None
    assert "the manifest is of the format maint-snapshot/2, which a later version of maint wrote" in str(entry.problem)
    assert entry.remedy.startswith("use that version")
    with pytest.raises(OfLaterVersion):  # so that no record condemns it where it can be read
        verify(aged, one, 1)
    aged.clock.time += 40 * DAY
    assert one not in prune.verdict(aged, damaged=True, thaw=True).removed


def test_a_record_that_the_store_does_not_give_is_not_taken_for_none(aged: Place) -> None:
    first = ids(aged)[0]
    add_hold(aged, first, "asked for by audit", None, "ops")
    aged.store = liar = Liar(aged.store, lambda *_: None)
    liar.silent = "-hold-"
    assert (records.drills(aged), prune.pruned(aged)) == ([], frozenset())  # for which no hold counts
    unread, *others = entries(aged)  # the others can be listed and restored
    assert (unread.unread, unread.offered, unread.problem or "")[:2] == (True, False)
    assert "a record about it could not be read: cannot read" in (unread.problem or "")
    assert [one.unread for one in others] == [False] * 4 and others[-1].offered
    aged.clock.time += 40 * DAY
    assert first not in prune.verdict(aged, damaged=True, thaw=True).removed
    with pytest.raises(Refused, match="1 snapshot could not be looked at, so nothing is encrypted anew"):
        recipients.aged(aged)
    for one in ids(aged):
        add_hold(aged, one, "asked for by audit", None, "ops")
    with pytest.raises(StoreFailed, match="cannot read"):  # it is away as a whole
        entries(aged)


def test_a_store_that_has_lost_its_records_alone_is_not_said_to_be_away(aged: Place) -> None:
    folder = Path(aged.store.location) / "prod"
    shutil.rmtree(folder / "records")
    records.insist_there(aged)
    shutil.rmtree(folder)
    with pytest.raises(StoreFailed, match="holds nothing of prod any more"):
        records.insist_there(aged)


def test_records_with_odd_names_and_times_hold_nothing_they_do_not_name(aged: Place) -> None:
    for name in ("odd-restore-x", f"odd-restore-{ids(aged)[0]}"):
        with aged.store.create(f"prod/records/{name}.json") as file:
            file.write(b"{}")
    assert [one.holds for one in entries(aged)] == [()] * 5
    (Path(aged.store.location) / "prod/records/a\\b.json").write_text("{}")  # somebody else's, which no store takes
    assert [one.holds for one in entries(aged)] == [()] * 5
    assert [parse_time(text) for text in ("2026-02-30", "", None, 7, "2026-11-21T02:15:00")] == [None] * 5


def test_what_a_restore_from_a_copy_needs_stays_in_that_copy_until_it_has_ended(
    aged: Place, tmp_path: Path, run: Callable[..., Any]
) -> None:
    aged.copies = [LocalStore(tmp_path / "second")]
    assert run(replicate(aged)) == []
    copy, (oldest, *_) = with_store(aged, aged.copies[0]), ids(aged)
    begin_restore(copy, oldest, "run-1", "root@one")
    assert oldest in prune_all(aged)
    assert run(prune.follow(aged)) == []
    assert ids(copy) == [oldest, *ids(aged)]
    assert run(replicate(aged)) == []
    assert oldest not in ids(aged)
    end_restore(copy, "run-1", "root@one")
    assert run(prune.follow(aged)) == []
    assert ids(copy) == ids(aged)


def test_what_a_copy_holds_by_a_record_that_it_has_lost_stays_there_until_it_is_released(
    aged: Place, tmp_path: Path, run: Callable[..., Any]
) -> None:
    aged.copies = [LocalStore(tmp_path / "second")]
    assert run(replicate(aged)) == []
    copy, (oldest, *_) = with_store(aged, aged.copies[0]), ids(aged)
    begin_restore(copy, oldest, "run-1", "root@one")
    (lost,) = (tmp_path / "second" / "prod" / "records").glob("*-restore-*.json")
    lost.unlink()
    assert oldest in prune_all(aged)
    assert run(prune.follow(aged)) == []
    assert ids(copy) == [oldest, *ids(aged)]
    release_holds(aged, oldest, "looked at", "ann")
    assert run(prune.follow(aged)) == []
    assert ids(copy) == ids(aged)


def test_an_end_that_only_the_first_store_tells_yet_frees_the_copy(
    aged: Place, tmp_path: Path, run: Callable[..., Any]
) -> None:
    aged.copies = [LocalStore(tmp_path / "second")]
    oldest, *_ = ids(aged)
    begin_restore(aged, oldest, "run-1", "root@one")
    assert run(replicate(aged)) == []
    aged.clock.time += timedelta(seconds=1)
    end_restore(aged, "run-1", "root@one")
    assert oldest in prune_all(aged)
    assert run(prune.follow(aged)) == []
    assert ids(with_store(aged, aged.copies[0])) == ids(aged)
