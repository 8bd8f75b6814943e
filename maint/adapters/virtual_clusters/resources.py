"""Calls of the jobs API about resources and their files (J5)."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from maint.adapters.http.answers import Streamed
from maint.adapters.http.request import Form
from maint.adapters.virtual_clusters.calls import Calls, Missing
from maint.adapters.virtual_clusters.jobs import Listing
from maint.errors import Invalid
from maint.model.virtual_cluster import Object, Resource, same_resource
from maint.ports.streams import Answer
from maint.ports.virtual_cluster import Content

_RESOURCES = Listing("resources", "resources", "name", (("orderby", "name"),))


class Resources:
    """The part of the client that speaks of resources."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def resources(self, filters: Sequence[str] = ()) -> Sequence[Resource]:
        """Return all resources, without their files."""
        return tuple(Resource(raw) for raw in _RESOURCES.whole(self._calls, filters))

    def resource(self, name: str, *, files: bool = True) -> Resource | None:
        """Return a resource, with its files unless they are not wanted; None where there is none."""
        raw = self._calls.json("resources", name, query=[("includeFiles", "true" if files else "false")])
        return None if raw is None else Resource(raw)

    @contextmanager
    def download(self, resource: str, path: str) -> Iterator[Answer]:
        """Stream a file's bytes."""
        call = self._calls.get(self._file(resource, path), "application/octet-stream")
        answer = self._calls.stream(call)
        if answer is None:
            hint = "`maint vc resource describe` lists its files"
            raise Missing(f"resource {resource} has no file {path}", hint=hint)
        with closing(answer):
            yield Streamed(answer, f"{resource}/{path}")

    def create_resource(self, definition: Object) -> None:
        name = str(definition["name"])

        def landed() -> bool:
            return same_resource(self.resource(name, files=False), definition)

        self._calls.act(self._calls.post("resources", json=definition), landed)

    def delete_resource(self, name: str) -> bool:
        """Delete a resource with its files; return False where it was already gone."""
        call = self._calls.delete(self._calls.url("resources", name))
        return self._calls.done(call, lambda: self.resource(name, files=False) is None)

    def upload(self, resource: str, path: str, content: Content) -> str:
        """Upload a file over whatever is there, and return its signature."""
        form = Form(content)

        def landed() -> bool:
            live = self.resource(resource)
            file = live.file(path) if live else None
            return file is not None and bool(form.signature) and file.signature == form.signature

        self._calls.act(self._calls.put(self._file(resource, path), form), landed)
        return form.signature

    def delete_file(self, resource: str, path: str) -> bool:
        """Delete a file; return False where it was already gone."""

        def landed() -> bool:
            live = self.resource(resource)
            return live is None or live.file(path) is None

        return self._calls.done(self._calls.delete(self._file(resource, path)), landed)

    def _file(self, resource: str, path: str) -> str:
        # `.` and `..` would lead elsewhere on the way.
        if not path or any(part in ("", ".", "..") for part in path.split("/")):
            raise Invalid(f"{path!r} is not the path of a file in a resource", hint="such as lib/tools.py")
        return self._calls.url("resources", resource, path=path)
