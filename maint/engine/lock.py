"""Kernel locks per site and per manager, so that a timer and a human never work on one at the same time."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import msgspec

from maint.config.paths import user
from maint.config.schema import SiteSettings
from maint.errors import Locked, WorkFailed
from maint.files import explaining, kept_record, make_folder
from maint.model.formatting import tell_times
from maint.ports import Clock

_NAME = "lock"
_MANAGERS = ".managers"  # beside the sites' state folders
_TRIES, _PAUSE = 4, 0.05  # seconds


class Holder(msgspec.Struct, frozen=True):
    """Who holds a lock, since when, doing what, and for which run."""

    user: str
    host: str
    pid: int
    since: str
    doing: str
    run: str = ""  # empty for what keeps no journal, and until its journal has begun

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid}) since {tell_times(self.since)}: {self.doing}"


def make_state_folder(folder: Path) -> None:
    """Make a private folder with all its parents, or raise WorkFailed."""
    hint = "set `state:` in the config, or MAINT_STATE, to a folder that you may write to"
    with explaining(f"the state folder {folder} cannot be made", hint, WorkFailed):
        make_folder(folder)


def site_lock(state: Path, site: str, doing: str, clock: Clock) -> AbstractContextManager[None]:
    """Hold the site's lock while the block runs; the kernel frees it when the process ends, however it ends.

    Args:
        doing: what for, in the `Locked` of a process that finds it taken.
    """
    make_state_folder(state)
    return _lock(state, f"site {site}", doing, clock)


@contextmanager
def manager_lock(site: SiteSettings, doing: str, clock: Clock) -> Iterator[None]:
    """Hold off, while the block runs, the runs of other sites that have this manager and the same folder of states.

    Where that folder is not ours to write to, nothing is held.

    Args:
        doing: what for, in the `Locked` of a process that finds it taken.
    """
    folder = _of_manager(site)
    try:
        make_folder(folder)
    except OSError:
        yield
        return
    with _lock(folder, f"the manager of site {site.name}", f"{doing}, for site {site.name}", clock):
        yield


def _of_manager(site: SiteSettings) -> Path:
    return site.state.parent / _MANAGERS / "_".join(map(str, site.manager.address))


def refuse_held(site: SiteSettings) -> None:
    """Raise Locked where another process holds the site's lock, or the one of its manager; nothing is taken."""
    for folder, what in (site.state, f"site {site.name}"), (_of_manager(site), f"the manager of site {site.name}"):
        if is_held(folder):
            raise _locked(folder, what)


@contextmanager
def _lock(folder: Path, what: str, doing: str, clock: Clock) -> Iterator[None]:
    with _opening(folder):
        handle = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with _locking(folder):
            taken = _taken(handle)
        if not taken:
            raise _locked(folder, what)
        _name(handle, Holder(user(), socket.gethostname(), os.getpid(), f"{clock.now():%Y-%m-%dT%H:%M:%SZ}", doing))
        yield
        _name(handle, None)
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # what was begun meanwhile may have it open for another moment
        os.close(handle)


def _taken(handle: int) -> bool:
    # Somebody who only asks whether it is held (`is_held`) lets go of it at once.
    for _ in range(_TRIES):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_PAUSE)
        else:
            return True
    return False


def _name(handle: int, holder: Holder | None) -> None:
    # A full disk keeps nobody from holding the lock.
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, msgspec.json.encode(holder) if holder else b"", 0)


def works_on(state: Path, run: str) -> None:
    """Name the run for which this process holds the site's lock."""
    who = holder(state)
    with suppress(OSError), (state / _NAME).open("r+b", buffering=0) as file:
        if who is not None:  # written over in one go: a reader meanwhile finds a name
            file.write(msgspec.json.encode(msgspec.structs.replace(who, run=run)))


def run_at_work(state: Path) -> str:
    """Return the run for which a process holds the site's lock now; empty where none does."""
    who = holder(state) if is_held(state) else None
    return who.run if who else ""


def is_held(state: Path) -> bool:
    """Return whether a process holds the lock now, by the kernel; WorkFailed where it cannot be opened, or asked."""
    with _opening(state):
        try:
            handle = os.open(state / _NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would be waited for
        except FileNotFoundError:
            return False
    try:
        with _locking(state), suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    finally:
        os.close(handle)
    return True


def holder(state: Path) -> Holder | None:
    """Return who wrote their name into the lock last, None where nobody did."""
    return kept_record(state / _NAME, Holder)


def _opening(state: Path) -> AbstractContextManager[None]:
    hint = "run maint as the user who owns the state folder"
    return explaining(f"the lock {state / _NAME} cannot be opened", hint, WorkFailed)


def _locking(state: Path) -> AbstractContextManager[None]:
    # Without locks nobody is held off: NFS whose lock service is down, Lustre that is mounted without `flock`.
    hint = "have its file system mounted with locks, or let `state` in the config lie on a local disk"
    return explaining(f"the lock {state / _NAME} cannot be taken", hint, WorkFailed)


def _locked(folder: Path, what: str) -> Locked:
    who = holder(folder)
    return Locked(
        f"another run works on {what}",
        detail=[f"held by {who}" if who else "its holder has not written its name yet"],
        hint="wait until it has ended; a lock never outlives its process",
    )
