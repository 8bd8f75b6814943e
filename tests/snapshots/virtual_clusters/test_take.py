"""Virtual clusters in snapshots: what is kept, what is not fetched twice, and what is not believed."""

import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Generator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from werkzeug import Response

from maint.adapters.sign import load_or_make_signer
from maint.errors import Refused, StoreFailed, WorkFailed
from maint.model.snapshot import Snapshot, StoredFile, Trust
from maint.ports.streams import Cut
from maint.restore.conflicts import chosen_cluster
from maint.snapshots.capture import recipients_of, take
from maint.snapshots.catalogue import entries, load, sweep
from maint.snapshots.heal import heal, values_of
from maint.snapshots.in_progress import begin, others_storing
from maint.snapshots.manifest import MANIFEST, SIGNATURE, encode, new_id
from maint.snapshots.parts import DEPLOYMENT, object_name, open_object, read_deployment
from maint.snapshots.prune import doubt
from maint.snapshots.records import Taken
from maint.snapshots.verify import record, verify
from maint.snapshots.virtual_clusters.blobs import NotWanted, Objects, retry_truncated
from maint.snapshots.virtual_clusters.capture import take_alone
from maint.snapshots.virtual_clusters.document import clusters_in, decode, drift_of, part_name
from maint.snapshots.virtual_clusters.verify import read_document
from maint.steps.snapshots.snapshot import TakeCluster, TakeClusterArguments
from tests.adapters.virtual_clusters.server import Api
from tests.snapshots.heal.test_heal import hidden
from tests.snapshots.liar import Liar
from tests.snapshots.virtual_clusters.conftest import VC, Ground, Notes, Signed, hide_from_lists, lie_about

Run = Callable[[Any], Any]


@pytest.fixture
def alone(ground: Ground, run: Run) -> Callable[..., Taken]:
    """Take a snapshot of the virtual cluster alone, some minutes after the one before."""

    def take_it(**more: Any) -> Taken:
        ground.clock.time += timedelta(minutes=5)
        taken: Taken = run(take_alone(ground, VC, recipients_of(ground), **more))
        return taken

    return take_it


def downloads(api: Api) -> int:
    """Count the files that were fetched, but for DAGs, which are read each time for the jobs that they call."""
    own = [path for method, path, _ in api.sent if method == "GET" and not path.startswith("/resources/nightly-dags/")]
    return sum(path.startswith("/resources") and path.count("/") > 2 for path in own)


def test_a_site_backup_holds_its_virtual_clusters_and_verifies_to_the_last_level(ground: Ground, run: Run) -> None:
    taken = run(take(ground))
    assert clusters_in(taken.snapshot) == [VC]
    assert taken.snapshot.restorable
    assert taken.verification.result is Trust.VERIFIED
    judged = verify(ground, taken.snapshot.id, 3)
    assert judged.result is Trust.VERIFIED, judged.words
    assert load(ground, taken.snapshot.id) == taken.snapshot


def test_every_job_resource_and_byte_comes_back_as_it_was_with_unknown_keys(
    ground: Ground, api: Api, alone: Callable[..., Taken]
) -> None:
    api.jobs["pi-estimate"]["a-key-of-tomorrow"] = {"deep": ["ümlaut", "\ud800", 12345678901234567890]}
    snapshot = alone().snapshot
    document = read_document(ground, snapshot, VC)
    assert {job.name: job.raw for job in document.jobs} == api.jobs
    assert document.users == ("etl_user",)
    assert document.info == {"appName": "Default-VC-abc12345"}
    for resource in document.resources:
        for file in resource.files:
            stored = document.stored(file)
            assert stored is not None
            with open_object(ground, stored) as stream:
                assert stream.read() == api.files[resource.name][file.path]
    assert sum(len(resource.files) for resource in document.resources) == sum(map(len, api.files.values()))
    assert any("Airflow variables" in words for words in document.uncovered)


def test_a_store_that_hides_the_newest_snapshot_of_a_virtual_cluster_below_one_of_the_manager_is_found_out(
    ground: Ground, alone: Callable[..., Taken], run: Run
) -> None:
    older, newest = alone().snapshot, alone().snapshot
    ground.settings = ground.settings.model_copy(update={"virtual_clusters": ()})
    ground.clock.time += timedelta(minutes=5)
    assert run(take(ground)).snapshot.id > newest.id
    assert chosen_cluster(ground, "", VC).id == newest.id
    ground.store = liar = Liar(ground.store, lambda *_: None)  # type: ignore[assignment]
    liar.hidden.add(newest.id)
    with pytest.raises(Refused, match=f"{newest.id}.*not shown there any more"):
        chosen_cluster(ground, "", VC)
    assert chosen_cluster(ground, older.id, VC) == older


