"""Read a DAG file without running it: which jobs it calls, and whether it starts by itself (J4.4)."""

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from threading import Lock

import msgspec

from maint.errors import WorkFailed
from maint.model.json import objects_of
from maint.model.virtual_cluster import Job, Resource, text_of
from maint.ports import VirtualClusterSight
from maint.ports.streams import Answer, Cut
from maint.snapshots.virtual_clusters.blobs import worker_pool

_LONGEST = 4 * 1024 * 1024  # bytes of a DAG file
_ONE_AT_A_TIME = Lock()  # Python 3.11 counts the depth of all that is parsed in one place: SystemError
_NEVER = (None, "")  # as the schedule of a DAG: only ever by hand
_RUNNERS = ("CDEJobRunOperator", "CdeRunJobOperator")  # what tasks run jobs with (J4.4)
_BINDING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_ALL = "*"  # what may bind any name: `from … import *`


class Dag(msgspec.Struct, frozen=True):
    """What a DAG's source tells."""

    calls: Sequence[str]  # jobs that its tasks run, as far as their names stand there as text
    unclear: bool  # whether it also calls jobs whose names are made up while it runs
    scheduled: bool  # one without a word on it has Airflow's default, which is daily
    born_paused: bool  # whether it asks to be paused upon creation

    @property
    def races(self) -> bool:
        """Whether it may run before anybody can pause it."""
        return self.scheduled and not self.born_paused


def read_dag(source: bytes) -> Dag | None:
    """Return what a DAG's source tells, None where it is not Python that can be read."""
    try:
        with _ONE_AT_A_TIME:
            tree = ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # as Python says of deep nesting
        return None
    texts = _constants(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [_value(word.value, texts) for call in calls for word in call.keywords if word.arg == "job_name"]
    makers = _makers(tree)
    dags = [call for call in calls if _called(call) in makers]
    told = bool(dags) and not _handed_on(tree, makers)
    return Dag(
        calls=tuple(dict.fromkeys(name for name in named if isinstance(name, str))),
        unclear=any(not isinstance(name, str) for name in named) or any(map(_is_filled, calls)),
        scheduled=any(_scheduled(call, texts) for call in dags) or not told,
        born_paused=told and all(_born_paused(call, texts) for call in dags),
    )


def read_dag_from(stream: Answer) -> Dag | None:
    """Return what the source of a DAG tells that is read piece by piece."""
    found = b""
    while len(found) < _LONGEST and (block := stream.read(_LONGEST - len(found))):
        found += block
    return read_dag(found)


def dag_places(job: Job) -> Iterator[tuple[str, str]]:
    """Yield where a job's DAG file may lie: resource and path within it, for each of its mounts."""
    path = job.file.strip("/").removeprefix("app/mount/")
    for mount in objects_of(job.raw.get("mounts")):
        prefix = text_of(mount, "dirPrefix").strip("/")
        yield text_of(mount, "resourceName"), path.removeprefix(f"{prefix}/") if prefix else path


def live_dag(cluster: VirtualClusterSight, job: Job, resource: Callable[[str], Resource | None]) -> Dag | None:
    """Return what the source of an airflow job's DAG tells, as it lies in the virtual cluster; None as `read_dag`.

    Args:
        resource: gives a resource with its files by its name.
    """
    for name, path in dag_places(job):
        live = resource(name)
        if live is not None and (file := live.file(path)) is not None:
            with cluster.download(name, file) as answer:
                return read_dag_from(answer)
    return None


def jobs_and_dags(cluster: VirtualClusterSight) -> list[tuple[Job, Dag | None]]:
    """Return the jobs that are listed, and those that their DAGs call and no list shows (J14), each with its DAG."""

    def read(job: Job) -> Dag | None:
        with suppress(WorkFailed, Cut):  # its file may go while it is looked for
            return live_dag(cluster, job, cluster.resource) if job.type == "airflow" else None
        return None

    found, asked, fresh = list[tuple[Job, Dag | None]](), set[str](), cluster.jobs()
    with worker_pool() as (hands, _):
        while fresh:
            asked |= {job.name for job in fresh}
            read_now = list(zip(fresh, hands.map(read, fresh), strict=True))
            found += read_now
            called = sorted({name for _, dag in read_now if dag for name in dag.calls} - asked)
            asked |= {*called}
            fresh = [job for job in hands.map(cluster.job, called) if job is not None]
    return found


def in_order(calls: Mapping[str, Iterable[str]]) -> Sequence[str]:
    """Return names so that each comes after those that it calls; where they go round in a circle, by name."""
    done: dict[str, None] = {}
    for first in sorted(calls):
        trail = {} if first in done else {first: iter(sorted(calls[first]))}  # a chain may be longer than the stack
        while trail:
            name, inner = next(reversed(trail.items()))
            further = next((one for one in inner if one in calls and one not in done and one not in trail), None)
            if further is None:
                del trail[name]
                done[name] = None
            else:
                trail[further] = iter(sorted(calls[further]))
    return list(done)


class _Unknown:
    """A value that only running would tell."""


_UNKNOWN = _Unknown()


def _constants(tree: ast.Module) -> Mapping[str, object]:
    """Return what names stand for; one that is bound twice, or in another way than by `=`, may stand for anything."""
    nodes = list(ast.walk(tree))
    bound = Counter(node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    bound.update(node.arg for node in nodes if isinstance(node, ast.arg))
    bound.update(node.asname or node.name.partition(".")[0] for node in nodes if isinstance(node, ast.alias))
    bound.update(node.name for node in nodes if isinstance(node, _BINDING) and node.name)
    bound.update(node.rest for node in nodes if isinstance(node, ast.MatchMapping) and node.rest)
    return {
        target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and bound[target.id] == 1 and not bound[_ALL]
    }


def _makers(tree: ast.Module) -> Collection[str]:
    """Return the names by which a file makes DAGs, those that it gives them itself among them."""
    found = {"DAG", "dag"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found.update(one.asname for one in node.names if one.name in ("DAG", "dag") and one.asname)
        elif isinstance(node, ast.Assign) and _word(node.value) in found:
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return found


def _handed_on(tree: ast.Module, makers: Collection[str]) -> bool:
    """Whether a DAG may also be made where no call shows it: by a class of the file's own, or by `partial`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(_word(base) in makers for base in node.bases):
            return True
        if isinstance(node, ast.Call) and _called(node) == "partial" and any(_word(one) in makers for one in node.args):
            return True
    return False


def _is_filled(call: ast.Call) -> bool:
    """Whether a task that runs a job gets its arguments from elsewhere (`**`), the job's name perhaps among them."""
    return _called(call) in _RUNNERS and any(word.arg is None for word in call.keywords)


def _called(call: ast.Call) -> str:
    return _word(call.func)


def _word(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _value(node: ast.expr, texts: Mapping[str, object]) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    return texts.get(node.id, _UNKNOWN) if isinstance(node, ast.Name) else _UNKNOWN


def _scheduled(call: ast.Call, texts: Mapping[str, object]) -> bool:
    schedules = [word.value for word in call.keywords if word.arg in ("schedule", "schedule_interval", "timetable")]
    return not schedules or any(_value(value, texts) not in _NEVER for value in schedules)


def _born_paused(call: ast.Call, texts: Mapping[str, object]) -> bool:
    return any(word.arg == "is_paused_upon_creation" and _value(word.value, texts) is True for word in call.keywords)
