"""Runs of a virtual cluster: start one once, wait for its end, read its output, kill it; one-off jobs (J3.5, J6)."""

import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from pydantic import Field, JsonValue, field_validator

from maint.config.schema import VirtualClusterSettings
from maint.errors import CannotReach, DeadlinePassed, Refused, WorkFailed
from maint.model.formatting import parse_time, show_count, show_size, show_time
from maint.model.json import Json
from maint.model.plan import Action, Effect
from maint.model.secret import scrub
from maint.model.virtual_cluster import SUCCEEDED, Object, Run, same_time, text_of
from maint.ports import Clock, Sight, Site, VirtualCluster, VirtualClusterSight, Work
from maint.ports.streams import Answer
from maint.ports.virtual_cluster import Content, Start
from maint.retry import delays, looks
from maint.steps.step import Progress, done, unchanged
from maint.steps.virtual_clusters.jobs import JobArguments, with_texts
from maint.steps.virtual_clusters.step import VcArguments, VcStep, cluster_of, generation, own_name, own_prefix
from maint.steps.virtual_clusters.uploads import local, placed, refuse_other_bytes, watched

_NO_ROOM = ("cannot fit", "not enough resources", "insufficient", "unschedulable", "exceeded quota")
_FIRST, _LONGEST = 1.0, 5.0  # seconds between two looks; faster ones are throttled (J6.3)
_LATE = 60.0  # seconds that a log may come after its run has ended (J6.4)
_SETTLED = 5.0  # seconds without a change after which a log counts as whole
LONGEST_LOG = 64 * 1024 * 1024  # bytes
_LAST = 64 * 1024  # bytes of a log in which its last words are
_LAST_LINES = 5
OUTPUT = "driver/stdout"
KERBEROS = ("krb5", "kerberos", "keytab", "kinit", "gss")  # words of a run that could not log in


class RunJobArguments(JobArguments):
    """Which job, with which variables, and whether to wait for the run's end."""

    wait: bool = Field(False, description="wait; a run that fails fails the step")
    variables: dict[str, str] = Field({}, description="texts for `{{{name}}}`")


class RunArguments(VcArguments):
    """Which run."""

    run: int = Field(description="its id")


