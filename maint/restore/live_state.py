"""What the server holds now, as a tree and as one digest of what it means."""

from collections.abc import Iterator
from functools import lru_cache

from maint.deployment.compare import VOLATILE, reason
from maint.deployment.fingerprint import site_fingerprint
from maint.deployment.json_events import blocks
from maint.deployment.normalize import Tree, normalize
from maint.deployment.secret_index import SecretIndex
from maint.model.json import digest
from maint.ports import Sight

_LAST = frozenset(one.path.rpartition("/")[2] for one in VOLATILE)


def tree_of_server(sight: Sight, known: SecretIndex | None = None) -> dict[str, Tree]:
    """Return the present deployment as a tree; secrets are fingerprints, and noted in `known` for who shows texts."""
    fingerprint = site_fingerprint(sight)
    with sight.manager.deployment() as answer:
        return normalize(blocks(answer.read), fingerprint if known is None else known.noting(fingerprint))


def meaning(tree: dict[str, Tree]) -> str:
    """Return a digest of a tree that neither order nor volatile values change."""
    return digest(sorted("\n".join((*path, value)) for path, value in _lasting(tree, ())))


def _lasting(tree: dict[str, Tree], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, value in tree.items():
        here = (*path, key)
        if _may_vary(key) and reason(here):
            continue
        if isinstance(value, dict):
            yield from _lasting(value, here)
        else:
            yield here, value


@lru_cache(maxsize=4096)  # few names, very often; most of them end no volatile place
def _may_vary(key: str) -> bool:
    return any(key == last or (last.endswith("*") and key.startswith(last[:-1])) for last in _LAST)
