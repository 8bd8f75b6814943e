"""Runs of airflow jobs: the job-run operators of their DAG, in order (contract on the jobs API, section 4.4)."""

import threading
from datetime import datetime

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import dagfile, logs, runs, times
from maint.lab.virtual_clusters.application import CannotRun
from maint.lab.virtual_clusters.cluster import Cluster

_POLL = 0.05  # seconds


class Workflow:
    """One run of a DAG."""

    def __init__(self, cluster: Cluster, run: Doc, killed: threading.Event) -> None:
        self._cluster, self._run, self._killed = cluster, run, killed

    def carry_out(self) -> str:
        """Run the tasks, each after those that it waits for; return the state in which the run ends.

        Raises:
            CannotRun: the DAG cannot be understood.
        """
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
        """Return what the operator always sends (section 4.5)."""
        moment = self._logical()
        day, stamp = moment.strftime("%Y-%m-%d"), moment.isoformat()
        compact = {"ds_nodash": day.replace("-", ""), "ts_nodash": moment.strftime("%Y%m%dT%H%M%S")}
        return {"ds": day, "ts": stamp, "run_id": str(self._run["airflow"]["dagRunID"]), **compact}

    def _logical(self) -> datetime:
        return times.read(self._run["airflow"]["executionDate"]) or self._cluster.now()

    def _say(self, task: dagfile.Task, text: str) -> None:
        logs.write(self._cluster, self._run, f"{task.id}/attempt_1", text)


def refused(cluster: Cluster, job: Doc) -> str:
    """Return why a job cannot be run now, "" where it can (section 3.5)."""
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
