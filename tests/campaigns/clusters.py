"""Random virtual clusters in a lab: jobs of all types and fields, files of odd names, DAGs, schedules; what is there.

What is there is read where the lab keeps it, without a request: the product has no part in it.
"""

import io
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.lab.virtual_clusters import runs, schedules
from maint.lab.virtual_clusters.definitions import JOB, RESOURCE
from maint.ports.virtual_cluster import Content
from tests.benchmarks.clusters import client_of
from tests.steps.operator import Operator

Definition = dict[str, Any]
SWITCHES: Mapping[str, Sequence[str]] = {
    "vc-hidden": ("listed", "omitted"), "vc-unknown-keys": ("drop", "keep"), "vc-create-body": ("empty", "object"),
    "vc-duplicate-job": ("409", "500"), "vc-missing-mount": ("refuse", "accept"), "vc-patch": ("merge", "replace"),
    "vc-update-status": ("200", "201", "204"), "vc-delete-status": ("200", "204"),
    "vc-pause-status": ("200", "201", "204"), "vc-delete-mounted": ("allow", "allow", "refuse"),
    "vc-pause-unparsed": ("works", "refused", "overruled", "overruled"), "vc-schedule-user": ("given", "caller"),
    "vc-pause-modifies": ("yes", "no"), "vc-next-execution": ("match", "logical"), "vc-meta-count": ("page", "total"),
    "vc-over-limit": ("refuse", "clamp"), "vc-requirements-download": ("allow", "allow", "allow", "refuse"),
    "vc-expires-in": ("milliseconds", "duration", "absent"),
    "vc-env-seconds": ("0.2",), "vc-dag-seconds": ("0.1", "0.8"), "vc-starting-seconds": ("0",),
}  # fmt: skip
LONG = "n" * 64  # as long as a name may be
RESOURCES = ("code", "R_2", "x.y", "1num", "UPPER-case", LONG)
JOBS = ("j0", "j1", "j2", "j3", "Job_X.1", "9n9", "N" * 64)
PATHS = (
    "app.py", "empty", "sub/Ordner ä/t.py", "lib/all.bin", "a b.txt", "per%cent", "x+y&z=1?.txt", "#hash", "Z.py",
    "é", "é.txt", "日本/語.py", ".hidden", "q'uote\"", "back\\slash", "end.", "semi;colon", "..x", "events",
)  # fmt: skip
WORDS = ("x", "", "ärg", "日本", "a b", "'q'", 'd"q', "--x=y", "🚀", "line\nbreak", "{{{ds}}}", "tab\t", "0", "null")
ODD: tuple[Any, ...] = (
    0, -1, True, False, None, "", "x", [], {}, [1, [2]], {"a": {"b": False}}, 1.5, "0001-01-01T00:00:00Z", ["", 0],
)  # fmt: skip
CRONS = ("0 3 * * *", "4 5 * * 1", "@once", "@daily", "0 0 29 2 *", "@yearly", "30 4 1,15 * 5")
STARTS = ("2041-01-01T00:00:00.000Z", "2041-01-01", "2040-05-05T10:00:00+02:00", "2020-01-01T00:00:00Z", "")
PREFIXES = ("", "/", "data", "data/", "/sub/x")
WHEN = ("schedule=None", "schedule='0 3 * * *'", "schedule_interval='@daily'", "", "schedule='@once'")
BORN = ("is_paused_upon_creation=True", "is_paused_upon_creation=True", "", "is_paused_upon_creation=False")
BEGINNINGS = ("start_date=datetime(2041, 1, 1)", "start_date=datetime(2020, 1, 1)", "")
DAG = """\
from datetime import datetime
from airflow import DAG
from cloudera.cdp.airflow.operators.cde_operator import CDEJobRunOperator
with DAG({arguments}) as dag:
    pass
"""
NAMING = ("resourceName", "pythonEnvResourceName", "runtimeImageResourceName")  # keys under which jobs name resources