def test_where_no_snapshot_of_a_virtual_cluster_is_believed_it_is_told_of_each_why_and_what_to_do(
    ground: Ground, alone: Callable[..., Taken], run: Run
) -> None:
    bare = ground.settings
    with pytest.raises(Refused, match="holds virtual cluster") as told:
        chosen_cluster(ground, "", VC)
    assert f"`maint vc backup --vc {VC}` takes one" in str(told.value.hint)
    taken = alone().snapshot
    with pytest.raises(Refused, match="holds virtual cluster") as told:
        chosen_cluster(ground, "", "another")
    assert list(told.value.detail) == [f"{taken.id}: holds {VC} instead"]
    ground.clock.time += timedelta(minutes=5)
    ground.settings = bare.model_copy(update={"virtual_clusters": ()})
    other = run(take(ground)).snapshot
    elsewhere = ground.settings.state.parent / "new-machine"
    ground.settings = bare.model_copy(update={"state": elsewhere})
    ground.sign = load_or_make_signer(None, elsewhere / "keys", ())
    with pytest.raises(Refused, match="holds virtual cluster") as told:
        chosen_cluster(ground, "", VC)
    assert [line.split(": ")[0] for line in told.value.detail] == [other.id, taken.id]
    assert {line.split(": ")[1] for line in told.value.detail} == {"the signature is by a key that is not trusted"}
    assert "backup.trusted_keys" in str(told.value.hint)


def test_a_snapshot_of_virtual_clusters_alone_is_restorable_by_part_only(alone: Callable[..., Taken]) -> None:
    taken = alone()
    assert not taken.snapshot.restorable
    assert [part.restorable for part in taken.snapshot.parts if part.name.startswith("vc/")] == [True]
    assert taken.verification.result is Trust.VERIFIED


def test_a_virtual_cluster_that_a_snapshot_has_not_is_refused_with_those_that_it_has(
    ground: Ground, alone: Callable[..., Taken]
) -> None:
    with pytest.raises(Refused, match="does not hold virtual cluster other") as caught:
        read_document(ground, alone().snapshot, "other")
    assert caught.value.detail == (f"it holds {VC}",)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"name": 1}', b"[" * 100_000])
def test_what_is_no_document_of_a_virtual_cluster_is_damaged(content: bytes) -> None:
    with pytest.raises(WorkFailed, match="it is not a document of a virtual cluster"):
        decode(content)


def test_a_file_that_is_stored_is_not_fetched_again(api: Api, alone: Callable[..., Taken]) -> None:
    first = alone().snapshot
    seen = downloads(api)
    files = {**api.files, "nightly-dags": {}}.values()
    assert seen == len({hashlib.sha1(content).hexdigest() for one in files for content in one.values()})
    api.files["etl-scripts"]["new.py"] = b"print(1)\n"
    second = alone().snapshot
    assert downloads(api) == seen + 1
    assert len(second.objects) == len(first.objects) + 1


def test_files_of_other_recipients_are_stored_anew(
    ground: Ground, api: Api, run: Run, alone: Callable[..., Taken]
) -> None:
    alone()
    seen = downloads(api)
    _, other = ground.seal.new_identity()
    ground.clock.time += timedelta(minutes=5)
    run(take_alone(ground, VC, [*recipients_of(ground), other]))
    assert downloads(api) == 2 * seen


def test_what_a_killed_backup_left_is_written_anew(ground: Ground, alone: Callable[..., Taken]) -> None:
    taken = alone().snapshot
    for name in list(ground.store.names(f"prod/{taken.id}")):
        ground.store.remove(name)
    orphan = ground.root / object_name("prod", taken.objects[0].id)
    orphan.write_bytes(b"half")
    again = alone()
    assert again.verification.result is Trust.VERIFIED
    assert verify(ground, again.snapshot.id, 2).result is Trust.VERIFIED


