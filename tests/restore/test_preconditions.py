"""The ladder before a restore: each rung refuses by itself, and says what to do."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from maint.deployment.judge import DeploymentSummary
from maint.errors import Refused
from maint.model.snapshot import Judgement, Purpose, Redaction, RuleResult, Snapshot
from maint.restore.preconditions import TargetServer, insist, ready
from maint.snapshots.records import KEY, Verification

NOW = datetime(2026, 11, 21, tzinfo=UTC)
GUID = "/etc/cloudera-scm-server/uuid"
CERTMANAGER = "/var/lib/cloudera-scm-server/certmanager"
KEYSTORE = "/keys/host.jks"

SEEN: dict[str, Any] = {
    GUID: {"present": True, "value": "g-1"},
    CERTMANAGER: {"present": True},
    KEYSTORE: {"present": True},
}
SNAPSHOT = Snapshot(
    id="20261121T021500.123Z-4f3a",
    site="prod",
    taken_at=NOW,
    purpose=Purpose.BACKUP,
    restorable=True,
    parts=(),
    versions={"manager": "7.6.5", "api": "v49", "tool": "0.1.0"},
    judgement=Judgement(Redaction.NONE, flagged=True, hash_rule=True, counts={}, findings=()),
    host_files=SEEN,
)
OUTLINE = DeploymentSummary(hosts=5, settings={"WEB_TLS": "true", "AUTO_TLS_TYPE": "ALL", "KEYSTORE_PATH": KEYSTORE})
SOUND = Verification(SNAPSHOT.id, level=3, depth=3, parts_checked=3, parts=3, at=NOW)
SERVER = TargetServer(release="7.6.5", api=49, fresh=True, licensed=True, host_files=SEEN)


def broken(
    snapshot: Snapshot = SNAPSHOT,
    summary: DeploymentSummary = OUTLINE,
    verification: Verification = SOUND,
    server: TargetServer = SERVER,
) -> dict[str, str]:
    findings = ready(snapshot, summary, verification, server)
    return {finding.rule: finding.words for finding in findings if finding.passed is False}


def without(path: str) -> dict[str, Any]:
    return {**SEEN, path: {"present": False}}


def test_a_sound_snapshot_on_an_empty_server_of_its_release_is_ready() -> None:
    assert broken() == {}
    insist(SNAPSHOT, ready(SNAPSHOT, OUTLINE, SOUND, SERVER))


def test_a_snapshot_whose_key_is_not_at_hand_asks_for_the_key_and_not_for_another_snapshot() -> None:
    locked = replace(SOUND, depth=1, findings=[RuleResult(KEY, None, "it is encrypted for age1abc")])
    assert "encrypted for age1abc; bring the private key of one of those" in broken(verification=locked)["verified"]
    assert "choose a sound one" in broken(verification=replace(SOUND, depth=2))["verified"]


@pytest.mark.parametrize(
    ("change", "rule", "next_step"),
    [
        ({"release": "7.7.1"}, "release", "install 7.6.5"),
        ({"api": 45}, "api", "needs v49"),
        ({"licensed": False}, "licensed", "maint manager license"),
        ({"commands": ["Restart"]}, "commands", "wait"),
        ({"host_files": without(GUID)}, "guid", "write the one line g-1"),
        ({"host_files": {**SEEN, GUID: {"present": True, "value": "g-2"}}}, "guid", "write g-1 there"),
        ({"host_files": without(CERTMANAGER)}, "certmanager", "put it back"),
        ({"host_files": without(KEYSTORE)}, "tls files", KEYSTORE),
    ],
)
def test_each_rung_refuses_by_itself(change: dict[str, Any], rule: str, next_step: str) -> None:
    found = broken(server=replace(SERVER, **change))
    assert list(found) == [rule]
    assert next_step in found[rule]


def test_what_is_doubted_of_a_virtual_cluster_does_not_keep_the_manager_from_coming_back() -> None:
    assert broken(verification=replace(SOUND, doubts=("virtual cluster vc1: no jobs are to be seen",))) == {}


def test_a_redacted_or_unsound_snapshot_is_refused() -> None:
    redacted = replace(SNAPSHOT, restorable=False, judgement=replace(SNAPSHOT.judgement, redaction=Redaction.REDACTED))
    assert "--open-window" in broken(snapshot=redacted)["redaction"]
    assert "restorable" in broken(snapshot=replace(SNAPSHOT, restorable=False))
    assert "verified" in broken(verification=replace(SOUND, depth=2))
    login = RuleResult("login", False, "the configured password does not open admin of this snapshot")
    assert {"verified", "login"} == set(broken(verification=replace(SOUND, findings=(login,))))


def test_what_could_not_be_told_is_said_and_refuses_nothing() -> None:
    login = RuleResult("login", None, "cannot be told")
    findings = ready(SNAPSHOT, OUTLINE, replace(SOUND, findings=(login,)), replace(SERVER, host_files=None, unseen="x"))
    assert {finding.rule for finding in findings if finding.passed is None} == {"login", "host files"}
    insist(SNAPSHOT, findings)


def test_a_guid_nobody_noted_is_needed_by_a_new_database_and_only_said_on_the_old_one() -> None:
    snapshot = replace(SNAPSHOT, host_files={})
    assert "CM_VERSION.GUID" in broken(snapshot=snapshot, server=replace(SERVER, host_files=without(GUID)))["guid"]
    assert broken(snapshot=snapshot, server=replace(SERVER, fresh=False, host_files=without(GUID))) == {}


def test_a_snapshot_without_hosts_and_tls_needs_nothing_on_the_host() -> None:
    assert broken(summary=DeploymentSummary(), server=replace(SERVER, host_files={})) == {}


@pytest.mark.parametrize(
    ("path", "rule", "end"),
    [(KEYSTORE, "tls files", ""), (CERTMANAGER, "certmanager", ", although Auto-TLS is on")],
)
def test_a_file_that_was_missing_then_as_now_is_said_and_refuses_nothing(path: str, rule: str, end: str) -> None:
    snapshot, server = replace(SNAPSHOT, host_files=without(path)), replace(SERVER, host_files=without(path))
    untold = {one.rule: one.words for one in ready(snapshot, OUTLINE, SOUND, server) if one.passed is None}
    assert untold == {rule: f"there is no {path}, then as now{end}"}
    assert broken(snapshot=snapshot, server=server) == {}


def test_the_refusal_names_every_broken_rung() -> None:
    server = replace(SERVER, release="7.7.1", licensed=False)
    with pytest.raises(Refused) as caught:
        insist(SNAPSHOT, ready(SNAPSHOT, OUTLINE, SOUND, server))
    assert [line.split(":")[0] for line in caught.value.detail] == ["release", "licensed", "exit code 5"]


def test_a_part_that_is_added_leaves_the_host_alone() -> None:
    server = replace(SERVER, host_files={})
    rungs = {finding.rule for finding in ready(SNAPSHOT, OUTLINE, SOUND, server, whole=False)}
    assert rungs.isdisjoint({"guid", "certmanager", "tls files", "host files"})
    insist(SNAPSHOT, ready(SNAPSHOT, OUTLINE, SOUND, server, whole=False))
