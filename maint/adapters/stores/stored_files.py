"""What the files of every store share: names, streams, and staged files that name their writer: host, boot, process."""

import hashlib
import io
import os
import re
import secrets
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from maint.errors import Invalid, StoreFailed
from maint.files import as_file
from maint.model.snapshot import STORED_NAME

STAGING = ".staging-"
ABANDONED = timedelta(hours=24)  # no run takes that long, whatever machine it runs on
_TRIAL = re.compile(r"[^/]+/trial-[0-9a-f]{16}")
_SHAPE = re.compile(re.escape(STAGING) + r"([0-9a-f]{12})-([0-9a-f]{12})-(\d+)-(\d+)-[0-9a-f]{16}")


def split_name(name: str) -> tuple[str, ...]:
    """Return the folders and the file name of a relative name such as `prod/1/manifest.json`; Invalid for any other."""
    if not re.fullmatch(STORED_NAME, name):
        raise Invalid(
            f"{name!r} is not a name for a stored file",
            hint="where the config does not say it, a manifest does: `maint backup verify` names which",
        )
    return tuple(name.split("/"))


def split_prefix(prefix: str) -> tuple[str, ...]:
    """Return the folders of a prefix; empty for the store itself."""
    return split_name(prefix) if prefix else ()


def no_hard_links(location: str) -> StoreFailed:
    """Return why no state that machines share can lie in a place."""
    return StoreFailed(
        f"{location} cannot hold a shared state: no hard link can be made there",
        detail=["without one two machines may both create the same file, and work at once"],
        hint="name a folder on NFS or another file system with hard links, such a one by OpenSSH's SFTP, or S3:"
        " `shared_state`",
    )


def staging_name() -> str:
    """Return a fresh name for a file that this process is going to write."""
    return f"{STAGING}{_machine()}-{_boot()}-{os.getpid()}-{_began(os.getpid())}-{secrets.token_hex(8)}"


def trial_name(site: str) -> str:
    """Return a fresh name for what is written to see whether anything can be, and taken away at once."""
    return f"{site}/trial-{secrets.token_hex(8)}"


def is_trial(name: str) -> bool:
    """Return whether a name is one of `trial_name`."""
    return _TRIAL.fullmatch(name) is not None


def is_staging(name: str) -> bool:
    """Return whether a file is one that is still written, by its name."""
    return name.rpartition("/")[2].startswith(STAGING)


def passed(times: Iterable[datetime]) -> datetime:
    """Return a time that a store's own clock has passed, by the times of its files: this machine's may be ahead."""
    return min(datetime.now(UTC), max(times, default=datetime.max.replace(tzinfo=UTC)))


def is_left_over(name: str, touched: datetime, now: datetime) -> bool:
    """Return whether nobody writes a staged file any more, or tries: by its process here, by its age elsewhere."""
    found = _SHAPE.fullmatch(name)
    if found is None or found[1] != _machine():
        return now - touched > ABANDONED
    return found[2] != _boot() or _began(int(found[3])) != int(found[4])


def _machine() -> str:
    # Containers may share the machine's id, and count their processes each for themselves.
    try:
        processes = str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        processes = ""
    return _short(_line("/etc/machine-id"), socket.gethostname(), processes)


def _boot() -> str:
    return _short(_line("/proc/sys/kernel/random/boot_id"))


def _began(process: int) -> int:
    # Ticks since the boot; 0 where there is no such process.
    # The command's name stands in brackets and may hold anything; what follows is separated by blanks.
    fields = _line(f"/proc/{process}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _line(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _short(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


def reader(
    read: Callable[[int], bytes], failing: Callable[[], AbstractContextManager[None]], buffer: int
) -> io.BufferedReader:
    """Return a file being read; `failing` turns what the store says into a failure with words."""

    def block(size: int) -> bytes:
        with failing():
            return read(size)

    return as_file(block, buffer)


class Writer:
    """A file being written block by block; `failing` turns what the store says into a failure with words."""

    def __init__(
        self,
        write: Callable[[bytes | bytearray | memoryview], object],
        failing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._write = write
        self._failing = failing

    def write(self, block: bytes | bytearray | memoryview, /) -> int:
        """Write a block and return its bytes."""
        with self._failing():
            self._write(block)
        return len(block)

    def flush(self) -> None:
        """Do nothing: the file is whole when its block has ended."""
