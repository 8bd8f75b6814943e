"""What a playbook must know about a snapshot's document before it restores it, read from the document itself."""

from maint.backup.judge import Judge
from maint.backup.outline import Outline
from maint.backup.parts import open_deployment
from maint.backup.read import blocks
from maint.model.snapshot import Snapshot
from maint.ports import Sight


def outline_of(sight: Sight, snapshot: Snapshot) -> Outline:
    """Return the outline of a snapshot's document.

    Raises:
        Refused: no private key is at hand.
        WorkFailed: the part is damaged, or no deployment.
    """
    judge = Judge()
    with open_deployment(sight, snapshot) as stream:
        for block in blocks(stream.read):
            judge.feed(block)
    return judge.close().outline
