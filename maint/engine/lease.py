"""The lease of a shared state: numbered files, the highest says which machine works; who it was taken over from.

Each number is created exclusively, so of two machines one gets it. No clocks of machines are compared: the age of a row
follows from two times of the store, and its holder counts from before it wrote it, by a clock that never goes back
and does not stand still while the machine sleeps.
"""

import secrets
import socket
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from maint import files
from maint.config.paths import user
from maint.errors import CannotReach, DeadlinePassed, Invalid, Locked, MaintError, Refused, StoreFailed, WorkFailed
from maint.files import Damaged, decoded, keep_record, kept_record, unmade
from maint.model.formatting import show_duration
from maint.ports import Clock, Site, Store, StoreSight
from maint.retry import delays
from maint.snapshots.in_progress import owner
from maint.snapshots.parts import bounded, names_in

_KEPT = 3  # numbers; a reader that has just listed them finds the highest
_SLACK = 5.0  # seconds; stores tell their time to the second, and clocks of machines do not tick alike
_WORKED, _MARK = "lease.json", "of"  # in the state folder; a folder beside the rows
_LARGEST = 64 * 1024  # bytes of a claim; one that is longer is none
_DIGITS = 12
_TRIES = 100  # to find the newest row, while its holder goes on
_UNANSWERED = (WorkFailed, CannotReach, Refused, Invalid)  # of a look whose answer is not needed
_LOOKS = 20.0  # seconds between two looks while an act of another machine may still be under way


class Terms(msgspec.Struct, frozen=True):
    """How long a lease holds, in seconds after its newest row was written."""

    lapses: float = 60.0  # without a further row anybody may take it
    ends: float = 300.0  # the act under way has ended by then, whatever became of its machine
    beat: float = 20.0  # between two rows while the holder lives


TERMS = Terms()


class LeaseLost(WorkFailed):
    """The lease went to another machine, or cannot be renewed: nothing further may be begun."""


class Claim(msgspec.Struct, frozen=True):
    """What a row says."""

    token: str  # of one taking; "" where the lease was given back
    owner: str  # tells the holder's state folder from all others
    host: str
    user: str
    run: str
    doing: str
    act: str  # what is under way; "" between two acts
    lapses: float
    ends: float

    def __str__(self) -> str:
        run = f", run {self.run}" if self.run else ""
        return f"{self.user}@{self.host}: {self.doing}{run}"

    def is_at(self, other: "Claim") -> bool:
        """Whether both come from one state folder of one machine: that of a machine that was cloned lies on two."""
        return (self.owner, self.host) == (other.owner, other.host)


class Row(msgspec.Struct, frozen=True):
    """A numbered file of the lease."""

    number: int
    claim: Claim
    written: datetime  # by the store's clock

    @property
    def words(self) -> str:
        """Who holds it, and since when without a further row."""
        act = f" ({self.claim.act})" if self.claim.act else ""
        return f"held by {self.claim}{act}, renewed at {self.written:%Y-%m-%d %H:%M:%S} UTC"

    def held_for(self, now: datetime) -> float:
        """Return the seconds until anybody may take the lease; 0.0 or less: now. `now` is the store's."""
        return self.claim.lapses + _SLACK - self._age(now) if self.claim.token else 0.0

    def acts_for(self, now: datetime) -> float:
        """Return the seconds until the act under way has ended at the latest; 0.0 or less: it has, or there is none."""
        return self.claim.ends + _SLACK - self._age(now) if self.claim.token and self.claim.act else 0.0

    def _age(self, now: datetime) -> float:
        return (now - self.written).total_seconds()


def folder_of(site: str) -> str:
    """Return where the lease of a site lies in a shared state."""
    return f"{site}/lease"


def newest(store: StoreSight, site: str) -> Row | None:
    """Return the row that counts, None where nobody ever held the lease; Refused where it is none of ours."""
    for _ in range(_TRIES):
        number = max(_numbers(store, site), default=0)
        if not number:
            return None
        name = _name(site, number)
        with suppress(FileNotFoundError):  # the holder has gone on, and removed it
            with store.open(name) as file:
                content = b"".join(bounded(file.read, _LARGEST))
            written = store.written(name)
            if written is not None:
                return Row(number, _claim(content, f"{store.location}/{name}"), written)
    raise StoreFailed(
        f"{store.location} lists {name}, and does not have it", hint="what does its own list of that folder show?"
    )


def _numbers(store: StoreSight, site: str) -> list[int]:
    found = [name.rpartition("/")[2] for name in names_in(store, folder_of(site))]
    return [int(one) for one in found if len(one) == _DIGITS and one.isascii() and one.isdigit()]