@dataclass
class Shown:
    """What is there, without what a server sets by itself."""

    resources: dict[str, Definition]  # by name
    files: dict[str, dict[str, str]]  # SHA-1 by path, by resource
    jobs: dict[str, Definition]  # by name, schedules paused or not
    awake: set[str]  # jobs that run by themselves
    hidden: set[str] = field(default_factory=set)  # what no list shows

    def holding(self, names: set[str]) -> "Shown":
        """Return of it what has these names."""
        kept = ({name: one for name, one in kind.items() if name in names} for kind in (self.resources, self.jobs))
        files = {name: one for name, one in self.files.items() if name in names}
        return Shown(next(kept), files, next(kept), self.awake & names)

    @property
    def names(self) -> set[str]:
        """The names of all jobs and resources; no job is called as a resource is."""
        return {*self.jobs, *self.resources}

    def differences(self, other: "Shown") -> set[tuple[str, str]]:
        """Return what differs, each with the word for what it is: files as RESOURCE/PATH, a schedule by its job."""
        found = {("resource", name) for name in differing(self.resources, other.resources)}
        found |= {("job", name) for name in {*differing(self.jobs, other.jobs), *(self.awake ^ other.awake)}}
        for name in {*self.files, *other.files}:
            paths = differing(self.files.get(name, {}), other.files.get(name, {}))
            found |= {("file", f"{name}/{path}") for path in paths}
        return found


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Return the keys whose values differ, or that only one of the two has."""
    return {key for key in {*one, *other} if key not in one or key not in other or one[key] != other[key]}


class Ground:
    """A lab whose virtual cluster is empty, who works at it, and a client with which others do."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.chance, self.folder = chance, folder
        self.switches = {name: chance.choice(values) for name, values in SWITCHES.items()}
        self.lab = Lab(folder, Options(ssh=False, switches=self.switches))
        self.lab.start()
        self.operator = Operator(self.lab)
        told = self.lab.status()["virtual_clusters"][0]
        self.name, self.client = str(told["name"]), client_of(told, self.lab.folder)
        assert self.lab.service
        self.cluster = self.lab.service.cluster(self.name)
        with self.cluster.lock:
            for name in [*self.cluster.jobs]:
                self.cluster.jobs.drop(name)
            for name in [*self.cluster.resources]:
                self.cluster.files.drop_all(name)
                self.cluster.resources.drop(name)

    def stop(self) -> None:
        """Take it down."""
        self.client.close()
        self.lab.stop()

    def shown(self) -> Shown:
        """Return what is there, once environments are built, files of DAGs read, and runs that are due ended."""
        while self._busy():
            time.sleep(0.02)
        with self.cluster.lock:
            resources = {name: self.cluster.resource_view(one) for name, one in self.cluster.resources.items()}
            jobs = {name: self.cluster.job_view(one) for name, one in self.cluster.jobs.items()}
            files = {
                name: {str(file["path"]): str(file["signature"]) for file in self.cluster.files.entries(name)}
                for name in resources
            }
        awake = {name for name, one in jobs.items() if _runs_by_itself(one)}
        omitted = self.switches["vc-hidden"] == "omitted"
        hidden = {name for name, one in {**resources, **jobs}.items() if omitted and one.get("hidden")}
        own = ("created", "modified", "signature", "status", "pythonEnvInfo")
        return Shown(
            {name: {key: value for key, value in one.items() if key not in own} for name, one in resources.items()},
            files, {name: _own(one) for name, one in jobs.items()}, awake, hidden,
        )  # fmt: skip

    def _busy(self) -> bool:
        with self.cluster.lock:
            return (
                any("parse" in (one.get("_") or {}) for one in self.cluster.jobs.values())
                or any(schedules.due(one, self.cluster.now()) for one in self.cluster.jobs.values())
                or any(one["status"] == "building" for one in self.cluster.resources.values())
                or any(not runs.ended(one) for one in self.cluster.runs.values())
            )

    def begun(self, since: int) -> dict[int, str]:
        """Return the jobs of the runs that schedules started since a number; not those that a DAG's task started."""
        with self.cluster.lock:
            found = {int(one["id"]): one for one in self.cluster.runs.values()}
        return {key: str(one["job"]) for key, one in found.items() if key > since and not one["_"]["variables"]}

    @property
    def last_run(self) -> int:
        """The number of the newest run."""
        with self.cluster.lock:
            return max([0, *(int(one["id"]) for one in self.cluster.runs.values())])

    def upload(self, resource: str, path: str, content: bytes) -> None:
        self.client.upload(resource, path, Content(lambda: io.BytesIO(content), len(content)))


