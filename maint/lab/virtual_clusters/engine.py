"""Carry runs out: one thread each, few processes at a time (contract on the jobs API, sections 6.2 to 6.4)."""

import contextlib
import shutil
import threading
import time

from maint.lab.manager.document import Doc
from maint.lab.virtual_clusters import application, logs, mounts, process, runs
from maint.lab.virtual_clusters.application import CannotRun
from maint.lab.virtual_clusters.cluster import Cluster
from maint.lab.virtual_clusters.workflow import Workflow

_AT_ONCE = 4
_LOOK = 0.1  # seconds between two looks at a switch
_ODD_STATE = "reticulating"


class Engine:
    """What runs the jobs of a virtual cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._slots = threading.Semaphore(_AT_ONCE)
        self._live: dict[int, tuple[threading.Event, threading.Thread]] = {}
        self._cages: bool | None = None
        cluster.launch, cluster.stop_run = self.launch, self.kill

    def launch(self, run: Doc) -> None:
        """Begin with a run that was created."""
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
        """End everything that runs and wait for it."""
        for killed, _ in list(self._live.values()):
            killed.set()
        for _, thread in list(self._live.values()):
            thread.join(10)

    # -- one run

    def _carry(self, run: Doc, killed: threading.Event) -> None:
        try:
            outcome = self._run(run, killed)
        except CannotRun as error:
            logs.write(self._cluster, run, logs.SUBMITTER, f"ERROR submitter: {error}\n")
            outcome = runs.FAILED
        except Exception as error:
            # A bug of the lab must not leave a run active for ever.
            logs.write(self._cluster, run, logs.SUBMITTER, f"ERROR submitter: the lab failed: {error!r}\n")
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
        cluster, place = self._cluster, logs.folder(self._cluster, run)
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
        mounts.lay_out(cluster, run["mounts"], place / "mount")
        seen_at = mounts.PREFIX if caged else str(place / "mount")
        prepared = application.prepare(run["spark"]["spec"], place / "mount", seen_at, place / "work")
        if prepared.literal and not caged:
            raise CannotRun(
                f"the job names {mounts.PREFIX}, and this system allows no private mount namespace to put it there"
            )
        runs.move(cluster, run, _ODD_STATE if cluster.strikes("vc-odd-state") else runs.RUNNING)
        outputs = (logs.path(cluster, run, "driver/stdout"), logs.path(cluster, run, "driver/stderr"))
        status = process.execute(prepared, place, outputs, killed, caged=caged)
        if killed.is_set():
            return runs.KILLED
        if status != 0:
            logs.write(cluster, run, logs.SUBMITTER, f"ERROR submitter: driver exited with code {status}\n")
            return runs.FAILED
        logs.write(cluster, run, logs.SUBMITTER, "INFO submitter: application finished\n")
        return runs.UNKNOWN if cluster.strikes("vc-run-unknown") else runs.SUCCEEDED

    def _caging(self) -> bool:
        if self._cluster.switches["vc-mount-namespace"] == "off":
            return False
        if self._cages is None:
            self._cages = process.caging_works(self._cluster.folder)
        return self._cages

    def _clean(self, run: Doc) -> None:
        place = logs.folder(self._cluster, run)
        for name in ("mount", "work"):
            shutil.rmtree(place / name, ignore_errors=True)
        # Never more than an empty folder: were a mount still seen there, its files would be the machine's own.
        with contextlib.suppress(OSError):
            (place / "root").rmdir()
