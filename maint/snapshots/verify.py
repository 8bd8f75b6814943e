"""Verify a snapshot to a level, and never say more than was seen.

1: the stored bytes of every part against the signed manifest. 2: everything opens; the deployment parses and holds
what is counted, its copy is the same without a secret. 3: the rules of a restore hold; the configured password opens an
administrator. Without a key that fits, 2 and 3 rest on the judgement made on capture: it stands in the manifest, and 1
proves the same bytes.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from weakref import WeakKeyDictionary

import msgspec
from msgspec.structs import replace

from maint.config.secrets import is_typed
from maint.deployment.judge import Judge, JudgedDocument
from maint.deployment.reader import blocks
from maint.errors import Invalid, Mistyped, NoKeyFits, NotWritten, StoreFailed, WorkFailed
from maint.model.formatting import show_counts, tell_time
from maint.model.secret import Secret
from maint.model.snapshot import Part, Purpose, Redaction, RuleResult, Snapshot
from maint.ports import Sight, Site
from maint.snapshots import parts
from maint.snapshots.catalogue import files, last_proof, load, refuse_removed, usual_level
from maint.snapshots.extra_parts import license_finding, truststore_finding, usable
from maint.snapshots.in_progress import MANAGER, of_cluster, remember_seen
from maint.snapshots.judge_copy import judging_copy
from maint.snapshots.manifest import MANIFEST, SIGNATURE, damaged, time_of
from maint.snapshots.records import DEPTHS, KEY, LOGIN, STRAY, TIME, Verification, write_record
from maint.snapshots.sources import read_whole
from maint.snapshots.virtual_clusters.document import without_clusters
from maint.snapshots.virtual_clusters.verify import completeness, doubts, opened_clusters, stored_files

_OTHER_PASSWORD = "the configured password does not open"
SKEW = timedelta(minutes=5)  # how far clocks may disagree before a snapshot counts as coming from the future


class _Content(msgspec.Struct, frozen=True):
    findings: Sequence[RuleResult] = ()
    verdict: JudgedDocument | None = None
    license: bytes | None = None
    clusters: Sequence[RuleResult] = ()  # of virtual clusters


class _Asked(msgspec.Struct, frozen=True):
    """All that decides what is found: the manifest with its digests, the keys, the account, its password if tried."""

    snapshot: Snapshot
    identities: Sequence[Secret]
    account: str
    password: Secret | None


# What was found well in every part, for the same bytes, keys and password: a restore asks before each of its steps.
_SEEN: WeakKeyDictionary[Sight, dict[str, tuple[_Asked, _Content]]] = WeakKeyDictionary()
_READ: WeakKeyDictionary[Sight, dict[str, tuple[Snapshot, datetime]]] = WeakKeyDictionary()  # whose files, and when


def verify(
    sight: Sight,
    snapshot_id: str,
    level: int = 3,
    *,
    opening: bool = True,
    files_read: datetime | None = None,
    read_before: bool = False,
    rebuilding: bool = False,
) -> Verification:
    """Verify a snapshot to level 1, 2 or 3 (else Invalid); the site's private keys decide how deep 2 and 3 go.

    Args:
        rebuilding: virtual clusters are looked at to level 1, and what is wrong with them is a doubt: one lost file,
            which all snapshots share, would stand in the way of the manager for ever.
        opening: open the parts where a key is at hand; needless just after a capture, which has read them back.
        files_read: since when all its files of virtual clusters are known to have been read; None: read them now.
        read_before: files of virtual clusters that this process has read and found well are not read again.

    Raises:
        Gone: it was removed meanwhile.
        Invalid, Refused: level 3 opens a deployment, and the configured password, which no other level needs, cannot
            be read, or be asked for: that says nothing of it.
        StoreFailed: its manifest, or a part that had been read before, could not be read, which says nothing of it,
            either; what could not be read in the first place is a finding that is neither well nor wrong.
        NotWritten: this machine has no room for the private file in which a part is proven; likewise.
    """
    if level not in DEPTHS:
        raise Invalid(f"there is no level {level} here", hint="1 to 3; level 4 is a drill")
    now = sight.clock.now()
    empty = Verification(snapshot_id, level, 0, 0, 0, now)
    try:
        full = load(sight, snapshot_id)
    except StoreFailed:  # which says nothing of the snapshot
        raise
    except WorkFailed as failure:
        return replace(empty, findings=(failed_finding("manifest", failure),))
    snapshot = without_clusters(full) if rebuilding else full
    if read_before and files_read is None:
        files_read = _read_at(sight, snapshot)
    bytes_found = list(_stored_bytes(sight, snapshot))
    deep = opening and level > 1 and all(finding.passed for finding in bytes_found)
    asked = _asked(sight, snapshot, sight.identities(), level) if deep else None
    of_files, clusters = _files(sight, snapshot, asked, reading=files_read is None)
    bytes_found += of_files
    beside = [*_each_part(sight, full, [part for part in full.parts if part not in snapshot.parts])]
    if rebuilding:
        beside += stored_files(sight, full, reading=files_read is None)
    sound = [finding for finding in bytes_found if finding.rule == "part" and finding.passed]
    seen = replace(
        empty,
        parts=len(snapshot.parts),
        parts_checked=len(sound),
        findings=bytes_found,
        doubts=[*doubts(full), *_strays(sight, full), *(finding.words for finding in beside if not finding.passed)],
        files_read=(files_read or now) if snapshot.objects else None,
    )
    if not all(finding.passed for finding in bytes_found):
        return _of_what_is_there(sight, seen)
    _READ.setdefault(sight, {})[snapshot_id] = snapshot, files_read or now
    if level == 1:
        return replace(seen, depth=1)
    return _of_what_is_there(sight, _deeper(sight, snapshot, seen, asked, clusters))


def _of_what_is_there(sight: Sight, judged: Verification) -> Verification:
    if judged.failures:
        refuse_removed(sight, judged.snapshot)
    return judged


def refuse_mistyped(sight: Sight, verification: Verification) -> None:
    """Raise Mistyped where nothing but a password that was typed (`prompt:`) makes a verification fail."""
    if verification.failures and all(_other_password(finding) for finding in verification.failures):
        _refuse_typed(sight, verification.snapshot)


def all_mistyped(each: Sequence[Mistyped]) -> Mistyped:
    """Return one failure for what a mistyped password does not open."""
    first, rest = each[0], ", ".join(one.of for one in each[1:])
    if rest:
        first.detail = (f"neither does it that of {rest}", *first.detail)
    return first


def _other_password(finding: RuleResult) -> bool:
    return finding.passed is False and finding.words.startswith(_OTHER_PASSWORD)


def _refuse_typed(sight: Sight, snapshot_id: str) -> None:
    account = sight.settings.manager.login
    if not is_typed(account.password):
        return
    raise Mistyped(
        f"the password that was typed does not open {account.username} of snapshot {snapshot_id}",
        of=snapshot_id,
        detail=["that says nothing of the snapshot, so nothing is recorded"],
        hint="type it again; where it was changed since, the one of that time",
    )


def record(site: Site, verification: Verification, snapshot: Snapshot | None = None) -> str:
    """Keep a verification beside the snapshot, signed, and return the record's name; "" where it says nothing of it.

    A backup that is well is remembered here, too, so that a store which does not show it any more is found out.

    Where the configured account got in once and does no more, its password has changed since: that it passes level 2 is
    kept, and that level 3 was tried, so that the same is not told each night.

    Args:
        snapshot: what was verified; read from the store where it is not at hand.

    Raises:
        Mistyped: see `refuse_mistyped`.
        StoreFailed: the store does not take the record.
        WorkFailed: nor that of a failure, which must not be lost with it.
    """
    refuse_mistyped(site, verification)
    if verification.misdated or verification.unknown_signer or (verification.unread and not verification.failures):
        return ""
    if verification.shut_out and (proof := last_proof(site, verification.snapshot)) and proof.level == 3:
        untold = [
            replace(one, passed=None, words=f"once it did, and {one.words}") if one.rule == LOGIN else one
            for one in verification.findings
        ]
        verification = replace(verification, level=2, findings=untold)
    try:
        name = write_record(site, "verify", verification.snapshot, verification.to_json(), verification.at)
    except StoreFailed as failure:
        if not verification.failures:
            raise
        raise WorkFailed(
            f"snapshot {verification.snapshot} must not be relied on, and that could not be recorded",
            detail=[*(finding.words for finding in verification.failures), failure.in_a_line],
            hint=f"once the store takes it: `maint backup verify {verification.snapshot}`",
        ) from failure
    if verification.depth and not verification.failures:
        with suppress(OSError, WorkFailed, Invalid):  # the record stands; of a damaged note the command's end tells
            _remember(site, snapshot or load(site, verification.snapshot))
    return name


def _remember(site: Site, snapshot: Snapshot) -> None:
    if snapshot.purpose is Purpose.BACKUP:
        whole = [of_cluster(one.name) for one in snapshot.virtual_clusters if not one.doubt]
        remember_seen(site, snapshot.id, *([MANAGER] if snapshot.restorable else []), *whole)


def prove_new(
    site: Site, snapshot: Snapshot, *, opening: bool = False, files_read: datetime | None = None
) -> Generator[str, None, Verification]:
    """Verify a snapshot just stored as `verify` does, keep the result and yield it in words; WorkFailed: it failed."""
    try:
        verification = verify(site, snapshot.id, usual_level(snapshot), opening=opening, files_read=files_read)
        yield verification.words
        record(site, verification, snapshot)
        unread = list(verification.unread)
    except StoreFailed as failure:
        unread = [failure.in_a_line]
    if unread:
        raise WorkFailed(  # and not StoreFailed: another one, in another store, would bear the same id
            f"snapshot {snapshot.id} is stored, and is not proven: {unread[0]}",
            detail=unread[1:],
            hint=f"once the store answers: `maint backup verify {snapshot.id}`",
        )
    if failures := verification.failures:
        broken = bool(verification.broken_bytes)
        raise WorkFailed(
            f"snapshot {snapshot.id} is stored, and must not be relied on: {failures[0].words}",
            detail=[finding.words for finding in failures[1:]],
            hint="look at the health of the store, then take the backup again"
            if broken
            else f"mend what is named, then `maint backup verify {snapshot.id}`",
        )
    return verification


def _asked(sight: Sight, snapshot: Snapshot, identities: Sequence[Secret], level: int) -> _Asked | None:
    """Return what decides, None without a key."""
    if not identities:
        return None
    login = sight.settings.manager.login
    password = sight.secrets.resolve(login.password) if level == 3 and snapshot.has(parts.DEPLOYMENT) else None
    return _Asked(snapshot, tuple(identities), login.username, password)


def insist_on_password(sight: Sight, snapshot: Snapshot | None = None) -> None:
    """Raise Invalid or Refused where the configured password, which a verification to level 3 tries, cannot be read;
    Mistyped where it was typed and does not open this snapshot.
    """
    account = sight.settings.manager.login
    password = sight.secrets.resolve(account.password)
    if snapshot is None or not is_typed(account.password):
        return
    with suppress(OSError, WorkFailed):  # which its next reader will report
        with parts.open_part(sight, snapshot, parts.DEPLOYMENT) as stream:
            verdict = Judge(account.username, password).verdict(blocks(stream.read))
        if _other_password(login(sight, snapshot, verdict)):
            _refuse_typed(sight, snapshot.id)


def _known(sight: Sight, asked: _Asked) -> _Content | None:
    seen = _SEEN.get(sight, {}).get(asked.snapshot.id)
    if not seen or asked not in (seen[0], replace(seen[0], password=None)):  # one who tries none needs none
        return None
    return seen[1]


def _read_at(sight: Sight, snapshot: Snapshot) -> datetime | None:
    read = _READ.get(sight, {}).get(snapshot.id)
    return read[1] if read and read[0] == snapshot else None


def _files(
    sight: Sight, snapshot: Snapshot, asked: _Asked | None, *, reading: bool
) -> tuple[Sequence[RuleResult], Sequence[RuleResult] | NoKeyFits]:
    """Return what is found of the stored files of virtual clusters, and in them, or that no key opens them."""
    known = _known(sight, asked) if asked else None
    inside: Sequence[RuleResult] | NoKeyFits = known.clusters if known else ()
    if asked and not known:
        try:
            return opened_clusters(sight, snapshot)
        except NoKeyFits as error:  # says nothing of the bytes
            inside = error
    return stored_files(sight, snapshot, reading=reading), inside


def _deeper(
    sight: Sight,
    snapshot: Snapshot,
    seen: Verification,
    asked: _Asked | None,
    clusters: Sequence[RuleResult] | NoKeyFits,
) -> Verification:
    has_deployment = snapshot.has(parts.DEPLOYMENT)
    try:
        content = _content_of(sight, asked, clusters) if asked else _Content()
    except NoKeyFits:  # says nothing of the snapshot
        readers = ", ".join(snapshot.recipients) or "its recipients"
        words = f"it could not be verified deeper: no private key at hand opens it, it is encrypted for {readers}"
        return replace(seen, depth=1, findings=[*seen.findings, RuleResult(KEY, None, words)])
    inside = [*content.findings, *content.clusters]
    findings = [*seen.findings, *inside]
    depth = 1 if any(finding.passed is False for finding in inside) else 2
    if depth == 2 and seen.level == 3 and not has_deployment:
        rules = list(completeness(snapshot))
        findings += rules
        depth += 1 if rules and all(rule.passed for rule in rules) else 0
    # Where the document could be read, its own faults are reported too: they say more than that it is another one.
    if (depth == 2 or content.verdict) and seen.level == 3 and has_deployment:
        rules = [*_rules(sight, snapshot, content), future(sight, snapshot)]
        findings += [*rules, *_license(sight, content)]
        hides_nothing = any(finding.rule == "redaction" and finding.passed for finding in rules)
        depth += 1 if depth == 2 and hides_nothing and not any(finding.passed is False for finding in rules) else 0
    return replace(seen, depth=depth, on_capture=asked is None, findings=findings)


def _stored_bytes(sight: Sight, snapshot: Snapshot) -> Iterator[RuleResult]:
    """Level 1: every part is there with its bytes."""
    if not snapshot.parts:
        yield RuleResult("parts", False, "the manifest lists no parts")
    yield from _each_part(sight, snapshot, snapshot.parts)


def _each_part(sight: Sight, snapshot: Snapshot, those: Iterable[Part]) -> Iterator[RuleResult]:
    for part in those:
        problem = parts.flaw(sight, f"{snapshot.site}/{snapshot.id}/{part.name}", part)
        passed = None if problem.startswith(parts.UNREAD) else not problem
        yield RuleResult("part", passed, f"{part.name} {problem}" if problem else f"{part.name}: as stored")


# Whoever restores by hand, or opens the folder with a file manager, may leave something there, secrets in clear even.
def _strays(sight: Sight, snapshot: Snapshot) -> Sequence[str]:
    """Return what lies among the parts and is none, which nobody reads: it says nothing of the snapshot."""
    expected = {part.name for part in snapshot.parts} | {MANIFEST, SIGNATURE}
    return [f"{name} {STRAY}" for name in sorted(files(sight, snapshot.id) - expected)]


def verdict_of(sight: Sight, snapshot: Snapshot) -> JudgedDocument:
    """Return the verdict on a document, judged once a manifest; Refused without a key, WorkFailed where damaged."""
    asked, seen = _SEEN.get(sight, {}).get(snapshot.id, (None, _Content()))
    same = asked is not None and asked.identities == tuple(sight.identities())
    if same and asked and without_clusters(asked.snapshot) == without_clusters(snapshot) and seen.verdict:
        path = f"{snapshot.site}/{snapshot.id}/{parts.DEPLOYMENT}"
        if not parts.flaw(sight, path, snapshot.part(parts.DEPLOYMENT)):
            return seen.verdict
    with parts.open_part(sight, snapshot, parts.DEPLOYMENT) as stream:
        return Judge().verdict(blocks(stream.read))


def failed_finding(rule: str, failure: Exception, name: str = "") -> RuleResult:
    """Return a failure as a finding."""
    words = failure.message if isinstance(failure, WorkFailed | Invalid) else str(failure)
    return RuleResult(rule, False, f"{name}: {words}" if name else words)


def _content_of(sight: Sight, asked: _Asked, clusters: Sequence[RuleResult] | NoKeyFits) -> _Content:
    """Level 2: open every part, and judge the deployment; the caller has just seen that all are there as stored."""
    if known := _known(sight, asked):
        return known
    if isinstance(clusters, NoKeyFits):
        raise clusters
    content = _Content(clusters=clusters)
    with judging_copy(sight, asked.snapshot) as found:
        for part in asked.snapshot.parts:
            try:
                if part.name == parts.REDACTED_COPY and (copy := found()):
                    _judge_copy(asked.snapshot, copy.counts, copy.secrets)
                else:
                    content = _opened(sight, asked, part, content)
            except (NoKeyFits, StoreFailed, NotWritten):
                raise
            except (OSError, WorkFailed, Invalid) as failure:
                finding = failed_finding("content", failure, part.name)
                content = replace(content, findings=(*content.findings, finding))
    if all(finding.passed for finding in (*content.findings, *clusters)):
        _SEEN.setdefault(sight, {})[asked.snapshot.id] = asked, content
    return content


def _opened(sight: Sight, asked: _Asked, part: Part, content: _Content) -> _Content:
    snapshot = asked.snapshot
    with parts.open_part(sight, snapshot, part.name, asked.identities) as stream:
        read = parts.metered(sight, f"judging {part.name}", stream.read, part.content_bytes)
        if part.name == parts.DEPLOYMENT:
            verdict = Judge(asked.account, asked.password).verdict(blocks(read))
            return replace(content, verdict=verdict, findings=(*content.findings, _counts(snapshot, verdict)))
        if part.name == parts.REDACTED_COPY:
            copy = Judge().verdict(blocks(read))
            _judge_copy(snapshot, copy.judgement.counts, copy.summary.secrets)
        elif part.name == parts.LICENSE:
            return replace(content, license=stream.read())
        elif part.name == parts.TRUSTSTORE:
            if not usable(stream.read()):
                raise damaged("it holds no password")
        elif part.name == parts.MANAGER_FILES:
            from maint.snapshots.archive import paths  # few who look at snapshots read an archive

            if paths(stream.read) != tuple(snapshot.manager_files):
                raise damaged("it holds other files than the manifest lists")
        elif part.name == parts.DATABASE:
            read_whole(stream.read)
        else:
            parts.drain(stream.read)
    return content


def _judge_copy(snapshot: Snapshot, counts: Mapping[str, int], secrets: int) -> None:
    if wrong := _differing(snapshot, counts, but="redacted"):
        raise damaged(f"it is not a copy of the deployment: {wrong}")
    if secrets:
        raise damaged(f"it is not redacted: {secrets} of its secrets can be read")


def _counts(snapshot: Snapshot, verdict: JudgedDocument) -> RuleResult:
    found = verdict.judgement.counts
    wrong = _differing(snapshot, found)
    words = wrong or f"{show_counts(host=found['hosts'], role=found['roles'], setting=found['items'])} as recorded"
    return RuleResult("counts", not wrong, words)


def _differing(snapshot: Snapshot, found: Mapping[str, int], but: str = "") -> str:
    expected = snapshot.judgement.counts
    differing = [name for name, count in expected.items() if found.get(name) != count and name != but]
    return "; ".join(f"{found.get(name)} {name}, {expected[name]} recorded" for name in differing)


def _rules(sight: Sight, snapshot: Snapshot, content: _Content) -> Iterator[RuleResult]:
    judgement = content.verdict.judgement if content.verdict else snapshot.judgement
    yield from judgement.findings
    truststore = (
        truststore_finding(content.verdict.summary, snapshot.has(parts.TRUSTSTORE)) if content.verdict else None
    )
    yield from [truststore] if truststore else []
    if content.verdict:
        yield release_of(content.verdict, snapshot.versions.get("manager", ""))
    if judgement.redaction is not Redaction.REDACTED:
        yield login(sight, snapshot, content.verdict)


def release_of(verdict: JudgedDocument, announced: str) -> RuleResult:
    """Hold the release that the document names against the one that its server announced."""
    found = verdict.summary.release
    if found == announced:
        return RuleResult("release", True, f"taken from release {announced}, as the manifest says")
    return RuleResult(
        "release", False, f"the document is of release {found or '(none)'}, the manifest says {announced}"
    )


def login(sight: Sight, snapshot: Snapshot, verdict: JudgedDocument | None) -> RuleResult:
    """Say whether the configured password opens an administrator of the snapshot."""
    # A mismatch is a failure only where the login of the capture showed that passwords are stored by the rule of M7.3.
    account = sight.settings.manager.login.username
    if verdict is None:
        return RuleResult(LOGIN, None, f"whether {account} can log in was not asked: nothing was opened")
    if account not in verdict.summary.users:
        return RuleResult(LOGIN, False, f"the configured account {account} is not in this snapshot")
    if account not in verdict.summary.administrators:
        return RuleResult(LOGIN, False, f"the configured account {account} is not an administrator in this snapshot")
    if verdict.judgement.hash_rule:
        return RuleResult(LOGIN, True, f"the configured password opens {account}, an administrator")
    if snapshot.judgement.hash_rule:
        return RuleResult(LOGIN, False, f"{_OTHER_PASSWORD} {account} of this snapshot")
    return RuleResult(LOGIN, None, f"whether the configured password opens {account} cannot be known beforehand")


def future(sight: Sight, snapshot: Snapshot) -> RuleResult:
    """Say whether a snapshot is of a time that has passed: else nobody knows how old it is."""
    taken = max(snapshot.taken_at, time_of(snapshot.id))
    if taken - sight.clock.now() > SKEW:
        return RuleResult(TIME, False, f"it says that it was taken in the future: {tell_time(taken)}")
    return RuleResult(TIME, True, f"taken {tell_time(snapshot.taken_at)}")


def _license(sight: Sight, content: _Content) -> Iterator[RuleResult]:
    """Note the date of the licence in the snapshot; which one a restore uploads is decided when it is used."""
    if content.license is not None:
        found = license_finding(content.license, sight.clock.now())
        yield RuleResult(found.rule, found.passed or None, found.words)
