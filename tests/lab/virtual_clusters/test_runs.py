"""Runs that really run: processes, mounts, logs, workflows, kill."""

import time
from pathlib import Path

import pytest

from maint.lab.virtual_clusters import application
from maint.lab.virtual_clusters.runs import FINAL

LONG = 200.0  # seconds; no more than an end for what never comes
FAST = {"starting_seconds": "0", "log_seconds": "0", "dag_seconds": "0"}
DAG = b"""
from airflow import DAG
with DAG("flow_dag", schedule=None, start_date=datetime(2025, 1, 1)) as dag:
    first = CdeRunJobOperator(task_id="first", job_name="one", variables={"who": "{{{ds}}}"})
    second = CdeRunJobOperator(task_id="second", job_name="two")
    first >> second
"""


def wait(api, run, *, until=FINAL):
    limit = time.monotonic() + LONG
    while (found := api.get(f"/job-runs/{run}"))["status"] not in until:
        assert time.monotonic() < limit, found
        time.sleep(0.02)
    return found


def lives(process):
    """Whether a process is there and is not a zombie; it may go between any two looks."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def log(api, run, kind="driver/stdout"):
    answer = api.ask("GET", f"/job-runs/{run}/logs?type={kind.replace('/', '%2F')}")
    assert answer.status == 200, answer.content
    return answer.content.decode()


def python(api, name, code, *, files=None, prefix="", **spark):
    api.resource(f"{name}-files", {"app.py": code.encode(), **(files or {})})
    file = f"{prefix}/app.py" if prefix else "app.py"
    mounts = [{"resourceName": f"{name}-files", "dirPrefix": prefix}]
    assert api.spark(name, mounts=mounts, spark={"file": file, **spark}).status == 201


def start(api, name, body=None, **more):
    answer = api.ask("POST", f"/jobs/{name}/run", body, **more)
    assert answer.status == 201, answer.content
    return answer.json["id"]


@pytest.fixture
def running(make_api):
    return make_api(engine=True, **FAST)


@pytest.fixture
def caged(running):
    if not application.caging_works(running.cluster.folder):
        pytest.skip("this system allows no private mount namespaces")
    return running


def test_an_application_runs_with_its_arguments_and_its_output_is_its_log(running):
    code = "import sys\nfrom lib.told import WORD\nprint(WORD, sys.argv[1:])\nprint('oops', file=sys.stderr)\n"
    python(running, "j", code, files={"lib/told.py": b"WORD = 'MARKER'\n"}, args=["a b", "über"])
    run = wait(running, start(running, "j"))
    assert (run["status"], run["user"], run["job"]) == ("succeeded", "etl_user", "j")
    assert log(running, run["id"]) == "MARKER ['a b', 'über']\n"
    assert log(running, run["id"], "driver/stderr") == "oops\n"
    assert log(running, run["id"], "submitter/jobs_api").split("\n")[-2] == f"run {run['id']} succeeded"
    assert running.get(f"/job-runs/{run['id']}/log-types")["logTypes"] == [
        "driver/stderr", "driver/stdout", "submitter/jobs_api", "submitter/stderr",
    ]  # fmt: skip


def test_an_application_finds_its_files_at_app_mount(caged):
    code = "import sys\nprint(open('/app/mount/data/x.csv').read(), open(sys.argv[1]).read())\n"
    python(caged, "j", code, files={"x.csv": b"HERE"}, prefix="data", args=["/app/mount/data/x.csv"])
    run = wait(caged, start(caged, "j"))
    assert run["status"] == "succeeded", log(caged, run["id"], "driver/stderr")
    assert log(caged, run["id"]) == "HERE HERE\n"
    assert not Path("/app/mount").exists()


def test_what_an_application_does_to_its_mount_reaches_no_resource(caged):
    python(caged, "j", "open('/app/mount/app.py', 'w').write('gone')\nopen('/app/mount/new', 'w')\n")
    assert wait(caged, start(caged, "j"))["status"] == "succeeded"
    assert caged.ask("GET", "/resources/j-files/app.py").content.startswith(b"open(")
    assert len(caged.get("/resources/j-files?includeFiles=true")["files"]) == 1


def test_without_namespaces_only_what_names_app_mount_is_refused(running):
    running.switch(**FAST, mount_namespace="off")
    python(running, "plain", "print('RAN')\n")
    python(running, "literal", "open('/app/mount/x')\n")
    assert wait(running, start(running, "plain"))["status"] == "succeeded"
    run = wait(running, start(running, "literal"))
    assert run["status"] == "failed"
    assert "allows no private mount namespace" in log(running, run["id"], "submitter/stderr")


def test_an_application_sees_nothing_of_the_labs_environment(running, monkeypatch):
    monkeypatch.setenv("LAB_SECRET", "hidden")
    python(running, "j", "import os\nprint('LAB_SECRET' in os.environ, os.getcwd() == os.environ['HOME'])\n")
    run = wait(running, start(running, "j"))
    assert log(running, run["id"]) == "False True\n"


def test_variables_and_overrides_hold_for_one_run(running):
    python(running, "j", "import sys\nprint(sys.argv[1:])\n", args=["{{{who}}}"])
    first = wait(running, start(running, "j", {"variables": {"who": "me"}}))
    second = wait(running, start(running, "j", {"overrides": {"spark": {"args": ["x"], "executorMemory": "2g"}}}))
    assert [log(running, run["id"]) for run in (first, second)] == ["['me']\n", "['x']\n"]
    assert second["spark"]["spec"]["executorMemory"] == "2g"
    assert running.get("/jobs/j")["spark"]["args"] == ["{{{who}}}"]


def test_what_cannot_run_says_why_in_its_log(running):
    running.resource("r", {"app.R": b""})
    cases = {
        "https://repo.example.com/x.jar": "the lab has no way out",
        "missing.py": "not found in the mounts",
        "/etc/passwd": "the lab has no way out",
        "app.R": "neither a Python application nor a jar",
    }
    for number, file in enumerate(cases):
        running.spark(f"j{number}", mounts=[{"resourceName": "r"}], spark={"file": file})
    begun = {file: start(running, f"j{number}") for number, file in enumerate(cases)}
    for file, reason in cases.items():
        run = wait(running, begun[file])
        assert (run["status"], "sparkAppID" in run["spark"]) == ("failed", False), file
        assert reason in log(running, run["id"], "submitter/stderr"), file


def test_an_application_that_fails_fails_its_run(running):
    python(running, "j", "raise SystemExit(3)\n")
    run = wait(running, start(running, "j"))
    assert run["status"] == "failed"
    assert "exited with code 3" in log(running, run["id"], "submitter/stderr")


def test_a_run_is_killed_with_everything_it_started(running):
    code = "import subprocess\nchild = subprocess.Popen(['sleep', '600'])\nprint(child.pid, flush=True)\nchild.wait()\n"
    python(running, "j", code)
    number = start(running, "j")
    wait(running, number, until=("running",))
    while not (told := running.ask("GET", f"/job-runs/{number}/logs?type=driver/stdout").content).strip().isdigit():
        time.sleep(0.02)  # until then there is no log, or nothing in it
    assert running.ask("POST", f"/job-runs/{number}/kill").status == 201
    assert running.get(f"/job-runs/{number}")["status"] == "killed"
    while lives(int(told)):
        time.sleep(0.02)  # the time limit of the test says when this is too long
    assert running.ask("POST", f"/job-runs/{number}/kill").status == 201


def test_a_run_that_is_active_has_not_ended(running):
    python(running, "j", "import time\ntime.sleep(600)\n")
    number = start(running, "j")
    assert wait(running, number, until=("running",))["ended"] == "0001-01-01T00:00:00Z"
    running.ask("POST", f"/job-runs/{number}/kill")


def test_the_same_request_is_carried_out_once(running):
    python(running, "j", "")
    first = start(running, "j", {"requestID": "dag#run#1"})
    again = running.ask("POST", "/jobs/j/run", {"requestID": "dag#run#1"})
    assert (again.status, again.json["id"]) == (409, first)
    assert len(running.get("/job-runs")["runs"]) == 1


def test_an_unknown_job_cannot_be_run(running):
    answer = running.ask("POST", "/jobs/none/run")
    assert (answer.status, answer.json["message"]) == (404, "could not get job from storage: job not found")


def test_the_number_of_a_run_may_have_to_be_looked_up(running):
    running.switch(**FAST, run_answer="empty")
    python(running, "j", "")
    answer = running.ask("POST", "/jobs/j/run")
    assert (answer.status, answer.content) == (201, b"")
    assert running.get("/job-runs?filter=job%5Beq%5Dj&offset=0")["runs"][0]["id"] == 1


def test_a_user_without_kerberos_secrets_cannot_run_jobs(running):
    running.cluster.set_kerberos("etl_user", None)
    python(running, "j", "")
    run = wait(running, start(running, "j"))
    assert run["status"] == "failed"
    assert "etl---user-krb5-secret" in log(running, run["id"], "submitter/stderr")


def test_logs_appear_late_and_log_types_have_three_shapes(running):
    running.switch(**FAST | {"log_seconds": "600"})
    python(running, "j", "print('x')\n")
    number = start(running, "j")
    wait(running, number)
    missing = running.ask("GET", f"/job-runs/{number}/logs?type=driver/stdout")
    assert (missing.status, missing.json["message"]) == (404, "object not found")
    assert running.get(f"/job-runs/{number}/log-types") == {"logTypes": ["submitter/jobs_api"]}
    running.switch(**FAST, log_types="strings")
    assert "driver/stdout" in running.get(f"/job-runs/{number}/log-types")
    running.switch(**FAST, log_types="objects")
    assert {"type": "driver/stdout"} in running.get(f"/job-runs/{number}/log-types")


def airflow(api, source):
    api.resource("dags", {"flow.py": source})
    body = {"name": "flow", "type": "airflow", "airflow": {"dagFile": "flow.py"}, "mounts": [{"resourceName": "dags"}]}
    assert api.ask("POST", "/jobs", body).status == 201


def test_an_airflow_job_runs_the_jobs_of_its_dag_in_order(running):
    python(running, "one", "import sys\nprint(sys.argv[1:])\n", args=["{{{ds}}}"])
    python(running, "two", "print('SECOND')\n")
    airflow(running, DAG)
    run = wait(running, start(running, "flow"))
    assert run["status"] == "succeeded", log(running, run["id"], "submitter/stderr")
    children = {each["job"]: each for each in running.get("/job-runs")["runs"] if each["type"] == "spark"}
    assert children["one"]["id"] < children["two"]["id"]
    assert log(running, run["id"], "second/attempt_1") == (
        f"Job run {children['two']['id']} completed with succeeded status\n"
    )
    assert log(running, children["one"]["id"]) == f"['{run['airflow']['executionDate'][:10]}']\n"
    assert run["airflow"]["dagRunID"].startswith("manual__")


def test_a_task_that_fails_fails_its_dag_and_what_comes_after_does_not_run(running):
    python(running, "one", "raise SystemExit(1)\n")
    python(running, "two", "")
    airflow(running, DAG)
    run = wait(running, start(running, "flow"))
    assert run["status"] == "failed"
    assert [each["job"] for each in running.get("/job-runs?filter=type[eq]spark")["runs"]] == ["one"]


def test_a_dag_that_calls_a_missing_job_or_another_operator_says_so(running):
    airflow(running, DAG.replace(b'CdeRunJobOperator(task_id="second"', b'BashOperator(task_id="second"'))
    run = wait(running, start(running, "flow"))
    assert run["status"] == "failed"
    assert "job not found" in log(running, run["id"], "first/attempt_1")


def test_a_dag_whose_start_lies_ahead_succeeds_without_doing_anything(running):
    airflow(running, DAG.replace(b"2025, 1, 1", b"2999, 1, 1"))
    run = wait(running, start(running, "flow"))
    assert run["status"] == "succeeded"
    assert len(running.get("/job-runs")["runs"]) == 1


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [("vc-run-fails", "failed", "cannot fit application"), ("vc-run-unknown", "unknown", "application finished")],
)
def test_faults_of_the_engine_end_a_run_their_way(running, fault, status, words):
    running.strike(fault)
    python(running, "j", "print('x')\n")
    run = wait(running, start(running, "j"))
    assert run["status"] == status
    assert words in log(running, run["id"], "submitter/stderr")
    assert wait(running, start(running, "j"))["status"] == "succeeded"


def test_a_run_may_be_stuck_until_it_is_killed(running):
    running.strike("vc-run-stuck")
    python(running, "j", "")
    number = start(running, "j")
    assert wait(running, number, until=("starting",))
    running.ask("POST", f"/job-runs/{number}/kill")
    assert wait(running, number)["status"] == "killed"


def test_a_run_may_show_states_that_few_clients_know(running):
    running.switch(**FAST | {"starting_seconds": "600"}, scale_up="yes")
    running.strike("vc-odd-state")
    go = running.cluster.folder / "go"
    python(running, "j", f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.02)\n")
    number = start(running, "j")
    assert wait(running, number, until=("waiting-for-scale-up",))["ended"] == "0001-01-01T00:00:00Z"
    running.switch(**FAST)
    assert wait(running, number, until=("reticulating",))["ended"] == "0001-01-01T00:00:00Z"
    go.touch()
    assert wait(running, number)["status"] == "succeeded"


def test_a_log_may_never_come(running):
    running.strike("vc-log-missing")
    python(running, "j", "print('x')\n")
    number = start(running, "j")
    wait(running, number)
    assert running.ask("GET", f"/job-runs/{number}/logs?type=driver/stdout").status == 404


def test_the_example_jobs_run_without_spark(make_api):
    api = make_api(engine=True, loaded=True, **FAST)
    if not application.caging_works(api.cluster.folder):
        pytest.skip("this system allows no private mount namespaces")
    api.cluster.set_kerberos("etl_user", "etl_user@EXAMPLE.COM")
    for job, words in {"orders-ingest": "INGESTED 3\n", "order-report": "north 1\nsouth 2\nREPORT DONE\n"}.items():
        run = start(api, job)
        assert wait(api, run)["status"] == "succeeded", log(api, run, "driver/stderr")
        assert log(api, run) == words


@pytest.mark.parametrize(
    ("module", "word"), [("pyspark", "maint[spark]"), ("pandas_of_nobody", "lacks pandas_of_nobody")]
)
def test_a_package_that_is_not_there_is_named(running, tmp_path, module, word):
    python(running, "j", f"raise ModuleNotFoundError(\"No module named '{module}'\")\n")
    run = start(running, "j")
    assert wait(running, run)["status"] == "failed"
    assert word in log(running, run, "submitter/stderr")
