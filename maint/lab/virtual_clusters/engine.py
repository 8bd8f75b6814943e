"""Carry runs out: one thread each, few processes at a time (J6.2 to J6.4)."""

import contextlib
import shutil
import threading
import time
from datetime import datetime

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import application, dagfile, runs, times
from maint.lab.virtual_clusters.application import CannotRun
from maint.lab.virtual_clusters.cluster import Cluster

_AT_ONCE = 4
_LOOK = 0.1  # seconds between two looks at a switch
_ODD_STATE = "reticulating"
_POLL = 0.05  # seconds


class Engine:
    """What runs the jobs of a virtual cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._slots = threading.Semaphore(_AT_ONCE)
        self._live: dict[int, tuple[threading.Event, threading.Thread]] = {}
        self._cages: bool | None = None
        cluster.launch, cluster.stop_run = self.launch, self.kill

    def launch(self, run: Doc) -> None:
        killed = threading.Event()
        thread = threading.Thread(target=self._carry, args=(run, killed), daemon=True)
        self._live[int(run["id"])] = (killed, thread)
        thread.start()

    def kill(self, run: Doc) -> None:
        """End a run; it is killed before this returns."""
        runs.move(self._cluster, run, runs.KILLED)
        live = self._live.get(int(run["id"]))
        if live:
            live[0].set()

    def stop(self) -> None:
        for killed, _ in list(self._live.values()):
            killed.set()
        for _, thread in list(self._live.values()):
            thread.join(10)

    # -- one run

    def _carry(self, run: Doc, killed: threading.Event) -> None:
        try:
            outcome = self._run(run, killed)
        except CannotRun as error:
            runs.write_log(self._cluster, run, runs.SUBMITTER, f"ERROR submitter: {error}\n")
            outcome = runs.FAILED
        except Exception as error:
            # A bug of the lab must not leave a run active for ever.
            runs.write_log(self._cluster, run, runs.SUBMITTER, f"ERROR submitter: the lab failed: {error!r}\n")
            outcome = runs.UNKNOWN
        self._clean(run)
        runs.move(self._cluster, run, outcome)
        self._live.pop(int(run["id"]), None)

    def _run(self, run: Doc, killed: threading.Event) -> str:
        cluster = self._cluster
        if cluster.strikes("vc-run-stuck"):
            killed.wait()
        if cluster.switches["vc-scale-up"] == "yes":
            runs.move(cluster, run, "waiting-for-scale-up")
        if self._starting(killed):
            return runs.KILLED
        if cluster.strikes("vc-run-fails"):
            raise CannotRun("cannot fit application: not enough resources in the pool")
        if "airflow" in run:
            return Workflow(cluster, run, killed).carry_out()
        with self._slots:
            return runs.KILLED if killed.is_set() else self._spark(run, killed)

    def _starting(self, killed: threading.Event) -> bool:
        """Wait as long as starting takes, by what is switched now; return whether the run was killed meanwhile."""
        begun = time.monotonic()
        while (left := begun + self._cluster.switches.number("vc-starting-seconds") - time.monotonic()) > 0:
            if killed.wait(min(left, _LOOK)):
                return True
        return killed.is_set()

    def _spark(self, run: Doc, killed: threading.Event) -> str:
        cluster, place = self._cluster, runs.run_folder(self._cluster, run)
        user = str(run["user"])
        if user not in cluster.kerberos:
            name = user.replace("_", "---")
            raise CannotRun(
                f'secrets "{name}-krb5-secret", "{name}-krb5-principal" not found: the user is not initialised'
            )
        if not cluster.kerberos[user]:
            raise CannotRun(f"kinit: Keytab contains no suitable keys for the principal of {user}")
        caged = self._caging()
        (place / "work").mkdir(parents=True, exist_ok=True)
        application.lay_out(cluster, run["mounts"], place / "mount")
        seen_at = application.PREFIX if caged else str(place / "mount")
        prepared = application.prepare(run["spark"]["spec"], place / "mount", seen_at, place / "work")
        if prepared.literal and not caged:
            raise CannotRun(
                f"the job names {application.PREFIX}, and this system allows no private mount namespace to put it there"
            )
        runs.move(cluster, run, _ODD_STATE if cluster.strikes("vc-odd-state") else runs.RUNNING)
        outputs = (runs.log_path(cluster, run, "driver/stdout"), runs.log_path(cluster, run, "driver/stderr"))
        status = application.execute(prepared, place, outputs, killed, caged=caged)
        if killed.is_set():
            return runs.KILLED
        if status != 0:
            lacking = application.lacking(outputs[1])
            runs.write_log(
                cluster, run, runs.SUBMITTER, f"ERROR submitter: driver exited with code {status}{lacking}\n"
            )
            return runs.FAILED
        runs.write_log(cluster, run, runs.SUBMITTER, "INFO submitter: application finished\n")
        return runs.UNKNOWN if cluster.strikes("vc-run-unknown") else runs.SUCCEEDED

    def _caging(self) -> bool:
        if self._cluster.switches["vc-mount-namespace"] == "off":
            return False
        if self._cages is None:
            self._cages = application.caging_works(self._cluster.folder)
        return self._cages

    def _clean(self, run: Doc) -> None:
        place = runs.run_folder(self._cluster, run)
        for name in ("mount", "work"):
            shutil.rmtree(place / name, ignore_errors=True)
        # Never more than an empty folder: were a mount still seen there, its files would be the machine's own.
        with contextlib.suppress(OSError):
            (place / "root").rmdir()


class Workflow:
    """One run of a DAG."""

    def __init__(self, cluster: Cluster, run: Doc, killed: threading.Event) -> None:
        self._cluster, self._run, self._killed = cluster, run, killed

    def carry_out(self) -> str:
        """Run the tasks, each after those that it waits for; return the state in which the run ends."""
        try:
            dag = dagfile.parse(self._run["_"]["dag"])
            tasks = dag.order()
        except dagfile.BadDag as error:
            raise CannotRun(str(error)) from error
        runs.move(self._cluster, self._run, runs.RUNNING)
        if dag.start and dag.start > self._logical():
            return runs.SUCCEEDED  # a DAG whose start lies ahead "succeeds" with nothing done
        done: set[str] = set()
        for task in tasks:
            if set(task.after) <= done and self._carry(task):
                done.add(task.id)
            if self._killed.is_set():
                return runs.KILLED
        return runs.SUCCEEDED if len(done) == len(tasks) else runs.FAILED

    def _carry(self, task: dagfile.Task) -> bool:
        """Run one task; return whether it succeeded."""
        if task.unsupported:
            self._say(task, f"ERROR - {task.unsupported} is not supported, only the operator that runs jobs is\n")
            return False
        if not task.job:
            self._say(task, "INFO - nothing to do\n")
            return True
        with self._cluster.lock:
            started = self._start(task)
        if started is None:
            return False
        while not runs.ended(started) and not self._killed.wait(_POLL):
            pass
        if self._killed.is_set():
            self._cluster.stop_run(started)
            return False
        self._say(task, f"Job run {started['id']} completed with {started['status']} status\n")
        return bool(started["status"] == runs.SUCCEEDED)

    def _start(self, task: dagfile.Task) -> Doc | None:
        job = self._cluster.jobs.get(task.job)
        if job is None:
            self._say(task, "ERROR - could not get job from storage: job not found\n")
            return None
        refusal = refused(self._cluster, job)
        if refusal:
            self._say(task, f"ERROR - {refusal}\n")
            return None
        variables = self._variables() | runs.filled(dict(task.variables), self._variables())
        wish = runs.Wish(str(self._run["user"]), variables, task.overrides)
        return runs.create(self._cluster, job, wish)

    def _variables(self) -> dict[str, str]:
        """Return what the operator always sends (J4.5)."""
        moment = self._logical()
        day, stamp = moment.strftime("%Y-%m-%d"), moment.isoformat()
        compact = {"ds_nodash": day.replace("-", ""), "ts_nodash": moment.strftime("%Y%m%dT%H%M%S")}
        return {"ds": day, "ts": stamp, "run_id": str(self._run["airflow"]["dagRunID"]), **compact}

    def _logical(self) -> datetime:
        return times.read(self._run["airflow"]["executionDate"]) or self._cluster.now()

    def _say(self, task: dagfile.Task, text: str) -> None:
        runs.write_log(self._cluster, self._run, f"{task.id}/attempt_1", text)


def refused(cluster: Cluster, job: Doc) -> str:
    """Return why a job cannot be run now, "" where it can (J3.5)."""
    if job["type"] == "airflow" and (job.get("schedule") or {}).get("paused"):
        return f"job '{job['name']}' is paused, resume the schedule before triggering the run"
    environment = (job.get("spark") or {}).get("pythonEnvResourceName", "")
    if environment:
        found = cluster.resources.get(environment)
        if found is None:
            return f"resource '{environment}' not found"
        if found["status"] != "ready":
            return f"cannot use resource '{environment}' in status '{found['status']}'"
    return ""
