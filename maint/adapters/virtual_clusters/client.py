"""The jobs API of one virtual cluster: all reads and all changes behind one constructor."""

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from shlex import quote
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct

from maint.adapters.http.answers import Reply, Streamed, parse, unexpected
from maint.adapters.http.request import HttpCall, Timeouts, UploadForm
from maint.adapters.http.tls import ProxyFailed, presented_der, proxy_for
from maint.adapters.http.transport import NotSent, Peer, Transport
from maint.adapters.virtual_clusters.calls import Missing, ServiceCalls
from maint.errors import AnswerMissing, CannotReach, Invalid, Rejected, WorkFailed
from maint.model.formatting import parse_time, show_size
from maint.model.json import Json
from maint.model.virtual_cluster import (
    File,
    Job,
    Object,
    Resource,
    Run,
    is_file_path,
    landed_job,
    part_of,
    same_job,
    same_resource,
    text_of,
)
from maint.ports.streams import Answer
from maint.ports.virtual_cluster import Content, Start

_LIMIT = 10.0  # seconds for a probe
_GONE = 404  # what the ingress says of a host that it does not know
_NEAR = timedelta(minutes=2)  # between the start that was to be sent and its run, by two clocks
_NEWEST = 20  # runs among which one that has just been started is looked for
_SHOWS_UP = (0.0, 1.0, 2.0, 3.0, 5.0, 5.0)  # seconds before each look for a run whose number the answer lacked
_PAGE = 100  # items; more is not allowed
_OVERLAP = 10  # items that may go between two pages without a fresh start
_PASSES = 20  # fresh starts before a list counts as one that never rests
_MOST, _LARGEST = 1_000_000, 1 << 30  # items of a list, and bytes; one that has more never ends


class Page(Struct, frozen=True):
    """A part of a list."""

    items: Sequence[Object]
    more: bool  # whether there are more behind it
    size: int  # bytes that it was


class Listing(Struct, frozen=True):
    """A list of the API, read to its end (J3.3): pages overlap, so nothing slips by."""

    place: str  # its path
    key: str  # where the items stand in an answer
    name: str  # the field that tells two items apart
    order: tuple[tuple[str, str], ...]  # further parameters, the order above all

    def page(self, calls: ServiceCalls, filters: Sequence[str], limit: int, offset: int = 0) -> Page:
        """Return one page, and whether there are more: as `hasNext` says, else if it is full; all filters must match.

        It is full by the server's own `limit` where that is less than what was asked for. An answer that is not a list,
        or hides all of its items, is WorkFailed: an empty one, or the last one, is never assumed.
        """
        query = [("limit", str(limit)), ("offset", str(offset)), *self.order, *(("filter", one) for one in filters)]
        try:
            answer, size = calls.weighed(calls.get(calls.url(self.place, query=query)))
        except Missing as failure:  # a list is there, whatever of its filters is not
            raise WorkFailed(failure.message, hint="mend the filter that it names; is `base_url` right?") from None
        items = answer.get(self.key) if isinstance(answer, dict) else None
        if not isinstance(answer, dict) or not (isinstance(items, list) or self._is_empty(answer)):
            raise unexpected(f"GET /{self.place}", f'a list under "{self.key}"', answer)
        found = items if isinstance(items, list) else []
        if not all(isinstance(item, dict) for item in found):
            raise unexpected(f"GET /{self.place}", f'a list of objects under "{self.key}"', found)
        meta = part_of(answer, "meta")
        more, own = meta.get("hasNext"), meta.get("limit")
        if not isinstance(more, bool | None):
            raise unexpected(f"GET /{self.place}", 'true or false under "hasNext"', more)
        if more and not found and not offset:
            raise unexpected(f"GET /{self.place}", "an item on a page behind which there are more", answer)
        full = min(limit, own) if isinstance(own, int) and own > 0 else limit
        return Page(cast(list[Object], found), len(found) >= full if more is None else more, size)

    def whole(self, calls: ServiceCalls, filters: Sequence[str]) -> list[Object]:
        """Return all items, each once, in the list's order; WorkFailed where it changes faster than it can be read, or
        does not end.
        """
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

    def _pass(self, calls: ServiceCalls, filters: Sequence[str]) -> list[Object] | None:
        # None where items may have been lost.
        found: dict[str, Object] = {}
        offset, size, last = 0, 0, None
        while True:
            page = self.page(calls, filters, _PAGE, offset)
            items, more, size = page.items, page.more, size + page.size
            if offset > _MOST or size > _LARGEST:
                raise WorkFailed(
                    f"the list of {self.key} has more than {_MOST} items, or is longer than {show_size(_LARGEST)}",
                    detail=["a list that does not end comes from a server that is broken, or lies"],
                    hint="is `base_url` right? A list with a `--filter` is shorter",
                )
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
_RESOURCES = Listing("resources", "resources", "name", (("orderby", "name"),))
_RUNS = "job-runs"
_LIST = Listing(_RUNS, "runs", "id", (("orderby", "ID"),))
_NEWEST_FIRST = Listing(_RUNS, "runs", "id", (("orderby", "ID"), ("orderasc", "false")))


