"""Logs of runs: files on disk by their type (contract on the jobs API, section 6.4)."""

from pathlib import Path
from urllib.parse import quote, unquote

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import times
from maint.lab.virtual_clusters.cluster import Cluster

JOBS_API, SUBMITTER = "submitter/jobs_api", "submitter/stderr"


def folder(cluster: Cluster, run: Doc) -> Path:
    """Return the folder of a run."""
    return cluster.folder / "runs" / str(run["id"])


def path(cluster: Cluster, run: Doc, kind: str) -> Path:
    """Return where a log lies."""
    return folder(cluster, run) / "logs" / quote(kind, safe="")


def write(cluster: Cluster, run: Doc, kind: str, text: str) -> None:
    """Add to a log."""
    place = path(cluster, run, kind)
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("a") as stream:
        stream.write(text)


def types(cluster: Cluster, run: Doc) -> list[str]:
    """Return the types of log that can be read by now."""
    place = folder(cluster, run) / "logs"
    names = sorted(unquote(each.name) for each in place.iterdir()) if place.exists() else []
    return [name for name in names if readable(cluster, run, name)]


def readable(cluster: Cluster, run: Doc, kind: str) -> bool:
    """Return whether a log is there, and already shown: what the submitter says comes at once, the rest late."""
    place = path(cluster, run, kind)
    if not place.is_file():
        return False
    ended = times.read(run["ended"])
    if kind == JOBS_API or (ended is None and not cluster.switches.number("vc-log-seconds")):
        return True
    if ended is None:
        return False
    shown_from = float((run.get("_") or {}).get("ended", 0)) + cluster.switches.number("vc-log-seconds")
    return cluster.now().timestamp() >= shown_from
