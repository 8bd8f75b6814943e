"""No byte of a stored file is used before all of them were held against the signed manifest."""

import itertools
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any, BinaryIO, cast

import pytest
from msgspec.structs import replace

from maint.config.schema import PartsSettings
from maint.errors import Refused, StoreFailed, WorkFailed
from maint.model.plan import Action, Effect
from maint.model.secret import Secret
from maint.ports import Work
from maint.restore.conflicts import planned_cluster
from maint.restore.select_snapshot import chosen, clusters_in, manifest_fact, planned
from maint.snapshots import diff
from maint.snapshots.archive import MemberKind, members
from maint.snapshots.capture import take
from maint.snapshots.catalogue import entries, load
from maint.snapshots.manifest import MANIFEST
from maint.snapshots.parts import (
    DATABASE,
    DEPLOYMENT,
    LICENSE,
    MANAGER_FILES,
    REDACTED_COPY,
    TRUSTSTORE,
    open_part,
    read_deployment,
    read_part,
)
from maint.snapshots.records import read_records, write_record
from maint.snapshots.verify import verdict_of, verify
from maint.steps.registry import STEPS
from tests.snapshots.conftest import EXAMPLE, Place
from tests.snapshots.liar import Liar

Run = Callable[[Any], Any]


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Any]:
    """A site of which a snapshot was taken, and that snapshot."""
    place = Place(tmp_path_factory.mktemp("taken"), EXAMPLE.read_bytes())
    fit_out(place)
    for _ in take(place):
        pass
    (found,) = entries(place)
    return place, found.snapshot


def fit_out(place: Any) -> None:
    """Let the manager have a truststore, and a database of which a dump is wanted."""
    place.manager.truststore = Secret("truststore-password")
    place.shell.dump = b"-- PostgreSQL database dump complete\n"
    backup = place.settings.backup.model_copy(update={"parts": PartsSettings(database=True)})
    place.settings = place.settings.model_copy(update={"backup": backup})


@pytest.fixture
def snapshot(place: Any, once: tuple[Place, Any]) -> Any:
    """A snapshot of a manager with a truststore and a database."""
    source, found = once
    fit_out(place)
    place.become(source)
    return found


def sealed(place: Any, content: bytes, recipients: Sequence[str] = ()) -> bytes:
    """Return another content as the store could make it: the recipients are not secret."""
    target = BytesIO()
    place.seal.wrap(BytesIO(content).read, target, recipients or place.settings.backup.recipients)
    return target.getvalue()


USES: dict[str, tuple[str, Callable[[Any, Any], object]]] = {
    "the bytes that a restore sends": (DEPLOYMENT, lambda place, one: read_part(place, one, DEPLOYMENT)),
    "a document to edit or to heal": (DEPLOYMENT, read_deployment),
    "the outline of a restore": (DEPLOYMENT, verdict_of),
    "a comparison": (DEPLOYMENT, lambda place, one: diff.of_snapshot(place, one, redacted=False)),
    "a comparison of redacted copies": (REDACTED_COPY, lambda place, one: diff.of_snapshot(place, one, redacted=True)),
    "the names of the clusters": (REDACTED_COPY, clusters_in),
    "the manager's files": (MANAGER_FILES, lambda place, one: read_part(place, one, MANAGER_FILES)),
    "the dump of the database": (DATABASE, lambda place, one: read_part(place, one, DATABASE)),
    "the password of the truststore": (TRUSTSTORE, lambda place, one: read_part(place, one, TRUSTSTORE)),
}


@pytest.mark.parametrize("use", list(USES))
def test_what_a_store_swaps_after_the_proof_is_never_used(place: Any, snapshot: Any, use: str) -> None:
    name, read = USES[use]
    forged = sealed(place, place.manager.content.replace(b"pwHash", b"pwHush"))
    proven = verify(place, snapshot.id)
    assert proven.proven
    place.store = Liar(place.store, lambda path, _: forged if path.endswith(f"/{name}") else None)
    with pytest.raises(WorkFailed, match="is not what was stored"):
        read(place, snapshot)


def test_nothing_of_a_forged_part_is_given_out_before_it_is_refused(place: Any, snapshot: Any) -> None:
    """A reader of JSON may act at the closing brace, so that the proof must come before the first byte."""
    forged = sealed(place, place.manager.content + b" " * 3_000_000)
    place.store = Liar(place.store, lambda path, _: forged if path.endswith(DEPLOYMENT) else None)
    given: list[bytes] = []
    with pytest.raises(WorkFailed), open_part(place, snapshot, DEPLOYMENT) as stream:
        given.append(stream.read(1))
    assert given == []