def test_an_account_that_may_add_to_the_store_and_remove_nothing_takes_backup_after_backup(ground: Ground) -> None:
    with ground.store.create(f"prod/{(dead := new_id(ground.clock.now()))}/{DEPLOYMENT}") as file:
        file.write(b"half")
    begin(ground.state, dead, ground.store.location)  # and killed

    def refuse(name: str) -> None:
        raise StoreFailed(f"cannot remove {name}", hint="look at the account's rights")

    ground.store.remove = refuse  # type: ignore[method-assign]
    for _ in range(2):  # the second meets what the first could not take away
        ground.clock.time += timedelta(minutes=5)
        *said, taken = all_of(take_alone(ground, VC, recipients_of(ground)))
        assert taken.verification.result is Trust.VERIFIED
        assert f"what died half-written stays: cannot remove prod/{dead}/{DEPLOYMENT}" in said
    assert others_storing(ground) == []
    del ground.store.remove
    assert sweep(ground) == 1


def all_of(work: Generator[str, None, Taken]) -> list[Any]:
    """Return all that a capture says, and what it returns."""
    said: list[Any] = []
    try:
        while True:
            said.append(next(work))
    except StopIteration as end:
        return [*said, end.value]


def test_a_stored_file_that_is_damaged_fails_the_verification(ground: Ground, alone: Callable[..., Taken]) -> None:
    snapshot = alone().snapshot
    path = ground.root / object_name("prod", snapshot.objects[0].id)
    content = path.read_bytes()
    for damage in ("missing", "flipped"):
        path.unlink()
        if damage == "flipped":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        judged = verify(ground, snapshot.id, 1)
        assert (judged.result, bool(judged.broken_bytes)) == (Trust.FAILED, True), damage
        path.write_bytes(content)


def resigned(ground: Ground, snapshot: Snapshot, **changes: Any) -> Snapshot:
    """Let a snapshot's manifest say something else, signed with the site's own key."""
    changed = replace(snapshot, **changes)
    content = encode(changed)
    (ground.folder(snapshot.id) / MANIFEST).write_bytes(content)
    (ground.folder(snapshot.id) / SIGNATURE).write_bytes(ground.sign.sign(content))
    return changed


def test_a_file_that_a_document_names_and_the_manifest_does_not_is_missed(
    ground: Ground, alone: Callable[..., Taken]
) -> None:
    snapshot = alone().snapshot
    resigned(ground, snapshot, objects=())
    judged = verify(ground, snapshot.id, 2)
    assert (judged.result, "is not stored" in judged.words) == (Trust.FAILED, True)


def test_a_file_that_the_manifest_names_and_no_document_is_looked_at_all_the_same(
    ground: Ground, api: Api, alone: Callable[..., Taken]
) -> None:
    more = StoredFile("f" * 64, 4, hashlib.sha256(b"more").hexdigest())
    with ground.store.create(object_name("prod", more.id)) as file:
        file.write(b"more")
    snapshot = alone().snapshot
    resigned(ground, snapshot, objects=(*snapshot.objects, more))
    assert verify(ground, snapshot.id, 2).result is Trust.VERIFIED
    (ground.root / object_name("prod", more.id)).write_bytes(b"less")
    assert verify(ground, snapshot.id, 2).result is Trust.FAILED


def test_a_document_that_a_store_swaps_within_one_verification_fails_it(
    ground: Ground, alone: Callable[..., Taken]
) -> None:
    snapshot = alone().snapshot
    lies = lambda name, times: b"forged" if name.endswith(part_name(VC)) and times > 1 else None  # noqa: E731
    ground.store = Liar(ground.store, lies)
    judged = verify(ground, snapshot.id, 2)
    assert judged.result is Trust.FAILED
    assert f"{part_name(VC)}: " in judged.words and "is not what was stored" in judged.words


def test_a_file_that_the_store_does_not_give_is_neither_well_nor_wrong(
    ground: Ground, alone: Callable[..., Taken]
) -> None:
    snapshot = alone().snapshot
    kept, ground.store = ground.store, Liar(ground.store, lambda *_: None)
    ground.store.silent = "/objects/"
    judged = verify(ground, snapshot.id, 2)
    assert (judged.result, judged.failures, len(judged.unread)) == (Trust.NOT_VERIFIED, [], len(snapshot.objects))
    assert "could not be read: cannot read" in judged.words and record(ground, judged) == ""
    ground.store = kept
    assert verify(ground, snapshot.id, 2).result is Trust.VERIFIED


def test_a_store_that_does_not_keep_a_file_fails_the_backup(ground: Ground, run: Run) -> None:
    ground.store = Liar(ground.store, lambda name, _: b"rotten" if "/objects/" in name else None)
    with pytest.raises(StoreFailed, match="is not what was stored") as failed:
        run(take(ground))
    assert failed.value.detail == ("it was written a moment ago",)
    assert list(ground.store.names("prod/objects")) == []


