"""Real Airflow and the published provider run what a restore brought back."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.acceptance.airflow import environment
from tests.steps.operator import Operator

pytestmark = [environment.wanted, pytest.mark.timeout(1800)]  # the environment may have to be made first

VC = "Default-VC-abc12345"
# The lab's names are on loopback, and their port 443 is the lab's: the provider has no place for another one.
NAMES = """
import os, socket
real = socket.getaddrinfo
def getaddrinfo(host, port, *more, **named):
    ours = str(host).endswith(".apps.example.internal")
    return real("127.0.0.1" if ours else host, os.environ["LAB_PORT"] if ours else port, *more, **named)
socket.getaddrinfo = getaddrinfo
"""
STORY = """
import json, sys, time
from cloudera.airflow.providers.hooks.cde import CdeHook
hook = CdeHook()
told = {"connection": hook.test_connection()}
first = hook.submit_job("order-report", request_id="one#two#three", variables={"ds": "2026-01-01"})
told["again"] = hook.submit_job("order-report", request_id="one#two#three")
told["first"] = first
while (status := hook.check_job_run_status(first)) in ("starting", "running"):
    time.sleep(1)
told["status"] = status
killed = hook.submit_job("order-report", request_id="four")
hook.kill_job_run(killed)
told["killed"] = hook.check_job_run_status(killed)
json.dump(told, open(sys.argv[1], "w"))
"""


class Airflow:
    """An Airflow of its own that knows the lab's virtual cluster as `cde_runtime_api`."""

    def __init__(self, python: str, folder: Path, told: dict[str, Any]) -> None:
        self.python, self.folder, self.home = python, folder, folder / "airflow"
        (folder / "names").mkdir()
        (folder / "names" / "sitecustomize.py").write_text(NAMES)
        self.dags = self.home / "dags"
        self.dags.mkdir(parents=True)
        (folder / "tokens").mkdir()
        parts = urlsplit(told["base_url"])
        extra = {"cdp_endpoint": told["cdp_endpoint"], "ca_cert_path": told["ca"], "form_factor": "private"}
        extra |= {"ca_cert_path_access_key_auth": told["ca"], "cache_dir": str(folder / "tokens")}
        connection = {
            "conn_type": "cloudera_data_engineering",
            "host": f"{parts.scheme}://{parts.hostname}{parts.path}",
        }
        connection |= {"login": Path(told["access_key_file"]).read_text(), "password": "A" * 43 + "="}
        self.environment = {
            "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "PYTHONPATH": str(folder / "names"),
            "AIRFLOW_HOME": str(self.home),
            "LAB_PORT": str(parts.port),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_CDE_RUNTIME_API": json.dumps({**connection, "extra": extra}),
        }

    def __call__(self, *words: str) -> str:
        """Run a command of Airflow."""
        return self.run("-m", "airflow", *words)

    def run(self, *words: str) -> str:
        """Run its Python; AssertionError with all that it said where it fails."""
        done = subprocess.run([self.python, *words], env=self.environment, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator at a lab whose virtual cluster was backed up, wiped and restored."""
    folder = tmp_path_factory.mktemp("acceptance")
    with Lab(folder / "lab", Options(ssh=False)) as lab:
        operator = Operator(lab)
        for name in ("orders_ingest.py", "order_report.py"):  # in plain Python: PySpark may not be installed here
            (folder / name).write_text(f"print('{name} has run')\n")
            words = ("--name", "etl-scripts", "--local-path", str(folder / name), "--yes")
            assert operator("vc", "resource", "upload", *words).code == 0
        assert operator("vc", "backup").code == 0
        for what in ("job", "resource"):
            for one in operator("vc", what, "list", "-o", "json").json[f"{what}s"]:
                assert operator("vc", what, "delete", "--name", one["name"], "--yes").code == 0
        said = operator("vc", "restore", "--confirm", VC)
        assert said.code == 0, said.err
        yield operator


@pytest.fixture(scope="module")
def airflow(python: str, restored: Operator, tmp_path_factory: pytest.TempPathFactory) -> Airflow:
    """An Airflow beside it."""
    made = Airflow(python, tmp_path_factory.mktemp("airflow"), restored.lab.status()["virtual_clusters"][0])
    made("db", "migrate")
    return made


def runs(operator: Operator) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = operator("vc", "run", "list", "-o", "json").json["runs"]
    return found


def test_the_providers_hook_starts_a_run_once_follows_it_and_kills(airflow: Airflow, restored: Operator) -> None:
    (airflow.folder / "story.py").write_text(STORY)
    airflow.run(str(airflow.folder / "story.py"), str(airflow.folder / "told.json"))
    told = json.loads((airflow.folder / "told.json").read_text())
    assert told["connection"] == [True, f"Connecting to Virtual Cluster '{VC}' was successful."]
    assert told["again"] == told["first"]
    assert told["status"] == "succeeded"
    assert told["killed"] in ("killed", "starting", "running")
    known = {run["id"]: run for run in runs(restored)}
    assert known[told["first"]]["job"] == "order-report"


def test_a_restored_dag_file_runs_its_jobs_in_order(airflow: Airflow, restored: Operator) -> None:
    words = ("--name", "nightly-dags", "--resource-path", "nightly_pipeline.py", "--local-path")
    target = airflow.dags / "nightly_pipeline.py"
    said = restored("vc", "resource", "download", *words, str(target))
    assert said.code == 0, said.err
    before = max((run["id"] for run in runs(restored)), default=0)
    output = airflow("dags", "test", "nightly_pipeline", "2025-03-11", "-f", str(target))
    fresh = sorted((run for run in runs(restored) if run["id"] > before), key=lambda run: int(run["id"]))
    assert [run["job"] for run in fresh] == ["orders-ingest", "order-report"], output[-4000:]
    assert [run["status"] for run in fresh] == ["succeeded", "succeeded"]
    assert fresh[0]["ended"] <= fresh[1]["started"]
