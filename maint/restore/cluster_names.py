"""Which clusters a snapshot holds, told without a private key: names stand in its redacted copy."""

from maint.deployment.json_events import blocks
from maint.deployment.json_reducer import Fields, Rules, drop, reduced
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.snapshots.parts import REDACTED_COPY, stored


def clusters_in(sight: Sight, snapshot: Snapshot) -> frozenset[str]:
    """Return the names and display names of the clusters in a snapshot; verify it before they are believed.

    Raises:
        WorkFailed: the copy is damaged, or no deployment.
    """
    path = f"{snapshot.site}/{snapshot.id}/{REDACTED_COPY}"
    with stored(sight.store, path) as (file, _), sight.seal.decompress(file) as stream:
        found = reduced(blocks(stream.read), Rules({"": _clusters, "clusters[]": _names}, otherwise=drop))
    assert isinstance(found, frozenset)  # what the root's rule returns
    return found


def _names(cluster: Fields) -> tuple[object, object]:
    return cluster.get("name"), cluster.get("displayName")


def _clusters(deployment: Fields) -> frozenset[str]:
    pairs = deployment.get("clusters") or ()
    return frozenset(str(name) for pair in pairs for name in pair if name)
