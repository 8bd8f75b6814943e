"""What a playbook must know about a snapshot's document before it restores it, read from the document itself."""

from maint.deployment.judge import DeploymentSummary
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.snapshots.verify import verdict_of


def outline_of(sight: Sight, snapshot: Snapshot) -> DeploymentSummary:
    """Return the outline of a snapshot's document.

    Raises:
        Refused: no private key is at hand.
        WorkFailed: the part is damaged, or no deployment.
    """
    return verdict_of(sight, snapshot).summary
