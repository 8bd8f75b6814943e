"""Jobs and their schedules (contract sections 4 and 7)."""

from collections.abc import Sequence

from maint.adapters.virtual_clusters.calls import Calls
from maint.adapters.virtual_clusters.paging import Page, page_of, whole
from maint.model.virtual_cluster import Job, Object, covers, normal_job


class Jobs:
    """The part of the client that speaks of jobs."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def jobs(self, filters: Sequence[str] = (), *, latest: bool = False) -> Sequence[Job]:
        """Return all jobs that all filters let through."""
        extra = [("latestjob", "true")] if latest else []

        def fetch(limit: int, offset: int) -> Page:
            return listed(self._calls, "jobs", "jobs", filters, limit, offset, [("orderby", "name"), *extra])

        return tuple(Job(raw) for raw in whole(fetch, "name", "the list of jobs"))

    def job(self, name: str) -> Job | None:
        """Return a job, None where there is none."""
        raw = self._calls.json("jobs", name)
        return None if raw is None else Job(raw)

    def create_job(self, definition: Object) -> None:
        """Create a job."""
        name = str(definition["name"])
        self._calls.act(self._calls.post("jobs", json=definition), lambda: self._is(name, definition))

    def update_job(self, name: str, definition: Object) -> None:
        """Replace a job's definition."""
        self._calls.act(self._calls.patch("jobs", name, json=definition), lambda: self._is(name, definition))

    def delete_job(self, name: str) -> bool:
        """Delete a job; return False where it was already gone."""
        return self._calls.done(self._calls.delete("jobs", name), lambda: self.job(name) is None)

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

    def _is(self, name: str, definition: Object) -> bool:
        """Whether a job stands as it was defined; the server may have added defaults."""
        job = self.job(name)
        return job is not None and covers(normal_job(job.raw), normal_job(definition))


def listed(
    calls: Calls,
    place: str,
    key: str,
    filters: Sequence[str],
    limit: int,
    offset: int,
    more: Sequence[tuple[str, str]] = (),
) -> Page:
    """Return one page of a list (contract section 3.3).

    Args:
        calls: how to ask.
        place: the path.
        key: where the items stand in the answer.
        filters: all of them must hold.
        limit: items at the most.
        offset: items to leave out.
        more: further parameters, the order above all.
    """
    query = [("limit", str(limit)), ("offset", str(offset)), *more, *(("filter", one) for one in filters)]
    return page_of(calls.json(place, query=query) or {}, key)
