"""The dump of the manager's database: how it is made on the manager's host, and when it is whole."""

from collections.abc import Iterator
from contextlib import contextmanager

from maint.deployment.reader import BLOCK
from maint.ports import Answer, Sight
from maint.snapshots.manifest import damaged
from maint.snapshots.parts import Read

PROPERTIES = "/etc/cloudera-scm-server/db.properties"
_ENDS = (b"-- PostgreSQL database dump complete", b"-- Dump completed")
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
    """Read a dump to its end; WorkFailed where its last words are missing."""
    tail = b""
    while block := read(BLOCK):
        tail = (tail + block)[-_TAIL:]
    if not any(words in tail for words in _ENDS):
        raise damaged("the dump of the database has no end")
