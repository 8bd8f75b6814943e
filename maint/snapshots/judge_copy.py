"""Judge a large redacted copy in a process of its own, while this one judges its deployment."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import BinaryIO

import msgspec

from maint.config.programs import plain_environment
from maint.deployment.judge import CopyCounts
from maint.deployment.reader import blocks
from maint.errors import WorkFailed
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.snapshots import parts

_PROGRAM = (sys.executable, "-P", "-m", "maint.deployment.judge")  # -P: never what lies in the working folder
_FINDING = ("PYTHONPATH", "LD_LIBRARY_PATH")  # by which Python and its libraries are found


@contextmanager
def judging_copy(sight: Sight, snapshot: Snapshot) -> Iterator[Callable[[], CopyCounts | None]]:
    """Give what waits for the process, and returns what it found in the whole copy; None: judge it here.

    A small copy is not worth a process. What keeps it from its end is told where the copy is judged again.
    """
    found: Callable[[], CopyCounts | None] = _nothing
    with ExitStack() as opened:
        large = snapshot.has(parts.REDACTED_COPY) and snapshot.part(parts.REDACTED_COPY).bytes > parts.IN_MEMORY
        if large and snapshot.has(parts.DEPLOYMENT):
            with suppress(OSError, WorkFailed):
                found = _begun(sight, snapshot, opened)
        yield found


def _nothing() -> None:
    """Stand for a process that was not begun."""


def _begun(sight: Sight, snapshot: Snapshot, opened: ExitStack) -> Callable[[], CopyCounts | None]:
    pipe = subprocess.PIPE
    stream = opened.enter_context(parts.open_part(sight, snapshot, parts.REDACTED_COPY))
    found_by = {name: os.environ[name] for name in _FINDING if name in os.environ}
    process = opened.enter_context(
        subprocess.Popen(
            _PROGRAM,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env={**plain_environment(os.environ), **found_by},
        )
    )
    found: list[CopyCounts] = []
    feeding = Thread(target=_feed, args=(stream, process, found))
    feeding.start()
    opened.callback(feeding.join)
    opened.callback(process.kill)  # so that nothing goes on feeding it

    def ended() -> CopyCounts | None:
        feeding.join()
        return found[0] if found else None

    return ended


def _feed(stream: BinaryIO, process: "subprocess.Popen[bytes]", found: list[CopyCounts]) -> None:
    with suppress(OSError, WorkFailed, msgspec.MsgspecError):
        assert process.stdin and process.stdout
        with process.stdin as given:
            for block in blocks(stream.read):
                given.write(block)
        found.append(msgspec.json.decode(process.stdout.read(), type=CopyCounts))
