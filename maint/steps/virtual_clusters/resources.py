"""Resources of a virtual cluster: create, upload into, delete."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import cast

from pydantic import Field, JsonValue

from maint.errors import CannotReach, WorkFailed
from maint.model.formatting import show_count, show_size
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.virtual_cluster import File, Object, Resource, same_resource
from maint.ports import Sight, Site, VirtualCluster, Work
from maint.steps.guards import Guarded
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.safety_net import listed, net, seal_before, users_of, way_back
from maint.steps.virtual_clusters.step import Absent, VcArguments, VcStep, absent, cluster_of, note_made, taken_already
from maint.steps.virtual_clusters.uploads import (
    local,
    own_damage,
    placed,
    refuse_other_bytes,
    signature_of,
    unread_dags,
    watched,
)


class ResourceArguments(VcArguments):
    """Which resource."""

    resource: str = Field(description="its name")


class CreateResourceArguments(ResourceArguments):
    """What kind of resource, and further keys as the API takes them."""

    type: str = Field("files", description="or `python-env`, or a newer word")
    hidden: bool = Field(False, description="left out of lists for people")
    more: dict[str, JsonValue] = Field({}, description="further keys as the API takes them")


class UploadArguments(ResourceArguments, Guarded):
    """Local files, where they go in the resource, and why what they replace is not to be sealed first."""

    files: list[str] = Field(min_length=1, description="local paths")
    path: str = Field("", description="the folder in the resource; for a single file, its path")


class DeleteResourceArguments(ResourceArguments, Guarded, Absent):
    """With a file: only that one; why it is not to be sealed first; what is made of one that is not there."""

    file: str | None = Field(None, min_length=1, description="only this one")  # an empty one is not the whole


class CreateResource(VcStep[CreateResourceArguments]):
    """Create a resource in a virtual cluster."""

    kind = "resource.create"
    effect = Effect.CHANGE

    def plan(self, args: CreateResourceArguments, sight: Sight) -> Iterable[Action]:
        definition = {"name": args.resource, "hidden": args.hidden, "type": args.type, **args.more}
        seen = taken_already(sight, args.vc, args.resource, "resource")
        yield self.action(
            f"resource {args.resource}",
            f"create resource {args.resource} ({args.type}){seen and f': {seen}'}",
            {"vc": args.vc, "definition": definition},
            undo=f"`maint vc resource delete --name {quote(args.resource)}`",
            seen=seen,
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        return (yield from make(cluster_of(action, site), site, work, cast(Object, action.arguments["definition"])))


def make(cluster: VirtualCluster, site: Site, work: Work, definition: Object) -> Progress:
    """Create a resource, once for all attempts of a run."""
    name = str(definition["name"])
    if work.resumed and same_resource(cluster.resource(name, files=False), definition):
        note_made(site.state, work.run, name)
        return unchanged(f"resource {name} is there")
    yield f"creating resource {name}"
    cluster.create_resource(definition)
    note_made(site.state, work.run, name)
    return done(f"resource {name} is created")


class UploadFiles(VcStep[UploadArguments]):
    """Upload local files into a resource; another file of the same path is sealed, then replaced."""

    kind = "resource.upload"
    effect = Effect.CHANGE

    def plan(self, args: UploadArguments, sight: Sight) -> Iterable[Action]:
        files = placed(args.files, args.path)
        total = show_size(sum(Path(path).stat().st_size for path in files.values()))
        going, users, size = list[Json](), list[Json](), 0
        with suppress(CannotReach, WorkFailed):  # an earlier step may bring it up
            cluster = sight.virtual_cluster(args.vc)
            replaced = _replaced(cluster.resource(args.resource), files)
            going += [file.path for file in replaced]
            size = sum(file.size for file in replaced)
            users += users_of(cluster, args.resource) if going else ()
        words = f"upload {', '.join(files)} into {args.resource} ({total})"
        if going:
            whose = listed([str(one) for one in users], "mount it")
            words += f"; REPLACES {', '.join(map(str, going))}{whose}{net(sight, args.no_safety_net, size)}"
        yield self.action(
            f"resource {args.resource}",
            words,
            {"vc": args.vc, "resource": args.resource, "files": files, "no_safety_net": args.no_safety_net},
            facts={"replaced": going, "mounted_by": users},
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Seal, upload one after the other; what comes back is compared with what went."""
        cluster, name = cluster_of(action, site), str(action.arguments["resource"])
        files = cast(dict[str, str], action.arguments["files"])
        live, words, sent = cluster.resource(name), way_back(site.state, work.run), {}
        going = [file for file in _replaced(live, files) if not own_damage(work, name, file)]
        if live is not None and going:
            waived = str(action.arguments.get("no_safety_net") or "")
            words = yield from seal_before(site, work, cluster, live, waived, [file.path for file in going])
        contents = {there: local(Path(here)) for there, here in files.items()}
        total = sum(one.size for one in contents.values())
        for there, content in contents.items():
            yield f"uploading {there}"
            sent[there] = cluster.upload(name, there, watched(site, content, total))
            note_made(site.state, work.run, name, there, sent[there])
        refuse_other_bytes(cluster, work, name, sent)
        return done(f"{show_count(len(files), 'file')} put into {name}{words}{unread_dags(cluster, name, files)}")


def _replaced(live: Resource | None, files: Mapping[str, str]) -> list[File]:
    """Return the files of a resource that uploads replace by others; `files`: path there → path here."""
    there = [file for file in live.files if file.path in files] if live is not None else []
    return [file for file in there if file.signature != signature_of(Path(files[file.path]))]


class DeleteResource(VcStep[DeleteResourceArguments]):
    """Delete a resource with its files, or one file of it, sealed first; `maint vc undo RUN` brings them back for 30
    days.
    """

    kind = "resource.delete"
    effect = Effect.CHANGE

    def plan(self, args: DeleteResourceArguments, sight: Sight) -> Iterable[Action]:
        cluster = sight.virtual_cluster(args.vc)
        live = cluster.resource(args.resource)
        there = live is not None and (not args.file or live.file(args.file) is not None)
        what = f"{args.resource}/{args.file}" if args.file else f"resource {args.resource}"
        if not there and not args.if_exists:
            raise absent(what, "`maint vc resource list` and `describe` show what there is")
        count = f" with {show_count(len(live.files), 'file')}" if live is not None and not args.file else ""
        users: list[Json] = list(users_of(cluster, args.resource)) if there else []
        size = sum(file.size for file in live.files if args.file in (None, file.path)) if live is not None else 0
        words = f"delete {what}{count}{listed([str(one) for one in users], 'mount it')}"
        seen = "" if there else "it is not there: nothing to delete"
        words += net(sight, args.no_safety_net, size) if there else f" ({seen})"
        yield self.action(
            f"resource {args.resource}",
            words,
            args.model_dump(),
            facts={"there": there, "mounted_by": users},
            seen=seen,
            idle=not there,
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        cluster, name = cluster_of(action, site), str(action.arguments["resource"])
        file = str(action.arguments["file"] or "")
        what = f"{name}/{file}" if file else f"resource {name}"
        live = cluster.resource(name)
        if live is None or (file and live.file(file) is None):
            return unchanged(f"{what} is not there{way_back(site.state, work.run)}")
        paths, waived = [file] if file else [], str(action.arguments["no_safety_net"])
        words = yield from seal_before(site, work, cluster, live, waived, paths)
        yield f"deleting {what}"
        if file:
            cluster.delete_file(name, file)
        else:
            cluster.delete_resource(name)
        return done(f"{what} is deleted{words}")