def test_a_file_that_nobody_waits_for_any_more_is_left_half_way(ground: Ground) -> None:
    objects, cluster, stop = Objects(ground, recipients_of(ground)), ground.virtual_cluster(VC), threading.Event()
    stop.set()
    resource = cluster.resource("etl-scripts")
    assert resource is not None
    with pytest.raises(NotWanted):
        objects.fetch(cluster, resource.name, resource.files[0], stop)
    assert list(ground.store.names("prod/objects")) == []


@pytest.mark.parametrize("cuts", [9, 10])
def test_a_file_that_is_cut_each_time_is_asked_for_ten_times(ground: Ground, cuts: int) -> None:
    answers = [*[Cut("cut")] * cuts, "whole", "never"]

    def fetch() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Cut):
            raise answer
        return answer

    with pytest.raises(Cut) if cuts == 10 else nullcontext():
        assert retry_truncated(ground.clock, fetch) == "whole"
    assert answers == (["whole", "never"] if cuts == 10 else ["never"])


def test_a_file_that_is_not_what_its_signature_says_is_a_problem_and_the_rest_is_kept(
    ground: Ground, api: Api, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie_about(monkeypatch, "basket.py")
    taken = run(take(ground))
    assert taken.snapshot.restorable
    (summary,) = taken.snapshot.virtual_clusters
    assert len(summary.problems) == 1
    assert "basket.py" in summary.problems[0]
    assert verify(ground, taken.snapshot.id, 3).result is Trust.VERIFIED


@pytest.mark.parametrize(("refused", "named"), [("az", ""), ("amz", "amz")])
def test_a_content_that_one_of_its_places_does_not_give_is_fetched_from_another_or_missed_in_each(
    ground: Ground, api: Api, alone: Callable[..., Taken], monkeypatch: pytest.MonkeyPatch, refused: str, named: str
) -> None:
    api.files["etl-data"] |= dict.fromkeys("amz", b"the same in each")
    plain = Api._file

    def refusing(self: Api, method: str, resource: str, path: str, body: Any) -> Any:
        return Response(status=400) if path in refused else plain(self, method, resource, path, body)

    monkeypatch.setattr(Api, "_file", refusing)
    problems = alone().snapshot.virtual_clusters[0].problems
    assert [one.partition(":")[0] for one in problems] == [f"etl-data/{one}" for one in named]


def test_a_virtual_cluster_that_cannot_be_reached_leaves_the_managers_part(ground: Ground, run: Run) -> None:
    ground.add("http://127.0.0.1:9", "far-vc")
    taken = run(take(ground))
    assert taken.snapshot.restorable
    assert clusters_in(taken.snapshot) == [VC]
    assert [one.name for one in taken.snapshot.virtual_clusters if one.problems] == ["far-vc"]
    assert verify(ground, taken.snapshot.id, 2).result is Trust.VERIFIED  # of what is there


def test_alone_it_must_be_reached(ground: Ground, run: Run) -> None:
    ground.add("http://127.0.0.1:9", "far-vc")
    with pytest.raises(WorkFailed, match="far-vc could not be read"):
        run(take_alone(ground, "far-vc", recipients_of(ground)))
    assert not list(ground.store.names("prod"))


@pytest.mark.parametrize("left", ["none", "few"])
def test_much_less_than_before_is_not_believed_and_freezes_retention(
    ground: Ground, api: Api, alone: Callable[..., Taken], left: str
) -> None:
    alone()
    kept = [] if left == "none" else sorted(api.jobs)[:2]
    api.jobs = {name: api.jobs[name] for name in kept}
    if left == "none":
        api.resources.clear()
    for taken in (alone(), alone()):  # a second look is held against what was believed last
        assert taken.verification.result is Trust.NOT_VERIFIED
        assert doubt(entries(ground), ground.clock.now()) is not None
    accepted = alone(accept_empty=True)
    assert accepted.verification.result is Trust.VERIFIED
    assert doubt(entries(ground), ground.clock.now()) is None
    assert alone().verification.result is (Trust.NOT_VERIFIED if left == "none" else Trust.VERIFIED)


def test_a_snapshot_of_virtual_clusters_alone_freezes_nothing_of_the_manager(
    ground: Ground, run: Run, alone: Callable[..., Taken]
) -> None:
    run(take(ground))
    alone()
    assert doubt(entries(ground), ground.clock.now()) is None


def test_a_resource_that_changes_while_it_is_read_is_read_again(
    ground: Ground, api: Api, alone: Callable[..., Taken], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, changed = Api._file, list[str]()

    def changing(self: Api, method: str, resource: str, path: str, body: Any) -> Any:
        if not changed:
            changed.append(path)
            self.files["etl-scripts"]["basket.py"] = b"print('changed meanwhile')\n"
        return plain(self, method, resource, path, body)

    monkeypatch.setattr(Api, "_file", changing)
    snapshot = alone().snapshot
    assert snapshot.virtual_clusters[0].problems == ()
    assert verify(ground, snapshot.id, 2).result is Trust.VERIFIED
    document = read_document(ground, snapshot, VC)
    signature = hashlib.sha1(b"print('changed meanwhile')\n").hexdigest()
    scripts = next(one for one in document.resources if one.name == "etl-scripts")
    assert scripts.files[0].signature == signature or signature in {file.signature for file in scripts.files}


@pytest.mark.parametrize("hidden", [False, True])
def test_a_virtual_cluster_that_never_rests_is_taken_with_that_said(
    ground: Ground, api: Api, alone: Callable[..., Taken], monkeypatch: pytest.MonkeyPatch, hidden: bool
) -> None:
    api.resources["etl-data"]["hidden"] = hidden
    hide_from_lists(monkeypatch)
    plain, times = Api._resource, itertools.count()

    def changing(self: Api, name: str, *, with_files: bool) -> Any:
        found = plain(self, name, with_files=with_files)
        return {**found, "modified": f"2026-01-01T00:00:{next(times):02d}Z"} if name == "etl-data" else found

    monkeypatch.setattr(Api, "_resource", changing)
    summary = alone().snapshot.virtual_clusters[0]
    assert summary.problems == ("it changed while it was read, time and again",)


def test_what_a_resource_lacks_of_itself_is_a_problem_by_its_name(
    ground: Ground, api: Api, alone: Callable[..., Taken], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Signed._resource
    api.add_file("made-env", "other.txt", b"numpy\n", type="python-env")

    def lacking(self: Signed, name: str, *, with_files: bool) -> Any:
        found = plain(self, name, with_files=with_files)
        if name == "etl-data":
            return {**found, "signature": "0" * 40}
        for file in found.get("files", ()) if name == "etl-scripts" else ():
            file.pop("signature") if file["path"] == "basket.py" else None
        return found

    monkeypatch.setattr(Signed, "_resource", lacking)
    problems = alone().snapshot.virtual_clusters[0].problems
    assert "etl-scripts/basket.py: it has no signature, so that nothing proves it" in problems
    assert "resource etl-data: its files are not those that its signature speaks of" in problems
    assert any(words.startswith("environment made-env: the API shows no requirements.txt") for words in problems)


def test_a_resource_that_the_list_hides_is_fetched_by_name(
    ground: Ground, api: Api, alone: Callable[..., Taken], monkeypatch: pytest.MonkeyPatch
) -> None:
    api.resources["etl-data"]["hidden"] = True
    hide_from_lists(monkeypatch)
    document = read_document(ground, alone().snapshot, VC)
    assert "etl-data" in {one.name for one in document.resources}


def test_a_job_that_a_dag_calls_and_the_list_hides_is_taken_with_all_that_it_needs(
    ground: Ground, api: Api, alone: Callable[..., Taken], monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in (api.jobs["orders-ingest"], api.jobs["basket-analysis"], api.resources["etl-data"]):
        one["hidden"] = True
    del api.jobs["order-report"]
    dags = api.files["nightly-dags"]
    for path in dags:  # the names are not called in their order
        dags[path] = b"early = CDEJobRunOperator(job_name='orders-ingest')\n" + dags[path]
    hide_from_lists(monkeypatch)
    document = read_document(ground, alone().snapshot, VC)
    assert {"orders-ingest", "basket-analysis"} <= {one.name for one in document.jobs}
    assert "etl-data" in {one.name for one in document.resources}
    assert "what DAG nightly-pipeline calls order-report: no job of that name" in document.uncovered
    assert document.problems == ()
    assert drift_of(document, ground.virtual_cluster(VC)) == []


def test_a_mount_that_is_no_resource_is_named(ground: Ground, api: Api, alone: Callable[..., Taken]) -> None:
    for job, name in (("pi-estimate", "our-repository"), ("nightly-pipeline", "our-dags")):
        api.jobs[job]["mounts"] = [{"resourceName": name}]
    document = read_document(ground, alone().snapshot, VC)
    for name in ("our-repository", "our-dags"):
        assert any(name in words for words in document.uncovered), name
    assert {one.name for one in document.jobs} == set(api.jobs)


def test_a_healed_snapshot_holds_the_virtual_clusters_of_the_redacted_one(ground: Ground, run: Run) -> None:
    older = run(take(ground)).snapshot
    ground.clock.time += timedelta(days=1)
    ground.manager.content = json.dumps(hidden(json.loads(ground.manager.content))).encode()
    redacted = run(take(ground)).snapshot
    healed = run(heal(ground, redacted, values_of(read_deployment(ground, older)).get, "the older one")).snapshot
    assert clusters_in(healed) == [VC]
    assert healed.objects == redacted.objects
    assert read_document(ground, healed, VC) == read_document(ground, redacted, VC)
    assert verify(ground, healed.id, 3).result is Trust.VERIFIED


# Nobody has read it for longer than backup.reread; or did so on a clock that was a year ahead.
@pytest.mark.parametrize("passed", [timedelta(days=8), timedelta(days=-365)])
def test_a_rotten_file_is_never_claimed_as_verified_and_is_fetched_anew(
    ground: Ground, api: Api, alone: Callable[..., Taken], passed: timedelta
) -> None:
    first = alone().snapshot
    document = read_document(ground, first, VC)
    rotten = document.stored(next(one.files[0] for one in document.resources if one.name == "etl-scripts"))
    assert rotten
    path = ground.root / object_name("prod", rotten.id)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    ground.clock.time += passed
    before = downloads(api)
    taken = alone()
    assert rotten.id not in {one.id for one in taken.snapshot.objects}
    assert downloads(api) == before + 1, "the others were read, and are as stored"
    assert taken.verification.result is Trust.VERIFIED
    assert verify(ground, taken.snapshot.id, 3).result is Trust.VERIFIED
    assert verify(ground, first.id, 1).result is Trust.FAILED


def test_files_are_read_again_as_often_as_the_site_says(ground: Ground, alone: Callable[..., Taken]) -> None:
    backup = ground.settings.backup.model_copy(update={"reread": 6 * 3600.0})
    ground.settings = ground.settings.model_copy(update={"backup": backup})
    first = alone()
    ground.clock.time += timedelta(hours=5)
    assert alone().verification.files_read == first.verification.files_read
    ground.clock.time += timedelta(hours=1)
    assert alone().verification.files_read == ground.clock.now()


def test_a_level_says_since_when_its_files_have_been_read(ground: Ground, alone: Callable[..., Taken]) -> None:
    first = alone()
    assert first.verification.files_read == ground.clock.now()
    second = alone()
    assert second.verification.files_read == first.verification.files_read, "used again, not read again"
    ground.clock.time += timedelta(days=7)
    third = alone()
    assert third.verification.files_read == ground.clock.now()
    ground.clock.time += timedelta(days=6)
    assert alone().verification.files_read == third.verification.files_read


def test_a_backup_taken_up_whose_snapshot_cannot_be_read_now_is_taken_anew_and_both_stay(
    ground: Ground, run: Run, work: Notes
) -> None:
    (action,) = TakeCluster().plan(TakeClusterArguments(), ground)
    first = run(TakeCluster().apply(action, ground, work))
    before = str(work.noted("snapshot"))
    ground.clock.time += timedelta(minutes=5)
    kept, ground.store = ground.store, Liar(ground.store, lambda *_: None)
    ground.store.silent = f"{before}/"
    again = run(TakeCluster().apply(action, ground, work))
    assert again.value != first.value
    ground.store = kept
    assert {one.id for one in entries(ground)} == {before, str(work.noted("snapshot"))}
    assert all(verify(ground, one.id, 2).result is Trust.VERIFIED for one in entries(ground))


def test_an_incomplete_backup_that_was_killed_after_its_commit_is_partly_done_when_taken_up(
    ground: Ground, api: Api, run: Run, work: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie_about(monkeypatch, "basket.py")
    (action,) = TakeCluster().plan(TakeClusterArguments(), ground)
    first = run(TakeCluster().apply(action, ground, work))
    again = run(TakeCluster().apply(action, ground, work))
    assert again.value == first.value
    assert (first.partly, again.partly) == (True, True)
    assert "basket.py" in again.detail
