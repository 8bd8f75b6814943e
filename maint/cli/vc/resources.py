"""`maint vc resource`: list, describe, create, upload, download, delete, delete-file."""

import hashlib
import re
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Annotated

from maint import files
from maint.cli.command import command
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import opened
from maint.cli.options import GUARDS, VC, Flags, option
from maint.cli.run_playbook import run_step, run_steps
from maint.cli.screen import Screen, table
from maint.cli.vc.select import (
    IfExists,
    chosen,
    deleting,
    describe,
    known,
    let_in,
    reading,
    ready,
    show,
    warn_of_blindness,
)
from maint.config.paths import absolute
from maint.engine.plan import AdhocStep
from maint.errors import Refused, UsageError, WorkFailed
from maint.files import writing, written
from maint.model.formatting import show_count, tell_times
from maint.model.json import Json
from maint.model.virtual_cluster import File
from maint.ports import Clock, VirtualClusterSight
from maint.snapshots.virtual_clusters.blobs import retry_truncated

_BLOCK = 256 * 1024  # bytes
Name = Annotated[str, option("--name", "The resource.")]
Path_ = Annotated[str, option("--resource-path", "The file's path in the resource.")]


@command(VC)
def list_resources(
    flags: Flags, filters: Annotated[list[str] | None, option("--filter", "FIELD[OPERATOR]VALUE; repeatable.")] = None
) -> None:
    """List the resources."""
    with reading(flags) as (cluster, screen):
        resources = cluster.resources(filters or ())
        modified = [tell_times(str(one.raw.get("modified", ""))) for one in resources]
        rows = [[r.name, r.type, r.status, r.signature, at] for r, at in zip(resources, modified, strict=True)]
        found: list[Json] = [one.raw for one in resources]
        show(flags, screen, "resources", found, table(["NAME", "TYPE", "STATUS", "SIGNATURE", "MODIFIED"], rows))
        if not resources and not filters:
            warn_of_blindness(screen, cluster)


@command(VC)
def describe_resource(flags: Flags, name: Name) -> None:
    """Show a resource with its files."""
    with reading(flags) as (cluster, screen):
        resource = known(cluster.resource(name), f"resource {name!r}", "resource list")
        show(flags, screen, "resource", resource.raw, describe(resource.raw))


@command(VC)
def create(
    flags: Flags,
    name: Name,
    kind: Annotated[str, option("--type", "files, python-env, or a newer word.")] = "files",
    python: Annotated[str, option("--python-version", "Of a python-env, such as python3.")] = "",
    mirror: Annotated[str, option("--pypi-mirror", "Of a python-env: where packages come from.")] = "",
    hidden: Annotated[bool, option("--hidden", "Leave it out of lists for people.")] = False,
) -> int:
    """Create a resource."""
    if (python or mirror) and kind != "python-env":
        raise UsageError("--python-version and --pypi-mirror belong to a python-env", hint="--type python-env")
    environment = {key: value for key, value in (("pythonVersion", python), ("pyPiMirror", mirror)) if value}
    more: dict[str, Json] = {"pythonEnv": environment} if environment else {}
    given: dict[str, Json] = {"vc": chosen(flags), "resource": name, "type": kind, "hidden": hidden, "more": more}

    def lines(site: ConfiguredSite, _: Screen) -> list[AdhocStep]:
        let_in(site, flags)
        return [AdhocStep("Create the resource", "resource.create", given)]

    return run_steps(ready(flags), "resource create", lines)


@command(VC, GUARDS)
def upload(
    flags: Flags,
    name: Name,
    paths: Annotated[list[str], option("--local-path", "A file here, or a pattern; repeatable.")],
    path: Path_ = "",
) -> int:
    """Upload files into a resource; `maint vc undo RUN` brings back those of the same path that they replace."""
    given: dict[str, Json] = {"vc": chosen(flags), "resource": name, "files": _expanded(paths), "path": path}
    given["no_safety_net"] = flags.no_safety_net

    def lines(site: ConfiguredSite, _: Screen) -> list[AdhocStep]:
        known(site.virtual_cluster(chosen(flags)).resource(name, files=False), f"resource {name!r}", "resource list")
        return [AdhocStep("Upload the files", "resource.upload", given)]

    return run_steps(ready(flags), "resource upload", lines)