def test_a_forged_part_as_long_as_the_true_one_is_refused_before_its_first_byte(place: Any, snapshot: Any) -> None:
    """Neither its length nor the hash of its content, which is known at its end only, tells by then."""
    stored = snapshot.part(DEPLOYMENT)
    _, another = place.seal.new_identity()  # the store's part is for one more than the config names
    recipients = [*place.settings.backup.recipients, another]
    changed = place.manager.content.replace(b"1", b"2", 1)
    made = (sealed(place, changed, recipients) for _ in itertools.count())
    forged = next(one for one in made if len(one) == stored.bytes)  # age adds a random number of bytes
    place.store = Liar(place.store, lambda path, _: forged if path.endswith(f"/{DEPLOYMENT}") else None)
    given: list[bytes] = []
    with pytest.raises(WorkFailed, match="other bytes"), open_part(place, snapshot, DEPLOYMENT) as stream:
        given.append(stream.read(1))
    assert given == []


def test_a_part_is_read_from_where_it_was_proven(place: Any, snapshot: Any) -> None:
    store = place.store = Liar(place.store, lambda path, reading: b"lie" if reading > 1 else None)
    with open_part(place, snapshot, DEPLOYMENT) as stream:
        assert stream.read() == place.manager.content
    assert store.read[f"prod/{snapshot.id}/{DEPLOYMENT}"] == 1


