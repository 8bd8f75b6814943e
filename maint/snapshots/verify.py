"""Verify a snapshot to a level, and never say more than was seen.

1: the stored bytes of every part against the manifest, which the site's key has signed.
2: everything decrypts, decompresses and parses, and holds what the manifest counts.
3: the rules of a restore hold, judged again; the configured password opens an administrator; the licence is in date.

Without a private key, levels 2 and 3 rest on the judgement made on the stream while the snapshot was taken: it stands
in the signed manifest, and level 1 proves that these are still the bytes that were read back then.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from maint.deployment.judge import Verdict
from maint.errors import Invalid, WorkFailed
from maint.model.secret import Secret
from maint.model.snapshot import Finding, Part, Redaction, Snapshot
from maint.ports import Sight, Site
from maint.snapshots.catalogue import files, load
from maint.snapshots.contents import Content, content_of, failed, password_of
from maint.snapshots.extra_parts import truststore
from maint.snapshots.ids import time_of
from maint.snapshots.license import check
from maint.snapshots.manifest import MANIFEST, SIGNATURE
from maint.snapshots.parts import DEPLOYMENT, TRUSTSTORE, drained
from maint.snapshots.records import Record, write_record
from maint.snapshots.verification import DEPTHS, Verification
from maint.snapshots.virtual_clusters.verify import doubts, opened_clusters, stored_files, whole

SKEW = timedelta(minutes=5)  # how far clocks may disagree before a snapshot counts as coming from the future


def verify(
    sight: Sight, snapshot_id: str, level: int = 3, *, opening: bool = True, reading: bool = True
) -> Verification:
    """Verify a snapshot and return what was found; see the module for the levels.

    Args:
        sight: the site; its private keys decide how levels 2 and 3 are told.
        snapshot_id: the whole id.
        level: 1, 2 or 3.
        opening: whether to open the parts where a private key is at hand; needless just after a capture, which has
            read them back.
        reading: whether to read every file of virtual clusters; needless just after a capture: their sizes will do.

    Raises:
        Invalid: there is no such level here.
    """
    if level not in DEPTHS:
        raise Invalid(f"there is no level {level} here", hint="1 to 3; level 4 is a drill")
    now = sight.clock.now()
    empty = Verification(snapshot_id, level, 0, 0, 0, now)
    try:
        snapshot = load(sight, snapshot_id)
    except WorkFailed as failure:
        return replace(empty, findings=(failed("manifest", failure),))
    bytes_found = [*_stored_bytes(sight, snapshot), *stored_files(sight, snapshot, reading=reading)]
    sound = [finding for finding in bytes_found if finding.rule == "part" and finding.passed]
    seen = replace(empty, parts=len(snapshot.parts), parts_checked=len(sound), findings=bytes_found)
    seen = replace(seen, doubts=doubts(snapshot))
    if any(finding.passed is False for finding in bytes_found):
        return seen
    if level == 1:
        return replace(seen, depth=1)
    return _deeper(sight, snapshot, seen, sight.identities() if opening else ())


def record(site: Site, verification: Verification) -> str:
    """Keep a verification beside the snapshot, signed; return the record's name."""
    entry = Record("verify", verification.snapshot, site.settings.name, verification.at, verification.to_json())
    return write_record(site, entry)


def _deeper(sight: Sight, snapshot: Snapshot, seen: Verification, identities: Sequence[Secret]) -> Verification:
    has_deployment = any(part.name == DEPLOYMENT for part in snapshot.parts)
    content = content_of(sight, snapshot, identities) if identities else Content(())
    clusters = list(opened_clusters(sight, snapshot)) if identities else []
    inside = [*content.findings, *clusters]
    findings = [*seen.findings, *inside]
    depth = 1 if any(finding.passed is False for finding in inside) else 2
    if depth == 2 and seen.level == 3 and not has_deployment:
        rules = list(whole(snapshot))
        findings += rules
        depth += 1 if rules and all(rule.passed for rule in rules) else 0
    # Where the document could be read, its own faults are told too: they say more than that it is another one.
    if (depth == 2 or content.verdict) and seen.level == 3 and has_deployment:
        rules = [*_rules(sight, snapshot, content), _future(sight, snapshot), _license(sight, content)]
        findings += rules
        told = any(finding.rule == "redaction" and finding.passed for finding in rules)
        depth += 1 if depth == 2 and told and not any(finding.passed is False for finding in rules) else 0
    return replace(seen, depth=depth, on_capture=not identities, findings=findings)


