"""Another machine removes a snapshot while a guard reads it: the next one may prove as much."""

from typing import Any

from maint.snapshots import prune
from maint.steps.guards import cluster_proof
from tests.snapshots.test_prune import aged, ids, laid_out

__all__ = ["aged", "laid_out"]
YEAR = 365 * 86400.0


def removed_when_opened(site: Any, snapshot: str) -> None:
    """Have another machine remove a snapshot just before its first part is opened."""
    opened = site.store.open

    def late(name: str) -> Any:
        if name.startswith(f"prod/{snapshot}/") and name.endswith(".age"):
            site.store.open = opened
            prune.remove(site, snapshot, ["no rule keeps it"])
        return opened(name)

    site.store.open = late


def test_what_proves_that_a_cluster_comes_back_is_then_the_next_one(aged: Any) -> None:
    newest, before = ids(aged)[:-3:-1]
    removed_when_opened(aged, newest)
    assert cluster_proof(aged, None, YEAR).snapshot == before
    assert newest not in ids(aged)
