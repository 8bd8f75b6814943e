"""Have the redacted copy judged by a process of its own, while this one judges the deployment."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import msgspec

from maint.errors import WorkFailed
from maint.model.snapshot import Part, Snapshot
from maint.ports import Sight
from maint.snapshots import parts

# Named, not imported: only the command line may know what unpacks. -P: never what lies in the working folder.
_PROGRAM = (sys.executable, "-P", "-m", "maint.cli.backup.judged")


class Found(msgspec.Struct, frozen=True):
    """What was found in a copy of so many bytes, with this digest."""

    bytes: int
    sha256: str
    counts: Mapping[str, int]
    secrets: int  # readable ones


@contextmanager
def judging_copy(sight: Sight, snapshot: Snapshot) -> Iterator[Callable[[], Found | None]]:
    """Give what waits for the process, and tells what it found in the very bytes of the manifest; None: judge it here.

    A small copy, which lies in no file, is not worth a process. What keeps one from its end is told by judging here.
    """
    part = snapshot.part(parts.REDACTED_COPY) if snapshot.has(parts.REDACTED_COPY) else None
    if part is None or part.bytes <= parts.IN_MEMORY or not snapshot.has(parts.DEPLOYMENT):
        yield lambda: None
        return
    try:
        with parts.open_stored(sight, f"{snapshot.site}/{snapshot.id}/{part.name}", part) as file:
            process = subprocess.Popen(_PROGRAM, stdin=file.fileno(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except (OSError, WorkFailed):
        yield lambda: None
        return
    with process:
        try:
            yield lambda: _found(process, part)
        finally:
            process.kill()


def _found(process: "subprocess.Popen[bytes]", part: Part) -> Found | None:
    with suppress(msgspec.MsgspecError):
        found = msgspec.json.decode(process.communicate()[0], type=Found)
        if (found.bytes, found.sha256) == (part.content_bytes, part.content_sha256):
            return found
    return None
