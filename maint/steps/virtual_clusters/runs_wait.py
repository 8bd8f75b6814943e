"""Start a run once, wait for its end, and read what it printed (contract sections 3.5, 4.5, 6)."""

import secrets
from collections.abc import Generator, Iterator, Mapping
from typing import cast

from maint.errors import WorkFailed
from maint.model.json import Json
from maint.model.virtual_cluster import SUCCEEDED, Run
from maint.ports import Clock, Site, VirtualCluster, VirtualClusterSight, Work
from maint.ports.virtual_cluster import Start
from maint.steps.virtual_clusters.recreate_undo import generation

_FIRST, _THEN = (1.0, 2.0, 3.0), 5.0  # seconds between two looks; faster ones are throttled (section 6.3)
_LATE = 60.0  # seconds that a log may come after its run has ended (section 6.4)
LONGEST_LOG = 64 * 1024 * 1024  # bytes
OUTPUT = "driver/stdout"


def pauses() -> Iterator[float]:
    """Yield the seconds before each look at a run, or at an environment that is being built."""
    yield from _FIRST
    while True:
        yield _THEN


def start_once(
    cluster: VirtualCluster,
    site: Site,
    work: Work,
    job: str,
    variables: Mapping[str, Json] | None = None,
    *,
    anew: bool = False,
) -> int:
    """Start a run of a job, or return the one that an earlier life of this action started.

    A run whose failure was told is not the one that is asked for now, and neither is one from before everything
    was put back, or (`anew`) from before the job was made.
    """
    turn = f"{generation(site.state, work.run)}"
    known, told = work.noted("run"), work.noted("told")
    same = not anew and work.noted("turn") == turn
    if same and isinstance(known, int) and known != told:
        return known
    again = same and work.noted("request") is not None and known is None
    if not again:
        newest = cluster.newest_run(job)
        work.note("after", newest.id if newest else 0)
        work.note("run", None)
        work.note("request", f"{work.run}#{secrets.token_hex(8)}")
        work.note("turn", turn)
    start = Start(job, str(work.noted("request")), cast(int, work.noted("after")), variables, again=again)
    run = cluster.start_run(start)
    work.note("run", run)
    return run


def ended(cluster: VirtualClusterSight, clock: Clock, run_id: int) -> Generator[str, None, Run]:
    """Look at a run until it has ended; a state that nobody knows is told, and waited out."""
    before = ""
    for pause in pauses():
        clock.sleep(pause)
        run = cluster.run(run_id)
        if run is None:
            raise WorkFailed(f"run {run_id} is gone", hint="`maint vc run list` shows what there is")
        if run.ended:
            return run
        if run.status != before:
            before = run.status
            yield f"run {run_id} is {run.status or 'without a state'}"
    raise AssertionError("the pauses never end")


def output(cluster: VirtualClusterSight, clock: Clock, run_id: int, kind: str, *, wait: float = _LATE) -> bytes | None:
    """Return a log of a run that has ended, None where it does not come.

    Args:
        cluster: where.
        clock: time.
        run_id: whose.
        kind: which, such as `driver/stdout`.
        wait: seconds for which a log that is not there, or is empty, is asked for again.
    """
    begun, found = clock.monotonic(), None
    for pause in pauses():
        with cluster.log(run_id, kind) as answer:
            found = answer.read(LONGEST_LOG) if answer is not None else None
            if answer is not None and found:
                while len(found) < LONGEST_LOG and (more := answer.read(LONGEST_LOG - len(found))):
                    found += more
        if found or clock.monotonic() - begun >= wait:
            return found
        clock.sleep(pause)
    raise AssertionError("the pauses never end")


def failure_of(cluster: VirtualClusterSight, run: Run) -> WorkFailed:
    """Return the failure that a run stands for, with the last lines of what it left."""
    return WorkFailed(
        f"run {run.id} of job {run.job} ended as {run.status}",
        detail=last_words(cluster, run.id),
        hint="`maint vc run logs` with its id and a type shows more",
    )


def last_words(cluster: VirtualClusterSight, run_id: int, lines: int = 5) -> list[str]:
    """Return the last lines of the most telling log of a run."""
    kinds = cluster.log_types(run_id)
    for kind in ("driver/stderr", "submitter/stderr", "driver/stdout", "submitter/jobs_api"):
        if kind in kinds:
            with cluster.log(run_id, kind) as answer:
                text = answer.read().decode(errors="replace") if answer is not None else ""
            if text.strip():
                return [f"{kind}: {line}" for line in text.strip().splitlines()[-lines:]]
    return []


def succeeded(run: Run) -> bool:
    """Whether a run did what it was to do, as far as its state tells."""
    return run.status == SUCCEEDED
