"""What a server may do in several ways is done as its switch says."""

from typing import Any

import pytest


def environment(api: Any) -> None:
    """Make an environment that is to be built, and a job that needs it."""
    api.resource("env", {"requirements.txt": b"pandas\n"}, "python-env")
    api.spark("needs-it", spark={"file": "https://x/y.py", "pythonEnvResourceName": "env"})


def begun(api: Any) -> Any:
    """Start a run, and return its id."""
    api.spark("j")
    return api.ask("POST", "/jobs/j/run").json["id"]


@pytest.mark.parametrize("status", ["200", "204"])
def test_what_is_deleted_is_answered_as_the_switch_says(api, status):
    api.switch(delete_status=status)
    api.spark("j")
    assert api.ask("DELETE", "/jobs/j").status == int(status)


@pytest.mark.parametrize("status", ["200", "201", "204"])
def test_a_kill_is_answered_as_the_switch_says(api, status):
    api.switch(kill_status=status)
    assert api.ask("POST", f"/job-runs/{begun(api)}/kill").status == int(status)


@pytest.mark.parametrize("status", ["400", "409", "500"])
def test_running_a_paused_dag_by_hand_is_refused_as_the_switch_says(loaded, status):
    loaded.switch(paused_run=status)
    loaded.ask("POST", "/jobs/nightly-pipeline/schedule/pause")
    assert loaded.ask("POST", "/jobs/nightly-pipeline/run").status == int(status)


@pytest.mark.parametrize("status", ["400", "409", "500"])
def test_running_a_job_whose_environment_is_not_built_is_refused_as_the_switch_says(api, status):
    api.switch(env_not_ready=status, env_seconds="600")
    environment(api)
    assert api.ask("POST", "/jobs/needs-it/run").status == int(status)


@pytest.mark.parametrize("status", ["404", "500"])
def test_a_log_that_is_not_there_is_answered_as_the_switch_says(api, status):
    api.switch(missing_log=status, log_seconds="600")
    assert api.ask("GET", f"/job-runs/{begun(api)}/logs?type=driver/stdout").status == int(status)


@pytest.mark.parametrize(("end", "status"), [("succeed", "ready"), ("fail", "failed")])
def test_an_environment_is_built_or_not_as_the_switch_says(api, end, status):
    api.switch(env_build=end, env_seconds="60")
    environment(api)
    api.pass_(seconds=61)
    assert status in api.get("/resources/env")["status"]


def test_a_virtual_cluster_may_have_another_name_than_it_says(api):
    api.switch(app_name="another")
    assert api.get("/info") == {"appName": "another"}


def test_who_asks_too_often_waits_as_long_as_the_switch_says(api):
    api.switch(retry_after="7")
    api.strike("vc-throttled")
    assert api.ask("GET", "/info").response.headers["Retry-After"] == "7"