class VirtualClusterClient:
    """Talks to a virtual cluster; implements `ports.VirtualCluster`; may be used by several threads at once."""

    def __init__(self, calls: ServiceCalls) -> None:
        self._calls = calls
        self.settings = calls.settings

    def token_until(self) -> float | None:
        """Log in, and return for how many seconds the token is good; None where nothing says."""
        return self._calls.tokens.current().lifetime

    def token_user(self) -> str:
        """Log in, and return whose the token says it is; empty where it tells nobody's name."""
        return self._calls.tokens.current().user

    def info(self) -> Object:
        found = self._calls.json("info")
        if found is None:
            raise WorkFailed(
                f"there is no jobs API at {self.settings.base_url}",
                hint="`base_url` ends with /dex/api/v1, and a new virtual cluster needs some minutes",
            )
        return found

    def answers(self, base_url: str) -> bool:
        """Return whether a jobs API, and not just an ingress, answers at an address, without logging in."""
        try:
            return _answers(base_url, None, self._calls.proxy)
        except NotSent as failure:
            if not issubclass(failure.why, socket.gaierror | ProxyFailed) or not self.settings.connect_to:
                return issubclass(failure.why, ssl.SSLError)  # somebody is there
        with suppress(NotSent):
            return _answers(base_url, self.settings.connect_to, self._calls.proxy)
        return False

    def certificates(self) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for url in (self.settings.base_url, self.settings.auth_url):
            parts = urlsplit(url)
            name = parts.hostname or ""
            with suppress(OSError):
                place = _unverified(self.settings.connect_to, None).place(name, parts.port or 443)
                found[name] = presented_der(place, name, proxy=proxy_for(self._calls.proxy, url))
        return found

    def close(self) -> None:
        self._calls.close()

    # -- jobs and their schedules (J4, J7)

    def jobs(self, filters: Sequence[str] = ()) -> Sequence[Job]:
        """Return all jobs that all filters let through."""
        return tuple(Job(raw) for raw in _JOBS.whole(self._calls, filters))

    def job(self, name: str) -> Job | None:
        raw = self._calls.json("jobs", name)
        return None if raw is None else Job(raw)

    def create_job(self, definition: Object) -> None:
        name = str(definition["name"])
        self._calls.act(self._calls.post("jobs", json=definition), lambda: landed_job(self.job(name), definition))

    def update_job(self, name: str, definition: Object) -> None:
        # Sent again where it is not seen: what an update takes away is not told by what the job still has.
        self._calls.act(self._calls.patch("jobs", name, json=definition), lambda: same_job(self.job(name), definition))

    def delete_job(self, name: str) -> bool:
        return self._calls.done(self._calls.delete(self._calls.url("jobs", name)), lambda: self.job(name) is None)

    def pause(self, job: str) -> None:
        self._schedule(job, "pause", paused=True)

    def unpause(self, job: str) -> None:
        self._schedule(job, "unpause", paused=False)

    def _schedule(self, name: str, action: str, *, paused: bool) -> None:
        def landed() -> bool:
            job = self.job(name)
            return job is not None and job.paused is paused

        self._calls.act(self._calls.post("jobs", name, "schedule", action), landed)

    # -- resources and their files (J5)

    def resources(self, filters: Sequence[str] = ()) -> Sequence[Resource]:
        """Return all resources, without their files."""
        return tuple(Resource(raw) for raw in _RESOURCES.whole(self._calls, filters))

    def resource(self, name: str, *, files: bool = True) -> Resource | None:
        """Return a resource, with its files unless they are not wanted; None where there is none."""
        raw = self._calls.json("resources", name, query=[("includeFiles", "true" if files else "false")])
        return None if raw is None else Resource(raw)

    @contextmanager
    def download(self, resource: str, file: File) -> Iterator[Answer]:
        call = self._calls.get(self._file(resource, file.path), "application/octet-stream")
        answer = self._calls.stream(call)
        if answer is None:
            hint = f"`maint vc resource describe --name {quote(resource)}` lists its files"
            raise Missing(f"resource {resource} has no file {file.path}", hint=hint)
        with closing(answer):
            yield Streamed(answer, f"{resource}/{file.path}", most=file.size or None)

    def create_resource(self, definition: Object) -> None:
        name = str(definition["name"])

        def landed() -> bool:
            return same_resource(self.resource(name, files=False), definition)

        self._calls.act(self._calls.post("resources", json=definition), landed)

    def delete_resource(self, name: str) -> bool:
        call = self._calls.delete(self._calls.url("resources", name))
        return self._calls.done(call, lambda: self.resource(name, files=False) is None)

    def upload(self, resource: str, path: str, content: Content) -> str:
        form = UploadForm(content)

        def landed() -> bool:
            live = self.resource(resource)
            file = live.file(path) if live else None
            return file is not None and bool(form.signature) and file.signature == form.signature

        self._calls.act(self._calls.put(self._file(resource, path), form), landed)
        return form.signature

    def delete_file(self, resource: str, path: str) -> bool:
        def landed() -> bool:
            live = self.resource(resource)
            return live is None or live.file(path) is None

        return self._calls.done(self._calls.delete(self._file(resource, path)), landed)

    def _file(self, resource: str, path: str) -> str:
        if not is_file_path(path):
            raise Invalid(f"{path!r} is not the path of a file in a resource", hint="such as lib/tools.py")
        return self._calls.url("resources", resource, path=path)

    # -- runs and their logs (J6)

    def runs(self, filters: Sequence[str] = ()) -> Sequence[Run]:
        return tuple(Run(raw) for raw in _LIST.whole(self._calls, filters))

    def newest_run(self, job: str) -> Run | None:
        return max(self._newest(job), key=lambda run: run.id, default=None)

    def run(self, run_id: int) -> Run | None:
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
        url = self._calls.url(_RUNS, str(run_id), "logs", query=[("type", kind)])
        answer = self._calls.stream(self._calls.get(url, "text/plain, */*"))
        if answer is None:
            yield None
            return
        with closing(answer):
            yield Streamed(answer, f"the log {kind} of run {run_id}")

    def start_run(self, start: Start) -> int:
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
        def landed() -> bool:
            run = self.run(run_id)
            return run is None or run.ended

        if landed():
            return
        try:
            self._calls.act(self._calls.post(_RUNS, str(run_id), "kill"), landed)
        except Rejected:  # it may have ended, or gone with its job, since the look
            if not landed():
                raise

    def _newest(self, job: str) -> list[Run]:
        # All runs where the server does not sort as it is asked.
        page = _NEWEST_FIRST.page(self._calls, [f"job[eq]{job}"], _NEWEST)
        found = [Run(raw) for raw in page.items]
        rising = len(found) > 1 and found[0].id < found[-1].id
        return list(self.runs([f"job[eq]{job}"])) if rising and page.more else found

    def _started(self, start: Start, after: int) -> Run | None:
        # The run that a start made may take a moment to be listed.
        for pause in _SHOWS_UP:
            self._calls.clock.sleep(pause)
            fresh = [run for run in self._newest(start.job) if run.id > after]
            named = [run for run in fresh if text_of(run.raw, "requestID") == start.request_id]
            unnamed = [run for run in fresh if not (text_of(run.raw, "requestID") or _dag_run(run, "scheduled__"))]
            user = start.user or self._calls.settings.login.username
            for likely in (named, [run for run in unnamed if run.user == user], unnamed):
                if len(likely) > 1 or (likely and likely is not named and self._doubtful(start, likely[0])):
                    raise _ambiguous(start, likely)
                if likely:
                    return likely[0]
        return None

    def _doubtful(self, start: Start, run: Run) -> bool:
        """Whether a run may be one of the job's schedule, and the start that is looked for was never sent."""
        began = parse_time(text_of(run.raw, "started"))
        near = began is not None and start.asked is not None and abs(began - start.asked) <= _NEAR
        job = self.job(start.job) if start.again and not near and not _dag_run(run, "manual__") else None
        return job is not None and job.scheduled and not job.paused


