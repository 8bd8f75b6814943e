"""Runs of jobs, with their logs: made, moved from state to state, ended (J4.5, J6)."""

import copy
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import times
from maint.lab.virtual_clusters.cluster import Cluster

STARTING, RUNNING, SUCCEEDED, FAILED, KILLED, UNKNOWN = (
    "starting", "running", "succeeded", "failed", "killed", "unknown",
)  # fmt: skip
FINAL = (SUCCEEDED, FAILED, KILLED, UNKNOWN)
JOBS_API, SUBMITTER = "submitter/jobs_api", "submitter/stderr"


class Wish(msgspec.Struct, frozen=True):
    """What is asked of a run."""

    user: str
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    overrides: Mapping[str, Any] = msgspec.field(default_factory=dict)  # Any: what JSON can spell
    request_id: str = ""
    logical: datetime | None = None  # the logical date of a scheduled run, None for one by hand


def create(cluster: Cluster, job: Doc, wish: Wish) -> Doc:
    """Make a run and have it launched."""
    number, now = cluster.next_run(), cluster.now()
    kind = str(job["type"])
    run: Doc = {"id": number, "job": job["name"], "type": kind, "status": STARTING, "user": wish.user}
    run |= {"started": times.seconds(now), "ended": times.ZERO, "mounts": copy.deepcopy(job.get("mounts") or [])}
    if kind == "spark":
        run["spark"] = {"submitID": str(number), "spec": _effective(job, wish)}
    else:
        run["airflow"] = _dag_run(job, wish, now)
    run["identity"] = {"disableRoleProxy": True, "role": "instance"}
    run["_"] = {"variables": dict(wish.variables)}
    if kind == "airflow":
        run["_"]["dag"] = (job.get("_") or {}).get("dag", "")
    job["lastUsed"] = run["started"]
    write_log(cluster, run, JOBS_API, f"run {number} {STARTING}\n")
    cluster.jobs.put(str(job["name"]), job)
    cluster.runs.put(str(number), run)
    if wish.request_id:
        cluster.starts.put(wish.request_id, {"id": number})
    cluster.launch(run)
    return run


def move(cluster: Cluster, run: Doc, status: str) -> None:
    """Put a run into a state; one that has ended stays as it is."""
    with cluster.lock:
        if run["status"] in FINAL:
            return
        # The state comes last: a reader, with the lock or without, finds all that belongs to it.
        write_log(cluster, run, JOBS_API, f"run {run['id']} {status}\n")
        if status in FINAL:
            run["ended"] = cluster.stamp()
            run["_"]["ended"] = cluster.now().timestamp()
        elif status == RUNNING and "spark" in run:
            identifier = f"spark-{secrets.token_hex(16)}"
            run["spark"]["sparkAppID"] = identifier
            run["spark"]["sparkAppURL"] = f"https://{cluster.identity.host}/hs/history/{identifier}/jobs/"
        run["status"] = status
        cluster.runs.put(str(run["id"]), run)


def ended(run: Doc) -> bool:
    """Return whether a run is over."""
    return run["status"] in FINAL


def abandon(cluster: Cluster) -> None:
    """End the runs that an earlier start of the lab left active."""
    for run in cluster.runs.values():
        if not ended(run):
            write_log(cluster, run, SUBMITTER, "ERROR submitter: the pods of the run are gone\n")
            move(cluster, run, UNKNOWN)


def filled(value: Any, variables: Mapping[str, str]) -> Any:  # Any: what JSON can spell
    """Return a value with each `{{{name}}}` in its texts filled in (J4.5)."""
    if isinstance(value, str):
        for name, text in variables.items():
            value = value.replace("{{{" + name + "}}}", text).replace("{{{ " + name + " }}}", text)
        return value
    if isinstance(value, list):
        return [filled(member, variables) for member in value]
    if isinstance(value, dict):
        return {name: filled(member, variables) for name, member in value.items()}
    return value


def _effective(job: Doc, wish: Wish) -> Doc:
    spec: Doc = copy.deepcopy(job["spark"]) | copy.deepcopy(dict(wish.overrides.get("spark") or {}))
    filled_in = {name: filled(spec[name], wish.variables) for name in ("name", "args", "conf") if name in spec}
    return spec | filled_in


def _dag_run(job: Doc, wish: Wish, now: datetime) -> Doc:
    logical = wish.logical or now
    return {
        "dagID": (job.get("airflow") or {}).get("dagID", ""),
        "dagRunID": times.dag_run("scheduled" if wish.logical else "manual", logical),
        "dagFile": job["airflow"]["dagFile"],
        "executionDate": times.seconds(logical),
        "startDate": times.seconds(now),
    }


def run_folder(cluster: Cluster, run: Doc) -> Path:
    """Return the folder of a run."""
    return cluster.folder / "runs" / str(run["id"])


def log_path(cluster: Cluster, run: Doc, kind: str) -> Path:
    """Return where a log lies."""
    return run_folder(cluster, run) / "logs" / quote(kind, safe="")


def write_log(cluster: Cluster, run: Doc, kind: str, text: str) -> None:
    """Add to a log."""
    place = log_path(cluster, run, kind)
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("a") as stream:
        stream.write(text)


def log_types(cluster: Cluster, run: Doc) -> list[str]:
    """Return the types of log that can be read by now."""
    place = run_folder(cluster, run) / "logs"
    names = sorted(unquote(each.name) for each in place.iterdir()) if place.exists() else []
    return [name for name in names if log_readable(cluster, run, name)]


def log_readable(cluster: Cluster, run: Doc, kind: str) -> bool:
    """Return whether a log is there, and already shown: what the submitter says comes at once, the rest late."""
    place = log_path(cluster, run, kind)
    if not place.is_file():
        return False
    ended = times.read(run["ended"])
    if kind == JOBS_API or (ended is None and not cluster.switches.number("vc-log-seconds")):
        return True
    if ended is None:
        return False
    return _seconds_shown(cluster, run) >= 0


def log_grows(cluster: Cluster, run: Doc, kind: str) -> bool:
    """Return whether a log that is shown is only half there yet (J6.4)."""
    return kind != JOBS_API and _seconds_shown(cluster, run) < cluster.switches.number("vc-log-grows")


def _seconds_shown(cluster: Cluster, run: Doc) -> float:
    shown_from = float((run.get("_") or {}).get("ended", 0)) + cluster.switches.number("vc-log-seconds")
    return cluster.now().timestamp() - shown_from
