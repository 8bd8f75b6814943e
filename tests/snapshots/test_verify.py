"""Verification that cannot lie: damaged, swapped, forged and poisoned snapshots."""

import json
import random
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from maint.adapters.seal import AgeSeal
from maint.deployment.reader import blocks
from maint.errors import Invalid, Mistyped, NotWritten, Refused, StoreFailed, UsageError, WorkFailed
from maint.model.secret import Secret
from maint.model.snapshot import Purpose, RuleResult, Trust
from maint.snapshots import capture, prune, writer
from maint.snapshots.capture import take
from maint.snapshots.catalogue import entries, find, last_verification, newest_restorable
from maint.snapshots.manifest import MANIFEST, SIGNATURE, decode, encode
from maint.snapshots.parts import DEPLOYMENT, REDACTED_COPY
from maint.snapshots.prune import good, remove
from maint.snapshots.records import Verification, read_records
from maint.snapshots.verify import prove_new, record, verdict_of, verify
from tests.snapshots.conftest import EXAMPLE, Place
from tests.snapshots.liar import Liar

Run = Callable[[Any], Any]
_LICENSE = '-----BEGIN PGP SIGNED MESSAGE-----\n{{"name" : "x", "uuid" : "u", "expirationDate" : "{day}"}}\n-----BEGIN'


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Any]:
    """A site of which a snapshot was taken, and that snapshot."""
    place = Place(tmp_path_factory.mktemp("taken"), EXAMPLE.read_bytes())
    for _ in take(place):
        pass
    (found,) = entries(place)
    return place, found.snapshot


@pytest.fixture
def taken(place: Any, once: tuple[Place, Any]) -> Any:
    source, found = once
    place.become(source)
    return found


def words(verification: Verification) -> str:
    return "; ".join(finding.words for finding in verification.failures)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_sound_snapshot_is_verified_to_each_level(place: Any, taken: Any, level: int) -> None:
    found = verify(place, taken.id, level)
    assert found.result is Trust.VERIFIED, found.findings
    assert (found.depth, found.parts_checked, found.parts) == (level, 4, 4)
    assert f"level {level} of {level}, 4 of 4 parts" in found.words
    for name in (DEPLOYMENT, REDACTED_COPY) if level > 1 else ():  # what takes longest is watched
        of = taken.part(name).content_bytes
        assert place.seen[f"judging {name}"][0] >= of == place.seen[f"judging {name}"][1]


@pytest.mark.parametrize("reading", [1, 2])
def test_a_part_that_the_store_does_not_give_is_neither_well_nor_damaged(place: Any, taken: Any, reading: int) -> None:
    def fail(name: str, number: int) -> None:
        if name.endswith(DEPLOYMENT) and number == reading:
            raise StoreFailed(f"cannot read {name}", detail=["timed out"])

    place.store = Liar(place.store, fail)
    if reading == 2:  # after its bytes were found well
        with pytest.raises(StoreFailed, match="timed out"):
            verify(place, taken.id)
        return
    found = verify(place, taken.id)
    assert (found.result, found.depth, found.failures) == (Trust.NOT_VERIFIED, 0, [])
    assert "could not be read: cannot read" in found.words
    before = entries(place)
    record(place, found)
    (one,) = entries(place)
    assert [one] == before and one.restorable and prune.damage(one) is None


@pytest.mark.parametrize(("found", "standing"), [
    ([(3, 2), (1, 1)], (3, 2)),  # level asked for, and reached
    ([(3, 2), (2, 2)], (3, 2)),
    ([(3, 2), (3, 1), (1, 1)], (3, 1)),
    ([(3, 2), (3, 0), (1, 1)], (3, 2)),
    ([(3, 0), (1, 1)], (1, 1)),
    ([(2, 1), (2, 2)], (2, 2)),
    ([(3, 2), (1, 1), (3, 3)], (3, 3)),
])  # fmt: skip
def test_a_shallower_pass_overturns_no_deeper_failure(
    place: Any, taken: Any, found: list[tuple[int, int]], standing: tuple[int, int]
) -> None:
    for level, depth in found:
        place.clock.sleep(60)
        findings = [] if depth == level else [RuleResult("administrator" if depth == 2 else "content", False, "bad")]
        record(place, Verification(taken.id, level, depth, 4, 4, place.clock.now(), findings=findings))
    (entry,) = entries(place)
    assert last_verification(place, taken) == entry.verified
    assert (entry.verified.level, entry.verified.depth) == standing
    assert entry.offered == (standing[0] == standing[1])
    assert entry.seen(3) == max((one.at for one in entry.looks if one.level == 3), default=None)


