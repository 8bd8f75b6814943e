"""Unfinished runs in the shared state, sealed, so that another machine takes them up: journals and what undoes them.

A run is a row of pieces, `<site>/runs/<run>/<number>`, each with what the journal and the state folder gained since the
one before. `<run>.shared` beside the journal says up to which piece this machine knows it. That a run has ended is told
by `<site>/ended/<run>` alone: that its pieces are not there proves nothing, since somebody may have emptied that state.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import islice
from pathlib import Path

import msgspec

from maint import files
from maint.engine import journal as journals
from maint.engine import past_runs
from maint.engine.journal import RUNS, RunState
from maint.engine.lease import Lease, insist_mounted, keep_takeover, remember_mounted
from maint.engine.lock import refuse_held, site_lock
from maint.engine.sealed import Sealed, key_of
from maint.errors import CannotReach, Failure, Invalid, Locked, Refused, UsageError, WorkFailed
from maint.model.secret import Secret
from maint.ports import Site, Store
from maint.snapshots.in_progress import owner
from maint.snapshots.open_windows import was_closed
from maint.snapshots.parts import names_in

# What of a state folder belongs to a run, beside its journal and the undo objects.
_WITH_RUNS = (
    "window.json",
    "host-files.json",
    "begun",
    "recreate",
    "vc-undo",
    "setting-undo",
    "user-secrets",
    "certificates",
)
_NEWEST = "certificates/"  # what this machine has of these is older than what a run of another one made
_UNDO = re.compile(r"[0-9a-f]{32}")
_DIGITS = 8
_AT_ONCE = 8  # objects for undoing that a piece holds, each of 16 MiB at most where it is a part of a file
_GAPS = 1000  # pieces that no list names and that are asked for
_KEYS = "keys"  # folder of what was done under a `--run-key`
_KEYS_STAY = timedelta(days=30)
_SAID = "approval-"  # how the names of answers begin, beside a run's pieces
_ENDED = "ended"  # folder of what tells that a run has ended
_ENDS_STAY = 1000  # of them, the newest, and each for as long as a key: no clock of a machine decides it


class Piece(msgspec.Struct, frozen=True):
    """What a run gained since the piece before."""

    at: int  # bytes of the journal that stay, of all pieces before
    journal: bytes
    files: Mapping[str, bytes]
    gone: Sequence[str]
    undo: Mapping[str, bytes]


class SharedRuns:
    """The unfinished runs of a site, as all its machines see them; only the holder of the lease writes."""

    def __init__(self, site: Site, store: Store, key: Secret) -> None:
        self._site, self._store = site, store
        self._sealed = Sealed(site, store, key)
        self._state = site.state
        self._folder, self._ends = (f"{site.settings.name}/{folder}" for folder in (RUNS, _ENDED))
        self._at, self._number = 0, 0
        self._known: dict[str, object] = {}
        self.told = False  # whether other machines may know anything of the run that is followed

    def follow(self, past: RunState | None) -> None:
        """Remember what lies in the state folder now; what a run changes there goes along with it.

        Args:
            past: a run that is taken up; of one that is not in the shared state yet everything goes along.
        """
        self._at, self._known = 0, dict(self._present())
        self._number = max(self._pieces(past.id), default=0) if past else 0
        self.told = self._number > 0
        if past is not None:  # it may have died between a change and the piece that was to tell of it
            _, kept, undo, _ = self._replayed(past.id)
            same = {name: facts for name, facts in self._known.items() if name in undo}  # these never change
            self._known = {**dict.fromkeys([*kept, *undo]), **same}

    def push(self, run: str) -> None:
        """Let other machines know all that stands in the journal of the run, on disk there before this returns."""
        journal = files.read_file(self._state / RUNS / f"{run}.jsonl")
        now = dict(self._present())
        changed = [name for name, facts in now.items() if self._known.get(name) != facts]
        gone = [name for name in self._known if name not in now]
        if not self._known_up_to(run):  # before anybody can learn of it, and end it
            self._mark(run, 0)
        undo = [name for name in changed if name.startswith("undo/")]
        *early, last = [undo[at : at + _AT_ONCE] for at in range(0, len(undo), _AT_ONCE)] or [[]]
        for some in early:  # the last piece tells of what stands in these; without it nobody heeds them
            self._add(run, Piece(self._at, b"", {}, (), self._opened(some)))
        kept = {name: files.read_file(self._state / name) for name in changed if name not in undo}
        self._add(run, Piece(self._at, journal[self._at :], kept, gone, self._opened(last)))
        self._at, self._known = len(journal), now
        self._mark(run, self._number)

    def _opened(self, undo: Sequence[str]) -> Mapping[str, bytes]:
        return {name: self._site.undo.fetch(name.removeprefix("undo/")) for name in undo}

    def _add(self, run: str, piece: Piece) -> None:
        self.told, written = True, False
        while not written:  # one that the store did not take is tried again under its number: a hole would be no run
            with suppress(FileExistsError):  # an earlier try whose answer was lost; a later piece stands above it
                self._sealed.write(self._name(run, self._number + 1), msgspec.json.encode(piece))
                written = True
            self._number += 1

    def ended(self, run: str, *, waits: bool = False) -> None:
        """Tell how an attempt ended, in any case where it `waits`; a run that nobody takes up any more is forgotten."""
        past = past_runs.find(self._state, run)
        if not past.resumable:
            self.end(run)
        elif waits or self._pieces(run):
            self.push(run)

    def end(self, run: str) -> None:
        """Forget a run that nobody takes up any more: its end is told, then its pieces go, the first one first."""
        self._remember_done(run)
        if self.told:
            self.push(run)
            self._close(run)
        files.remove(self._marked(run))

    def _close(self, run: str) -> None:
        own = f"{self._ends}/{run}"
        with suppress(FileExistsError):
            self._sealed.write(own, b"")
        self._forget_old(own, self._ends, _ENDS_STAY)
        self._remove(run)

    def _forget_old(self, own: str, folder: str, stay: int) -> None:
        """Remove what was written a month before `own`, by the store's clock; of the newest runs so many stay."""
        now, names = self._store.written(own), sorted(names_in(self._store, folder), key=lambda one: one.split("/")[-1])
        for name in names[: max(len(names) - stay, 0)]:
            written = self._store.written(name)  # a run that began long ago may have ended just now
            if now is None or written is None or now - written < _KEYS_STAY:
                return
            self._store.remove(name)

    def _told_ended(self, runs: Collection[str]) -> Iterator[str]:
        """Yield which of these runs have ended, as who ended them has told; a list may leave that out."""
        for run in runs:
            with suppress(FileNotFoundError):
                self._sealed.read(f"{self._ends}/{run}")  # Refused where it is not of one of our machines
                yield run

    def _remove(self, run: str) -> None:
        self._pieces(run)  # a list that is cut removes nothing
        for name in sorted(names_in(self._store, f"{self._folder}/{run}")):
            self._store.remove(name)

    def say(self, run: str, name: str, content: bytes) -> bool:
        """Let whichever machine takes a run up hear what a person says; False: no other one knows of that run.

        Args:
            name: of the file `<run>.<name>` beside the journal; of several answers the first counts, and lies there.
        """
        if not self._pieces(run):
            return False
        with suppress(FileExistsError):
            self._sealed.write(f"{self._folder}/{run}/{name}", content)
        self._hear()
        return True

    def _hear(self) -> None:
        for name in names_in(self._store, self._folder):
            run, _, said = name.removeprefix(f"{self._folder}/").partition("/")
            if said.startswith(_SAID) and (self._state / RUNS / f"{run}.jsonl").exists():
                with suppress(FileNotFoundError):  # the run has ended since it was listed
                    files.create(self._state / RUNS / f"{run}.{said}", self._sealed.read(name))

    def _remember_done(self, run: str) -> None:
        """Let other machines know what was done under a `--run-key`, for a month; what lies there longer goes."""
        past = self._found(run)
        key = str(past.options.get("run_key") or "") if past is not None else ""
        if past is None or not past.over or not key:
            return
        own = f"{self._of_key(key)}/{run}"
        with suppress(FileExistsError):
            self._sealed.write(own, files.read_file(self._state / RUNS / f"{run}.jsonl"))
        self._forget_old(own, f"{self._site.settings.name}/{_KEYS}", 0)

    def _learn_done(self, key: str) -> Iterator[str]:
        for name in sorted(names_in(self._store, self._of_key(key))):
            run = name.rpartition("/")[2]
            path = self._state / RUNS / f"{run}.jsonl"
            if not path.exists() and not _leads_out(run):
                files.make_folder(path.parent)
                files.replace(path, self._sealed.read(name))
                yield f"run {run} of another machine is known here now"

    def _took_done(self, past: RunState) -> bool:
        """Take in that a run with a `--run-key` was done elsewhere: given up, it would be done again under its key."""
        if key := str(past.options.get("run_key") or ""):
            with suppress(FileNotFoundError):
                done = self._sealed.read(f"{self._of_key(key)}/{past.id}")
                files.replace(self._state / RUNS / f"{past.id}.jsonl", done)
                return True
        return False

    def _of_key(self, key: str) -> str:
        return f"{self._site.settings.name}/{_KEYS}/{hashlib.sha256(key.encode()).hexdigest()}"

    def sync(self, key: str = "") -> Iterator[str]:
        """Take in what other machines did since, and tell what was found; the caller holds the lock and the lease.

        Args:
            key: the `--run-key` of a command; what was done under it elsewhere is learnt, too.
        """
        if key:
            yield from self._learn_done(key)
        there, marked = self._all(), {path.stem for path in (self._state / RUNS).glob("*.shared")}
        over = {*self._told_ended({*there, *marked})}
        for run, numbers in sorted(there.items()):
            mark = self._known_up_to(run)
            if run in over:  # its remover was stopped on the way
                self._remove(run)
            elif 1 not in numbers and mark in (0, max(numbers)):  # here all of it is known, or nothing
                if not mark:
                    yield (
                        f"{self._name(run, 1)} is missing in {self._store.location}, so run {run} is not known here;"
                        " take it up on the machine that began it, or move that folder away"
                    )
            elif max(numbers) != mark:
                if self._take_in(run, max(numbers)):
                    yield f"run {run} of another machine is known here now"
            elif (past := self._found(run)) is not None and not past.resumable:
                self.follow(past)
                self.end(run)
        for run in sorted(marked):
            if run in over or 1 not in there.get(run, ()):
                yield from self._without_pieces(run, ended=run in over)
        if there:
            self._hear()
        self._share_fingerprint_key()

    def _without_pieces(self, run: str, *, ended: bool) -> Iterator[str]:
        """Give up a run of this machine that others are told has ended; one of which nothing tells is told anew."""
        past, mark = self._found(run), self._known_up_to(run)
        if not ended:
            self._refuse_cut_list(run, self._pieces(run), up_to=mark)
        if past is None or not past.resumable:
            if past is not None and not ended:  # others know it still, and would tell it anew
                self._close(run)
            files.remove(self._marked(run))
        elif ended:
            if not self._took_done(past):
                journals.dismiss(self._state, past, self._site.clock.now(), "another machine brought it to its end")
            self._drop_window(run)
            files.remove(self._marked(run))
            yield f"run {run} was brought to its end by another machine"
        elif mark:  # else it was never told whole, and the machine that takes it up tells all of it
            self._remove(run)  # of no use to anybody
            self.follow(past)
            self.push(run)
            yield (
                f"run {run} was gone from {self._store.location}, and nothing tells that it has ended: it is told anew;"
                f" where it is over, `maint playbook dismiss {run} --reason WORDS`"
            )

    def _drop_window(self, run: str) -> None:
        """Forget a window that a record says is closed: that nothing is listed of its run proves nothing."""
        path = self._state / "window.json"
        with suppress(files.Damaged):
            window = files.load(path, dict[str, object]) or {}
            if window.get("run") == run and was_closed(self._site, run, str(window.get("opened_at"))):
                files.remove(path)

    def _take_in(self, run: str, number: int) -> bool:
        """Let this machine know what all pieces tell; return whether it did not: it may know more, or they nothing."""
        journal, kept, undo, gone = self._replayed(run)
        if not journal:  # its first push was cut: who takes it up sends all anew, and maybe that machine is gone
            self._remove(run)
            return False
        path = self._state / RUNS / f"{run}.jsonl"
        known = files.read_file(path) if path.exists() else b""
        if known.startswith(journal):
            self._mark(run, number)
            return False
        for name, content in undo.items():
            own = name.removeprefix("undo/")
            self._site.undo.drop(own)
            self._site.undo.keep(content, own)
        for name, content in kept.items():
            place = self._state / name
            if known or not place.exists() or name.startswith(_NEWEST):
                files.make_folder(place.parent)
                files.replace(place, content)
        for name in gone:
            if known:
                files.remove(self._state / name)
        files.make_folder(path.parent)
        files.replace(path, journal)  # last but one: now it can be resumed
        self._mark(run, number)
        return True

    def _replayed(self, run: str) -> tuple[bytes, dict[str, bytes], dict[str, bytes], set[str]]:
        """Return the journal, the files, the undo objects and what is gone, of all pieces one after another."""
        journal, kept, undo, gone = b"", dict[str, bytes](), dict[str, bytes](), set[str]()
        for number in sorted(self._pieces(run)):
            piece = self._piece(run, number)
            if piece.journal:  # else its push was cut before it came to that, or there was nothing to tell
                if piece.at > len(journal):
                    raise Refused(
                        f"of run {run} in {self._store.location} a piece is missing: what it has done is not known",
                        hint="take it up on the machine that began it, or move that run's folder away",
                    )
                longer = journal[: piece.at] + piece.journal
                if piece.at and not longer.startswith(journal):
                    continue  # of a machine that went on though another one had taken the run up
                journal = longer
            kept |= piece.files
            undo |= piece.undo
            gone = (gone - {*piece.files, *piece.undo}) | {*piece.gone}
            kept = {name: content for name, content in kept.items() if name not in gone}
            undo = {name: content for name, content in undo.items() if name not in gone}
        if any(_leads_out(name) for name in (*kept, *undo, *gone)):
            raise Refused(
                f"run {run} in {self._store.location} names files outside the state folder",
                hint="find out who has the key of the shared state; then move that run's folder away",
            )
        return journal, kept, undo, gone

    def _piece(self, run: str, number: int) -> Piece:
        try:
            return files.decoded(self._sealed.read(self._name(run, number)), Piece)
        except files.Damaged as error:
            raise Refused(
                f"{self._name(run, number)} in {self._store.location} cannot be read: {error}",
                hint="is it of a later version of maint? Take the run up with that one",
            ) from None

    def _present(self) -> Iterator[tuple[str, object]]:
        for top in (*_WITH_RUNS, "undo"):
            path = self._state / top
            for one in [path] if path.is_file() else sorted(path.rglob("*")):
                name = one.relative_to(self._state).as_posix()
                if one.is_file() and not one.name.startswith(".") and (top != "undo" or _UNDO.fullmatch(one.name)):
                    facts = one.stat()
                    yield name, (facts.st_ino, facts.st_mtime_ns, facts.st_size)

    def _share_fingerprint_key(self) -> None:
        """Let machines to come use the key of the fingerprints that this one has."""
        path = self._state / "keys" / "fingerprint"
        name = fingerprint_key(self._site.settings.name)
        if path.exists() and self._store.size(name) is None:
            with suppress(FileExistsError):
                self._sealed.write(name, files.read_file(path))

    def _found(self, run: str) -> RunState | None:
        with suppress(UsageError, Refused, Invalid):
            return past_runs.find(self._state, run)
        return None

    def _all(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        for name in names_in(self._store, self._folder):
            run, _, number = name.removeprefix(f"{self._folder}/").partition("/")
            if number.isascii() and number.isdigit():
                found.setdefault(run, []).append(int(number))
        for run, numbers in found.items():
            self._refuse_cut_list(run, numbers, up_to=max(numbers) + 1)
        return found

    def _refuse_cut_list(self, run: str, numbers: Sequence[int], up_to: int) -> None:
        """Raise WorkFailed where a list leaves pieces out that are there: absence in a list alone proves nothing."""
        listed = frozenset(numbers)
        left_out = islice((number for number in range(max(up_to, 1), 0, -1) if number not in listed), _GAPS)
        if any(self._store.size(self._name(run, number)) is not None for number in left_out):
            raise WorkFailed(
                f"{self._store.location} does not list all pieces of run {run}, though they are there",
                detail=["a list that leaves files out comes from a store that is broken, or lies"],
                hint="look at the store itself, then again; nothing was forgotten",
            )

    def _pieces(self, run: str) -> list[int]:
        return list(self._all().get(run, ()))

    def _name(self, run: str, number: int) -> str:
        return f"{self._folder}/{run}/{number:0{_DIGITS}}"

    def _marked(self, run: str) -> Path:
        return self._state / RUNS / f"{run}.shared"

    def _mark(self, run: str, number: int) -> None:
        files.replace(self._marked(run), str(number).encode())

    def _known_up_to(self, run: str) -> int:
        try:
            return int(files.read_file(self._marked(run)))
        except (OSError, ValueError):  # all is taken in again
            return 0


def fingerprint_key(site: str) -> str:
    """Return the name of the file that holds the key of a site's fingerprints in a shared state."""
    return f"{site}/fingerprint-key"


def adopt_fingerprint_key(site: Site) -> None:
    """Use the key of the fingerprints that another machine made first, where there is one."""
    if site.shared is not None and (key := key_of(site)) is not None:
        sealed = Sealed(site, site.shared, key)
        with suppress(FileNotFoundError):
            content = sealed.read(fingerprint_key(site.settings.name))
            files.make_folder(site.state / "keys")
            files.create(site.state / "keys" / "fingerprint", content)


def shared_runs(site: Site) -> SharedRuns | None:
    """Return the runs that all machines see, None where no state is shared, or no key to seal it is configured."""
    key = key_of(site)
    return SharedRuns(site, site.shared, key) if site.shared is not None and key is not None else None


def taken(site: Site, lease: Lease) -> Iterator[str]:
    """Take the lease; yield words on it, and keep that it was taken over until that is told."""
    insist_mounted(site)
    yield from lease.take()
    if site.shared is not None:
        remember_mounted(site, site.shared)
    row = lease.taken_over
    if row is not None and row.claim.owner != owner(site):  # of this machine its journal tells
        keep_takeover(site.state, row, site.clock.now())


@contextmanager
def at_work(site: Site, doing: str, tell: Callable[[str], None], key: str = "") -> Iterator[SharedRuns | None]:
    """Hold the site's lock while the block lasts, and where machines share a state, be the only one that works on it.

    Whatever changes the server, a host or the store does; what changes files of this machine alone only needs the lock.

    Args:
        doing: what for, in the words of a machine that finds the lease taken.
        tell: is told what is waited for, and what was found.
        key: the `--run-key` whose run is looked for.

    Raises:
        Locked: another run, or another machine, works on the site.
        LeaseLost: this machine was away for too long, and another one may go on.
    """
    with site_lock(site.state, site.settings.name, doing, site.clock), _leased(site, doing, tell, key) as runs:
        yield runs


@contextmanager
def _leased(site: Site, doing: str, tell: Callable[[str], None], key: str) -> Iterator[SharedRuns | None]:
    if site.shared is None:
        yield None
        return
    lease = Lease(site.shared, site.settings.name, site.clock, owner(site), doing)
    try:
        for words in taken(site, lease):
            tell(words)
        runs = shared_runs(site)
        for words in runs.sync(key) if runs else ():
            tell(words)
        with lease.acting(doing):
            yield runs
    finally:
        if problem := lease.give_back():
            tell(problem)


@contextmanager
def unless_held(site: Site) -> Iterator[None]:
    """Where what was looked at in the block fails it while another run works on the site, that is why: Locked.

    Such as a manager that is being restarted; what comes of the look is of use to nobody before that run has ended.
    """
    try:
        yield
    except (CannotReach, WorkFailed, Refused) as failure:
        try:
            refuse_held(site.settings)
            if site.shared is not None:
                Lease(site.shared, site.settings.name, site.clock, owner(site), "").refuse_held()
        except Locked as held:
            held.detail = (*held.detail, f"meanwhile: {failure.in_a_line}")
            raise held from failure
        except (OSError, Failure):  # who holds it cannot be seen
            pass
        raise


def _leads_out(name: str) -> bool:
    return name.startswith("/") or ".." in Path(name).parts
