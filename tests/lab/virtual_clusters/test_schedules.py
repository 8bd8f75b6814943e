"""Schedules and DAGs: when they fire, what pauses them, what a DAG file tells."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.lab.virtual_clusters import dagfile, schedules, times

HEAD = "from airflow import DAG\nfrom datetime import datetime, timedelta\nimport pendulum\n"
DAILY = {"enabled": True, "cronExpression": "0 2 * * *", "start": "2025-03-01"}


def dag(**more):
    told = ", ".join(f"{name}={value}" for name, value in more.items())
    return f"{HEAD}with DAG('the_dag', {told}) as d:\n    CdeRunJobOperator(task_id='t', job_name='j')\n".encode()


def airflow(api, source, **more):
    api.resource("dags", {"d.py": source})
    mounts = [{"resourceName": "dags"}]
    body = {"name": "flow", "type": "airflow", "airflow": {"dagFile": "d.py"}, "mounts": mounts, **more}
    assert api.ask("POST", "/jobs", body).status == 201


def runs_of(api, job):
    return api.get(f"/job-runs?filter=job[eq]{job}")["runs"]


def test_a_spark_schedule_with_a_past_start_fires_its_last_interval_at_once_and_once(api):
    api.spark("j", schedule=DAILY)
    api.pass_(seconds=1)
    api.pass_(seconds=1)
    assert len(runs_of(api, "j")) == 1
    api.pass_(days=1)
    assert len(runs_of(api, "j")) == 2


def test_a_schedule_paused_upon_creation_fires_when_it_is_unpaused(api):
    api.spark("j", schedule=DAILY | {"paused": True})
    api.pass_(days=2)
    shown = api.get("/jobs/j")["schedule"]
    assert (shown["paused"], shown["pausedUponCreation"]) == (True, True)
    assert shown["start"] == "2025-03-01T00:00:00.000Z"
    assert shown["nextExecution"] == "2025-03-15T02:00:00.000000Z"
    assert runs_of(api, "j") == []
    assert api.ask("POST", "/jobs/j/schedule/unpause").status == 201
    api.pass_(seconds=1)
    assert len(runs_of(api, "j")) == 1
    assert "paused" not in api.get("/jobs/j")["schedule"]


def test_a_schedule_waits_for_its_start_and_ends_at_its_end(api):
    api.spark("later", schedule=DAILY | {"start": "2025-03-20T00:00:00Z"})
    api.spark("over", schedule=DAILY | {"end": "2025-03-05"})
    api.spark("off", schedule=DAILY | {"enabled": False})
    api.pass_(hours=1)
    assert api.get("/job-runs")["runs"] == []
    assert "nextExecution" not in api.get("/jobs/over")["schedule"]
    api.pass_(days=10)
    assert [run["job"] for run in api.get("/job-runs")["runs"]] == ["later"]


def test_the_owner_of_a_schedule_is_as_sent_or_who_sent_it(api):
    api.spark("a", schedule=DAILY | {"user": "deuser1"})
    api.switch(schedule_user="caller")
    api.spark("b", schedule=DAILY | {"user": "deuser1"})
    assert [api.get(f"/jobs/{name}")["schedule"]["user"] for name in "ab"] == ["deuser1", "etl_user"]


def test_pausing_changes_modified_only_when_told_to(api):
    api.spark("j")
    api.pass_(seconds=9)
    api.ask("POST", "/jobs/j/schedule/pause")
    assert api.get("/jobs/j")["modified"] == api.get("/jobs/j")["created"]
    api.switch(pause_modifies="yes", pause_status="204")
    assert api.ask("POST", "/jobs/j/schedule/unpause").status == 204
    assert api.get("/jobs/j")["modified"] == "2025-03-12T09:31:09Z"


def test_a_dag_is_parsed_after_a_while_and_its_file_is_the_truth(api):
    airflow(
        api,
        dag(schedule="'0 2 * * *'", start_date="datetime(2025, 3, 10)", catchup=False, is_paused_upon_creation=True),
    )
    assert "dagID" not in api.get("/jobs/flow")["airflow"]
    api.pass_(seconds=2)
    job = api.get("/jobs/flow")
    assert job["airflow"] == {"dagFile": "d.py", "dagID": "the_dag"}
    assert job["schedule"] == {
        "enabled": True, "user": "etl_user", "cronExpression": "0 2 * * *", "start": "Mon, 10 Mar 2025 00:00:00 GMT",
        "paused": True, "pausedUponCreation": True, "nextExecution": "2025-03-13T02:00:00.000000Z",
    }  # fmt: skip
    assert runs_of(api, "flow") == []


@pytest.mark.parametrize("schedule", ["'0 2 * * *'", "'@once'", "timedelta(days=1)"])
def test_a_dag_that_is_not_paused_by_itself_starts_to_work_when_it_is_created(api, schedule):
    asked = {"enabled": False, "paused": True}
    airflow(api, dag(schedule=schedule, start_date="datetime(2025, 3, 1)", catchup=False), schedule=asked)
    api.pass_(seconds=2)
    (run,) = runs_of(api, "flow")
    assert run["airflow"]["dagRunID"].startswith("scheduled__2025-03-")
    api.pass_(seconds=60)
    assert len(runs_of(api, "flow")) == 1


def test_a_dag_that_is_paused_in_time_does_not_start(api):
    airflow(api, dag(schedule="'@daily'", start_date="pendulum.datetime(2025, 3, 1, tz='UTC')", catchup=False))
    api.ask("POST", "/jobs/flow/schedule/pause")
    api.pass_(seconds=60)
    assert runs_of(api, "flow") == []


def test_a_dag_catches_up_no_more_than_sixteen_at_a_time(api):
    airflow(api, dag(schedule="'@daily'", start_date="datetime(2024, 3, 1)"))
    api.pass_(seconds=2)
    found = api.get("/job-runs?limit=100")["runs"]
    assert len(found) == 16
    assert found[0]["airflow"]["executionDate"] == "2024-03-01T00:00:00Z"


def test_a_time_that_lies_beyond_the_calendar_is_the_senders_fault(api):
    schedule = {"enabled": True, "cronExpression": "0 0 * * *", "start": "9999-12-31T23:59:59-12:00"}
    answer = api.spark("far", schedule=schedule)
    assert (answer.status, "invalid schedule" in answer.json["message"]) == (400, True)


def test_a_paused_airflow_job_cannot_be_run_by_hand(loaded):
    loaded.ask("POST", "/jobs/nightly-pipeline/schedule/pause")
    answer = loaded.ask("POST", "/jobs/nightly-pipeline/run")
    assert answer.status == 400
    assert answer.json["message"] == ("job 'nightly-pipeline' is paused, resume the schedule before triggering the run")


def test_a_new_dag_file_counts_only_once_its_job_is_updated(api):
    airflow(api, dag(schedule="None", start_date="datetime(2025, 3, 1)"))
    api.pass_(seconds=2)
    api.ask(
        "PUT", "/resources/dags/d.py", upload=dag(schedule="None", start_date="None").replace(b"the_dag", b"another")
    )
    api.pass_(seconds=60)
    assert api.get("/jobs/flow")["airflow"]["dagID"] == "the_dag"
    assert api.ask("PATCH", "/jobs/flow", {"airflow": {"dagFile": "d.py"}}).status == 200
    api.pass_(seconds=2)
    assert api.get("/jobs/flow")["airflow"]["dagID"] == "another"


def test_nothing_of_the_example_fires_because_it_was_loaded(loaded):
    loaded.pass_(seconds=60)
    assert len(loaded.get("/job-runs")["runs"]) == 9
    loaded.pass_(days=1)
    assert len(runs_of(loaded, "nightly-pipeline")) == 2


def test_a_dag_file_is_read_and_never_executed(tmp_path):
    marker = tmp_path / "executed"
    found = dagfile.parse(f"open({str(marker)!r}, 'w')\n" + dag(schedule="None", start_date="None").decode())
    assert (found.id, [task.job for task in found.tasks]) == ("the_dag", ["j"])
    assert not marker.exists()


@pytest.mark.parametrize(
    ("chained", "order"),
    [
        ("a >> b >> c", "abc"),
        ("c >> [a, b]", "cab"),
        ("[c, b] >> a", "bca"),
        ("a << b << c", "cba"),
        ("chain(b, [a, c])", "bac"),
        ("c.set_downstream(a)", "bca"),
        ("", "abc"),
    ],
)
def test_tasks_run_after_those_that_they_wait_for(chained, order):
    tasks = "".join(f"{name} = CDEJobRunOperator(task_id='{name}', job_name=JOB + '{name}')\n" for name in "abc")
    found = dagfile.parse(f"JOB = 'job-'\ndag = DAG(dag_id='x', schedule_interval='@daily')\n{tasks}{chained}\n")
    assert "".join(task.id for task in found.order()) == order
    assert found.tasks[0].job == "job-a"


@pytest.mark.parametrize(
    "source", ["x = (", "print('no dag')", "DAG(dag_id=name())", "DAG('x', start_date=datetime(2025, 13, 1))"]
)
def test_what_is_no_dag_is_told_so(source):
    with pytest.raises(dagfile.BadDag):
        dagfile.parse(source)


def test_tasks_that_wait_for_each_other_are_no_dag():
    tasks = "a = CdeRunJobOperator(task_id='a', job_name='x')\nb = CdeRunJobOperator(task_id='b', job_name='x')\n"
    with pytest.raises(dagfile.BadDag, match="Cycle"):
        dagfile.parse(f"DAG('x')\n{tasks}a >> b >> a\n").order()


@pytest.mark.parametrize("text", ["0 0 L * *", "0 0 * * 2#1", "0 0 ? * *", "*/x * * * *", "0 22- * * *", "0 ² * * *"])
def test_a_field_that_is_no_number_is_told_in_words_that_a_server_would_say(text):
    with pytest.raises(ValueError, match="failed to parse a number from"):
        schedules.parse_cron(text)


@given(
    st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)),
    st.sampled_from(["*/7 3-5 * * *", "0 2 * * 1-5", "@monthly", "5 4 1,15 * fri"]),
)
def test_the_match_after_and_the_match_until_meet(moment, expression):
    recurring, moment = schedules.parse_cron(expression), moment.replace(tzinfo=UTC)
    after = recurring.after(moment)
    assert after > moment
    assert recurring.until(after) == after
    assert recurring.until(moment) <= moment
    assert recurring.after(recurring.until(moment)) > moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-03-10T06:00:01Z", datetime(2025, 3, 10, 6, 0, 1, tzinfo=UTC)),
        ("2025-03-10T00:00:00.000Z", datetime(2025, 3, 10, tzinfo=UTC)),
        ("2025-03-13T03:30:00.000000Z", datetime(2025, 3, 13, 3, 30, tzinfo=UTC)),
        ("Mon, 10 Mar 2025 00:00:00 GMT", datetime(2025, 3, 10, tzinfo=UTC)),
        ("2025-03-10", datetime(2025, 3, 10, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
    ],
)
def test_times_are_read_in_all_their_forms(text, moment):
    assert times.read(text) == moment


def test_the_next_execution_may_be_a_logical_date(api):
    api.spark("j", schedule=DAILY | {"paused": True})
    api.switch(next_execution="logical")
    assert api.get("/jobs/j")["schedule"]["nextExecution"] == "2025-03-12T02:00:00.000000Z"