@pytest.mark.parametrize(("depth", "rule", "stands"), [(2, "administrator", True), (0, "part", False)])
def test_what_was_judged_on_capture_overturns_only_what_the_bytes_show(
    place: Any, taken: Any, depth: int, rule: str, stands: bool
) -> None:
    for one in (
        Verification(taken.id, 3, depth, 4, 4, place.clock.now(), findings=[RuleResult(rule, False, "bad")]),
        Verification(taken.id, 3, 3, 4, 4, place.clock.now() + timedelta(minutes=1), on_capture=True),
    ):
        record(place, one)
    (entry,) = entries(place)
    assert (entry.verified.result is Trust.FAILED, entry.proven is None, entry.offered) == (stands, stands, not stands)


def test_what_was_never_meant_to_be_restored_is_not_held_against_a_rule_of_restores(place: Any, taken: Any) -> None:
    record(
        place, Verification(taken.id, 3, 2, 4, 4, place.clock.now(), findings=[RuleResult("redaction", False, "bad")])
    )
    place.clock.sleep(60)
    record(place, Verification(taken.id, 2, 2, 4, 4, place.clock.now()))
    seen = last_verification(place, replace(taken, restorable=False))
    assert (seen.level, seen.result) == (2, Trust.VERIFIED)


def test_without_the_key_the_judgement_of_the_capture_counts_and_is_said(place: Any, taken: Any) -> None:
    place.keys.clear()
    found = verify(place, taken.id)
    assert found.result is Trust.VERIFIED
    assert "as judged when it was taken" in found.words


class Counting(AgeSeal):
    """Counts what is opened."""

    opened = 0

    def unwrap(self, source: Any, identities: Any) -> Any:
        self.opened += 1
        return super().unwrap(source, identities)


def test_what_is_in_the_parts_is_found_out_once_for_the_same_bytes_and_password(place: Any, taken: Any) -> None:
    place.seal = Counting()
    first = verify(place, taken.id)
    once = place.seal.opened
    assert once > 0
    assert verify(place, taken.id) == first
    assert verdict_of(place, taken).summary.administrators
    place.manage(password="env:UNSET")
    assert verify(place, taken.id, 2).depth == 2  # which no password decides
    assert place.seal.opened == once
    place.manage(password="text:another")
    assert verify(place, taken.id).findings != first.findings
    assert place.seal.opened == 2 * once


def test_what_was_found_out_before_hides_nothing_that_became_another(place: Any, taken: Any) -> None:
    assert verify(place, taken.id).result is Trust.VERIFIED
    path = place.folder(taken.id) / DEPLOYMENT
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "other bytes" in words(verify(place, taken.id))
    with pytest.raises(WorkFailed, match="not what was stored"):
        verdict_of(place, taken)
    path.write_bytes(whole)
    assert verify(place, taken.id).result is Trust.VERIFIED
    place.keys.clear()
    assert verify(place, taken.id).on_capture
    with pytest.raises(Refused, match="no private key"):
        verdict_of(place, taken)


