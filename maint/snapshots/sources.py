"""What a snapshot is made from: the manager's export, asked for again where it is cut, and its database's dump."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from maint.deployment.reader import BLOCK
from maint.model.manager import PROPERTIES
from maint.ports import Answer, Sight
from maint.ports.streams import Cut, Sized
from maint.retry import delays
from maint.snapshots.manifest import damaged
from maint.snapshots.parts import Read

_TIMES = 2  # further tries, as of any other read
_PAUSE, _LONGEST = 1.0, 5.0  # seconds

T = TypeVar("T")


def exported(sight: Sight, use: Callable[[Sized], T]) -> T:
    """Return what is made of the present deployment as it comes.

    Args:
        use: reads it to its end, and leaves nothing behind where that raises; it is called again where it was cut.

    Raises:
        Cut: it was cut off each time, or nothing more came in time.
    """
    for pause in delays(_PAUSE, _LONGEST, times=_TIMES):
        try:
            return _once(sight, use)
        except Cut as failure:
            if failure.late:
                raise
            sight.clock.sleep(pause)
    return _once(sight, use)


def _once(sight: Sight, use: Callable[[Sized], T]) -> T:
    with sight.manager.deployment() as answer:
        return use(answer)


_ENDS = (b"-- PostgreSQL database dump complete", b"-- Dump completed")
_BEGINS = (b"--", b"/*")
_TAIL = 4096  # bytes in which the last words of a dump stand


@contextmanager
def dump(sight: Sight, host: str) -> Iterator[Answer]:
    """Yield a dump as the host prints it; no secret is in a command, the password stays on the host.

    Raises:
        CannotReach: the host does not answer.
        WorkFailed: a tool is missing there, or the database refuses.
    """
    from maint.render import from_file  # most who look at snapshots dump nothing, and need no templates

    with sight.shell.stream(host, from_file("database-dump.sh.j2", {"properties": PROPERTIES})) as output:
        yield output


def read_whole(read: Read) -> None:
    """Read a dump to its end; WorkFailed where something stands before it, or its last words are missing."""
    head = tail = b""
    while block := read(BLOCK):
        head = (head + block)[:2]
        tail = (tail + block)[-_TAIL:]
    if head not in _BEGINS:
        raise damaged("the dump of the database begins with something else: does a login script there print it?")
    if not any(words in tail for words in _ENDS):
        raise damaged("the dump of the database has no end")
