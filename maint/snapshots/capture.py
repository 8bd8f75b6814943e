"""Take a snapshot: room on the disks, one pass over the network, two copies, read back before success is reported."""

import os
import shlex
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from maint import __version__
from maint.deployment.judge import DeploymentSummary, Judge, JudgedDocument, broken
from maint.deployment.secrets import readable
from maint.errors import WRITABLE, CannotReach, Invalid, NotAsStored, NotWritten, Refused, StoreFailed, WorkFailed
from maint.files import SPARE, existing, explaining, read_file
from maint.model.fleet import GIVEN_UP
from maint.model.formatting import show_count, show_size
from maint.model.manager import Account
from maint.model.secret import Secret
from maint.model.snapshot import Purpose, Redaction, Snapshot
from maint.ports import Sight, Site, Work
from maint.ports.manager_host import path_of, stranger, try_password
from maint.snapshots.catalogue import Gone, entries, load
from maint.snapshots.extra_parts import (
    looked_for,
    manager_paths,
    older_export,
    truststore_finding,
    try_look_at_host,
    wanted_parts,
    without_kept,
)
from maint.snapshots.in_progress import storing
from maint.snapshots.manifest import new_id
from maint.snapshots.parts import DATABASE, DEPLOYMENT, LICENSE, MANAGER_FILES, TRUSTSTORE
from maint.snapshots.records import Taken, insist_there
from maint.snapshots.replicate import tidied, with_failover
from maint.snapshots.sources import dump, exported
from maint.snapshots.verify import prove_new, release_of, verify
from maint.snapshots.virtual_clusters.capture import take_clusters
from maint.snapshots.writer import SnapshotWriter

NOTE = "snapshot"  # the id, written down before anything is stored
_LATER = "once the store answers: `maint playbook resume`"
_SOUND = 2  # the level to which what an earlier attempt stored must be proven
LEAST = SPARE  # bytes that the smallest snapshot may need, too
READ_ONLY = ": it is mounted read-only"
BROKEN = ": after an error the kernel writes nothing more to its disk"
_FILES = 64  # that a run makes at most


def take(
    site: Site, *, purpose: Purpose = Purpose.BACKUP, accept_empty: bool = False, snapshot_id: str | None = None
) -> Generator[str, None, Taken]:
    """Take a snapshot of the manager's configuration under the site's lock; yields words on the progress.

    Raises:
        Invalid: there is nobody to encrypt for.
        CannotReach, LoginRefused: the manager.
        WorkFailed: the export was cut or is not a deployment, or the store did not give back what it was given.
        StoreFailed: neither the first store nor, for a backup, any copy could hold it.
    """
    recipients = recipients_of(site)
    order = _Order(purpose, accept_empty, recipients, snapshot_id)
    if purpose is not Purpose.BACKUP:  # a safety copy must lie where the destroying run looks for it
        return (yield from _take_into(site, order))
    return (yield from with_failover(site, lambda place: _take_into(place, order)))


class _Order(msgspec.Struct, frozen=True):
    purpose: Purpose
    accept_empty: bool
    recipients: Sequence[str]
    snapshot_id: str | None


def _take_into(site: Site, order: _Order) -> Generator[str, None, Taken]:
    now = site.clock.now()
    insist_there(site)
    yield from tidied(site)
    snapshot_id = order.snapshot_id or new_id(now)
    flagged = storing(site) if site.settings.virtual_clusters else nullcontext()
    with flagged, SnapshotWriter(site, snapshot_id, order.recipients) as writer:
        run = _Run(site, order, writer, now)
        snapshot = yield from run.capture()
        writer.commit(snapshot)
    yield f"stored as {snapshot.id}"
    # What the bootstrap account took is for the configured one to open, as each later verification asks.
    opening = run.bootstrap and order.purpose is Purpose.BACKUP
    return Taken(snapshot, (yield from prove_new(site, snapshot, opening=opening, files_read=run.files_read)))


