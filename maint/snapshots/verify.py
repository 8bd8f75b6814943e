"""Verify a snapshot to a level, and never say more than was seen.

1: the stored bytes of every part against the manifest, which the site's key has signed.
2: everything decrypts, decompresses and parses, and holds what the manifest counts.
3: the rules of a restore hold, judged again; the configured password opens an administrator; the licence is in date.

Without a private key, levels 2 and 3 rest on the judgement made on the stream while the snapshot was taken: it stands
in the signed manifest, and level 1 proves that these are still the bytes that were read back then.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import BinaryIO
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from maint.deployment.json_events import BLOCK, EventParser, blocks
from maint.deployment.judge import Judge, Verdict
from maint.errors import Invalid, WorkFailed
from maint.model.secret import Secret
from maint.model.snapshot import Finding, Part, Redaction, Snapshot
from maint.ports import Sight, Site
from maint.snapshots.catalogue import files, load
from maint.snapshots.extra_parts import license_finding, truststore_finding, usable
from maint.snapshots.manifest import MANIFEST, SIGNATURE, time_of
from maint.snapshots.parts import (
    DEPLOYMENT,
    LICENSE,
    MANAGER_FILES,
    REDACTED_COPY,
    TRUSTSTORE,
    Tally,
    drained,
    from_bytes,
    open_deployment,
    paths,
    stored,
)
from maint.snapshots.records import DEPTHS, Record, Verification, write_record
from maint.snapshots.virtual_clusters.verify import doubts, opened_clusters, stored_files, whole

SKEW = timedelta(minutes=5)  # how far clocks may disagree before a snapshot counts as coming from the future


class Content(msgspec.Struct, frozen=True):
    """What was found inside the parts."""

    findings: Sequence[Finding]
    verdict: Verdict | None = None
    license: bytes | None = None


class _Asked(msgspec.Struct, frozen=True):
    """All that decides what is found: the manifest with its digests, the keys, the account and its password."""

    snapshot: Snapshot
    identities: Sequence[Secret]
    account: str
    password: Secret | None


_SEEN: WeakKeyDictionary[Sight, tuple[_Asked, Content]] = WeakKeyDictionary()


def content_of(sight: Sight, snapshot: Snapshot, identities: Sequence[Secret]) -> Content:
    """Return what the parts of a snapshot hold.

    Args:
        sight: the site.
        snapshot: its manifest as it is now, believed; the caller has just seen that the store holds every part of it,
            byte for byte (level 1).
        identities: private keys.
    """
    asked = _Asked(snapshot, tuple(identities), sight.settings.manager.login.username, password_of(sight)[0])
    if (seen := _SEEN.get(sight)) and seen[0] == asked:
        return seen[1]
    content = _open(sight, asked)
    if all(finding.passed for finding in content.findings):
        _SEEN[sight] = asked, content
    return content


def verdict_of(sight: Sight, snapshot: Snapshot) -> Verdict:
    """Return the verdict on a snapshot's document.

    Where this process has judged it before, the stored bytes are read again, and only opened where they are others.

    Raises:
        Refused: no private key is at hand.
        WorkFailed: the part is damaged, or no deployment.
    """
    seen = _SEEN.get(sight)
    if seen and (seen[0].snapshot, seen[0].identities) == (snapshot, tuple(sight.identities())):
        verdict = seen[1].verdict
        if verdict and _stands(sight, snapshot, snapshot.part(DEPLOYMENT)):
            return verdict
    judge = Judge()
    with open_deployment(sight, snapshot) as stream:
        for block in blocks(stream.read):
            judge.feed(block)
    return judge.close()


def password_of(sight: Sight) -> tuple[Secret | None, Finding]:
    """Resolve the configured password, and say whether that was possible."""
    reference = sight.settings.manager.login.password
    try:
        return sight.secrets.resolve(reference), Finding("secrets", True, "the configured password can be read")
    except Invalid as failure:
        return None, Finding("secrets", False, f"the configured password cannot be read: {failure.message}")


def failed_finding(rule: str, failure: Exception, name: str = "") -> Finding:
    """Return a failure as a finding."""
    words = failure.message if isinstance(failure, WorkFailed | Invalid) else str(failure)
    return Finding(rule, False, f"{name}: {words}" if name else words)


def _stands(sight: Sight, snapshot: Snapshot, part: Part) -> bool:
    try:
        with sight.store.open(f"{snapshot.site}/{snapshot.id}/{part.name}") as file:
            found = drained(file.read)
    except (OSError, WorkFailed):  # whoever opens it says more
        return False
    return (found.bytes, found.sha256) == (part.bytes, part.sha256)


def _open(sight: Sight, asked: _Asked) -> Content:
    """Level 2: open every part, and parse what is JSON."""
    content = Content(())
    for part in asked.snapshot.parts:
        try:
            content = _open_part(sight, asked, part, content)
        except (OSError, WorkFailed, Invalid) as failure:
            content = replace(content, findings=(*content.findings, failed_finding("content", failure, part.name)))
    return content


def _open_part(sight: Sight, asked: _Asked, part: Part, content: Content) -> Content:
    snapshot, keys, seal = asked.snapshot, asked.identities, sight.seal
    with _as_stored(sight, snapshot, part) as file:
        if part.name == DEPLOYMENT:
            judge = Judge(asked.account, asked.password)
            with seal.unwrap(file, keys) as stream:
                _same(part, _fed(Tally(stream.read), judge))
            verdict = judge.close()
            return replace(content, verdict=verdict, findings=(*content.findings, _counts(snapshot, verdict)))
        if part.name in (LICENSE, TRUSTSTORE):
            with seal.decrypt(file, keys) as stream:
                text = stream.read()
            _same(part, drained(from_bytes(text)))
            if part.name == LICENSE:
                return replace(content, license=text)
            if not usable(text):
                raise WorkFailed("it holds no password")
        elif part.name == REDACTED_COPY:
            with seal.decompress(file) as stream:
                _same(part, _parsed(Tally(stream.read)))
        elif part.name == MANAGER_FILES:
            with seal.unwrap(file, keys) as stream:
                _listed(snapshot, part, Tally(stream.read))
        elif part.name.endswith(".age"):
            with (seal.unwrap if part.name.endswith(".zst.age") else seal.decrypt)(file, keys) as stream:
                _same(part, drained(stream.read))
    return content


@contextmanager
def _as_stored(sight: Sight, snapshot: Snapshot, part: Part) -> Iterator[BinaryIO]:
    """Give a part's file, and insist that all that was read of it is what the manifest names."""
    with stored(sight.store, f"{snapshot.site}/{snapshot.id}/{part.name}") as (file, found):
        yield file
    if found.sha256 != part.sha256:
        raise WorkFailed("its bytes became others while they were read")


