"""Snapshots encrypted anew for other recipients: the same contents, opened by the new key alone, old ones untouched."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pytest_httpserver import HTTPServer

from maint.adapters.stores.local import LocalStore
from maint.errors import NoKeyFits, Refused
from maint.model.snapshot import Snapshot, Trust
from maint.snapshots import recipients as room
from maint.snapshots.capture import recipients_of, take
from maint.snapshots.catalogue import entries, load, sweep
from maint.snapshots.heal import heal, values_of
from maint.snapshots.holds import add_hold, begin_restore, end_restore
from maint.snapshots.manifest import MANIFEST, SIGNATURE, encode
from maint.snapshots.parts import open_object, read_deployment, read_part
from maint.snapshots.prune import remove
from maint.snapshots.recipients import REKEY, aged, copy_holds, let_go, rekey
from maint.snapshots.records import KEY, read_records
from maint.snapshots.replicate import replicate
from maint.snapshots.verify import verify
from maint.snapshots.virtual_clusters.blobs import unused
from maint.snapshots.virtual_clusters.capture import take_alone
from maint.snapshots.virtual_clusters.verify import read_document
from maint.snapshots.writer import SnapshotWriter
from tests.campaigns.size import FULL
from tests.snapshots.conftest import Clock
from tests.snapshots.heal.test_heal import hidden
from tests.snapshots.liar import Liar
from tests.snapshots.virtual_clusters.conftest import VC, Ground, captured

Run = Callable[[Any], Any]
BY = "night@ops"


class Killed(BaseException):
    """What happens to a process between two calls."""


@pytest.fixture(scope="module")
def taken(server: HTTPServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ground, Snapshot]:
    """A site of which a snapshot was taken, and that snapshot."""
    return captured(server, tmp_path_factory.mktemp("taken"), take)


@pytest.fixture
def old(ground: Ground, taken: tuple[Ground, Snapshot]) -> Snapshot:
    """A snapshot of manager and virtual cluster, after which the config names another recipient."""
    source, found = taken
    ground.become(source)
    renew(ground)
    return found


def renew(ground: Ground) -> None:
    """Let the config name another recipient; the keys of both are at hand, the new one last."""
    identity, recipient = ground.seal.new_identity()
    backup = ground.settings.backup
    assert backup is not None
    changed = backup.model_copy(update={"recipients": (recipient,)})
    ground.settings = ground.settings.model_copy(update={"backup": changed})
    ground.keys = [ground.identity, identity]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_new_one_has_the_same_contents_and_is_opened_by_the_new_key_alone(
    ground: Ground, run: Run, old: Snapshot
) -> None:
    before = tree(ground.root)
    (one,) = aged(ground)
    made = run(rekey(ground, one.old, BY))
    assert {name: content for name, content in tree(ground.root).items() if name in before} == before
    assert (made.taken_at, made.rekeyed_from["snapshot"]) == (old.taken_at, old.id)
    assert made.id > old.id or old.id[-4:] >= "f"  # after which hardly any id can be drawn
    assert made.recipients == tuple(recipients_of(ground))
    same = {part.name: part.content_sha256 for part in old.parts if part.name != "RESTORE.txt"}
    assert {part.name: part.content_sha256 for part in made.parts if part.name != "RESTORE.txt"} == same
    old_key, new_key = ground.keys
    ground.keys = [new_key]
    assert load(ground, made.id) == made
    assert verify(ground, made.id, 3).result is Trust.VERIFIED
    document = read_document(ground, made, VC)
    stored = [document.stored(file) for resource in document.resources for file in resource.files]
    assert stored and None not in stored
    with open_object(ground, stored[0]) as stream:  # type: ignore[arg-type]
        assert stream.read() is not None
    guide = read_part(ground, made, "RESTORE.txt").decode()
    assert (f"snapshot {old.id}, encrypted anew" in guide, "sealed_as" in guide) == (True, True)
    ground.keys = [old_key]
    with pytest.raises(NoKeyFits):
        read_document(ground, made, VC)
    assert [record.facts["from"] for record in read_records(ground) if record.kind == REKEY] == [old.id]


def test_several_snapshots_share_what_was_encrypted_anew_and_so_does_the_next_backup(
    ground: Ground, run: Run, old: Snapshot
) -> None:
    ground.clock.sleep(60)
    made = run(rekey(ground, aged(ground)[0].old, BY))
    lying = {one.place for one in made.objects}
    later = run(take_alone(ground, VC, recipients_of(ground))).snapshot
    assert {one.place for one in later.objects} == lying
    assert {one.id for one in made.objects} == {one.id for one in old.objects}
    assert lying.isdisjoint(one.place for one in old.objects)
    assert unused(ground).names == ()


@pytest.mark.parametrize("at", [0, 1, 2, 4, 7, 11, 15] if FULL else [0, 4, 11, 15])
def test_killed_at_any_write_it_is_done_again_and_nothing_half_is_listed(
    ground: Ground, run: Run, old: Snapshot, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    left, create = [at], ground.store.create

    def dying(name: str) -> Any:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return create(name)

    with monkeypatch.context() as patch:
        patch.setattr(ground.store, "create", dying)
        patch.setattr(SnapshotWriter, "undo", lambda self: None)  # as after kill -9
        with pytest.raises(Killed):
            run(rekey(ground, aged(ground)[0].old, BY))
    sweep(ground)
    for one in aged(ground):
        if one.made is None:
            run(rekey(ground, one.old, BY))
    assert [one.made is not None for one in aged(ground)] == [True]
    known = entries(ground)
    assert len(known) == 2
    assert all(verify(ground, one.id, 3).result is Trust.VERIFIED for one in known)


def test_holds_of_people_are_copied_once_and_the_old_one_goes_only_once_every_copy_is_proven(
    ground: Ground, run: Run, old: Snapshot, tmp_path: Path
) -> None:
    add_hold(ground, old.id, "before the upgrade", None, "someone")
    copy = tmp_path / "second"
    copy.mkdir()
    ground.copies = [LocalStore(copy)]
    (one,) = aged(ground)
    made = run(rekey(ground, one.old, BY))
    copy_holds(ground, one, made)
    copy_holds(ground, one, made)
    held = {entry.id: [hold.reason for hold in entry.holds] for entry in entries(ground)}
    assert held[made.id] == ["before the upgrade"]
    with pytest.raises(Refused, match="is not proven"):
        run(let_go(ground, one, made))
    assert old.id in held
    run(replicate(ground))
    run(let_go(ground, one, made))
    assert [entry.id for entry in entries(ground)] == [made.id]


def test_one_that_an_unfinished_restore_needs_stays(ground: Ground, run: Run, old: Snapshot) -> None:
    begin_restore(ground, old.id, "run-7", BY)
    (one,) = aged(ground)
    made = run(rekey(ground, one.old, BY))
    copy_holds(ground, one, made)
    with pytest.raises(Refused, match="a restore needs it"):
        run(let_go(ground, one, made))
    assert {entry.id for entry in entries(ground)} == {old.id, made.id}


def test_a_record_of_a_restore_that_cannot_be_verified_is_no_persons_hold(
    ground: Ground, run: Run, old: Snapshot
) -> None:
    begin_restore(ground, old.id, "run-7", BY)
    (signature,) = ground.root.rglob(f"*-restore-{old.id}.json.sig")
    signature.write_text("of somebody else")
    (one,) = aged(ground)
    made = run(rekey(ground, one.old, BY))
    copy_holds(ground, one, made)
    held = {entry.id: [hold.reason for hold in entry.holds] for entry in entries(ground)}
    assert (held[made.id], len(held[old.id])) == ([], 1)
    with pytest.raises(Refused, match="a restore needs it"):
        run(let_go(ground, one, made))


def test_what_comes_to_hold_the_old_one_while_the_new_one_is_proven_counts(
    ground: Ground, run: Run, old: Snapshot
) -> None:
    (one,) = aged(ground)
    made = run(rekey(ground, one.old, BY))
    going = let_go(ground, one, made)
    next(going)
    begin_restore(ground, old.id, "run-7", BY)
    with pytest.raises(Refused, match="a restore needs it"):
        run(going)
    end_restore(ground, "run-7", BY)
    going = let_go(ground, one, made)
    next(going)
    add_hold(ground, old.id, "before the audit", None, "someone")
    run(going)
    assert [(entry.id, [hold.reason for hold in entry.holds]) for entry in entries(ground)] == [
        (made.id, ["before the audit"])
    ]


def test_an_old_one_stays_where_this_machines_clock_lets_its_holds_seem_over(
    ground: Ground, run: Run, old: Snapshot
) -> None:
    add_hold(ground, old.id, "the audit", ground.clock.time + timedelta(days=10), "someone")
    made = run(rekey(ground, aged(ground)[0].old, BY))
    ground.store.clock = Clock()  # stands where this one stood at first
    ground.clock.time += timedelta(days=400)
    (one,) = aged(ground)
    with pytest.raises(Refused, match="clock is ahead of the one of"):
        run(let_go(ground, one, made))
    ground.clock.time -= timedelta(days=400)
    run(let_go(ground, one, made))
    assert [(entry.id, [hold.reason for hold in entry.holds]) for entry in entries(ground)] == [
        (made.id, ["the audit"])
    ]


def test_an_old_one_that_cannot_be_read_any_more_stays_until_it_can(ground: Ground, run: Run, old: Snapshot) -> None:
    run(rekey(ground, aged(ground)[0].old, BY))
    (one,) = aged(ground)
    assert one.made is not None
    going = let_go(ground, one, one.made)
    next(going)
    kept, ground.store = ground.store, Liar(ground.store, lambda *_: None)
    ground.store.silent = f"{old.id}/{MANIFEST}"
    with pytest.raises(Refused, match=f"{old.id} stays: could not be read: cannot read") as refused:
        run(going)
    assert refused.value.hint == "look at the store, then run this again"
    ground.store = kept
    assert {entry.id for entry in entries(ground)} == {old.id, one.made.id}
    run(let_go(ground, one, one.made))
    assert [entry.id for entry in entries(ground)] == [one.made.id]


def test_what_did_not_come_out_as_it_went_in_is_taken_back(
    ground: Ground, run: Run, old: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = SnapshotWriter.write

    def changed(self: Any, name: str, source: Any, pack: Any, of: int) -> Any:
        return write(self, name, lambda size: source(size)[:-1], pack, of)

    monkeypatch.setattr(SnapshotWriter, "write", changed)
    with pytest.raises(room.WorkFailed):
        run(rekey(ground, aged(ground)[0].old, BY))
    assert [entry.id for entry in entries(ground)] == [old.id]


def test_one_that_went_while_it_was_verified_is_gone_already(ground: Ground, run: Run, old: Snapshot) -> None:
    run(rekey(ground, aged(ground)[0].old, BY))
    (one,) = aged(ground)
    assert one.made is not None
    going = let_go(ground, one, one.made)
    next(going)
    remove(ground, old.id, ["by another machine"])
    assert f"{old.id} is gone already" in list(going)


def test_healed_after_a_change_of_keys_the_files_of_virtual_clusters_open_with_the_new_key_alone(
    ground: Ground, run: Run
) -> None:
    older = run(take(ground)).snapshot
    ground.clock.time += timedelta(days=1)
    ground.manager.content = json.dumps(hidden(json.loads(ground.manager.content))).encode()
    redacted = run(take(ground)).snapshot
    renew(ground)
    healed = run(heal(ground, redacted, values_of(read_deployment(ground, older)).get, "the older one")).snapshot
    ground.keys = ground.keys[1:]
    assert (aged(ground)[-1].old.id, aged(ground)[-1].made) == (redacted.id, None)
    assert verify(ground, healed.id, 3).result is Trust.VERIFIED
    document = read_document(ground, healed, VC)
    assert healed.objects and {one.id for one in healed.objects} == {one.id for one in redacted.objects}
    for file in (file for resource in document.resources for file in resource.files):
        with open_object(ground, document.stored(file)) as stream:  # type: ignore[arg-type]
            assert len(stream.read()) == file.size


def test_where_no_key_opens_the_files_of_virtual_clusters_nothing_deeper_is_said_although_one_opens_the_parts(
    ground: Ground, run: Run, old: Snapshot
) -> None:
    made = run(rekey(ground, aged(ground)[0].old, BY))
    content = encode(replace(made, objects=old.objects))  # parts for the new key, files for the old one
    for name, raw in ((MANIFEST, content), (SIGNATURE, ground.sign.sign(content))):
        (ground.root / "prod" / made.id / name).write_bytes(raw)
    assert verify(ground, made.id, 3).result is Trust.VERIFIED
    ground.keys = ground.keys[1:]
    for level in (2, 3):
        judged = verify(ground, made.id, level)
        assert (judged.depth, [one.rule for one in judged.findings if one.passed is None]) == (1, [KEY])