@pytest.fixture(params=[1 << 20, 0], ids=["small", "large"])
def copy_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large copy is judged by a process of its own."""
    monkeypatch.setattr("maint.snapshots.parts.IN_MEMORY", request.param)


@pytest.mark.usefixtures("copy_size")
@pytest.mark.parametrize(
    ("content", "told"), [(b'{"clusters" : [ ]', "ends at byte 17"), (b'{"clusters" : [ ]}', "hosts, ")]
)
@pytest.mark.parametrize("level", [2, 3])
def test_a_redacted_copy_that_was_signed_but_is_none_fails(
    place: Any, run: Run, monkeypatch: pytest.MonkeyPatch, level: int, content: bytes, told: str
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(writer, "RedactedCopy", lambda *_: BytesIO(content))
        patched.setattr(capture, "prove_new", lambda *_, **__: iter(()))
        run(take(place))
    (taken,) = [entry.snapshot for entry in entries(place)]
    assert verify(place, taken.id, 1).result is Trust.VERIFIED
    found = verify(place, taken.id, level)
    assert found.result is Trust.FAILED
    assert REDACTED_COPY in words(found)
    assert told in words(found)


def _one_in_clear(shown: bytes) -> bytes:
    at = shown.index(b'"value" : "fp:') + len(b'"value" : "')
    return shown[:at] + b"in clear" + shown[at + 19 :]


@pytest.mark.usefixtures("copy_size")
@pytest.mark.parametrize("spoil", [_one_in_clear, lambda _: EXAMPLE.read_bytes()])
@pytest.mark.parametrize("level", [2, 3])
def test_a_copy_that_was_signed_but_shows_secrets_fails(
    place_of: Any, run: Run, monkeypatch: pytest.MonkeyPatch, level: int, spoil: Callable[[bytes], bytes]
) -> None:
    place, made = place_of(EXAMPLE.read_bytes(), "admin"), writer.RedactedCopy
    with monkeypatch.context() as patched:
        patched.setattr(writer, "RedactedCopy", lambda *how: BytesIO(spoil(b"".join(blocks(made(*how).read)))))
        patched.setattr(capture, "prove_new", lambda *_, **__: iter(()))
        run(take(place))
    (taken,) = [entry.snapshot for entry in entries(place)]
    found = verify(place, taken.id, level)
    assert found.result is Trust.FAILED
    assert f"{REDACTED_COPY}: it is not redacted" in words(found)


def test_a_large_copy_is_judged_by_a_process_beside(place: Any, taken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maint.snapshots.parts.IN_MEMORY", 0)
    assert verify(place, taken.id).result is Trust.VERIFIED
    assert f"judging {DEPLOYMENT}" in place.seen
    assert f"judging {REDACTED_COPY}" not in place.seen


def test_a_small_copy_is_worth_no_process_and_no_further_reading(
    place: Any, taken: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.store = Liar(place.store, lambda *_: None)
    monkeypatch.setattr("maint.snapshots.judge_copy._PROGRAM", ())
    assert verify(place, taken.id).result is Trust.VERIFIED
    assert place.store.read[f"prod/{taken.id}/{REDACTED_COPY}"] == 2


@pytest.mark.parametrize(
    "program", [("/nowhere/python",), ("false",), ("echo", "nothing"), ("echo", '{"counts": {}}')], ids=str
)
def test_where_that_process_does_not_say_what_it_found_the_copy_is_judged_here(
    place: Any, taken: Any, monkeypatch: pytest.MonkeyPatch, program: tuple[str, ...]
) -> None:
    monkeypatch.setattr("maint.snapshots.parts.IN_MEMORY", 0)
    monkeypatch.setattr("maint.snapshots.judge_copy._PROGRAM", program)
    assert verify(place, taken.id).result is Trust.VERIFIED
    assert place.seen[f"judging {REDACTED_COPY}"][0] == taken.part(REDACTED_COPY).content_bytes


def test_that_process_is_given_no_secret_that_stands_in_our_environment(
    place: Any, taken: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CM_PASSWORD", "in-the-environment")
    monkeypatch.setattr("maint.snapshots.parts.IN_MEMORY", 0)
    monkeypatch.setattr("maint.snapshots.judge_copy._PROGRAM", ("sh", "-c", f"env > {tmp_path}/given"))
    assert verify(place, taken.id).result is Trust.VERIFIED
    given = (tmp_path / "given").read_text()
    assert "PATH=" in given and "in-the-environment" not in given


@pytest.mark.parametrize("style", [{}, {"indent": 1}])
def test_an_export_in_another_style_has_a_copy_that_is_verified_as_well(place_of: Any, run: Run, style: Any) -> None:
    place = place_of(json.dumps(json.loads(EXAMPLE.read_bytes()), **style).encode(), "admin")
    found = verify(place, run(take(place)).snapshot.id)
    assert (found.result, found.depth) == (Trust.VERIFIED, 3)


def test_an_unknown_level_is_refused(place: Any, taken: Any) -> None:
    with pytest.raises(Invalid, match="no level 4"):
        verify(place, taken.id, 4)


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_flipped_bit_and_no_truncation_is_ever_called_verified(place: Any, taken: Any, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(place.folder(taken.id).iterdir())))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    flip = data.draw(st.one_of(st.none(), st.integers(0, 7)))
    spoiled = whole[:at] if flip is None else whole[:at] + bytes([whole[at] ^ 1 << flip]) + whole[at + 1 :]
    path.write_bytes(spoiled)
    try:
        assert verify(place, taken.id, 1).result is Trust.FAILED
    finally:
        path.write_bytes(whole)


def test_a_missing_part_and_a_swapped_part_are_told(place: Any, taken: Any, run: Run) -> None:
    place.clock.sleep(60)
    other = run(take(place)).snapshot
    part = place.folder(taken.id) / DEPLOYMENT
    part.write_bytes((place.folder(other.id) / DEPLOYMENT).read_bytes())
    assert DEPLOYMENT in words(verify(place, taken.id))
    part.unlink()
    assert "is missing" in words(verify(place, taken.id))


def test_a_file_that_is_no_part_is_told_and_says_nothing_against_the_snapshot(place: Any, taken: Any) -> None:
    (stray := place.folder(taken.id) / "license.txt").write_bytes(b"as a restore by hand leaves it")
    judged = verify(place, taken.id)
    record(place, judged)
    assert (judged.proven, judged.result) == (True, Trust.NOT_VERIFIED)
    assert judged.words.endswith("; license.txt lies there and is no part of it: take it away")
    (entry,) = entries(place)
    assert (entry.offered, good(entry)) == (True, True)
    stray.unlink()
    assert verify(place, taken.id).result is Trust.VERIFIED


def test_a_manifest_of_another_snapshot_is_told_and_listed_as_a_problem(place: Any, taken: Any, run: Run) -> None:
    place.clock.sleep(60)
    other = run(take(place)).snapshot
    for name in ("manifest.json", "manifest.json.sig"):
        (place.folder(taken.id) / name).write_bytes((place.folder(other.id) / name).read_bytes())
    assert "belongs to" in words(verify(place, taken.id))
    first, second = entries(place)
    assert first.snapshot is None
    assert "belongs to" in str(first.problem)
    assert second.offered


@pytest.mark.parametrize("name", ["manifest.json", "manifest.json.sig"])
def test_without_manifest_it_does_not_exist_and_without_signature_it_is_not_believed(
    place: Any, taken: Any, name: str
) -> None:
    (place.folder(taken.id) / name).unlink()
    assert verify(place, taken.id).result is Trust.FAILED
    assert [entry.snapshot for entry in entries(place)] == ([] if name == "manifest.json" else [None])


def test_an_edited_manifest_fails_even_when_it_is_still_well_formed(place: Any, taken: Any) -> None:
    path = place.folder(taken.id) / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"backup"', b'"safety"'))
    assert "signature" in words(verify(place, taken.id))


def test_a_key_that_does_not_fit_is_not_verified_deeper_and_never_failed(place: Any, taken: Any) -> None:
    fitting = list(place.keys)
    place.keys[:] = [place.seal.new_identity()[0]]
    found = verify(place, taken.id)
    assert (found.result, found.depth, found.failures) == (Trust.NOT_VERIFIED, 1, [])
    assert "could not be verified deeper" in found.words and taken.recipients[0] in found.words
    record(place, found)
    assert newest_restorable(place).id == taken.id, "nothing is known against it"
    place.keys[:] = fitting
    record(place, verify(place, taken.id))
    assert [entry.verified.result for entry in entries(place) if entry.verified] == [Trust.VERIFIED]


@pytest.mark.parametrize("account", [{"password": "text:another"}, {"username": "ghost", "password": "text:another"}])
def test_an_account_that_was_changed_since_condemns_no_snapshot_that_it_once_opened(
    place: Any, run: Run, account: Any
) -> None:
    taken = run(take(place)).snapshot
    config = place.settings
    place.manage(**account)
    found = verify(place, taken.id)
    assert (found.proven, found.shut_out, found.way_on[:31]) == (False, True, "give `manager.username` and `ma")
    record(place, found)
    (entry,) = entries(place)
    assert (entry.offered, good(entry), entry.verified and entry.verified.level) == (True, True, 2)
    assert entry.verified and entry.seen(3) == entry.verified.at, "told again when that is stale, not each night"
    place.settings = config
    record(place, verify(place, taken.id))
    assert [one.verified.level for one in entries(place) if one.verified] == [3]


def test_a_password_that_opens_no_administrator_fails_where_the_rule_is_proven(place: Any, taken: Any) -> None:
    place.manage(username="admin", password="text:another")
    assert "does not open admin" in words(verify(place, taken.id))
    place.manage(username="jdoe", password="text:another")
    assert "jdoe is not an administrator" in words(verify(place, taken.id))
    place.manage(username="ghost", password="text:another")
    assert "ghost is not in this snapshot" in words(verify(place, taken.id))


def test_a_configured_password_that_never_opened_anything_is_recorded_as_a_failure_which_a_typed_one_is_not(
    place: Any, taken: Any
) -> None:
    for path in (place.root / "prod/records").iterdir():
        path.unlink()
    place.secrets.resolve = lambda _: Secret("another")
    before = list(read_records(place))
    place.manage(password="prompt:")
    with pytest.raises(Mistyped, match="the password that was typed does not open admin"):
        record(place, verify(place, taken.id))
    assert list(read_records(place)) == before
    place.manage(password="file:password")
    assert record(place, verify(place, taken.id))
    assert [entry.verified.result for entry in entries(place) if entry.verified] == [Trust.FAILED]


def test_a_password_is_could_not_tell_where_the_rule_is_not_proven(
    place_of: Callable[[bytes, str], Any], recording: Callable[[str], Path], run: Run
) -> None:
    place = place_of(recording("example").read_bytes(), "not-the-hashed-one")
    snapshot = run(take(place)).snapshot
    found = verify(place, snapshot.id)
    assert found.result is Trust.VERIFIED
    assert [finding.passed for finding in found.findings if finding.rule == "login"] == [None]


def test_the_date_of_a_licence_is_noted_and_never_fails_a_verification(place: Any, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "license.txt"
    path.write_text(_LICENSE.format(day="2026-11-20"))
    place.manage(license=path)
    taken = run(take(place)).snapshot
    found = verify(place, taken.id)
    assert found.result is Trust.VERIFIED
    assert [(one.passed, one.words) for one in found.findings if one.rule == "license"] == [
        (None, "the licence expired on 2026-11-20")
    ]
    path.write_text(_LICENSE.format(day="2026-11-22"))
    taken = run(take(place)).snapshot
    assert [one.passed for one in verify(place, taken.id).findings if one.rule == "license"] == [True]


def test_a_snapshot_from_the_future_fails_and_no_clock_that_is_behind_brands_it(place: Any, taken: Any) -> None:
    place.clock.time -= timedelta(hours=1)
    found = verify(place, taken.id)
    assert "in the future" in words(found) and "clock" in found.way_on
    assert record(place, found) == ""
    place.clock.time += timedelta(hours=2)
    assert newest_restorable(place).id == taken.id


def test_a_failed_snapshot_is_no_longer_offered(place: Any, taken: Any) -> None:
    assert newest_restorable(place).id == taken.id
    part = place.folder(taken.id) / DEPLOYMENT
    part.write_bytes(part.read_bytes()[:-1])
    place.clock.sleep(60)
    record(place, verify(place, taken.id))
    with pytest.raises(Refused, match="no restorable snapshot"):
        newest_restorable(place)


def test_the_catalogue_tells_the_latest_verification_and_ignores_forged_records(place: Any, taken: Any) -> None:
    place.clock.sleep(3600)
    name = record(place, verify(place, taken.id, 1))
    (entry,) = entries(place)
    assert entry.verified is not None
    assert (entry.verified.level, entry.verified.at) == (1, place.clock.time)
    forged = place.root / name
    forged.write_bytes(forged.read_bytes().replace(b'"verified"', b'"failed"'))
    (entry,) = entries(place)
    assert entry.verified is not None
    assert entry.verified.level == 3


def test_a_snapshot_is_found_by_the_beginning_of_its_id(place: Any, taken: Any, run: Run) -> None:
    assert find(place, taken.id[:12]).id == taken.id
    place.clock.sleep(60)
    run(take(place))
    with pytest.raises(UsageError, match="2 snapshots begin"):
        find(place, taken.id[:8])
    with pytest.raises(UsageError, match="no snapshot"):
        find(place, "1999")


def test_the_manifest_accepts_more_and_refuses_less(place: Any, taken: Any) -> None:
    content = json.loads((place.folder(taken.id) / "manifest.json").read_bytes())
    assert decode(json.dumps({**content, "later": 1}).encode()) == taken
    chance = random.Random(7)
    for key in ("format", "id", "site", "taken_at", "purpose", "restorable", "parts", "versions", "judgement"):
        with pytest.raises(WorkFailed, match="manifest is damaged"):
            decode(json.dumps({**content, key: chance.random()}).encode())
        with pytest.raises(WorkFailed, match="manifest is damaged"):
            decode(json.dumps({name: value for name, value in content.items() if name != key}).encode())


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", ".hidden", "a/../b", "a//b", ""])
def test_a_part_cannot_lie_outside_its_folder(place: Any, taken: Any, name: str) -> None:
    content = json.loads((place.folder(taken.id) / "manifest.json").read_bytes())
    content["parts"][0]["name"] = name
    with pytest.raises(WorkFailed):
        decode(json.dumps(content).encode())


def test_a_store_that_hides_the_newest_snapshot_is_found_out(place: Any, taken: Any, run: Run) -> None:
    place.clock.time += timedelta(days=1)
    newest = run(take(place)).snapshot
    honest = place.store
    place.store = liar = Liar(honest, lambda *_: None)
    liar.hidden.add(newest.id)
    with pytest.raises(Refused, match=f"{newest.id}.*not shown there any more") as caught:
        newest_restorable(place)
    assert taken.id in " ".join(caught.value.detail)
    assert find(place, taken.id) == taken, "whoever names it may have it"
    place.store = honest
    assert newest_restorable(place) == newest


def redact(item: dict[str, Any]) -> None:
    if item.get("sensitive") is True:
        item["value"] = "REDACTED"


def assert_missed(place: Any, hidden: str) -> None:
    """Assert that no older one is offered where the store hides a snapshot."""
    place.store = liar = Liar(place.store, lambda *_: None)
    liar.hidden.add(hidden)
    with pytest.raises(Refused, match=f"{hidden}.*not shown there any more"):
        newest_restorable(place)


def test_a_store_that_hides_the_newest_restorable_one_below_a_newer_one_is_found_out(
    place: Any, taken: Any, run: Run, spoiled: Callable[..., bytes]
) -> None:
    place.clock.time += timedelta(days=1)
    newest = run(take(place)).snapshot
    place.clock.time += timedelta(days=1)
    place.manager.content = spoiled(EXAMPLE, redact)
    audit_only = run(take(place)).snapshot
    assert not audit_only.restorable
    assert newest_restorable(place) == newest
    assert_missed(place, newest.id)


def test_what_somebody_verifies_by_hand_is_missed_where_the_store_hides_it(place: Any, taken: Any, run: Run) -> None:
    place.clock.time += timedelta(days=1)
    newest = run(take(place)).snapshot
    (place.state / "seen.json").unlink()  # as on a machine that takes no backups
    record(place, verify(place, newest.id))
    assert_missed(place, newest.id)


def test_what_an_earlier_version_has_seen_is_missed_too(place: Any, taken: Any, run: Run) -> None:
    place.clock.time += timedelta(days=1)
    newest = run(take(place)).snapshot
    (place.state / "seen.json").write_text(json.dumps({place.store.location: newest.id}))
    assert_missed(place, newest.id)


def test_a_store_that_spoils_the_newest_manifest_is_found_out(place: Any, taken: Any, run: Run) -> None:
    place.clock.time += timedelta(days=1)
    newest = run(take(place)).snapshot
    path = place.folder(newest.id) / MANIFEST
    path.write_bytes(path.read_bytes().replace(b'"site"', b'"sjte"'))
    with pytest.raises(Refused, match="not to be believed any more") as caught:
        newest_restorable(place)
    assert "prune --damaged" in str(caught.value.hint) and "--rebuild" not in str(caught.value.hint)


def test_a_snapshot_that_was_pruned_is_not_missed(place: Any, taken: Any, run: Run) -> None:
    place.clock.time += timedelta(days=1)
    newest = run(take(place)).snapshot
    remove(place, newest.id, ["by hand"])
    assert newest_restorable(place) == taken


def test_a_damaged_note_of_what_was_seen_is_an_error_with_a_way_out(place: Any, taken: Any) -> None:
    for content in ("", "{", "[]", '{"store": 1}', '{"store": "the newest"}'):
        (place.state / "seen.json").write_text(content)
        with pytest.raises(Invalid, match="is damaged") as told:
            newest_restorable(place)
        assert told.value.detail
    (place.state / "seen.json").unlink()
    assert newest_restorable(place) == taken


def test_a_backup_that_fails_its_own_verification_is_no_success(place: Any, run: Run) -> None:
    """Its bytes were read back as written, and are others when it is judged."""
    place.store = Liar(place.store, lambda name, times: b"rotten" if DEPLOYMENT in name and times > 2 else None)
    with pytest.raises(WorkFailed, match=r"must not be relied on: deployment.* is not what was stored"):
        run(take(place))
    (entry,) = entries(place)
    assert not entry.restorable
    assert entry.verified is not None and entry.verified.result is Trust.FAILED


def test_a_new_snapshot_that_fails_for_another_reason_than_its_bytes_is_no_success(
    place: Any, taken: Any, run: Run
) -> None:
    for path in (place.root / "prod/records").iterdir():
        path.unlink()
    place.manage(password="text:another")
    with pytest.raises(WorkFailed, match="must not be relied on: the configured password does not open admin"):
        run(prove_new(place, taken, opening=True))
    (entry,) = entries(place)
    assert not entry.restorable
    assert entry.verified is not None and entry.verified.words.startswith("failed, level 2 of 3")


def test_files_of_the_manager_that_are_others_than_its_manifest_says_are_damage(place: Any, taken: Any) -> None:
    content = encode(replace(taken, manager_files=("/etc/another",)))
    (place.folder(taken.id) / MANIFEST).write_bytes(content)
    (place.folder(taken.id) / SIGNATURE).write_bytes(place.sign.sign(content))
    assert "it holds other files than the manifest lists" in words(verify(place, taken.id))


def test_a_password_that_cannot_be_read_says_nothing_of_a_snapshot(place: Any, taken: Any) -> None:
    place.manage(password="env:UNSET")
    with pytest.raises(Invalid, match="cannot resolve env:UNSET"):
        verify(place, taken.id)
    assert verify(place, taken.id, 2).result is Trust.VERIFIED
    identities, place.keys = place.keys, []
    assert verify(place, taken.id).result is Trust.VERIFIED  # by the judgement of its day, which needs none
    place.keys = identities
    (place.folder(taken.id) / DEPLOYMENT).write_bytes(b"rotten")
    assert "is not what was stored" in words(verify(place, taken.id))


@pytest.mark.parametrize("size", [1 << 13, 1 << 24], ids=["as it is written", "at its end"])
def test_a_full_disk_of_this_machine_says_nothing_of_a_snapshot(
    place: Any, taken: Any, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("maint.snapshots.parts.IN_MEMORY", 0)
    monkeypatch.setattr("maint.files.spool", lambda _: Path("/dev/full").open("r+b", buffering=size))  # noqa: SIM115
    with pytest.raises(NotWritten, match=r"the private file in .* No space left"):
        verify(place, taken.id)
    with pytest.raises(NotWritten, match=r"the private file in .* No space left"):
        verdict_of(place, taken)
    (entry,) = entries(place)
    assert entry.offered


def test_latest_is_the_newest_backup_however_its_manifest_looks_and_no_safety_copy(
    place: Any, taken: Any, run: Run
) -> None:
    place.clock.time += timedelta(days=1)
    safety = run(take(place, purpose=Purpose.SAFETY)).snapshot
    assert find(place, "latest") == taken
    assert [one.drawback for one in entries(place) if one.id == safety.id] == ["a safety copy"]
    remove(place, taken.id, ["by hand"])
    assert find(place, "latest") == safety
    remove(place, safety.id, ["by hand"])
    with pytest.raises(Refused, match=r"no snapshot of prod in .*/store yet") as refused:
        find(place, "latest")
    assert refused.value.exit_code == 5


def test_a_manifest_that_lists_a_part_twice_is_damaged(place: Any, taken: Any) -> None:
    content = json.loads((place.folder(taken.id) / MANIFEST).read_bytes())
    content["parts"].append(content["parts"][0])
    with pytest.raises(WorkFailed, match="listed twice"):
        decode(json.dumps(content).encode())