def recipients_of(site: Sight) -> Sequence[str]:
    """Return for whom snapshots are encrypted: the configured recipients, else our own identities; Invalid for none."""
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
    def __init__(self, site: Site, order: _Order, writer: SnapshotWriter, now: datetime) -> None:
        self._site, self._order, self._writer, self._now = site, order, writer, now
        self._recipients = order.recipients
        self.files_read: datetime | None = None
        self.bootstrap = False  # whether the bootstrap account was let in

    def capture(self) -> Generator[str, None, Snapshot]:
        manager, writer = self._site.manager, self._writer
        account = manager.log_in()
        self.bootstrap = account.bootstrap
        api = manager.require_api(self._site.settings.manager.api.deployment)
        release = manager.release()
        yield f"exporting from {self._site.settings.manager.host} (release {release}, API {api}) as {account.name}"
        judge = Judge(account.name, _password(self._site, account), writer.known)
        begun = self._site.clock.monotonic()
        part = exported(self._site, lambda answer: writer.raw(answer.read, answer.length))
        took = self._site.clock.monotonic() - begun
        yield f"{show_size(part.content_bytes)} received and stored in {took:.2f} s"
        part, verdict = writer.judged(judge)
        yield _said(verdict)
        writer.redacted_copy(part)
        host_files, uncovered = try_look_at_host(self._site, verdict.summary)
        further = yield from take_extra_parts(self._site, writer, verdict.summary, self._order.purpose)
        clusters = yield from take_clusters(
            self._site, writer, self._recipients, self._clusters(), self._order.accept_empty
        )
        self.files_read = clusters.files_read or self._now
        older = older_export(self._site.settings.manager.api.deployment, manager.api_version())
        yield from (f"left out: {words}" for words in older)
        kept = any(part.name == TRUSTSTORE for part in writer.parts)
        truststore = truststore_finding(verdict.summary, kept, further.wrong_password)
        beside = [*([truststore] if truststore else []), release_of(verdict, release)]
        snapshot = Snapshot(
            id=writer.id,
            site=self._site.settings.name,
            taken_at=self._now,
            purpose=self._order.purpose,
            restorable=verdict.restorable and not any(finding.passed is False for finding in beside),
            parts=(),
            versions={"manager": release, "api": api, "tool": __version__},
            judgement=replace(verdict.judgement, findings=(*verdict.judgement.findings, *beside)),
            account=account.name,
            uncovered=(
                *older,
                *without_kept(uncovered, further.manager_files, dumped=further.dumped),
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
        return writer.with_recipe(snapshot)

    def _clusters(self) -> Sequence[str]:
        """Return the virtual clusters to take: none into a safety copy, which is about the manager alone."""
        if self._order.purpose is not Purpose.BACKUP:
            return ()
        return [cluster.name for cluster in self._site.settings.virtual_clusters]


class ExtraParts(msgspec.Struct, frozen=True):
    """What came of it."""

    manager_files: tuple[str, ...] = ()  # those that are kept
    missing: Sequence[str] = ()  # words on each part that is not there
    dumped: bool = False  # whether there is a dump
    wrong_password: str = ""  # why the truststore's password was not kept, where it opens nothing


_NOT_KEPT = (StoreFailed, NotAsStored, NotWritten)  # of what was to be had: it is never left out for that


class _Absent(Exception):
    """There is nothing to take, and nothing went wrong."""


class _OpensNothing(WorkFailed):
    """The password that the manager serves is not that of its truststore."""


def take_extra_parts(
    site: Site, writer: SnapshotWriter, summary: DeploymentSummary, purpose: Purpose
) -> Generator[str, None, ExtraParts]:
    """Store the further parts that the config wants; yields words on those that cannot be had."""
    wanted, kept, missing, wrong = wanted_parts(site.settings), list[str](), list[str](), ""
    ways: dict[str, tuple[bool | None, Callable[[], None]]] = {
        LICENSE: (wanted.license, lambda: _take_license(site, writer)),
        TRUSTSTORE: (wanted.truststore_password, lambda: _take_truststore(site, writer, summary)),
        MANAGER_FILES: (wanted.manager_files, lambda: kept.extend(_take_manager_files(site, writer, summary, missing))),
    }
    if wanted.database and purpose is Purpose.BACKUP:  # a safety copy is about what is about to be replaced
        ways[DATABASE] = (True, lambda: _take_database(site, writer))
    for name, (choice, write) in ways.items():
        if choice is False:
            missing.append(f"{name}: switched off in the config (backup.parts)")
            continue
        try:
            write()
        except _NOT_KEPT:
            raise
        except _Absent as reason:
            missing.append(f"{name}: {reason}")
        except (CannotReach, WorkFailed, Invalid) as failure:
            missing.append(f"{name}: {failure.message}")
            wrong = failure.message if isinstance(failure, _OpensNothing) else wrong
            yield f"{name} is left out: {failure.in_a_line}"
    _, *others = site.settings.hosts_in("manager") or (None,)
    if kept and others:
        missing.append(f"{MANAGER_FILES}: those of {', '.join(one.name for one in others if one)} are not kept")
    return ExtraParts(tuple(kept), tuple(missing), any(part.name == DATABASE for part in writer.parts), wrong)


def _take_license(site: Site, writer: SnapshotWriter) -> None:
    path = site.settings.manager.license
    if path is None:
        raise _Absent("the config names no licence")
    hint = "correct its path in the config, or make it readable for the user who runs maint"
    with explaining(f"{path} cannot be read", hint):
        content = read_file(path)
    writer.sealed(LICENSE, content)


def _take_truststore(site: Site, writer: SnapshotWriter, summary: DeploymentSummary) -> None:
    password = site.manager.truststore_password()
    if password is None or not readable(password.reveal()):
        raise _Absent("the manager gives none: Auto-TLS is off, its API is older than v41, or it redacts")
    trial = try_password(site, path_of(summary.settings), password)
    if trial.opens is False:
        raise _OpensNothing(f"the password that the manager serves {trial.words}", hint=trial.hint)
    writer.sealed(TRUSTSTORE, password.reveal().encode())


def _take_manager_files(
    site: Site, writer: SnapshotWriter, summary: DeploymentSummary, missing: list[str]
) -> Sequence[str]:
    if site.settings.ssh is None:
        raise _Absent("no `ssh:` is configured")
    host, unseen = _host(site), list[str]()
    there = [path for path, one in looked_for(site, host, manager_paths(summary), unseen).items() if one]
    missing += (f"{MANAGER_FILES}: {words}" for words in unseen)
    if not there:
        raise _Absent(f"none of them is {'seen ' if unseen else ''}on {host}")
    operands = " ".join(shlex.quote(path.lstrip("/")) for path in there)
    with site.shell.stream(host, f"tar -C / -cf - -- {operands}") as output:
        return writer.archive(MANAGER_FILES, output.read)


def _host(site: Site) -> str:
    """Return the manager's host; WorkFailed where it is another machine, whose files would pass for the manager's."""
    name = site.settings.hosts_in("manager")[0].name
    if why := stranger(site, name):
        raise WorkFailed(f"it is not the manager's host: {why}", hint="maint host check --check cm.identity")
    return name


def _take_database(site: Site, writer: SnapshotWriter) -> None:
    if site.settings.ssh is None:
        raise _Absent("no `ssh:` is configured")
    try:
        with dump(site, _host(site)) as output:
            writer.dump(DATABASE, output.read)
    except _NOT_KEPT:
        raise
    except WorkFailed as failure:
        raise WorkFailed(": ".join([failure.message, *failure.detail[:1]]), hint=failure.way_on) from failure


def _password(site: Site, account: Account) -> Secret:
    manager = site.settings.manager
    login = manager.bootstrap if account.bootstrap and manager.bootstrap else manager.login
    return site.secrets.resolve(login.password)


def _said(verdict: JudgedDocument) -> str:
    failed = [finding.words for finding in verdict.judgement.findings if finding.passed is False]
    if verdict.restorable:
        return "unredacted, restorable"
    return "audit-only: " + ("; ".join(failed) or "nothing tells that it is not redacted")


def taken_once(
    site: Site, work: Work, purpose: Purpose, *, accept_empty: bool = False
) -> Generator[str, None, Snapshot]:
    """Take a snapshot that its verification finds sound, unless an earlier attempt of this action committed one."""
    found = committed(site, work, purpose)
    if found is not None:
        return found
    snapshot_id = new_id(site.clock.now())
    work.note(NOTE, snapshot_id)
    return (yield from take(site, purpose=purpose, accept_empty=accept_empty, snapshot_id=snapshot_id)).snapshot


def forget_taken(work: Work) -> None:
    """Let this action take another snapshot; the one that an earlier attempt has committed stays."""
    work.note(NOTE, None)


def committed(site: Site, work: Work, purpose: Purpose) -> Snapshot | None:
    """Return the snapshot that an earlier attempt of this action has committed, None where there is no sound one.

    Raises:
        StoreFailed, NotWritten: a safety copy cannot be read, or proven, now: another one might keep what the run
            itself has made since.
    """
    noted = work.noted(NOTE)
    if not isinstance(noted, str):
        return None
    try:
        snapshot = load(site, noted)
        judged = verify(site, noted, _SOUND)
        if judged.unread:
            raise StoreFailed(f"snapshot {noted} could not be read: {judged.unread[0]}", hint=_LATER)
    except (StoreFailed, NotWritten):  # neither says anything of the snapshot
        if purpose is Purpose.SAFETY:
            raise
        return None
    except (WorkFailed, Gone):
        return None
    return snapshot if judged.depth >= _SOUND or judged.locked else None  # what no key here opens was proven once


def described(snapshot: Snapshot) -> str:
    """Return a snapshot in one line: its id, size and worth."""
    size = f"{show_size(snapshot.part(DEPLOYMENT).content_bytes)} of configuration"
    if snapshot.restorable:
        return f"snapshot {snapshot.id}: {size}, restorable"
    shown = list(broken(snapshot.judgement))
    counts = snapshot.judgement.counts
    if not counts.get("clusters") and not counts.get("hosts") and counts.get("users", 0) <= 1:  # of a fresh server
        return f"snapshot {snapshot.id}: {size}, audit-only: no cluster and no host is in it, so nothing to restore"
    if snapshot.judgement.redaction is Redaction.REDACTED:
        why = "the manager redacts its API: "  # and other rules break in its wake
        shown = [*(one for one in snapshot.judgement.findings if one.rule == "redaction"), *shown]
    else:
        why = "it breaks a rule: " if shown else "nothing in it tells that its secrets are readable"
    return f"snapshot {snapshot.id}: {size}, audit-only, cannot be restored: {why}" + "; ".join(f.words for f in shown)


def largest(sight: Sight) -> int:
    """Return the bytes of the largest snapshot in the store, but for the files of virtual clusters."""
    try:
        return max(
            (sum(part.bytes for part in each.snapshot.parts) for each in entries(sight) if each.snapshot), default=0
        )
    except WorkFailed:  # a store that is away tells nothing
        return 0


def refuse_full(sight: Sight) -> None:
    """Refuse where the disk of the state folder, or each store that a backup may go to, is known to lack room."""
    if full := [*short(sight.settings.state, LEAST), *full_stores(sight)]:
        raise Refused("a disk is too full for a backup", detail=full, hint="make room, or prune; then run it again")


def full_stores(sight: Sight) -> list[str]:
    """Return what each store that a backup may go to lacks; empty where one has room, or is of another machine."""
    backup = sight.settings.backup
    stores = [backup.store, *backup.copies] if backup else []
    if not all(store.startswith("/") for store in stores):
        return []
    needed = max(largest(sight), LEAST)
    lacking = [list(short(Path(store), needed)) for store in stores]
    return [words for told in lacking for words in told] if all(lacking) else []


def refuse_closed(sight: Sight) -> None:
    """Refuse where each store that a backup may go to is seen, without trying, to take none."""
    backup = sight.settings.backup
    stores = [backup.store, *backup.copies] if backup else []
    closed = [shut(existing(Path(store))) if store.startswith("/") else "" for store in stores]
    if closed and all(closed):
        hint = f"{WRITABLE}; or look at who owns the folder, and who runs maint; then run it again"
        raise Refused("no store takes a backup", detail=closed, hint=hint)


def shut(folder: Path) -> str:
    """Return why a folder cannot be written to, as far as one sees without trying; empty: it seems to be open."""
    with suppress(OSError):  # it is there, and may go meanwhile
        if _given_up(folder):
            return f"{folder} cannot be written to{BROKEN}"
        if not os.access(folder, os.W_OK | os.X_OK):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            return f"{folder} cannot be written to" + (READ_ONLY if read_only else "")
    return ""


def _given_up(folder: Path) -> bool:
    """Whether the kernel says that it writes nothing more to a folder's disk after an error, mounted `rw` or not."""
    device = folder.stat().st_dev
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()]
    of_disk = [one for one in mounts if one[2] == f"{os.major(device)}:{os.minor(device)}"]
    return any(GIVEN_UP.intersection(one[-1].split(",")) for one in of_disk)


def short(folder: Path, needed: int) -> Iterator[str]:
    """Tell of a folder whose disk has fewer bytes free than may be needed, or room for fewer files than a run makes."""
    try:
        free, files = shutil.disk_usage(existing(folder)).free, os.statvfs(existing(folder))
    except OSError:
        return  # what cannot be looked into is reported by the writer
    if free < needed:
        yield f"{folder} has {show_size(free)} free, and {show_size(needed)} may be needed"
    if files.f_files and files.f_favail < _FILES:  # some file systems count none
        left = show_count(files.f_favail, "more file")
        yield f"the disk of {folder} takes {left} (inodes), and {_FILES} may be needed"
