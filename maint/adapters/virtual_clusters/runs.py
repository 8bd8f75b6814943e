"""Calls of the jobs API about runs of jobs and their logs (J6)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

from maint.adapters.http.answers import Reply, Streamed, parse, unexpected
from maint.adapters.virtual_clusters.calls import Calls
from maint.adapters.virtual_clusters.jobs import Listing
from maint.errors import AnswerMissing
from maint.model.json import Json
from maint.model.virtual_cluster import Object, Run, text_of
from maint.ports.streams import Answer
from maint.ports.virtual_cluster import Start

_NEWEST = 20  # runs among which one that has just been started is looked for
_SHOWS_UP = (0.0, 1.0, 2.0, 3.0, 5.0, 5.0)  # seconds before each look for a run whose number the answer lacked
_RUNS = "job-runs"
_LIST = Listing(_RUNS, "runs", "id", (("orderby", "ID"),))
_NEWEST_FIRST = Listing(_RUNS, "runs", "id", (("orderby", "ID"), ("orderasc", "false")))


class Runs:
    """The part of the client that speaks of runs."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def runs(self, filters: Sequence[str] = ()) -> Sequence[Run]:
        """Return all runs, oldest first."""
        return tuple(Run(raw) for raw in _LIST.whole(self._calls, filters))

    def newest_run(self, job: str) -> Run | None:
        """Return the run of a job with the highest number, None where it has none."""
        return max(self._newest(job), key=lambda run: run.id, default=None)

    def run(self, run_id: int) -> Run | None:
        """Return a run, None where there is none."""
        raw = self._calls.json(_RUNS, str(run_id))
        return None if raw is None else Run(raw)

    def log_types(self, run_id: int) -> Sequence[str]:
        """Return the kinds of log that a run has by now; the answer's shape is not the same everywhere."""
        call = self._calls.get(self._calls.url(_RUNS, str(run_id), "log-types"))
        value = self._calls.value(call)
        found = tuple(_types(value))
        if not found and not _is_empty(value):
            raise unexpected(call.what, "a list of kinds of log", value)
        return found

    @contextmanager
    def log(self, run_id: int, kind: str) -> Iterator[Answer | None]:
        """Stream a log; None where it is not there, or not there yet."""
        url = self._calls.url(_RUNS, str(run_id), "logs", query=[("type", kind)])
        answer = self._calls.stream(self._calls.get(url, "text/plain, */*"))
        if answer is None:
            yield None
            return
        with closing(answer):
            yield Streamed(answer, f"the log {kind} of run {run_id}")

    def start_run(self, start: Start) -> int:
        """Start a run once, and return its number."""
        after = start.after
        if after is None:
            newest = self.newest_run(start.job)
            after = newest.id if newest else 0
        found: list[int] = []
        call = self._calls.post("jobs", start.job, "run", json=_request(start))

        def landed() -> bool:
            run = self._started(start, after)
            found.extend([run.id] if run else [])
            return bool(found)

        content = None if start.again and landed() else self._calls.act(call, landed, good=_is_start)
        number = None if content is None else _number(content)
        if number is not None:
            return number
        if not found and not landed():
            raise AnswerMissing(
                f"job {start.job} was started, and no run of it is listed",
                whole=True,
                hint="`maint vc run list` may show it later; the answer did not give its number",
            )
        return found[-1]

    def kill(self, run_id: int) -> None:
        """Kill a run; one that has ended stays as it is."""

        def landed() -> bool:
            run = self.run(run_id)
            return run is not None and run.ended

        if not landed():
            self._calls.act(self._calls.post(_RUNS, str(run_id), "kill"), landed)

    def _newest(self, job: str) -> list[Run]:
        # All runs where the server does not sort as it is asked.
        items, more = _NEWEST_FIRST.page(self._calls, [f"job[eq]{job}"], _NEWEST)
        found = [Run(raw) for raw in items]
        rising = len(found) > 1 and found[0].id < found[-1].id
        return list(self.runs([f"job[eq]{job}"])) if rising and more else found

    def _started(self, start: Start, after: int) -> Run | None:
        # The run that a start made may take a moment to be listed.
        for pause in _SHOWS_UP:
            self._calls.clock.sleep(pause)
            fresh = [run for run in self._newest(start.job) if run.id > after]
            named = [run for run in fresh if text_of(run.raw, "requestID") == start.request_id]
            unnamed = [run for run in fresh if not text_of(run.raw, "requestID")]
            user = start.user or self._calls.settings.login.username
            for likely in (named, [run for run in unnamed if run.user == user], unnamed):
                if len(likely) > 1:
                    raise _ambiguous(start, likely)
                if likely:
                    return likely[0]
        return None


def _ambiguous(start: Start, runs: Sequence[Run]) -> AnswerMissing:
    return AnswerMissing(
        f"job {start.job} was started, and which run that made is unclear",
        whole=True,
        detail=[f"started since: {', '.join(str(run.id) for run in runs)}"],
        hint="`maint vc run describe` says who started each of them",
    )


def _request(start: Start) -> dict[str, Json]:
    given: dict[str, Json] = {"requestID": start.request_id}
    given |= {"variables": start.variables} if start.variables else {}
    given |= {"overrides": start.overrides} if start.overrides else {}
    return given | ({"user": start.user} if start.user else {})


def _is_start(reply: Reply) -> bool:
    # A repeated `requestID` is answered with the run's number (J3.5).
    return reply.good or (reply.status == 409 and _number(reply.content) is not None)


def _number(content: bytes) -> int | None:
    with suppress(ValueError, TypeError):
        value = parse(content)
        found = value.get("id") if isinstance(value, Mapping) else None
        return int(found) if isinstance(found, int | str) and not isinstance(found, bool) else None
    return None


def _is_empty(value: Json) -> bool:
    # No kinds of log: nothing, or empty lists.
    return not value or (isinstance(value, Mapping) and any(inner in (None, []) for inner in value.values()))


def _types(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        kind = text_of(value, "type") or text_of(value, "name")
        if kind:
            yield kind
        else:
            yield from _types_in(value)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _types(item)


def _types_in(envelope: Object) -> Iterator[str]:
    for inner in envelope.values():
        if isinstance(inner, Sequence) and not isinstance(inner, str):
            yield from _types(inner)
