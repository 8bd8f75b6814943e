"""`maint vc resource`: list, describe, create, upload, download, delete, delete-file."""

from typing import TYPE_CHECKING, Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.select import Vc, chosen, reading, ready, show, step
from maint.errors import UsageError, WorkFailed

if TYPE_CHECKING:
    from maint.model.json import Json

group = typer.Typer(no_args_is_help=True, help="Resources: files and Python environments that jobs mount.")
Name = Annotated[str, typer.Option("--name", help="The resource.")]
Path_ = Annotated[str, typer.Option("--resource-path", help="The file's path in the resource.")]


@command(group, "list")
def list_resources(
    flags: Flags,
    filters: Annotated[list[str] | None, typer.Option("--filter", help="FIELD[OPERATOR]VALUE; repeatable.")] = None,
    vc: Vc = "",
) -> None:
    """List the resources."""
    from maint.cli.screen import table
    from maint.cli.vc.select import warn_of_blindness

    with reading(flags, vc) as (cluster, screen):
        resources = cluster.resources(filters or ())
        rows = [[one.name, one.type, one.status, one.signature, str(one.raw.get("modified", ""))] for one in resources]
        found: list[Json] = [one.raw for one in resources]
        show(flags, screen, "resources", found, table(["NAME", "TYPE", "STATUS", "SIGNATURE", "MODIFIED"], rows))
        if not resources and not filters:
            warn_of_blindness(screen, cluster)


@command(group, "describe")
def describe_resource(flags: Flags, name: Name, vc: Vc = "") -> None:
    """Show a resource with its files."""
    from maint.cli.vc.select import describe

    with reading(flags, vc) as (cluster, screen):
        resource = cluster.resource(name)
        if resource is None:
            raise WorkFailed(f"there is no resource {name!r}", hint="`maint vc resource list` shows what there is")
        show(flags, screen, "resource", resource.raw, describe(resource.raw))


@command(group, "create")
def create(
    flags: Flags,
    name: Name,
    kind: Annotated[str, typer.Option("--type", help="files, python-env, or a newer word.")] = "files",
    python: Annotated[str, typer.Option("--python-version", help="Of a python-env, such as python3.")] = "",
    mirror: Annotated[str, typer.Option("--pypi-mirror", help="Of a python-env: where packages come from.")] = "",
    vc: Vc = "",
) -> int:
    """Create a resource."""
    if (python or mirror) and kind != "python-env":
        raise UsageError("--python-version and --pypi-mirror belong to a python-env", hint="--type python-env")
    environment = {key: value for key, value in (("pythonVersion", python), ("pyPiMirror", mirror)) if value}
    more: dict[str, Json] = {"pythonEnv": environment} if environment else {}
    given: dict[str, Json] = {"vc": chosen(vc), "resource": name, "type": kind, "more": more}
    return step(flags, "resource create", "Create the resource", "resource.create", given)


@command(group, "upload")
def upload(
    flags: Flags,
    name: Name,
    paths: Annotated[list[str], typer.Option("--local-path", help="A file here, or a pattern; repeatable.")],
    path: Path_ = "",
    vc: Vc = "",
) -> int:
    """Upload files into a resource, over those of the same path."""
    given: dict[str, Json] = {"vc": chosen(vc), "resource": name, "files": _expanded(paths), "path": path}
    return step(flags, "resource upload", "Upload the files", "resource.upload", given)


def _expanded(paths: list[str]) -> "list[Json]":
    """Return the files that patterns stand for; what is a file is meant as it is."""
    from pathlib import Path

    found: list[Json] = []
    for text in paths:
        pattern = Path(text).absolute()
        there = [] if pattern.exists() else pattern.parent.glob(pattern.name)
        found += sorted(str(one) for one in there if one.is_file()) or [text]
    return found


@command(group, "download")
def download(
    flags: Flags,
    name: Name,
    path: Annotated[str, typer.Option("--resource-path", help="The file's path in the resource.")],
    local: Annotated[str, typer.Option("--local-path", help="A new file here; else the file's own name.")] = "",
    vc: Vc = "",
) -> None:
    """Download a file of a resource, and check it against its signature."""
    from pathlib import Path, PurePosixPath

    from maint.cli.open_site import limit_of, opened
    from maint.cli.vc.fetch import fetch

    with opened(ready(flags)) as (site, screen), site.clock.limit(limit_of(flags)):
        place = Path(local) / PurePosixPath(path).name if Path(local).is_dir() else Path(local)
        size = fetch(site.virtual_cluster(chosen(vc)), site.clock, name, path, place)
        screen.emit({"file": str(place), "bytes": size}, f"{place}: {size} bytes, as its signature says")


@command(group, "delete")
def delete(flags: Flags, name: Name, vc: Vc = "") -> int:
    """Delete a resource with its files."""
    given: dict[str, Json] = {"vc": chosen(vc), "resource": name}
    return step(flags, "resource delete", "Delete the resource", "resource.delete", given)


@command(group, "delete-file")
def delete_file(
    flags: Flags,
    name: Name,
    path: Annotated[str, typer.Option("--resource-path", help="The file's path in the resource.")],
    vc: Vc = "",
) -> int:
    """Delete one file of a resource."""
    given: dict[str, Json] = {"vc": chosen(vc), "resource": name, "file": path}
    return step(flags, "resource delete-file", "Delete the file", "resource.delete", given)
