"""Records of what the catalogue page shows of a site, kept between runs."""

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

RESTORABLE, AUDIT_ONLY, DAMAGED, OTHER = "restorable", "audit-only", "damaged", "other"
AT_WORK, ROTTEN = "at work", "damaged"  # of a run
NO_BACKUP = "no backup is configured"
BY_NAME = "safety copy, restorable by its name"  # what is noted of one
KINDS = (RESTORABLE, AUDIT_ONLY, DAMAGED, OTHER)
_RESTORES = ("restore", "recover-", "disaster-")  # playbooks that bring something back


class Shot(msgspec.Struct, frozen=True):
    """A snapshot on the timeline."""

    id: str
    taken_at: datetime
    kind: str  # one of KINDS
    size: int  # bytes
    good: bool  # it counts as a way back
    verified: str = ""  # the latest verification, in words; empty: never
    held: str = ""  # why it must stay; empty: nothing holds it
    goes: datetime | None = None  # when retention will take it, if backups go on as they do; None: not in sight
    note: str = ""  # what is wrong with it, or special
    meant: bool = True  # as a way back: no safety copy, and not of virtual clusters alone
    proof: str = "verify"  # of `maint backup`, what shows whether it is sound: "drill" where that is what failed


class Copy(msgspec.Struct, frozen=True):
    """A further store, and how far it is behind."""

    location: str
    snapshots: int = 0
    missing: int = 0  # snapshots of the first store that it lacks
    newest: datetime | None = None
    problem: str = ""  # why nothing can be told
    bytes: int | None = None  # that they take; None: not known
    barren: bool = False  # all of it was read, and nothing there is a way back
    doubtful: int = 0  # snapshots there that are not proven to be sound


class ReportedDrill(msgspec.Struct, frozen=True):
    """A rehearsed restore; `seconds` from opening the snapshot to the configuration read back."""

    at: datetime
    snapshot: str
    passed: bool
    seconds: float | None
    reason: str


class ReportedRun(msgspec.Struct, frozen=True):
    """A run of a playbook."""

    id: str
    playbook: str
    state: str
    started: datetime
    by: str
    resumable: bool  # it is to be taken up: no later run has done its work
    ended: datetime | None = None  # None: it is at work, or nobody knows
    snapshot: str = ""  # that it was told to bring back


class VerbEnd(msgspec.Struct, frozen=True):
    """How a verb of the schedule ended last."""

    verb: str
    exit: int
    at: datetime
    words: str  # why, where the exit code is not 0
    run: str = ""  # empty for what keeps no journal


class Change(msgspec.Struct, frozen=True):
    """One property that differs between two days, in redacted words; None where there is none."""

    cluster: str
    service: str
    group: str
    property: str
    before: str | None
    after: str | None


def page_of(site: str) -> str:
    """Return the name of a site's page; `index.html` is that of all, and no site's name begins with `_`."""
    return f"{'_' * (site == 'index')}{site}.html"


class Day(msgspec.Struct, frozen=True):
    """What changed between the last snapshot of a day and the one before."""

    before: str  # the ids
    after: str
    at: datetime
    changes: Sequence[Change] = ()
    problem: str = ""  # why they cannot be compared
    more: int = 0  # changes beyond those

    @property
    def count(self) -> int:
        """How many changes there are."""
        return len(self.changes) + self.more

    @property
    def page(self) -> str:
        """The end of the name of its page."""
        return f"{self.after}-changes.html"


class HostResult(msgspec.Struct, frozen=True):
    """What a check said of hosts."""

    check: str
    state: str
    hosts: Sequence[str]
    observed: str
    remedy: str


class HostChecks(msgspec.Struct, frozen=True):
    """The last checks of all hosts."""

    at: datetime
    results: Sequence[HostResult]
    hosts: Mapping[str, str]  # name → why it did not answer; empty: it did


class PageFacts(msgspec.Struct, frozen=True):
    """All facts of one site."""

    name: str
    manager: str
    seen: datetime
    labels: Mapping[str, str] = {}
    config: str = ""  # what a command is told so that it finds the config; empty: nothing
    first: str = ""  # the store that backups go to
    store: str = ""  # the store of which this tells: a copy, where the first could not be read
    read: datetime | None = None  # when that was read; None: no store ever was
    problem: str = ""  # why not all could be read
    unusable: str = ""  # why nothing can be done with it: what is wrong in its config
    shots: Sequence[Shot] = ()  # the oldest first
    stored: int | None = None  # bytes that they take, what they share counted once
    keep: str = ""  # how many of them stay, in words; empty: all
    policy: str = ""  # why retention takes nothing; empty: it works
    copies: Sequence[Copy] = ()
    drills: Sequence[ReportedDrill] = ()  # the oldest first
    runs: Sequence[ReportedRun] = ()  # the newest first
    days: Sequence[Day] = ()  # the oldest first
    changed: Sequence[tuple[datetime, int]] = ()  # changes a day, of those days and of earlier ones; the oldest first
    ended: Sequence[VerbEnd] = ()
    lost: Sequence[str] = ()  # journals of which nothing can be read
    later: Sequence[str] = ()  # in words, those that a later version wrote, and what to do about each
    windows: Sequence[str] = ()  # open redaction windows, in words
    doubts: Sequence[str] = ()  # why one may be open
    checks: HostChecks | None = None
    backup_limit: float = 26 * 3600.0  # seconds
    drill_limit: float = 35 * 86400.0

    @property
    def here(self) -> str:
        """What a command is told so that it is about this site."""
        return f"{self.config} --site {self.name}".strip()

    @property
    def unknown(self) -> bool:
        """Whether nothing is known of its backups."""
        return bool(self.problem or self.unusable) and self.read is None

    @property
    def elsewhere(self) -> str:
        """What a command must be told so that it reads the store of which this tells; empty: nothing."""
        return f"--store {shlex.quote(self.store)}" if self.problem and self.store not in ("", self.first) else ""

    @property
    def newest(self) -> Shot | None:
        """The newest snapshot that counts as a way back; one from the future does not."""
        return next((one for one in reversed(self.shots) if one.good and one.taken_at <= self.seen), None)

    @property
    def ahead(self) -> bool:
        """Whether something that would count is from the future: a clock is wrong, or was."""
        drilled = any(one.at > self.seen for one in self.drills)
        return drilled or any(one.good and one.taken_at > self.seen for one in self.shots)

    @property
    def newer(self) -> Mapping[str, int]:
        """How many snapshots that are meant as a way back are newer than the one that counts, by kind."""
        newest = self.newest
        return Counter(one.kind for one in self.shots if newest and one.taken_at > newest.taken_at and one.meant)

    @property
    def late(self) -> bool:
        """Whether the newest way back was older than it may be when the site was seen."""
        return self.newest is not None and (self.seen - self.newest.taken_at).total_seconds() > self.backup_limit

    @property
    def drilled(self) -> ReportedDrill | None:
        """The last drill that passed; one from the future does not count."""
        return next((one for one in reversed(self.drills) if one.passed and one.at <= self.seen), None)

    @property
    def restores(self) -> Sequence[ReportedRun]:
        """The runs that were to bring something back and are to be taken up."""
        return [one for one in self.runs if one.resumable and one.playbook.startswith(_RESTORES)]