def _stored_bytes(sight: Sight, snapshot: Snapshot) -> Iterator[Finding]:
    """Level 1: every part is there with its bytes, and nothing else is."""
    there = files(sight, snapshot.id)
    if not snapshot.parts:
        yield Finding("parts", False, "the manifest lists no parts")
    expected = {part.name for part in snapshot.parts} | {MANIFEST, SIGNATURE}
    for name in sorted(there - expected):
        yield Finding("parts", False, f"{name} is not in the manifest")
    for part in snapshot.parts:
        yield _stored_part(sight, snapshot, part)


def _stored_part(sight: Sight, snapshot: Snapshot, part: Part) -> Finding:
    try:
        with sight.store.open(f"{snapshot.site}/{snapshot.id}/{part.name}") as file:
            found = drained(file.read)
    except FileNotFoundError:
        return Finding("part", False, f"{part.name} is missing")
    except (OSError, WorkFailed) as problem:
        return Finding("part", False, f"{part.name} cannot be read: {problem}")
    if (found.bytes, found.sha256) != (part.bytes, part.sha256):
        words = f"{part.bytes} bytes expected, {found.bytes} found" if found.bytes != part.bytes else "other bytes"
        return Finding("part", False, f"{part.name} is not what was stored: {words}")
    return Finding("part", True, f"{part.name}: {part.bytes} bytes as stored")


def _rules(sight: Sight, snapshot: Snapshot, content: Content) -> Iterator[Finding]:
    judgement = content.verdict.judgement if content.verdict else snapshot.judgement
    yield from judgement.findings
    told = truststore(content.verdict.summary, snapshot.has(TRUSTSTORE)) if content.verdict else None
    yield from [told] if told else []
    if content.verdict:
        yield release_of(content.verdict, snapshot.versions.get("manager", ""))
    yield password_of(sight)[1]
    if judgement.redaction is not Redaction.REDACTED:
        yield login(sight, snapshot, content.verdict)


def release_of(verdict: Verdict, told: str) -> Finding:
    """Hold the release that the document names against the one that its server told, which the manifest says."""
    found = verdict.summary.release
    if found == told:
        return Finding("release", True, f"taken from release {told}, as the manifest says")
    return Finding("release", False, f"the document is of release {found or '(none)'}, the manifest says {told}")


def login(sight: Sight, snapshot: Snapshot, verdict: Verdict | None) -> Finding:
    """Say whether the configured password opens an administrator of the snapshot.

    Only where the login used for the capture showed that this server stores passwords by the rule of contract
    section 7.3 is a mismatch a failure; elsewhere nothing can be told beforehand.
    """
    account = sight.settings.manager.login.username
    if verdict is None:
        return Finding("login", None, f"whether {account} can log in was not asked: nothing was opened")
    if account not in verdict.summary.users:
        return Finding("login", False, f"the configured account {account} is not in this snapshot")
    if account not in verdict.summary.administrators:
        return Finding("login", False, f"the configured account {account} is no administrator in this snapshot")
    if verdict.judgement.hash_rule:
        return Finding("login", True, f"the configured password opens {account}, an administrator")
    if snapshot.judgement.hash_rule:
        return Finding("login", False, f"the configured password does not open {account} of this snapshot")
    return Finding("login", None, f"whether the configured password opens {account} cannot be told beforehand")


def _future(sight: Sight, snapshot: Snapshot) -> Finding:
    taken = max(snapshot.taken_at, time_of(snapshot.id))
    if taken - sight.clock.now() > SKEW:
        return Finding("time", False, f"it says that it was taken in the future: {taken:%Y-%m-%d %H:%M} UTC")
    return Finding("time", True, f"taken {snapshot.taken_at:%Y-%m-%d %H:%M} UTC")


def _license(sight: Sight, content: Content) -> Finding:
    """Judge the licence: the snapshot's own part, else the file that the config names."""
    now, path = sight.clock.now(), sight.settings.manager.license
    if content.license is not None:
        return check(content.license, now)
    if path is None:
        return Finding("license", None, "no licence in the snapshot, and none configured")
    try:
        return check(path.read_bytes(), now)
    except OSError as problem:
        return Finding("license", None, f"{path} cannot be read: {problem.strerror}")
