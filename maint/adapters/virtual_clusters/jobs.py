"""Jobs and their schedules (J4, J7), and how any list is read to its end (J3.3): pages overlap, so nothing slips by."""

from collections.abc import Sequence
from typing import cast

from msgspec import Struct

from maint.adapters.http.answers import unexpected
from maint.adapters.virtual_clusters.calls import Calls
from maint.errors import WorkFailed
from maint.model.json import Json
from maint.model.virtual_cluster import Job, Object, landed_job, part_of, same_job

_LIMIT = 100  # more is not allowed
_OVERLAP = 10  # items that may go between two pages without a fresh start
_PASSES = 20  # fresh starts before a list counts as one that never rests


class Listing(Struct, frozen=True):
    """A list of the API."""

    place: str  # its path
    key: str  # where the items stand in an answer
    name: str  # the field that tells two items apart
    order: tuple[tuple[str, str], ...]  # further parameters, the order above all

    def page(self, calls: Calls, filters: Sequence[str], limit: int, offset: int = 0) -> tuple[list[Object], bool]:
        """Return one page, and whether there are more; `hasNext` alone tells; all filters must match.

        An answer that is not a list is WorkFailed: an empty one is never assumed.
        """
        query = [("limit", str(limit)), ("offset", str(offset)), *self.order, *(("filter", one) for one in filters)]
        answer = calls.json(self.place, query=query)
        items: Json = None if answer is None else answer.get(self.key)
        if answer is None or not (isinstance(items, list) or self._is_empty(answer)):
            raise unexpected(f"GET /{self.place}", f'a list under "{self.key}"', cast(Json, answer))
        found = items if isinstance(items, list) else []
        if not all(isinstance(item, dict) for item in found):
            raise unexpected(f"GET /{self.place}", f'a list of objects under "{self.key}"', found)
        return cast(list[Object], found), part_of(answer, "meta").get("hasNext") is True

    def whole(self, calls: Calls, filters: Sequence[str]) -> list[Object]:
        """Return all items, each once, in the list's order; WorkFailed where it changes faster than it can be read."""
        for _ in range(_PASSES):
            found = self._pass(calls, filters)
            if found is not None:
                return found
        raise WorkFailed(
            f"the list of {self.key} changes faster than it can be read",
            hint="try again when less is created and deleted",
        )

    def _is_empty(self, answer: Object) -> bool:
        # A list without items is null, or left out beside its `meta`.
        return answer.get(self.key, "") is None or (self.key not in answer and isinstance(answer.get("meta"), dict))

    def _pass(self, calls: Calls, filters: Sequence[str]) -> list[Object] | None:
        # None where items may have been lost.
        found: dict[str, Object] = {}
        offset, last = 0, None
        while True:
            items, more = self.page(calls, filters, _LIMIT, offset)
            names = [repr(item.get(self.name)) for item in items]
            if last is not None and last not in names:
                return None
            fresh = names.index(last) + 1 if last is not None else 0
            added = {name: item for name, item in zip(names[fresh:], items[fresh:], strict=True) if name not in found}
            found.update(added)
            if not more or not items:
                return list(found.values())
            if last is not None and not added:
                return None  # nothing new, and yet more to come
            last = names[-1]
            offset += len(names) - min(_OVERLAP, len(names) // 2)


_JOBS = Listing("jobs", "jobs", "name", (("orderby", "name"),))


class Jobs:
    """The part of the client that speaks of jobs."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def jobs(self, filters: Sequence[str] = ()) -> Sequence[Job]:
        """Return all jobs that all filters let through."""
        return tuple(Job(raw) for raw in _JOBS.whole(self._calls, filters))

    def job(self, name: str) -> Job | None:
        """Return a job, None where there is none."""
        raw = self._calls.json("jobs", name)
        return None if raw is None else Job(raw)

    def create_job(self, definition: Object) -> None:
        name = str(definition["name"])
        self._calls.act(self._calls.post("jobs", json=definition), lambda: landed_job(self.job(name), definition))

    def update_job(self, name: str, definition: Object) -> None:
        """Replace a job's definition."""
        # Sent again where it is not seen: what an update takes away is not told by what the job still has.
        self._calls.act(self._calls.patch("jobs", name, json=definition), lambda: same_job(self.job(name), definition))

    def delete_job(self, name: str) -> bool:
        """Delete a job; return False where it was already gone."""
        return self._calls.done(self._calls.delete(self._calls.url("jobs", name)), lambda: self.job(name) is None)

    def pause(self, job: str) -> None:
        """Pause a job's schedule."""
        self._schedule(job, "pause", paused=True)

    def unpause(self, job: str) -> None:
        """Let a job's schedule go on."""
        self._schedule(job, "unpause", paused=False)

    def _schedule(self, name: str, action: str, *, paused: bool) -> None:
        def landed() -> bool:
            job = self.job(name)
            return job is not None and job.paused is paused

        self._calls.act(self._calls.post("jobs", name, "schedule", action), landed)
