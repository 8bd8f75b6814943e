"""Real Airflow runs the printed DAG against a lab: maint beside it, or as an outside program."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from maint.lab.create import SITE
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.acceptance.airflow import environment
from tests.steps.conftest import FAST
from tests.steps.operator import Operator

pytestmark = [environment.wanted, pytest.mark.timeout(1800)]  # the environment may have to be made first
MAINT = str(Path(sys.executable).parent / "maint")
PASSWORD = "Taube-7-Kran-Wind"
GONE = """
  gone:
    manager: {host: 127.0.0.1, plain_port: 1, tls_port: 2, password: "env:PATH"}
    backup: {store: STORE, recipients: ["RECIPIENT"]}
"""
SENSED = """
from datetime import datetime, timedelta
from airflow.sdk import DAG
from maint.airflow.operator import MaintOperator
from maint.airflow.sensor import BackupFreshSensor
with DAG("sensed", start_date=datetime(2026, 1, 1), schedule=None):
    fresh = BackupFreshSensor(task_id="fresh", maint_conn_id="prod", max_age=timedelta(hours=1))
    old = BackupFreshSensor(task_id="old", maint_conn_id="prod", max_age=timedelta(0), timeout=0, poke_interval=1)
    wrong = MaintOperator(task_id="wrong", maint_conn_id="prod", command=["backup", "list", "--nonsense"], retries=5)
    fresh >> [old, wrong]
"""
LATE = """
from datetime import datetime, timedelta
from airflow.sdk import DAG
from maint.airflow.operator import MaintOperator
with DAG("late", start_date=datetime(2026, 1, 1), schedule=None):
    MaintOperator(
        task_id="late",
        maint_conn_id="prod",
        command=["backup", "create", "--yes"],
        execution_timeout=timedelta(seconds=20),
    )
"""
# Says which code it is to end with; the site is held but once.
ENDING = """#!/bin/sh
for code; do :; done
echo "$code" >> '{told}'
[ "$code" = 6 ] && [ "$(grep -c '^6$' '{told}')" = 2 ] && exit 0
[ "$code" -gt 200 ] && kill -9 $$
exit "$code"
"""
ENDS = """
from datetime import datetime, timedelta
from airflow.sdk import DAG
from maint.airflow.operator import MaintOperator
with DAG("ends", start_date=datetime(2026, 1, 1), schedule=None):
    for code in (0, 1, 2, 3, 4, 5, 6, 7, 8, 70, 127, 143, 209):
        words = {"command": [str(code)], "program": PROGRAM, "poke_interval": 1}
        MaintOperator(task_id=f"e{code}", retries=1, retry_delay=timedelta(0), **words)
"""

Test = Callable[..., tuple[str, dict[str, str]]]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator at a lab whose backups go through the window."""
    with Lab(tmp_path_factory.mktemp("estate") / "lab", Options(switches=FAST, new_password=PASSWORD)) as made:
        operator = Operator(made)
        path = Path(operator.config)
        path.write_text(path.read_text().replace("    backup:\n", "    backup:\n      on_redacted: window\n"))
        yield operator


