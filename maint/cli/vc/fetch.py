"""Bring a file of a resource here, whole and proven, or not at all."""

import hashlib
import os
from pathlib import Path

from maint.errors import Refused, WorkFailed
from maint.ports import Clock, VirtualClusterSight
from maint.ports.streams import Answer
from maint.snapshots.virtual_clusters.blobs import retry_truncated

_BLOCK = 256 * 1024  # bytes


def fetch(cluster: VirtualClusterSight, clock: Clock, resource: str, path: str, place: Path) -> int:
    """Write a file to a new place, and return its bytes.

    Raises:
        Refused: there is something at that place already.
        WorkFailed: there is no such file, or what came is not what its signature says.
    """
    live = cluster.resource(resource)
    file = live.file(path) if live else None
    if file is None:
        raise WorkFailed(f"there is no {resource}/{path}", hint="`maint vc resource describe` lists the files")
    if place.exists():
        raise Refused(f"{place} is there already", hint="name a new file; nothing is overwritten")
    staging = place.with_name(f".{place.name}-{os.getpid()}")
    try:
        size, signature = retry_truncated(clock, lambda: _arrived(cluster, resource, path, staging))
        if file.signature and signature != file.signature:
            raise WorkFailed(
                f"{resource}/{path} is not what its signature says",
                detail=[f"signature {file.signature}, received {signature}"],
                hint="was it replaced meanwhile? Try again",
            )
        staging.rename(place)
    finally:
        staging.unlink(missing_ok=True)
    return size


def _arrived(cluster: VirtualClusterSight, resource: str, path: str, staging: Path) -> tuple[int, str]:
    staging.unlink(missing_ok=True)
    with cluster.download(resource, path) as answer:
        return _write(staging, answer)


def _write(staging: Path, answer: Answer) -> tuple[int, str]:
    digest, size = hashlib.sha1(usedforsecurity=False), 0
    with staging.open("xb") as target:
        while block := answer.read(_BLOCK):
            target.write(block)
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()
