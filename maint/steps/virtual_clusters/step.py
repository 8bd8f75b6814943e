"""What step kinds of virtual clusters share: which one is meant, temporary names, the record of a recreation."""

import hashlib
import json
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import TypeVar

import msgspec
from msgspec.structs import replace
from pydantic import Field

from maint import files
from maint.errors import CannotReach, Refused, WorkFailed
from maint.model.json import Json
from maint.model.plan import Action
from maint.model.virtual_cluster import Object, is_name
from maint.ports import Sight, Site, Undo, VirtualCluster, Work
from maint.steps.step import Arguments, Progress, Step
from maint.steps.undo_records import KeptFile, RunRecords


class VcArguments(Arguments):
    """Which virtual cluster; empty: the only one."""

    vc: str = Field("", description="which virtual cluster; empty: the only one")


class Absent(Arguments):
    """What is made of something that is to be deleted and is not there when that is planned."""

    if_exists: bool = Field(False, description="whether it is well where there is none")


def absent(what: str, hint: str) -> Refused:
    """Return the refusal to delete what is not there; what vanishes once it was planned is a success, and said."""
    return Refused(f"there is no {what}: nothing to delete", hint=f"{hint}; with --if-exists this is a success")


def taken_already(sight: Sight, vc: str, name: str, what: str) -> str:
    """Return what a plan has seen that is to make a job or a resource under a name that is taken, else nothing.

    Refused: nothing can be called so.
    """
    if not is_name(name):
        raise Refused(f"no {what} can be called {name!r}", hint="give it a name that can stand in an address")
    try:
        cluster = sight.virtual_cluster(vc)
        there = cluster.job(name) if what == "job" else cluster.resource(name, files=False)
    except (CannotReach, WorkFailed):  # an earlier step may bring it up
        return ""
    return f"a {what} of that name is there, and fails this unless it is gone by then" if there else ""


A = TypeVar("A", bound=VcArguments)


class VcStep(Step[A]):
    """A step on a virtual cluster: done once for each time that its run begins anew (see `recreation`)."""

    def apply(self, action: Action, site: Site, work: Work) -> Progress:
        """Carry it out, and write down for which beginning of the run that was."""
        result = yield from self.carry_out(action, site, work)
        kept = RECREATIONS.read(site.state, work.run)
        if kept is not None:
            work.note("generation", kept.generation)
        return result

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Do it; looks first, so that doing it again after a crash is safe."""
        raise TypeError(f"{self.kind} has no effect")

    def holds(self, action: Action, site: Site, work: Work) -> bool:
        """Whether it still is so: not once everything was put back as it had been."""
        kept = RECREATIONS.read(site.state, work.run)
        return kept is None or (not kept.put_back and work.noted("generation") == kept.generation)


def cluster_of(action: Action, site: Site) -> VirtualCluster:
    """Return the virtual cluster that an action is meant for."""
    return site.virtual_cluster(str(action.arguments["vc"]))


def own_certificate(state: Path, name: str) -> Path:
    """Return where the certificate lies that `vc.init` had made for a virtual cluster, whether it is there or not."""
    return state / "certificates" / f"{name}.pem"


def own_prefix(state: Path) -> str:
    """Return what the names of all temporary objects of a site begin with.

    Such objects are made, and may be removed, by the holder of that state folder's lock only.
    """
    place = f"{socket.gethostname()}:{state.resolve()}"
    return f"maint-{_short(place)}-"


def own_name(site: Site, work: Work, what: str) -> str:
    """Return the name of the temporary job and resource of a run: the first that was chosen, whichever machine goes on.

    Args:
        what: what they are for, in small letters.
    """
    name = str(work.noted("name") or f"{own_prefix(site.state)}{what}-{_short(work.run)}")
    work.note("name", name)
    return name


def is_temporary(name: str, state: Path, run: str) -> bool:
    """Whether a temporary object is of this state folder, or of this very run, which another machine may have begun."""
    return name.startswith(own_prefix(state)) or bool(re.fullmatch(rf"maint-[0-9a-f]{{8}}-[a-z]+-{_short(run)}", name))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def unpausing(name: str) -> str:
    """Return in words how a schedule goes on."""
    return f"`maint vc job unpause --name {quote(name)}` lets it go on"


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


def forget_recreation(state: Path, run: str, undo: Undo) -> None:
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


def old_definitions(undo: Undo, kept: Recreation) -> tuple[Object, Object | None]:
    """Return the old job and the old resource."""
    found: Mapping[str, Json] = json.loads(undo.fetch(kept.old))
    job, resource = found["job"], found["resource"]
    assert isinstance(job, Mapping)
    return job, resource if isinstance(resource, Mapping) else None
