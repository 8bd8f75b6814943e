"""Take a snapshot: one pass over the network, two copies, read back before anything is promised."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime

from maint import __version__
from maint.deployment.judge import Judge, Verdict
from maint.errors import Invalid, WorkFailed
from maint.model.formatting import show_size
from maint.model.manager import Account
from maint.model.noun import Noun
from maint.model.secret import Secret
from maint.model.snapshot import Purpose, Redaction, Snapshot
from maint.ports import Sight, Site
from maint.snapshots import host_notes
from maint.snapshots.catalogue import sweep
from maint.snapshots.extra_parts import take_further, truststore
from maint.snapshots.failover import or_elsewhere
from maint.snapshots.ids import new_id
from maint.snapshots.parts import TRUSTSTORE
from maint.snapshots.upload_marker import storing
from maint.snapshots.verification import Verification
from maint.snapshots.verify import record, release_of, verify
from maint.snapshots.virtual_clusters.capture import take_clusters
from maint.snapshots.writer import Writing


class Taken(Noun):
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
    accept_empty: bool = False,
    snapshot_id: str | None = None,
    chance: Callable[[int], bytes] = os.urandom,
) -> Generator[str, None, Taken]:
    """Take a snapshot of the manager's configuration; yields words on the progress.

    Args:
        site: the site; its lock is the caller's affair.
        purpose: why.
        redacted: ask the server for its redacted view.
        accept_empty: the operator's word that virtual clusters hold what is found, however little it is.
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
    order = _Order(purpose, redacted, accept_empty, recipients, snapshot_id, chance)
    if purpose is not Purpose.BACKUP:  # a safety copy must lie where whoever destroys looks for it
        return (yield from _take_into(site, order))
    return (yield from or_elsewhere(site, lambda place: _take_into(place, order)))


class _Order(Noun):
    """What was asked for."""

    purpose: Purpose
    redacted: bool
    accept_empty: bool
    recipients: Sequence[str]
    snapshot_id: str | None
    chance: Callable[[int], bytes]


def _take_into(site: Site, order: _Order) -> Generator[str, None, Taken]:
    now = site.clock.now()
    sweep(site, now)
    snapshot_id = order.snapshot_id or new_id(now, order.chance)
    run = _Run(site, order, snapshot_id, now)
    try:
        with storing(site) if site.settings.virtual_clusters else nullcontext():
            snapshot = yield from run.capture()
            run.commit(snapshot)
    except BaseException:
        run.undo()
        raise
    yield f"stored as {snapshot.id}"
    verification = verify(site, snapshot.id, level=3 if snapshot.restorable else 2, opening=False, reading=False)
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
    """One snapshot being taken from the manager."""

    def __init__(self, site: Site, order: _Order, snapshot_id: str, now: datetime) -> None:
        self._site, self._order, self._recipients = site, order, order.recipients
        self._id, self._now = snapshot_id, now
        self._writing = Writing(site, snapshot_id, order.recipients)
        self.commit, self.undo = self._writing.commit, self._writing.undo

    def capture(self) -> Generator[str, None, Snapshot]:
        """Store all parts and return what the manifest will say."""
        manager, writing = self._site.manager, self._writing
        account = manager.log_in()
        api = manager.require_api(self._site.settings.manager.deployment_api)
        release = manager.release()
        yield f"exporting from {self._site.settings.manager.host} (release {release}, API {api}) as {account.name}"
        judge = Judge(account.name, _password(self._site, account), writing.known)
        begun = self._site.clock.monotonic()
        with manager.deployment(redacted=self._order.redacted) as answer:
            part = writing.raw(answer.read)
        took = self._site.clock.monotonic() - begun
        yield f"{show_size(part.content_bytes)} received and stored in {took:.2f} s"
        part, verdict = writing.judged(judge)
        yield _said(verdict)
        writing.redacted_copy(part)
        host_files, uncovered = host_notes.try_look(self._site, verdict.summary)
        further = yield from take_further(self._site, writing, verdict.summary)
        clusters = yield from take_clusters(
            self._site, writing, self._recipients, self._clusters(), self._order.accept_empty
        )
        told = truststore(verdict.summary, any(part.name == TRUSTSTORE for part in writing.parts))
        beside = [*([told] if told else []), release_of(verdict, release)]
        snapshot = Snapshot(
            id=self._id,
            site=self._site.settings.name,
            taken_at=self._now,
            purpose=self._order.purpose,
            restorable=verdict.restorable and not any(finding.passed is False for finding in beside),
            parts=(),
            versions={"manager": release, "api": api, "tool": __version__},
            judgement=replace(verdict.judgement, findings=(*verdict.judgement.findings, *beside)),
            account=account.name,
            uncovered=(
                *host_notes.without_kept(uncovered, further.manager_files),
                *further.missing,
                *clusters.uncovered,
            ),
            host_files=host_files,
            recipients=tuple(self._recipients),
            manager=self._site.settings.manager.host,
            manager_files=further.manager_files,
            virtual_clusters=clusters.summaries,
            objects=clusters.objects,
        )
        return writing.with_recipe(snapshot)

    def _clusters(self) -> Sequence[str]:
        """Return the virtual clusters to take: none into a safety copy, which is about the manager alone."""
        if self._order.purpose is not Purpose.BACKUP:
            return ()
        return [cluster.name for cluster in self._site.settings.virtual_clusters]


def _password(site: Site, account: Account) -> Secret:
    manager = site.settings.manager
    login = manager.bootstrap if account.bootstrap and manager.bootstrap else manager.login
    return site.secrets.resolve(login.password)


def _said(verdict: Verdict) -> str:
    failed = [finding.words for finding in verdict.judgement.findings if finding.passed is False]
    if verdict.restorable:
        return "unredacted, restorable"
    return "audit-only: " + ("; ".join(failed) or "nothing tells that it is not redacted")
