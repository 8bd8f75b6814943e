"""One kernel lock per site, so that a timer and a human never work on it at the same time."""

import fcntl
import getpass
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from maint.errors import Locked, WorkFailed
from maint.ports import Clock


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock, since when, doing what."""

    user: str
    host: str
    pid: int
    since: str
    doing: str

    def __str__(self) -> str:
        return f"{self.user}@{self.host} (process {self.pid}) since {self.since}: {self.doing}"


def make_folder(folder: Path) -> None:
    """Make a private folder with all its parents."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WorkFailed(
            f"the state folder {folder} cannot be made: {error.strerror}",
            hint="set `state:` in the config, or MAINT_STATE, to a folder that you may write to",
        ) from error


@contextmanager
def site_lock(state: Path, site: str, doing: str, clock: Clock) -> Iterator[None]:
    """Hold the site's lock while the block runs; the kernel frees it when the process ends, however it ends.

    Args:
        state: the site's state folder.
        site: its name, for the message.
        doing: what for, told to whoever finds the lock held.
        clock: tells since when.

    Raises:
        Locked: another process holds it.
    """
    make_folder(state)
    try:
        handle = os.open(state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WorkFailed(
            f"the lock {state / 'lock'} cannot be opened: {error.strerror}",
            hint="run maint as the user who owns the state folder",
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked(state, site) from None
        me = Holder(getpass.getuser(), socket.gethostname(), os.getpid(), f"{clock.now():%Y-%m-%dT%H:%M:%SZ}", doing)
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({name: getattr(me, name) for name in Holder.__slots__}).encode(), 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def holder(state: Path) -> Holder | None:
    """Return who wrote their name into the lock last, None where nobody did."""
    try:
        return Holder(**json.loads((state / "lock").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _locked(state: Path, site: str) -> Locked:
    who = holder(state)
    return Locked(
        f"another run works on site {site}",
        detail=[f"held by {who}" if who else "its holder has not written its name yet"],
        hint="wait until it has ended; a lock never outlives its process",
    )
