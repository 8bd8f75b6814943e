"""Read what is inside a snapshot: the deployment as a stream, the licence as bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from maint.backup.judge import Judge
from maint.backup.outline import Outline
from maint.backup.parts import DEPLOYMENT, LICENSE
from maint.backup.read import blocks
from maint.errors import Refused
from maint.model.secret import Secret
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.restore.choose import chosen


@contextmanager
def deployment_of(sight: Sight, snapshot: Snapshot) -> Iterator[BinaryIO]:
    """Yield the raw bytes of a snapshot's deployment as a stream.

    Raises:
        Refused: there is no private key on this machine.
        WorkFailed: no key fits, or the part is damaged.
    """
    path = f"{snapshot.site}/{snapshot.id}/{DEPLOYMENT}"
    with sight.store.open(path) as file, sight.seal.unwrap(file, _keys(sight)) as stream:
        yield stream


def license_of(sight: Sight, snapshot: Snapshot) -> bytes | None:
    """Return the licence that a snapshot holds, None where it holds none."""
    if all(part.name != LICENSE for part in snapshot.parts):
        return None
    path = f"{snapshot.site}/{snapshot.id}/{LICENSE}"
    with sight.store.open(path) as file, sight.seal.decrypt(file, _keys(sight)) as stream:
        return stream.read()


def _keys(sight: Sight) -> list[Secret]:
    keys = list(sight.identities())
    if not keys:
        raise Refused(
            "this machine has no private key, so it cannot open a snapshot",
            hint="set `backup.identity`, or restore from the machine that has the key",
        )
    return keys


def outline_of(sight: Sight, wanted: str) -> Outline:
    """Return the facts about a snapshot that a restore must know before it starts.

    Args:
        sight: the site.
        wanted: its id or the beginning of it; empty for the newest restorable one.
    """
    judge = Judge()
    with deployment_of(sight, chosen(sight, wanted)) as stream:
        for block in blocks(stream.read):
            judge.feed(block)
    return judge.close().outline
