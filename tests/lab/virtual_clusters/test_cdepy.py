"""The published client cdepy, unmodified, against the lab."""

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from maint.lab.manager.load import Options
from maint.lab.running import Lab

# Names of the lab's domain are on loopback. The client imports two large libraries that it never uses: where they are
# not installed, something empty stands in their place.
SITECUSTOMIZE = """
import importlib.util, socket, sys, types
real = socket.getaddrinfo
def getaddrinfo(host, *more, **named):
    return real("127.0.0.1" if str(host).endswith(".apps.example.internal") else host, *more, **named)
socket.getaddrinfo = getaddrinfo
for name in ("numpy", "pandas"):
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
"""
STORY = """
import json, os, sys, time
from cdepy import cdeconnection, cdejob, cdemanager, cderesource

url, password_file, folder = sys.argv[1:]
connection = cdeconnection.CdeConnection(url, "etl_user", open(password_file).read())
connection.setToken()
manager = cdemanager.CdeClusterManager(connection)
told = {"info": manager.listVcMeta()}
manager.createResource(cderesource.CdeFilesResource("by-cdepy").createResourceDefinition())
manager.uploadFileToResource("by-cdepy", folder, "app.py")
spark = cdejob.CdeSparkJob(connection)
manager.createJob(spark.createJobDefinition("by-cdepy", "by-cdepy", "app.py", args=["one", "two"], driverMemory="1g"))
manager.runJob("by-cdepy", SPARK_OVERRIDES={"spark": {"executorMemory": "2g"}})
for _ in range(4000):
    run = json.loads(manager.listJobRuns())["runs"][0]
    if run["status"] not in ("starting", "running"):
        break
    time.sleep(0.05)
told["run"] = run
told["types"] = json.loads(manager.showAvailableLogTypes(str(run["id"])))
told["log"] = manager.downloadJobRunLogs(str(run["id"]), "driver/stdout")
told["job"] = json.loads(manager.describeJob("by-cdepy"))
told["resource"] = json.loads(manager.describeResource("by-cdepy"))
told["file"] = manager.downloadFileFromResource("by-cdepy", "app.py")
manager.pauseSingleJob("by-cdepy")
told["paused"] = json.loads(manager.describeJob("by-cdepy"))["schedule"].get("paused")
manager.unpauseSingleJob("by-cdepy")
airflow = cdejob.CdeAirflowJob(connection).createJobDefinition("flow-by-cdepy", "nightly_pipeline.py", "nightly-dags")
manager.createJob(airflow)
told["jobs"] = [job["name"] for job in json.loads(manager.listJobs())["jobs"]]
told["airflow runs"] = [run["id"] for run in json.loads(manager.listJobRuns("airflow"))["runs"]]
manager.removeFileFromResource("by-cdepy", "app.py")
for name in ("by-cdepy", "flow-by-cdepy"):
    manager.deleteJob(name)
manager.deleteResource("by-cdepy")
told["left"] = [job["name"] for job in json.loads(manager.listJobs())["jobs"] if "cdepy" in job["name"]]
json.dump(told, open(os.path.join(folder, "told.json"), "w"))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    if importlib.util.find_spec("cdepy") is None:
        if os.environ.get("MAINT_TESTS_NEED_REAL_PARTS"):
            pytest.fail("cdepy is not installed")
        pytest.skip("cdepy is not installed")
    folder = tmp_path_factory.mktemp("cdepy")
    (folder / "sitecustomize.py").write_text(textwrap.dedent(SITECUSTOMIZE))
    (folder / "story.py").write_text(STORY)
    (folder / "app.py").write_text("import sys\nprint('MARKER', sys.argv[1:])\n")
    with Lab(folder / "lab", Options(ssh=False, switches={"vc-log-seconds": "0"})) as lab:
        found = lab.status()["virtual_clusters"][0]
        words = [sys.executable, str(folder / "story.py"), found["base_url"], found["password_file"], str(folder)]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "REQUESTS_CA_BUNDLE": found["ca"]}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "output").write_text(done.stdout)
    return json.loads((folder / "told.json").read_text()), Path(folder / "output").read_text()


def test_it_creates_runs_and_reads_a_spark_job(told):
    found, output = told
    assert found["info"] == {"appName": "Default-VC-abc12345"}
    assert found["run"]["status"] == "succeeded"
    assert found["run"]["spark"]["spec"]["executorMemory"] == "2g"
    assert "driver/stdout" in found["types"]["logTypes"]
    assert found["log"] == "MARKER ['one', 'two']\n"
    assert found["job"]["spark"]["args"] == ["one", "two"]
    assert found["paused"] is True
    assert "CDE Resource Created Successfully" in output
    assert "CDE Job Creation Succeeded" in output


def test_it_uploads_describes_and_downloads_files(told):
    found, output = told
    assert [entry["path"] for entry in found["resource"]["files"]] == ["app.py"]
    assert found["file"] == "import sys\nprint('MARKER', sys.argv[1:])\n"
    assert "Uploading File app.py to CDE Resource by-cdepy has Succeeded" in output
    assert "CDE Resource by-cdepy Deleted Successfully" in output


def test_it_lists_jobs_and_runs_and_leaves_nothing(told):
    found, _ = told
    assert {"by-cdepy", "flow-by-cdepy", "order-report"} <= set(found["jobs"])
    assert 44 in found["airflow runs"]
    assert found["left"] == []