@pytest.fixture(scope="module")
def dags_test(python: str, lab: Operator, tmp_path_factory: pytest.TempPathFactory) -> Test:
    """A function that runs a DAG's text, and returns what was said and how each task ended."""
    home = tmp_path_factory.mktemp("Überwachung, wie sie ist — 監視")
    dags = tmp_path_factory.mktemp("Pläne für dags elsewhere")
    content = Path(lab.config).read_text()
    content = re.sub(r'password: "file:[^"]*/password"', 'password: "file:password"', content, count=1)
    extra = {"config_content": content, "state": str(lab.state.parent)}
    variables = {
        "PATH": os.defpath,
        "HOME": str(home),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__DEFAULT_TIMEZONE": "Asia/Kathmandu",
        "AIRFLOW__LOGGING__COLORED_CONSOLE_LOG": "False",  # 3.1.0 colours what is read here, too
        "AIRFLOW_CONN_PROD": json.dumps({"conn_type": "maint", "password": PASSWORD, "extra": extra}),
    }

    def airflow(*words: str, **more: str) -> str:
        called = [python, "-m", "airflow", *words]
        # One stream: 3.1 tells which task runs on one of the two, and how it ended on the other.
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.run(called, env=variables | more, cwd=home, **streams, text=True, timeout=600).stdout

    def test(name: str, text: str, beside: Path | None = None) -> tuple[str, dict[str, str]]:
        path = dags / f"{name}.py"
        path.write_text(text.replace('"retries": 3', '"retries": 0'))
        more = {"PYTHONPATH": str(beside)} if beside else {}
        said = airflow("dags", "test", name, "-f", str(path), **more)
        states = {}
        current = ""
        for line in said.splitlines():
            if found := re.search(r"running task <TaskInstance: \S+?\.(\S+) \S+(?: map_index=(\d+))?", line):
                current = f"{found[1]}/{found[2]}" if found[2] else found[1]
            if found := re.search(r"new_state=(\w+)", line):
                states[current] = found[1]
        told = [path for path in home.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
        assert told == []
        assert PASSWORD not in said
        return said, states

    airflow("db", "migrate")
    return test


def printed(lab: Operator, *words: str) -> str:
    """Return the DAG for the lab; the drill's day is every day."""
    said = lab("generate", "airflow", *words)
    assert said.code == 0, said.err
    text: str = re.sub(r"weekday\(\) != \d", "weekday() < 0", said.out)
    return text


WELL = {"backup", "close", "verify", "copy", "drill_day", "drill"}


@pytest.mark.parametrize("way", ["package", "program"])
def test_the_printed_dag_backs_up_verifies_copies_and_drills(
    lab: Operator, dags_test: Test, package: Path, way: str
) -> None:
    words, beside = (("--program", MAINT), None) if way == "program" else ((), package)
    before = len(lab("backup", "list", "-o", "json").json["snapshots"])
    said, states = dags_test(f"estate_{way}", printed(lab, *words, "--dag-id", f"estate_{way}"), beside)
    assert {f"keep.{one}/0": "success" for one in WELL}.items() <= states.items(), said[-6000:]
    listed = lab("backup", "list", "-o", "json").json
    assert len(listed["snapshots"]) == before + 1
    assert listed["snapshots"][-1]["proven"]["level"] >= 3
    assert lab.window is False
    assert "plan export-unredacted for site" in said  # the plan, and the report
    assert "| 1 | Open the redaction window |" in said


def test_one_site_that_is_gone_fails_by_itself_and_is_told_once(lab: Operator, dags_test: Test) -> None:
    path = Path(lab.config)
    before = path.read_text()
    [recipient] = re.findall(r'"(age1[^"]*)"', before)
    more = GONE.replace("RECIPIENT", recipient).replace("STORE", str(lab.lab.folder / "gone"))
    path.write_text(before.rstrip() + "\n" + more.lstrip("\n"))
    try:
        index = [site["name"] for site in lab("site", "list", "-o", "json").json["sites"]].index(SITE)
        another_day = printed(lab, "--program", MAINT, "--dag-id", "two").replace("weekday() < 0", "weekday() >= 0")
        said, states = dags_test("two", another_day)
    finally:
        path.write_text(before)
    assert states[f"keep.copy/{index}"] == "success", said[-6000:]
    assert f"keep.drill/{index}" not in states
    assert states[f"keep.backup/{1 - index}"] == "failed"
    assert f"keep.verify/{1 - index}" not in states
    assert states["estate"] == "failed"
    assert said.count("ALERT: ") == 1


def test_an_estate_whose_sites_cannot_be_read_is_told_once_too(lab: Operator, dags_test: Test) -> None:
    said, states = dags_test("lost", printed(lab, "--program", MAINT, "--dag-id", "lost").replace(lab.config, "/gone"))
    assert states == {"sites": "failed", "estate": "failed"}, said[-6000:]
    assert said.count("ALERT: ") == 1


def test_a_sensor_reads_the_config_from_a_connection_and_wrong_usage_is_not_tried_again(
    lab: Operator, dags_test: Test, package: Path
) -> None:
    assert lab("backup", "create", "--yes").code == 0
    said, states = dags_test("sensed", SENSED, package)
    assert states == {"fresh": "success", "old": "failed", "wrong": "failed"}, said[-6000:]
    assert "No such option" in said
    assert not list(Path("/tmp").glob("maint-airflow-*/config.yaml"))


def test_a_task_whose_time_is_up_ends_once_its_window_is_closed(lab: Operator, dags_test: Test, package: Path) -> None:
    lab.lab.switch("starting-seconds", "25")  # its time is up while the manager restarts
    try:
        said, states = dags_test("late", LATE, package)
    finally:
        lab.lab.switch("starting-seconds", FAST["starting-seconds"])
    assert states == {"late": "failed"}, said[-6000:]
    assert lab.window is False, said[-9000:]
    assert "Close the redaction window" in said


def test_each_exit_code_becomes_of_its_task_what_the_help_says(dags_test: Test, package: Path, tmp_path: Path) -> None:
    program, told = tmp_path / "ending", tmp_path / "told"
    program.write_text(ENDING.format(told=told))
    program.chmod(0o755)
    said, states = dags_test("ends", ENDS.replace("PROGRAM", repr(str(program))), package)
    assert {name for name, state in states.items() if state == "success"} == {"e0", "e6"}, said[-6000:]
    tries = Counter(told.read_text().split())
    assert {code for code, count in tries.items() if count == 2} == {"1", "4", "6", "143", "209"}, said[-6000:]
    assert len(tries) == 13