def _ambiguous(start: Start, runs: Sequence[Run]) -> AnswerMissing:
    since = f"started since: {', '.join(str(run.id) for run in runs)}"
    if start.again:
        return AnswerMissing(
            f"an earlier attempt may have started job {start.job}, and whether a run is its own cannot be told",
            whole=True,
            detail=[since, "others, or its schedule, may have started these"],
            hint=f"look at what they did: `maint vc run describe --id {runs[0].id}`; then `maint playbook dismiss RUN"
            " --reason WORDS`, and begin anew what is left",
        )
    return AnswerMissing(
        f"job {start.job} was started, and which run that made is unclear",
        whole=True,
        detail=[since],
        hint=f"`maint vc run describe --id {runs[0].id}`, and so for each, says who started it",
    )


def _dag_run(run: Run, kind: str) -> bool:
    """Whether a run is one of a DAG, and of a kind: by its schedule, or by somebody."""
    return text_of(part_of(run.raw, "airflow"), "dagRunID").startswith(kind)


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


def _answers(base_url: str, connect_to: str | None, proxy: str | None) -> bool:
    transport = Transport(_unverified(connect_to, proxy), Timeouts(connect=_LIMIT), lambda _: None)
    try:
        return transport.fetch(HttpCall("GET", f"{base_url.rstrip('/')}/info", _LIMIT, total=_LIMIT)).status != _GONE
    except NotSent:
        raise
    except CannotReach:
        return False


def _unverified(connect_to: str | None, proxy: str | None) -> Peer:
    # Asking without trust sends no secret, and an expired certificate is an answer, too.
    return Peer(insecure=True, connect_to=connect_to, proxy=proxy)