def _name(site: str, number: int) -> str:
    return f"{folder_of(site)}/{number:0{_DIGITS}}"


def _claim(content: bytes, where: str) -> Claim:
    try:
        return decoded(content, Claim)
    except Damaged as error:
        raise Refused(
            f"{where} says nothing of who works on the site: {error}",
            hint="find out who wrote it; where no run is at work on any machine, remove that file",
        ) from None


class Lease:
    """The lease of one site, as one run takes, renews and gives it back.

    Args:
        owner: what tells this state folder from all others; who has its lock on its host takes over its lease at once.
        doing: what for, in the words of a machine that finds it taken.
    """

    def __init__(
        self, store: Store, site: str, clock: Clock, owner: str, doing: str, terms: Terms | None = None
    ) -> None:
        self._store, self._site, self._clock = store, site, clock
        self._terms = terms = terms or TERMS
        host = socket.gethostname()
        self._token = secrets.token_hex(8)  # of this taking; what is written to give it back has none
        self._mine = Claim(self._token, owner, host, user(), "", doing, "", terms.lapses, terms.ends)
        self._number = 0  # of the newest row of ours
        self._until = 0.0  # until when nobody else begins anything, by `monotonic`, unless another row is written
        self._put_off: Callable[[float], None] = _nowhere
        self._lost = False
        self._mutex = threading.Lock()
        self._over = threading.Event()
        self.taken_over: Row | None = None  # of a holder that did not give it back

    def take(self) -> Generator[str, None, None]:
        """Take the lease and renew it from now on; Locked: another machine has it, StoreFailed: unfit for a lease."""
        told = 0
        while True:
            row = newest(self._store, self._site)
            if row is not None and not row.claim.is_at(self._mine) and (wait := self._wait(row)):
                if row.number != told:
                    told = row.number
                    yield (
                        f"the lease of {row.claim} has lapsed; waiting {show_duration(wait)} until its act has ended at"
                        f" the latest: {row.claim.act}"
                    )
                self._clock.sleep(min(wait, _LOOKS))  # one that was only away may give it back
            elif self._took(row.number if row else 0):
                break
        if row is not None and row.claim.token:
            self.taken_over = row
            if not row.claim.is_at(self._mine):
                yield f"taking over the lease of {row.claim}, which was not given back"
        if self._terms.beat:
            threading.Thread(target=self._beat, daemon=True, name="lease").start()

    def refuse_held(self) -> None:
        """Raise Locked where another machine has it now; nothing is taken."""
        row = newest(self._store, self._site)
        if row is not None and row.claim.token and not row.claim.is_at(self._mine):
            self._wait(row)

    def _wait(self, row: Row) -> float:
        now = self._store_time()
        if (left := row.held_for(now)) > 0:
            raise Locked(
                f"another machine works on site {self._site}",
                detail=[f"the lease in {self._store.location} is held by {row.claim}"],
                hint=f"wait until it has ended; where that machine is dead, its lease lapses in {show_duration(left)}",
            )
        return max(row.acts_for(now), 0.0)

    def _store_time(self) -> datetime:
        name = f"{folder_of(self._site)}/time-{secrets.token_hex(8)}"
        with suppress(FileExistsError), self._store.create(name):  # nobody else made it: an answer was lost
            pass
        try:
            return _told_time(self._store, name)
        finally:
            self._store.remove(name)

    def _took(self, number: int) -> bool:
        """Create the next number, twice at once: where both come about the store is none for a lease."""
        name, began = _name(self._site, number + 1), self._clock.monotonic()
        return _created_twice(self._store, name, self._content) and self._is_ours(number + 1, began)

    @property
    def _content(self) -> bytes:
        return msgspec.json.encode(self._mine)

    def _is_ours(self, number: int, began: float) -> bool:
        # A number that was removed long ago can be created again: what counts is that none is higher.
        if max(numbers := _numbers(self._store, self._site), default=0) != number:
            return False
        before = _name(self._site, self._number)
        if self._number and self._number not in numbers and self._store.written(before) is None:
            self._store.remove(_name(self._site, number))  # it was written into another folder: ours is not mounted
            return False
        self._number, self._until = number, began + (self._terms.ends if self._mine.act else self._terms.lapses)
        self._put_off(self._until)
        for old in numbers:
            if old <= number - _KEPT:
                self._store.remove(_name(self._site, old))
        return True

    @property
    def is_lost(self) -> bool:
        """Whether another machine has it."""
        return self._lost

    @property
    def holds(self) -> bool:
        """Whether no other machine can have begun anything, by the clock alone."""
        return not self._lost and self._clock.monotonic() < self._until

    def heir(self) -> str:
        """Return the run of the machine that holds it now, "" where none does, or where that is not known."""
        with suppress(*_UNANSWERED):
            row = newest(self._store, self._site)
            return row.claim.run if row is not None and row.claim.token not in ("", self._mine.token) else ""
        return ""

    def works_on(self, run: str) -> None:
        """Name the run from the next row on."""
        self._mine = msgspec.structs.replace(self._mine, run=run)

    @contextmanager
    def acting(self, act: str) -> Iterator[None]:
        """Renew the lease, then let the block go on for as long as the lease is renewed beside it.

        Raises:
            LeaseLost: nothing may be begun; or, within the block, it went on for too long without being renewed.
        """
        self.renew(act)
        own: object = self  # the limit of this act; it may be renewed the moment after it struck
        try:
            with self._clock.limit(max(self._until - self._clock.monotonic(), 0.001)) as self._put_off:
                own = getattr(self._put_off, "__self__", self)
                self._put_off(self._until)
                yield
        except DeadlinePassed as passed:
            if passed.limit is not own and self._clock.monotonic() < self._until:
                raise
            raise LeaseLost(
                f"{act}: stopped, since the lease was not renewed for {show_duration(self._terms.ends)}",
                detail=["what was sent before that may have been done"],
                hint="look at the network, the shared state and this machine's clock and load",
            ) from passed
        finally:
            self._put_off = _nowhere
            self._mine = msgspec.structs.replace(self._mine, act="")

    def renew(self, act: str) -> None:
        """Write the next row, which names the act; LeaseLost where that cannot be done."""
        failure: StoreFailed | None = None
        for pause in (0.0, *delays(1.0, 2.0, times=2)):
            self._clock.sleep(pause)
            try:
                with self._mutex:
                    self._mine = msgspec.structs.replace(self._mine, act=act)
                    self._renew()
                return
            except StoreFailed as failed:
                failure = failed
        raise LeaseLost(
            "the lease cannot be renewed, so nothing further is begun",
            detail=[failure.message, *failure.detail] if failure else [],
            hint="mend the way to the shared state",
        )

    def _renew(self) -> None:
        while not self._lost:
            number, began = self._number + 1, self._clock.monotonic()
            name = _name(self._site, number)
            if _created(self._store, name, self._content):
                self._lost = not self._is_ours(number, began)
                break
            # An earlier try may have come about though its answer was lost; it is as old as it is, so go on from there.
            self._lost = not self._wrote(name)
            self._number = number
        if self._lost:
            raise self._gone()

    def _wrote(self, name: str) -> bool:
        # Its answer may have been lost: only looking tells.
        with suppress(FileNotFoundError), self._store.open(name) as file:
            return _claim(b"".join(bounded(file.read, _LARGEST)), name).token in (self._token, self._mine.token)
        return False

    def _gone(self) -> LeaseLost:
        by, what = list[str](), "went to another machine"
        hint = "this machine was away for too long; look what the other one does before you go on"
        with suppress(*_UNANSWERED):
            row = newest(self._store, self._site)
            by = [f"it is held by {row.claim}"] if row and row.claim.token else []
            if row is None:
                what = f"is gone, as if {self._store.location} were not mounted any more"
                hint = "mount it again, and look whether another machine works on the site by now"
        return LeaseLost(f"the lease of site {self._site} {what}, so nothing further is begun", detail=by, hint=hint)

    def _beat(self) -> None:
        while not self._over.wait(self._terms.beat):
            with suppress(MaintError), self._mutex:  # whatever is wrong with the store may be over at the next beat
                if self._over.is_set():
                    return
                try:
                    self._renew()
                except LeaseLost:
                    return

    def give_back(self) -> str:
        """Let others take it at once; return why that failed, "" where it did not, or where it was lost before."""
        self._over.set()
        if not self._number:
            return ""
        try:
            with self._mutex:
                self._mine = msgspec.structs.replace(self._mine, token="")
                self._renew()
        except LeaseLost:
            return ""
        except StoreFailed as failure:
            lapses = show_duration(self._terms.lapses + _SLACK)
            return f"the lease could not be given back, and lapses in {lapses}: {failure.message}"
        return ""