def _runs_by_itself(job: Definition) -> bool:
    schedule = job.get("schedule") or {}
    return (job["type"] == "airflow" or bool(schedule.get("enabled"))) and not schedule.get("paused")


def _own(job: Definition) -> Definition:
    """Return a job as whoever made it has defined it; of a DAG's times some are made up as its file is read."""
    kept = {key: value for key, value in job.items() if key not in ("created", "modified", "lastUsed")}
    set_by_server = {"nextExecution", "pausedUponCreation", "paused", "user"}
    set_by_server |= {"start", "end"} if job["type"] == "airflow" else set()
    schedule = {key: value for key, value in kept.pop("schedule", {}).items() if key not in set_by_server}
    return {**kept, "schedule": schedule} if schedule not in ({}, {"enabled": False}) else kept


def renamed(definition: Any, names: Mapping[str, str]) -> Any:
    """Return a definition with other names of resources."""
    if isinstance(definition, list):
        return [renamed(one, names) for one in definition]
    if not isinstance(definition, dict):
        return definition
    return {
        key: names.get(value, value) if key in NAMING and isinstance(value, str) else renamed(value, names)
        for key, value in definition.items()
    }


class Maker:
    """Fills a virtual cluster."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.chance = ground, ground.chance
        self.names: Sequence[str] = ()  # of jobs
        self.racing: set[str] = set()  # DAGs that may run before anybody can pause them
        self._further = ground.switches["vc-unknown-keys"] == "keep"
        self._files = self._some(RESOURCES) or ["code"]
        self._environments, self._images = self._some(("env", "env2")), self._some(("img",))

    def fill(self) -> None:
        """Make resources, their files, and jobs that use them."""
        client = self.ground.client
        for name in self._files:
            self._resource(name, "files")
            for path in self.chance.sample(PATHS, self.chance.randrange(7)):
                self.ground.upload(name, path, self._content())
        for name in self._environments:
            self._resource(name, "python-env")
            if self._likely(0.8):
                content = self.chance.choice((b"", b"requests\n", b"# x\r\n"))
                self.ground.upload(name, "requirements.txt", content)
        for name in self._images:
            self._resource(name, self.chance.choice(("custom-runtime-image", "airflow-python-env")))
        jobs, dags = self._some(JOBS), [f"dag{number}" for number in range(self.chance.randrange(4))]
        for name in jobs:
            client.create_job(self._spark(name))
        if dags:
            self._resource("dags", "files")
        for number, name in enumerate(dags):  # none calls itself in the end: it would run for ever
            self.ground.upload("dags", f"{name}.py", self._dag(name, [*jobs, *dags[:number], "missing"]))
        for name in dags:
            client.create_job(self._flow(name))
        self.names = (*jobs, *dags)

    def settle(self) -> None:
        """Wait until all is read and built, then pause some of the jobs, and let others go on."""
        client = self.ground.client
        self.ground.shown()
        for name in self.names:
            if self._likely(0.2):
                (client.pause if self._likely(0.6) else client.unpause)(name)

    def _likely(self, part: float) -> bool:
        return self.chance.random() < part

    def _some(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self._likely(0.5)]

    def _value(self, shape: Any) -> Any:
        if isinstance(shape, list):
            return [self._value(shape[0]) for _ in range(self.chance.randrange(3))]
        if isinstance(shape, dict) and "*" in shape:
            return {self.chance.choice(WORDS): self._value(shape["*"]) for _ in range(self.chance.randrange(3))}
        if isinstance(shape, dict):
            return self._object(shape)
        values = {str: WORDS, bool: (True, False), int: range(5), object: ODD}
        return self.chance.choice(values[shape])

    def _object(self, shape: Mapping[str, Any], *without: str) -> Definition:
        found = {key: self._value(one) for key, one in shape.items() if key not in without and self._likely(0.3)}
        if self._further and self._likely(0.2):
            found["newerKey"] = self.chance.choice(ODD)
        return found

    def _content(self) -> bytes:
        small = (b"", bytes(range(256)), b"same\r\n", f"print({self.chance.random()})\n".encode())
        large = self.chance.randbytes(self.chance.randrange(1, 400_000)) if self._likely(0.1) else b""
        return self.chance.choice(small) + large

    def _resource(self, name: str, kind: str) -> None:
        made = self._object(RESOURCE)
        if "pythonEnv" in made:  # left empty, no server would show which it takes
            made["pythonEnv"]["pythonVersion"] = self.chance.choice(("python3", "python2"))
        self.ground.client.create_resource({**made, "name": name, "type": kind})

    def _common(self, name: str, kind: str) -> Definition:
        made = self._object(JOB, "mounts", "spark", "airflow", "schedule", "runtimeImageResourceName")
        if self._images and self._likely(0.3):
            made["runtimeImageResourceName"] = "img"
        return {**made, "name": name, "type": kind}

    def _mounts(self) -> list[Definition]:
        names = self.chance.sample(self._files, self.chance.randint(0, min(2, len(self._files))))
        return [{"resourceName": one, "dirPrefix": self.chance.choice(PREFIXES)} for one in names]

    def _spark(self, name: str) -> Definition:
        spark = self._object(JOB["spark"], "pythonEnvResourceName")
        spark["file"] = self.chance.choice(("app.py", "https://r/a.jar", "local:/x", "/app/mount/data/app.py"))
        if self._environments and self._likely(0.4):
            spark["pythonEnvResourceName"] = self.chance.choice(self._environments)
        schedule = {"schedule": self._schedule()} if self._likely(0.7) else {}
        return {**self._common(name, "spark"), "mounts": self._mounts(), "spark": spark, **schedule}

    def _schedule(self) -> Definition:
        start, end = self.chance.choice(STARTS), self.chance.choice(("2050-01-01", "", "2021-01-01T00:00:00Z"))
        made = self._object(JOB["schedule"]) | {"enabled": self._likely(0.6), "start": start, "end": end}
        made["cronExpression"] = self.chance.choice(CRONS) if made["enabled"] else self.chance.choice(("", *CRONS))
        made["catchup"] = bool(made.get("catchup")) and start.startswith("2041")  # or it would run hundreds of times
        return made

    def _flow(self, name: str) -> Definition:
        flow = self._object(JOB["airflow"]) | {"dagFile": f"{name}.py", "fileMounts": self._mounts()}
        mounts = [{"resourceName": "dags", **self.chance.choice(({}, {"dirPrefix": "/"}))}]
        return {**self._common(name, "airflow"), "mounts": mounts, "airflow": flow}

    def _dag(self, name: str, callable_: Sequence[str]) -> bytes:
        when, born, start = (self.chance.choice(ways) for ways in (WHEN, BORN, BEGINNINGS))
        arguments = [repr(self.chance.choice((name, f"other-{name}"))), when, born, start, "catchup=False"]
        text = DAG.format(arguments=", ".join(one for one in arguments if one))
        for number, job in enumerate(self.chance.sample(callable_, self.chance.randint(0, min(2, len(callable_))))):
            text += f"    t{number} = CDEJobRunOperator(task_id='t{number}', job_name={job!r})\n"
        broken = self._likely(0.05)
        if broken or (when != "schedule=None" and "True" not in born):
            self.racing.add(name)
        return (text + "this is broken (\n" * broken).encode()