def _listed(snapshot: Snapshot, part: Part, found: Tally) -> None:
    """Read the manager's files, and hold the paths against the manifest."""
    listed = paths(found.read)
    _same(part, found)
    if listed != tuple(snapshot.manager_files):
        raise WorkFailed("it holds other files than the manifest lists")


def _fed(tally: Tally, judge: Judge) -> Tally:
    while block := tally.read(BLOCK):
        judge.feed(block)
    return tally


def _parsed(tally: Tally) -> Tally:
    parser = EventParser(lambda _: None)
    while block := tally.read(BLOCK):
        parser.feed(block)
    parser.close()
    return tally


def _same(part: Part, found: Tally) -> None:
    if (found.bytes, found.sha256) != (part.content_bytes, part.content_sha256):
        raise WorkFailed("its content is not what was captured")


def _counts(snapshot: Snapshot, verdict: Verdict) -> Finding:
    expected, found = snapshot.judgement.counts, verdict.judgement.counts
    differing = [name for name, count in expected.items() if found.get(name) != count]
    wrong = [f"{found.get(name)} {name}, {expected[name]} recorded" for name in differing]
    words = "; ".join(wrong) or f"{found['hosts']} hosts, {found['roles']} roles, {found['items']} settings as recorded"
    return Finding("counts", not wrong, words)


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
        return replace(empty, findings=(failed_finding("manifest", failure),))
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
    told = truststore_finding(content.verdict.summary, snapshot.has(TRUSTSTORE)) if content.verdict else None
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
        return license_finding(content.license, now)
    if path is None:
        return Finding("license", None, "no licence in the snapshot, and none configured")
    try:
        return license_finding(path.read_bytes(), now)
    except OSError as problem:
        return Finding("license", None, f"{path} cannot be read: {problem.strerror}")