def test_what_is_proven_lies_in_no_file_that_has_a_name(
    place: Any, snapshot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maint.snapshots.parts.IN_MEMORY", 0)
    before = sorted(place.state.rglob("*"))
    with open_part(place, snapshot, DEPLOYMENT) as stream:
        stream.read(1)
        assert sorted(place.state.rglob("*")) == before


def test_a_stored_file_without_end_is_refused(place: Any, snapshot: Any) -> None:
    class Endless(BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return b"x" * (size or 0)

    class Store(Liar):
        def open(self, name: str) -> Any:
            return Endless()

    place.store = Store(place.store, lambda *_: None)
    with pytest.raises(WorkFailed, match="more found"):
        read_part(place, snapshot, DEPLOYMENT)
    with pytest.raises(WorkFailed, match="too large"):
        load(place, snapshot.id)


def test_a_list_without_end_is_refused(place: Any, snapshot: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maint.snapshots.parts._NAMES_END", 1000)

    class Store(Liar):
        def names(self, prefix: str = "") -> Iterator[str]:
            while True:
                yield f"prod/{snapshot.id}/{MANIFEST}"

    place.store = Store(place.store, lambda *_: None)
    with pytest.raises(WorkFailed, match="lists more than"):
        chosen(place, "")


def test_a_store_that_does_not_give_a_manifest_says_nothing_of_the_snapshot(place: Any, snapshot: Any) -> None:
    class Store(Liar):
        def open(self, name: str) -> Any:
            raise StoreFailed("the store does not answer", hint="wait")

    place.store = Store(place.store, lambda *_: None)
    with pytest.raises(StoreFailed):
        chosen(place, snapshot.id)


def test_a_record_of_nonsense_is_passed_over(place: Any, snapshot: Any) -> None:
    for number, facts in enumerate(
        [{"level": 3, "result": ["verified"]}, {"level": 3, "result": {}}, {"result": "passed", "rto_seconds": 10**400}]
    ):
        place.clock.sleep(1)
        write_record(place, "verify" if number < 2 else "drill", snapshot.id, facts)
    assert len(list(read_records(place))) >= 3
    assert chosen(place, "").id == snapshot.id


def archive(*headers: tuple[bytes, bytes, int]) -> bytes:
    """Return a tar of members: name, type, and the size that the header states."""
    content = b""
    for name, kind, size in headers:
        member = tarfile.TarInfo(name.decode())
        member.type, member.size = kind, size
        content += member.tobuf(tarfile.GNU_FORMAT)
    return content


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_a_name_of_any_length_is_refused_before_it_is_read(kind: bytes) -> None:
    pulled = 0
    source = BytesIO(archive((b"long", kind, 1 << 33)))

    def read(size: int) -> bytes:
        nonlocal pulled
        pulled += size
        return source.read(size) or b"x" * size

    with pytest.raises(WorkFailed, match="a name has"):
        list(members(read))
    assert pulled < 1 << 20


def test_a_member_with_two_sizes_or_with_holes_is_refused() -> None:
    target = BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo("etc/one")
        member.pax_headers = {"size": "0"}
        tar.addfile(member)
    with pytest.raises(WorkFailed, match="two sizes"):
        list(members(BytesIO(target.getvalue()).read))
    with pytest.raises(WorkFailed, match="holes"):
        list(members(BytesIO(archive((b"one", tarfile.GNUTYPE_SPARSE, 0))).read))


def test_a_file_with_a_long_name_comes_back(place: Any) -> None:
    target = BytesIO()
    name = "etc/" + "x" * 300
    with tarfile.open(fileobj=target, mode="w", format=tarfile.GNU_FORMAT) as tar:
        member = tarfile.TarInfo(name)
        member.size = 3
        tar.addfile(member, BytesIO(b"abc"))
    assert [(one.path, content) for one, content in members(BytesIO(target.getvalue()).read)] == [(f"/{name}", b"abc")]


@pytest.mark.parametrize("read", [planned, lambda place, action: planned_cluster(place, action, "vc")])
def test_a_plan_is_held_to_the_manifest_that_it_was_made_from(place: Any, snapshot: Any, read: Any) -> None:
    action = Action("put", "deployment.put", "manager", Effect.DESTROY, "replace", {"snapshot": snapshot.id})
    assert read(place, replace(action, facts=manifest_fact(snapshot))) == snapshot
    for facts, words in (
        ({"manifest": "0" * 64}, "not the one that the plan was made from"),
        ({}, "does not say which"),
    ):
        with pytest.raises(Refused, match=words):
            read(place, replace(action, facts=facts))


@pytest.mark.parametrize(
    "kind",
    ["restore.ready", "license.upload", "deployment.put", "deployment.add", "hostfiles.restore", "deployment.compare"],
)
def test_no_step_of_a_restore_uses_another_manifest_than_its_plan_was_made_from(
    place: Any, snapshot: Any, run: Run, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place.manager, "license", lambda: None, raising=False)
    edit = {"choice": None, "changes": [], "leftovers": [], "left_out": []}
    arguments = {"snapshot": snapshot.id, "edit": edit, "license": True, "file": "", "uuid": "u"}
    action = Action("one", kind, "manager", Effect.CHANGE, "so", arguments, facts={"manifest": "0" * 64})
    with pytest.raises(Refused, match="not the one that the plan was made from"):
        run(STEPS[kind].apply(action, place, cast(Work, None)))


def test_the_licence_part_is_proven_like_all_others(place: Any, run: Run, tmp_path: Any) -> None:
    path = tmp_path / "license.txt"
    path.write_bytes(b'{"name": "x", "uuid": "u", "expirationDate": "2027-01-01"}')
    place.manage(license=path)
    snapshot = run(take(place)).snapshot
    assert read_part(place, snapshot, LICENSE) == path.read_bytes()
    target = BytesIO()
    place.seal.encrypt(BytesIO(b"another").read, target, place.settings.backup.recipients)
    place.store = Liar(place.store, lambda name, _: target.getvalue() if name.endswith(LICENSE) else None)
    with pytest.raises(WorkFailed, match="not what was stored"):
        read_part(place, snapshot, LICENSE)


def test_a_second_name_of_a_file_is_a_link_and_a_device_is_refused() -> None:
    found = [member for member, _ in members(BytesIO(archive((b"a", tarfile.LNKTYPE, 0)) + bytes(1024)).read)]
    assert [(one.kind, one.target) for one in found] == [(MemberKind.LINK, "/")]
    with pytest.raises(WorkFailed, match="not a file, folder or link"):
        list(members(BytesIO(archive((b"dev/sda", tarfile.BLKTYPE, 0)) + bytes(1024)).read))
    with pytest.raises(WorkFailed, match="bytes"):
        list(members(BytesIO(archive((b"huge", tarfile.REGTYPE, 1 << 33)) + bytes(1024)).read))


def test_a_part_that_is_not_what_was_captured_is_refused_at_its_end(place: Any, snapshot: Any) -> None:
    (part,) = [one for one in snapshot.parts if one.name == DEPLOYMENT]
    other = replace(part, content_sha256="0" * 64)
    lying = replace(snapshot, parts=tuple(other if one is part else one for one in snapshot.parts))
    with open_part(place, lying, DEPLOYMENT) as stream, pytest.raises(WorkFailed, match="not what was captured"):
        stream.read()


def test_without_room_for_a_private_file_nothing_is_used(
    place: Any, snapshot: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maint.snapshots.parts.IN_MEMORY", 0)
    shutil.rmtree(place.state)
    place.state.write_text("")
    with pytest.raises(WorkFailed, match=r"the private file in .* cannot be written"):
        read_part(place, snapshot, LICENSE if snapshot.has(LICENSE) else REDACTED_COPY)


def test_a_store_that_fails_while_it_is_read_is_told(place: Any, snapshot: Any) -> None:
    def fail(*_: object) -> bytes | None:
        raise OSError(5, "Input/output error")

    place.store = Liar(place.store, fail)
    with pytest.raises(WorkFailed, match="cannot be read"):
        read_part(place, snapshot, REDACTED_COPY)


def test_a_store_that_calls_every_name_taken_gets_an_error_and_no_endless_tries(place: Any, run: Any) -> None:
    snapshot = run(take(place)).snapshot

    def taken(name: str) -> BinaryIO:
        raise FileExistsError(name)

    place.store = Liar(place.store, lambda *_: None)
    place.store.create = taken
    with pytest.raises(StoreFailed, match="names of records that they are taken"):
        write_record(place, "verify", snapshot.id, {"result": "passed"})
