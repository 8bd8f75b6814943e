"""Take a snapshot: one pass over the network, two copies, read back before anything is promised."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from maint import __version__
from maint.backup import host_notes
from maint.backup.catalogue import sweep
from maint.backup.copies import note_detour
from maint.backup.elsewhere import Elsewhere
from maint.backup.fingerprint import site_fingerprint
from maint.backup.ids import new_id
from maint.backup.judge import Judge, Verdict
from maint.backup.known import Known
from maint.backup.manifest import MANIFEST, SIGNATURE, encode
from maint.backup.parts import (
    DEPLOYMENT,
    LICENSE,
    RECIPE,
    REDACTED_COPY,
    Pack,
    Read,
    Tally,
    from_bytes,
    plain,
    stored,
    write_part,
)
from maint.backup.read import blocks
from maint.backup.recipe import recipe
from maint.backup.redact import RedactedCopy
from maint.backup.verification import Verification
from maint.backup.verify import record, verify
from maint.errors import Invalid, StoreFailed, WorkFailed
from maint.model.manager import Account
from maint.model.secret import Secret
from maint.model.snapshot import Part, Purpose, Redaction, Snapshot
from maint.model.units import show_size
from maint.ports import Answer, Sight, Site


@dataclass(frozen=True, slots=True)
class Taken:
    """A snapshot that is stored, and what the read-back proved."""

    snapshot: Snapshot
    verification: Verification

    @property
    def redacted(self) -> bool:
        """Whether the server hid its secrets, so that the snapshot is audit-only."""
        return self.snapshot.judgement.redaction is Redaction.REDACTED


def take(
    site: Site,
    *,
    purpose: Purpose = Purpose.BACKUP,
    redacted: bool = False,
    snapshot_id: str | None = None,
    chance: Callable[[int], bytes] = os.urandom,
) -> Generator[str, None, Taken]:
    """Take a snapshot of the manager's configuration; yields words on the progress.

    Args:
        site: the site; its lock is the caller's affair.
        purpose: why.
        redacted: ask the server for its redacted view.
        snapshot_id: the id to give it (see `ids.new_id`); made here when left out.
        chance: returns random bytes.

    Returns:
        What was stored. Nothing is, when anything goes wrong before the manifest.

    Raises:
        Invalid: there is nobody to encrypt for.
        CannotReach, LoginRefused: the manager.
        WorkFailed: the export was cut or is no deployment, or the store did not give back what it was given.
        StoreFailed: neither the first store nor, for a backup, any copy could hold it.
    """
    recipients = recipients_of(site)
    order = _Order(purpose, redacted, recipients, snapshot_id, chance)
    try:
        return (yield from _take_into(site, order))
    except StoreFailed as failure:
        if purpose is not Purpose.BACKUP or not site.copies:
            raise
        return (yield from _detour(site, order, failure))


@dataclass(frozen=True, slots=True)
class _Order:
    """What was asked for."""

    purpose: Purpose
    redacted: bool
    recipients: Sequence[str]
    snapshot_id: str | None
    chance: Callable[[int], bytes]


def _detour(site: Site, order: _Order, failure: StoreFailed) -> Generator[str, None, Taken]:
    """Take the snapshot into the first copy that can hold it, since the first store cannot."""
    for copy in site.copies:
        yield f"{': '.join([failure.message, *failure.detail])}; storing in {copy.location} instead"
        target = Elsewhere(site, copy)
        try:
            taken = yield from _take_into(target, order)
        except StoreFailed as further:
            failure = further
            continue
        note_detour(target, taken.snapshot.id, site.store.location)
        return taken
    raise failure


def _take_into(site: Site, order: _Order) -> Generator[str, None, Taken]:
    now = site.clock.now()
    sweep(site, now)
    run = _Run(site, order.purpose, order.recipients, order.snapshot_id or new_id(now, order.chance), now)
    try:
        snapshot = yield from run.capture(order.redacted)
        run.commit(snapshot)
    except BaseException:
        run.undo()
        raise
    yield f"stored as {snapshot.id}"
    verification = verify(site, snapshot.id, level=3 if snapshot.restorable else 2, opening=False)
    record(site, verification)
    yield verification.words
    if broken := verification.broken_bytes:
        raise WorkFailed(
            f"snapshot {snapshot.id} cannot be believed: {broken[0].words}",
            detail=[finding.words for finding in broken[1:]],
            hint="look at the health of the store, then take the backup again",
        )
    return Taken(snapshot, verification)


def recipients_of(site: Sight) -> Sequence[str]:
    """Return for whom snapshots are encrypted: the configured recipients, else the identities at hand.

    Raises:
        Invalid: there are neither.
    """
    backup = site.settings.backup
    if backup and backup.recipients:
        return tuple(backup.recipients)
    if identities := site.identities():
        return tuple(site.seal.recipient_of(identity) for identity in identities)
    raise Invalid(
        f"nobody to encrypt the backups of {site.settings.name} for",
        hint="`age-keygen -o identity` makes a key pair; put its public key in backup.recipients",
    )


class _Run:
    """One snapshot being taken; remembers what it has stored, to take it back when something fails."""

    def __init__(
        self, site: Site, purpose: Purpose, recipients: Sequence[str], snapshot_id: str, now: datetime
    ) -> None:
        self._site, self._purpose, self._recipients = site, purpose, recipients
        self._id, self._now = snapshot_id, now
        self._folder = f"{site.settings.name}/{snapshot_id}"
        self._known = Known()
        self._parts: list[Part] = []
        self._stored: list[str] = []

    def capture(self, redacted: bool) -> Generator[str, None, Snapshot]:
        """Store all parts and return what the manifest will say."""
        manager = self._site.manager
        account = manager.log_in()
        api = manager.require_api(self._site.settings.manager.deployment_api)
        release = manager.release()
        yield f"exporting from {self._site.settings.manager.host} (release {release}, API {api}) as {account.name}"
        identity, recipient = self._site.seal.new_identity()
        judge = Judge(account.name, _password(self._site, account), self._known)
        with manager.deployment(redacted=redacted) as answer:
            part, verdict = self._deployment(answer, judge, recipient)
        yield f"{show_size(part.content_bytes)} received, {_said(verdict)}"
        self._parts[0] = replace(part, restorable=verdict.restorable)
        self._redacted_copy(part, identity)
        yield from self._license()
        host_files, uncovered = host_notes.try_look(self._site, verdict.outline)
        snapshot = Snapshot(
            id=self._id,
            site=self._site.settings.name,
            taken_at=self._now,
            purpose=self._purpose,
            restorable=verdict.restorable,
            parts=tuple(self._parts),
            versions={"manager": release, "api": api, "tool": __version__},
            judgement=verdict.judgement,
            account=account.name,
            uncovered=uncovered,
            host_files=host_files,
            recipients=tuple(self._recipients),
            manager=self._site.settings.manager.host,
        )
        text = recipe(snapshot, self._site.settings, self._site.store.location).encode()
        self._write(RECIPE, from_bytes(text), plain)
        return replace(snapshot, parts=tuple(self._parts))

    def commit(self, snapshot: Snapshot) -> None:
        """Write signature and manifest: from now on the snapshot exists."""
        content = encode(snapshot)
        for name, written in ((SIGNATURE, self._site.sign.sign(content)), (MANIFEST, content)):
            with self._site.store.create(f"{self._folder}/{name}") as file:
                file.write(written)
            self._stored.append(name)

    def undo(self) -> None:
        """Take back what was stored; the manifest first, so that no moment shows a snapshot with parts missing."""
        # What cannot be taken back now lacks its manifest, or keeps all its parts; a later sweep finds it.
        with suppress(StoreFailed):
            for name in reversed(self._stored):
                self._site.store.remove(f"{self._folder}/{name}")

    def _deployment(self, answer: Answer, judge: Judge, ephemeral: str) -> tuple[Part, Verdict]:
        """Store the raw bytes as the server sends them, judging them as they pass.

        They are encrypted for one recipient more, whose private key is only in memory and soon forgotten: so that
        what was stored can be read back, and the second pass needs no plain copy on disk.
        """
        verdicts: list[Verdict] = []

        def source(size: int) -> bytes:
            if block := answer.read(size):
                judge.feed(block)
            elif not verdicts:
                verdicts.append(judge.close())  # before anything is committed: a cut document must not be
            return block

        seal, recipients = self._site.seal, [*self._recipients, ephemeral]
        part = self._write(DEPLOYMENT, source, lambda read, file: seal.wrap(read, file, recipients))
        return part, verdicts[0]

    def _redacted_copy(self, part: Part, identity: Secret) -> None:
        """Read the raw part back from the store, prove it, and write the redacted copy on the way."""
        with (
            stored(self._site.store, f"{self._folder}/{part.name}") as (file, on_disk),
            self._site.seal.unwrap(file, [identity]) as stream,
        ):
            content = Tally(stream.read)
            copy = RedactedCopy(blocks(content.read), self._known, site_fingerprint(self._site))
            self._write(REDACTED_COPY, copy.read, self._site.seal.compress)
        if (on_disk.sha256, content.sha256) != (part.sha256, part.content_sha256):
            raise WorkFailed(
                f"{part.name} is not what was written to {self._site.store.location}",
                hint="do not trust this disk; look at its health, then take the backup again",
            )

    def _license(self) -> Iterator[str]:
        path = self._site.settings.manager.license
        if path is None:
            return
        try:
            content = path.read_bytes()
        except OSError as problem:
            yield f"the licence {path} cannot be read ({problem.strerror}): left out"
            return
        seal = self._site.seal
        self._write(LICENSE, from_bytes(content), lambda read, file: seal.encrypt(read, file, self._recipients))

    def _write(self, name: str, source: Read, pack: Pack) -> Part:
        part = write_part(self._site.store, self._folder, name, source, pack)
        self._stored.append(name)
        self._parts.append(part)
        return part


def _password(site: Site, account: Account) -> Secret:
    manager = site.settings.manager
    login = manager.bootstrap if account.bootstrap and manager.bootstrap else manager.login
    return site.secrets.resolve(login.password)


def _said(verdict: Verdict) -> str:
    failed = [finding.words for finding in verdict.judgement.findings if finding.passed is False]
    if verdict.restorable:
        return "unredacted, restorable"
    return "audit-only: " + ("; ".join(failed) or "nothing tells that it is not redacted")
