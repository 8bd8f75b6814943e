"""Lay the files of mounted resources out for a run (contract on the jobs API, section 4.3)."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters.cluster import Cluster

PREFIX = "/app/mount"


def places(cluster: Cluster, mounts: Iterable[Doc]) -> Iterator[tuple[str, Doc]]:
    """Yield where each mounted file lies below the mount, with its entry; later mounts win."""
    for mount in mounts:
        prefix = str(mount.get("dirPrefix") or "").strip("/")
        for entry in cluster.files.entries(str(mount.get("resourceName"))):
            yield (f"{prefix}/{entry['path']}" if prefix else str(entry["path"])), entry


def lay_out(cluster: Cluster, mounts: Iterable[Doc], target: Path) -> None:
    """Copy all mounted files below a folder, so that nothing that a job does there reaches the resources."""
    target.mkdir(parents=True, exist_ok=True)
    linked: set[Path] = set()
    with cluster.lock:  # short: only links, which keep content that is deleted meanwhile
        for place, entry in places(cluster, mounts):
            path = target / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.hardlink_to(cluster.files.blob(entry["signature"]))
            linked.add(path)
    for path in linked:
        own = path.with_name(f".{path.name}.copy")
        shutil.copyfile(path, own)
        own.replace(path)


def within(text: str) -> str | None:
    """Return the path of an application file below the mount, None where it lies elsewhere.

    It may be given as a path within a mount, as an absolute path under `/app/mount/`, or as a `local:` or `file:` URL.
    """
    if "://" in text and not text.startswith(("local://", "file://")):
        return None
    plain = text.removeprefix("local:").removeprefix("file:")
    if plain.startswith("/"):
        absolute = PurePosixPath("/" + plain.lstrip("/"))
        return str(absolute.relative_to(PREFIX)) if absolute.is_relative_to(PREFIX) else None
    return str(PurePosixPath(plain))