def insist_fit(store: Store, name: str) -> None:
    """Raise StoreFailed where a store cannot hold a lease, tried on a file of this name, which is gone again then."""
    folder = Path(store.location) if store.location.startswith("/") else None
    with unmade((folder / name).parent) if folder else nullcontext():
        try:
            _created_twice(store, name, b"")
            _told_time(store, name)
        finally:
            store.remove(name)


def _created_twice(store: Store, name: str, content: bytes) -> bool:
    """Return whether a file came about, of which two are created at once; StoreFailed where both came about."""
    created = False
    try:
        with store.create(name):
            created = _created(store, name, content)
    except FileExistsError:
        return created
    raise StoreFailed(
        f"{store.location} cannot hold a lease: it let one file be created twice",
        hint="a lease needs exclusive creation: a POSIX folder, OpenSSH's sftp, or S3 that honours If-None-Match",
    )


def _created(store: Store, name: str, content: bytes) -> bool:
    try:
        with store.create(name) as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def _told_time(store: Store, name: str) -> datetime:
    found = store.written(name)
    if found is None:
        raise StoreFailed(f"{store.location} does not keep what is written", hint="is something cleaning it?")
    return found


class _Worked(msgspec.Struct, frozen=True):
    """Where this machine took the lease last."""

    location: str
    mark: str = ""  # name of the file that tells that folder from any other


