"""Resources and their files (contract section 5)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from maint.adapters.virtual_clusters.answers import Missing
from maint.adapters.virtual_clusters.calls import Calls
from maint.adapters.virtual_clusters.jobs import listed
from maint.adapters.virtual_clusters.multipart import Form
from maint.adapters.virtual_clusters.paging import Page, whole
from maint.adapters.virtual_clusters.stream import Streamed
from maint.adapters.virtual_clusters.transport import Call
from maint.errors import Invalid
from maint.model.virtual_cluster import Object, Resource, covers, normal_resource
from maint.ports.streams import Answer
from maint.ports.virtual_cluster import Content


class Resources:
    """The part of the client that speaks of resources."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def resources(self, filters: Sequence[str] = ()) -> Sequence[Resource]:
        """Return all resources, without their files."""

        def fetch(limit: int, offset: int) -> Page:
            return listed(self._calls, "resources", "resources", filters, limit, offset, [("orderby", "name")])

        return tuple(Resource(raw) for raw in whole(fetch, "name", "the list of resources"))

    def resource(self, name: str, *, files: bool = True) -> Resource | None:
        """Return a resource, with its files unless told otherwise; None where there is none."""
        raw = self._calls.json("resources", name, query=[("includeFiles", "true" if files else "false")])
        return None if raw is None else Resource(raw)

    @contextmanager
    def download(self, resource: str, path: str) -> Iterator[Answer]:
        """Stream a file's bytes."""
        call = Call("GET", self._file(resource, path), accept="application/octet-stream")
        answer = self._calls.stream(call)
        if answer is None:
            hint = "`maint vc resource describe` lists its files"
            raise Missing(f"resource {resource} has no file {path}", hint=hint)
        try:
            yield Streamed(answer, f"{resource}/{path}")
        finally:
            answer.close()

    def create_resource(self, definition: Object) -> None:
        """Create a resource."""
        name = str(definition["name"])

        def landed() -> bool:
            live = self.resource(name, files=False)
            return live is not None and covers(normal_resource(live.raw), normal_resource(definition))

        self._calls.act(self._calls.post("resources", json=definition), landed)

    def delete_resource(self, name: str) -> bool:
        """Delete a resource with its files; return False where it was already gone."""
        call = self._calls.delete("resources", name)
        return self._calls.done(call, lambda: self.resource(name, files=False) is None)

    def upload(self, resource: str, path: str, content: Content) -> str:
        """Upload a file over whatever is there, and return its signature."""
        form = Form(content)

        def landed() -> bool:
            live = self.resource(resource)
            file = live.file(path) if live else None
            return file is not None and bool(form.signature) and file.signature == form.signature

        self._calls.act(Call("PUT", self._file(resource, path), form=form), landed)
        return form.signature

    def delete_file(self, resource: str, path: str) -> bool:
        """Delete a file; return False where it was already gone."""

        def landed() -> bool:
            live = self.resource(resource)
            return live is None or live.file(path) is None

        return self._calls.done(Call("DELETE", self._file(resource, path)), landed)

    def _file(self, resource: str, path: str) -> str:
        """Return a file's address; `.` and `..` would lead elsewhere on the way."""
        if not path or any(part in ("", ".", "..") for part in path.split("/")):
            raise Invalid(f"{path!r} is no path of a file in a resource", hint="such as lib/tools.py")
        return self._calls.url("resources", resource, path=path)