class RunJob(VcStep[RunJobArguments]):
    """Start a run of a job, once; wait for its end where asked to, and fail when it failed."""

    kind = "job.run"
    effect = Effect.CHANGE

    def plan(self, args: RunJobArguments, sight: Sight) -> Iterable[Action]:
        words = f"run job {args.job}" + (" and wait for its end" if args.wait else "")
        yield self.action(f"job {args.job}", words, args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        cluster, job = cluster_of(action, site), str(action.arguments["job"])
        yield f"starting a run of {job}"
        number = start_once(cluster, site, work, job, cast(dict[str, Json], action.arguments["variables"]))
        if not action.arguments["wait"]:
            return done(f"run {number} of job {job} is started", {"id": number})
        yield f"run {number} is started"
        run = yield from ended(cluster, site.clock, work, number)
        if not succeeded(run):
            failure = failure_of(cluster, site.clock, run)
            work.note("told", number)
            raise failure
        return done(f"run {number} of job {job} has succeeded", {"id": number, "status": run.status})


class KillRun(VcStep[RunArguments]):
    """Kill a run."""

    kind = "run.kill"
    effect = Effect.CHANGE

    def plan(self, args: RunArguments, sight: Sight) -> Iterable[Action]:
        run = sight.virtual_cluster(args.vc).run(args.run)
        if run is None:
            raise Refused(f"there is no run {args.run}", hint="`maint vc run list` shows what there is")
        yield self.action(f"run {args.run}", f"kill run {args.run} of job {run.job} ({run.status})", args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        cluster, number = cluster_of(action, site), cast(int, action.arguments["run"])
        yield f"looking at run {number}"
        run = cluster.run(number)
        if run is None or run.ended:
            return unchanged(f"run {number} has ended{f' as {run.status}' if run else ''}")
        cluster.kill(number)
        return done(f"run {number} is killed")


class ListRuns(VcStep[JobArguments]):
    """List the runs of a job."""

    kind = "run.list"
    effect = Effect.READ

    def plan(self, args: JobArguments, sight: Sight) -> Iterable[Action]:
        yield self.action(f"job {args.job}", f"list the runs of job {args.job}", args.model_dump())

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        job = str(action.arguments["job"])
        yield f"listing the runs of {job}"
        runs = cluster_of(action, site).runs([f"job[eq]{job}"])
        found: list[Json] = [{"id": run.id, "status": run.status} for run in runs]
        newest = f", the newest is {runs[-1].id} ({runs[-1].status})" if runs else ""
        return done(f"{show_count(len(runs), 'run')} of {job}{newest}", found)


def start_once(
    cluster: VirtualCluster,
    site: Site,
    work: Work,
    job: str,
    variables: Mapping[str, Json] | None = None,
    *,
    anew: bool = False,
) -> int:
    """Start a run of a job, or return the one that an earlier attempt started.

    A run whose failure was reported is not the one that is asked for now, and neither is one from before everything
    was put back, or (`anew`) from before the job was made.
    """
    turn = f"{generation(site.state, work.run)}"
    known, reported = work.noted("run"), work.noted("told")
    same = not anew and work.noted("turn") == turn
    if same and isinstance(known, int) and known != reported:
        return known
    again = same and work.noted("request") is not None and known is None
    if not again:
        newest = cluster.newest_run(job)
        work.note("after", newest.id if newest else 0)
        work.note("run", None)
        work.note("asked", show_time(site.clock.now()))
        work.note("request", f"{work.run}#{secrets.token_hex(8)}")
        work.note("turn", turn)
    after, asked = cast(int, work.noted("after")), parse_time(work.noted("asked"))
    start = Start(job, str(work.noted("request")), after, variables, again=again, asked=asked)
    run = cluster.start_run(start)
    work.note("run", run)
    return run


def ended(cluster: VirtualClusterSight, clock: Clock, work: Work, run_id: int) -> Generator[str, None, Run]:
    """Look at a run until it has ended; an unknown state is reported, and waited out. WorkFailed: it is gone."""
    before = ""
    for pause in delays(_FIRST, _LONGEST):
        try:
            clock.sleep(pause)
            run = cluster.run(run_id)
        except DeadlinePassed as error:
            error.detail = error.detail or (f"run {run_id} has not ended: it is {before or 'not seen yet'}",)
            raise
        if run is None:
            work.note("told", run_id)  # nobody waits for it any more
            raise WorkFailed(
                f"run {run_id} is gone, and how it ended cannot be told",
                hint=f"look at what it did; `maint playbook resume {work.run}` starts another one",
            )
        if run.ended:
            return run
        if run.status != before:
            before = run.status
            yield f"run {run_id} is {run.status or 'without a state'}"
    raise AssertionError("the pauses never end")


def output(
    cluster: VirtualClusterSight,
    clock: Clock,
    run_id: int,
    kind: str,
    *,
    wait: float = _LATE,
    whole: Callable[[bytes], bool] | None = None,
) -> bytes | None:
    """Return a log of a run that has ended, None where it does not come.

    Args:
        run_id: whose.
        kind: which, such as `driver/stdout`.
        wait: seconds for which a log that is not there, is empty, or grows is asked for again.
        whole: what tells that a log will not grow any more; None: two looks that show the same.
    """
    return _settled(clock, wait, lambda: _read(cluster, run_id, kind, _whole), whole)


def _settled(
    clock: Clock, wait: float, read: Callable[[], bytes | None], whole: Callable[[bytes], bool] | None = None
) -> bytes | None:
    """Read a log until it does not grow any more: at first it may be absent, or short (J6.4)."""
    found, begun, pauses = read(), clock.monotonic(), delays(_FIRST, _LONGEST)
    while not (found and whole and whole(found)) and clock.monotonic() - begun < wait:
        clock.sleep(_SETTLED if found else next(pauses))
        text = read()
        if text and text == found:
            break
        found = found if text is None else text
    return found


def _read(cluster: VirtualClusterSight, run_id: int, kind: str, part: Callable[[Answer], bytes]) -> bytes | None:
    with cluster.log(run_id, kind) as answer:
        return part(answer) if answer is not None else None


def _whole(log: Answer) -> bytes:
    found = b""
    while len(found) < LONGEST_LOG and (more := log.read(LONGEST_LOG - len(found))):
        found += more
    return found


def cut_words(log: bytes) -> str:
    """Return in words that only the beginning of a log was read; "" where all of it was."""
    return f"only the first {show_size(LONGEST_LOG)} of that log are read" if len(log) >= LONGEST_LOG else ""


def failure_of(cluster: VirtualClusterSight, clock: Clock, run: Run) -> WorkFailed:
    """Return the failure that a run stands for, with the last lines of what it left."""
    words, until = list[str](), clock.monotonic() + _LATE
    with suppress(CannotReach, WorkFailed):  # why it failed is worth a look, and no other failure
        kinds = kinds_of_logs(cluster, clock, run)
        words = last_words(cluster, clock, run.id, kinds, until)
    return WorkFailed(
        f"run {run.id} of job {run.job} ended as {run.status}",
        detail=words,
        hint=room_hint(words) or _keys_hint(words, cluster.settings) or logs_hint(run.id, words),
    )


def logs_hint(run_id: int, words: Sequence[str] = ()) -> str:
    """Return how to read more of a run's logs; `words`: the last ones of one of them, as `last_words` gives them."""
    which = f"--type {words[0].partition(': ')[0]}" if words else "--show-types"
    return f"`maint vc run logs --id {run_id} {which}` shows more"


def _keys_hint(words: Sequence[str], settings: VirtualClusterSettings) -> str:
    said = " ".join(words).lower()
    return user_hint(settings) if any(each in said for each in KERBEROS) else ""


def user_hint(settings: VirtualClusterSettings) -> str:
    """Return how a user gets Kerberos secrets (J11.4)."""
    host, user = urlsplit(settings.base_url).hostname, settings.login.username
    return (
        f"has {user} its Kerberos secrets? `maint vc init-user {settings.name} {user}`; by hand, on an ECS master: "
        f"cde-utils.sh init-user-in-virtual-cluster -h {host} -u {user} -p PRINCIPAL_FILE -k KEYTAB"
    )


def room_hint(words: Sequence[str]) -> str:
    """Return what helps a run that found no room; "" where its last words tell something else."""
    said = " ".join(words).lower()
    if not any(each in said for each in _NO_ROOM):
        return ""
    return (
        "let the job ask for less (executors, cores, memory), wait for other runs to end, or raise the virtual"
        " cluster's quota; then run it again"
    )


def is_old(clock: Clock, run: Run) -> bool:
    """Whether a run ended so long ago that its logs are whole."""
    with suppress(ValueError):
        return clock.now() - datetime.fromisoformat(same_time(text_of(run.raw, "ended"))) > timedelta(seconds=_LATE)
    return False


def kinds_of_logs(cluster: VirtualClusterSight, clock: Clock, run: Run) -> Sequence[str]:
    """Return the kinds of log that a run has which ended badly, once those are listed that tell why (J6.4)."""
    kinds, before = list[str](), list[str]()
    silent = run.status == "killed" or text_of(run.raw, "type") == "airflow"
    for _ in looks(clock, 0.0 if silent else _LATE, delays(_FIRST, _LONGEST)):
        kinds = list(cluster.log_types(run.id))
        driver = any(kind.startswith("driver/std") for kind in kinds)
        if driver or ("submitter/stderr" in kinds and kinds == before):  # it never came as far as its driver
            break
        before = kinds
    return kinds


def last_words(
    cluster: VirtualClusterSight, clock: Clock, run_id: int, kinds: Sequence[str], until: float | None = None
) -> list[str]:
    """Return the last lines of the most telling log of a run, of those kinds that it has.

    Args:
        until: when logs are waited for no longer, by the clock's `monotonic`; None: each for as long as it may take.
    """
    for kind in ("driver/stderr", "submitter/stderr", "driver/stdout", "submitter/jobs_api"):
        if kind in kinds:
            wait = _LATE if until is None else until - clock.monotonic()
            text = (_settled(clock, wait, partial(_read, cluster, run_id, kind, _end_of)) or b"").decode(
                errors="replace"
            )
            if text := scrub(text.strip()):
                return [f"{kind}: {line}" for line in text.splitlines()[-_LAST_LINES:]]
    return []


def _end_of(log: Answer) -> bytes:
    """Return the last bytes of a log, which may be a long one; what is beyond the longest is not waited for."""
    end, left = b"", LONGEST_LOG
    while left > 0 and (block := log.read(_LAST)):
        end, left = (end + block)[-_LAST:], left - len(block)
    return end


def succeeded(run: Run) -> bool:
    """Whether a run did what it was to do, as far as its state tells."""
    return run.status == SUCCEEDED


def once(
    cluster: VirtualCluster, site: Site, work: Work, definition: Object, files: Mapping[str, Content]
) -> Generator[str, None, Run]:
    """Run a temporary job, and return its run when it has ended; also one that an earlier attempt saw through.

    Args:
        definition: the job's; the resource gets its name.
        files: what the resource holds, by path; without any there is none.
    """
    known = work.noted("run")
    before = cluster.run(known) if isinstance(known, int) and known != work.noted("told") else None
    if before is not None and succeeded(before):
        return before
    total = sum(one.size for one in files.values())
    files = {path: watched(site, one, total) for path, one in files.items()}
    fresh = yield from _made(cluster, work, definition, files)
    # A job that is made now has no run yet: one of an earlier attempt was swept away with its job.
    number = start_once(cluster, site, work, str(definition["name"]), anew=fresh)
    yield f"run {number} is started"
    return (yield from ended(cluster, site.clock, work, number))


def _made(
    cluster: VirtualCluster, work: Work, definition: Object, files: Mapping[str, Content]
) -> Generator[str, None, bool]:
    """Make the job and its resource, as far as they are not there, and return whether the job was made now."""
    name = str(definition["name"])
    if files and cluster.resource(name, files=False) is None:
        yield f"creating resource {name}"
        cluster.create_resource({"name": name, "hidden": False, "type": "files"})
    sent = {}
    for path, content in files.items():
        yield f"uploading {path}"
        sent[path] = cluster.upload(name, path, content)
    if sent:
        refuse_other_bytes(cluster, work, name, sent)
    if cluster.job(name) is not None:
        return False
    yield f"creating job {name}"
    mounts = [{"resourceName": name, "dirPrefix": ""}] if files else []
    cluster.create_job({**definition, "mounts": mounts})
    return True


class OnceArguments(VcArguments):
    """What runs, and the local files that it needs."""

    definition: dict[str, JsonValue] = Field(description="the job's, as the API takes it, without name and mounts")
    _of_texts = field_validator("definition")(with_texts)
    files: list[str] = Field([], description="local files for the resource, the application among them")
    keep_log: bool = Field(
        False, description="keep `driver/stdout`, sealed in the state folder, until the command has shown it"
    )


class RunOnce(VcStep[OnceArguments]):
    """Run an application by a temporary job, with its files; always with `vc.sweep` under `finally`."""

    kind = "job.once"
    effect = Effect.CHANGE

    def plan(self, args: OnceArguments, sight: Sight) -> Iterable[Action]:
        files = placed(args.files, "")
        size = show_size(sum(Path(path).stat().st_size for path in files.values()))
        what = f" and a resource with {', '.join(files)} ({size})" if files else ""
        yield self.action(
            f"virtual cluster {sight.settings.virtual_cluster(args.vc).name}",
            f"create a job named {own_prefix(sight.settings.state)}submit-…{what}, run it once, and read its log",
            {**args.model_dump(), "files": files},
        )

    def carry_out(self, action: Action, site: Site, work: Work) -> Progress:
        """Make, run, read; what it printed is kept until it was shown."""
        cluster, name = cluster_of(action, site), own_name(site, work, "submit")
        files = {path: local(Path(here)) for path, here in cast(dict[str, str], action.arguments["files"]).items()}
        definition = {**cast(Object, action.arguments["definition"]), "name": name}
        run = yield from once(cluster, site, work, definition, files)
        failure = None if succeeded(run) else failure_of(cluster, site.clock, run)
        if action.arguments["keep_log"]:
            text = output(cluster, site.clock, run.id, OUTPUT, wait=0.0 if failure else _LATE)
            if isinstance(before := work.noted("log"), str):
                site.undo.drop(before)
            work.note("log", site.undo.keep(text or b""))
            if words := cut_words(text or b""):
                yield words
        if failure:
            work.note("told", run.id)
            raise failure
        return done(f"run {run.id} has succeeded", {"id": run.id, "status": run.status})