def _expanded(paths: list[str]) -> list[Json]:
    """Return the files that patterns stand for; what is a file is meant as it is."""
    found: list[Json] = []
    for text in paths:
        pattern = absolute(text)
        with files.reading(text):
            there = [] if pattern.exists() else pattern.parent.glob(re.sub(r"\*+", "*", pattern.name))
            found += sorted(str(one) for one in there if one.is_file()) or [text]
    return found


@command(VC)
def download(
    flags: Flags,
    name: Name,
    path: Annotated[str, option("--resource-path", "The file's path in the resource.")],
    local: Annotated[str, option("--local-path", "A new file here; else the file's own name.")] = "",
) -> None:
    """Download a file of a resource, and check it against its signature."""
    with opened(ready(flags)) as (site, screen):
        place = absolute(local)
        with writing(place):  # a name may be too long to be looked for
            place = place / PurePosixPath(path).name if place.is_dir() else place
        cluster = site.virtual_cluster(chosen(flags))
        file = _findable(cluster, name, path, place)
        if flags.dry_run:
            screen.emit({"file": str(place)}, f"would write {name}/{path} to {place}")
            return
        size = _fetch(cluster, site.clock, name, file, place)
        screen.emit({"file": str(place), "bytes": size}, f"{place}: {show_count(size, 'byte')}, as its signature says")


@command(VC, GUARDS)
def delete(flags: Flags, name: Name, if_exists: IfExists = False) -> int:
    """Delete a resource with its files; `maint vc undo RUN` brings it back."""
    given = deleting(flags, if_exists, resource=name)
    return run_step(ready(flags), "resource delete", "Delete the resource", "resource.delete", given)


@command(VC, GUARDS)
def delete_file(
    flags: Flags,
    name: Name,
    path: Annotated[str, option("--resource-path", "The file's path in the resource.")],
    if_exists: IfExists = False,
) -> int:
    """Delete one file of a resource; `maint vc undo RUN` brings it back."""
    if not path:
        whole = f"`maint vc resource delete --name {quote(name)}` deletes the whole resource"
        raise UsageError("--resource-path: it is empty", hint=whole)
    given = deleting(flags, if_exists, resource=name, file=path)
    return run_step(ready(flags), "resource delete-file", "Delete the file", "resource.delete", given)


def _findable(cluster: VirtualClusterSight, resource: str, path: str, place: Path) -> File:
    """Return a file that can be written to a new place."""
    live = cluster.resource(resource)
    file = known(live.file(path) if live else None, f"{resource}/{path}", f"resource describe --name {quote(resource)}")
    with writing(place):
        if not place.parent.is_dir():
            raise Refused(f"there is no folder {place.parent}", hint="make it first, or correct --local-path")
        if place.exists():
            raise Refused(f"{place} is there already", hint="name a new file; nothing is overwritten")
    return file


def _fetch(cluster: VirtualClusterSight, clock: Clock, resource: str, file: File, place: Path) -> int:
    """Write a file to a new place, whole and as its signature says, or not at all; return its bytes."""

    def attempt() -> int:
        digest, size = hashlib.sha1(usedforsecurity=False), 0
        with written(place, replace=False) as target, cluster.download(resource, file) as answer:
            while block := answer.read(_BLOCK):
                digest.update(block)
                size += target.write(block)
            if file.signature and digest.hexdigest() != file.signature:
                raise WorkFailed(
                    f"{resource}/{file.path} is not what its signature says",
                    detail=[f"signature {file.signature}, received {digest.hexdigest()}"],
                    hint="was it replaced meanwhile? Try again",
                )
        return size

    with writing(place):
        return retry_truncated(clock, attempt)
