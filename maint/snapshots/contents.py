"""Open the parts of a snapshot and judge what is in them, once for the same bytes, keys and password.

A restore asks again and again what a snapshot holds: when it is planned, and before each step that destroys. What is in
the parts follows from the bytes in the store, which the signed manifest names, from the keys and from the password. So
whoever has just read these bytes again and found them to be the same need not open them again in the same process.
Only what was well in every part is remembered, and no longer than the site object lives.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO
from weakref import WeakKeyDictionary

from maint.deployment.json_events import BLOCK, EventParser, blocks
from maint.deployment.judge import Judge, Verdict
from maint.errors import Invalid, WorkFailed
from maint.model.secret import Secret
from maint.model.snapshot import Finding, Part, Snapshot
from maint.ports import Sight
from maint.snapshots.archive import paths
from maint.snapshots.extra_parts import usable
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
    stored,
)


@dataclass(frozen=True, slots=True)
class Content:
    """What was found inside the parts."""

    findings: Sequence[Finding]
    verdict: Verdict | None = None
    license: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
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


def failed(rule: str, failure: Exception, name: str = "") -> Finding:
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
            content = replace(content, findings=(*content.findings, failed("content", failure, part.name)))
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
