"""Tell the left-overs of dead writers from files that a living one still writes, where no lock can tell.

A staged file bears the name of the process that writes it: the machine, its boot, the process and when it began. On the
same machine the process is looked for; of other machines only the age tells.
"""

import hashlib
import os
import re
import secrets
import socket
from datetime import datetime, timedelta
from pathlib import Path

from maint.adapters.stores.names import STAGING

ABANDONED = timedelta(hours=24)  # no run takes that long, whatever machine it runs on
_SHAPE = re.compile(re.escape(STAGING) + r"([0-9a-f]{12})-([0-9a-f]{12})-(\d+)-(\d+)-[0-9a-f]{16}")


def staging_name() -> str:
    """Return a fresh name for a file that this process is going to write."""
    return f"{STAGING}{_machine()}-{_boot()}-{os.getpid()}-{_began(os.getpid())}-{secrets.token_hex(8)}"


def is_left_over(name: str, touched: datetime, now: datetime) -> bool:
    """Tell whether nobody writes a staged file any more.

    Args:
        name: its name, without folders.
        touched: when it was last written to, by the clock of the store.
        now: the time.
    """
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
    """Return when a process began, in ticks since the boot; 0 where there is none."""
    # The command's name stands in brackets and may hold anything; what follows is told apart by blanks.
    fields = _line(f"/proc/{process}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 else 0


def _line(path: str) -> str:
    try:
        return Path(path).read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _short(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]