def insist_mounted(site: Site) -> None:
    """Raise Refused where a folder in which this machine took the lease is another one now: it may not be mounted."""
    path = site.state / _WORKED
    worked = files.kept_record(path, _Worked)
    if site.shared is None or worked is None or worked.location != site.shared.location or not worked.mark:
        return
    if site.shared.size(worked.mark) is None:
        raise Refused(
            f"the shared state {worked.location} is empty, or not the one that this machine has worked with",
            hint=f"mount it, since another machine may be at work; where it was emptied on purpose, remove {path}",
        )


def remember_mounted(site: Site, shared: Store) -> None:
    """Remember which folder it is in which the lease was just taken."""
    path = site.state / _WORKED
    worked = files.kept_record(path, _Worked)
    if not shared.location.startswith("/") or (worked and worked.mark and worked.location == shared.location):
        return
    folder = f"{folder_of(site.settings.name)}/{_MARK}"
    mark = next((name for name in names_in(shared, folder)), f"{folder}/{secrets.token_hex(8)}")
    with suppress(FileExistsError), shared.create(mark):  # which it is, none but the holder of the lease decides
        pass
    with suppress(OSError):
        files.keep_record(path, _Worked(shared.location, mark))


def refuse_elsewhere(site: Site, run: str) -> None:
    """Raise WorkFailed where a run, named by its beginning, is at work on another machine, which it alone hears now."""
    row = newest(site.shared, site.settings.name) if site.shared is not None and run else None
    if site.shared is None or row is None or not row.claim.run.startswith(run):
        return
    try:
        Lease(site.shared, site.settings.name, site.clock, owner(site), "").refuse_held()
    except Locked as held:
        raise WorkFailed(
            f"run {row.claim.run} is at work on {row.claim.host}, and hears nothing that is said elsewhere",
            detail=held.detail,
            hint=f"answer it on {row.claim.host}: `maint playbook approve {row.claim.run}`",
        ) from None


def _nowhere(until: float) -> None:
    """Put off nothing."""


_NAME = "takeover.json"


class Takeover(msgspec.Struct, frozen=True):
    """The last one."""

    at: datetime
    holder: str  # who held it, for what
    playbook: str  # what it worked at
    run: str  # its run, "" where it had none yet
    number: int
    journaled: bool = False
    told: bool = False

    @property
    def words(self) -> str:
        """What happened, in one sentence."""
        return f"the lease was not given back, and was taken over; it was held by {self.holder}"


def keep_takeover(state: Path, row: Row, now: datetime) -> None:
    """Keep that the lease was taken from the holder of this row."""
    playbook = row.claim.doing.partition(",")[0].removeprefix("playbook ")
    _write(state, Takeover(now, str(row.claim), playbook, row.claim.run, row.number))


def last_takeover(state: Path) -> Takeover | None:
    """Return the last one, None where there was none, or where what is kept is damaged."""
    return kept_record(state / _NAME, Takeover)


def mark_takeover(state: Path, one: Takeover, **done: bool) -> None:
    """Note that the journal has it (`journaled`), or that those who are to be told were (`told`), unless it is over."""
    known = last_takeover(state)
    if known is not None and (known.at, known.number) == (one.at, one.number):
        _write(state, msgspec.structs.replace(known, **done))


def _write(state: Path, one: Takeover) -> None:
    with suppress(OSError):  # what is told twice, or not, keeps nobody from working
        keep_record(state / _NAME, one)
