"""The record of a recreation: what is kept of the old job and resource, sealed, and how far it is."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from maint import files
from maint.model.json import Json
from maint.model.virtual_cluster import Object
from maint.ports import Undo
from maint.steps.undo_records import KeptFile, RunRecords


class Recreation(msgspec.Struct, frozen=True):
    """What a run that recreates a job keeps."""

    generation: int  # how often the run has begun anew
    put_back: bool  # whether all is as it was before
    old: str  # name of the sealed definitions; empty once they were put back
    files: Sequence[KeptFile]  # the files of the old resource
    vc: str = ""  # the virtual cluster
    made: Mapping[str, str] = {}  # what the run made: `RESOURCE/` → nothing, `RESOURCE/PATH` → signature

    @property
    def names(self) -> Iterator[str]:
        """The names of all that is sealed."""
        yield from (self.old,) if self.old else ()
        for file in self.files:
            yield from file.chunks


RECREATIONS = RunRecords(
    "recreate",
    Recreation,
    "what run {run} kept of the job and the resource is not known",
    "look at the virtual cluster, then `maint playbook dismiss {run} --reason WORDS`, and begin anew",
)


def mark_put_back(state: Path, run: str, kept: Recreation) -> None:
    """Write down that all is as it was before."""
    RECREATIONS.write(state, run, replace(kept, put_back=True, old="", files=(), made={}))


def note_made(state: Path, run: str, resource: str, path: str = "", signature: str = "") -> None:
    """Write down that a run which recreates something made a resource, or a file in it."""
    kept = RECREATIONS.read(state, run)
    if kept is not None and not kept.put_back:
        RECREATIONS.write(state, run, replace(kept, made={**kept.made, f"{resource}/{path}": signature}))


def generation(state: Path, run: str) -> int:
    """Return how often a run has begun anew; 0 where it keeps nothing."""
    kept = RECREATIONS.read(state, run)
    return kept.generation if kept else 0


def forget(state: Path, run: str, undo: Undo) -> None:
    """Drop the record of a recreation and the sealed definitions; the files were handed over."""
    kept = RECREATIONS.read(state, run)
    if kept is None:
        return
    files.remove(RECREATIONS.path(state, run))
    if kept.old:
        undo.drop(kept.old)


def seal_old(undo: Undo, job: Object, resource: Object | None) -> str:
    """Seal both definitions."""
    return undo.keep(json.dumps({"job": dict(job), "resource": dict(resource) if resource else None}).encode())


def old(undo: Undo, kept: Recreation) -> tuple[Object, Object | None]:
    """Return the old job and the old resource."""
    found: Mapping[str, Json] = json.loads(undo.fetch(kept.old))
    job, resource = found["job"], found["resource"]
    assert isinstance(job, Mapping)
    return job, resource if isinstance(resource, Mapping) else None
