"""Logs of a lab's runs come late and grow; what is not there is refused before anything is begun."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.lab.http.server import read_requests
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.steps.virtual_clusters import runs
from tests.steps.operator import Operator

SWITCHES = {"vc-starting-seconds": "0", "vc-log-seconds": "0.5", "vc-log-grows": "0.5"}


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """An operator at a lab whose logs appear half a second after a run has ended, and are whole half a second later."""
    with Lab(tmp_path_factory.mktemp("logs") / "lab", Options(ssh=False, switches=SWITCHES)) as lab:
        yield Operator(lab)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(runs, "_SETTLED", 0.8)
    return tmp_path / "told.py"


def test_all_of_a_log_is_printed_though_only_half_of_it_came_at_first(operator: Operator, script: Path) -> None:
    script.write_text("for number in range(200): print(f'line {number}')\n")
    said = operator("vc", "spark", "submit", str(script), "--yes")
    assert (said.code, "line 199" in said.out) == (0, True), said.out[-300:]


def test_what_a_one_off_run_prints_stands_in_the_json_of_the_run(operator: Operator, script: Path) -> None:
    script.write_text("print('my own words')\n")
    said = operator("vc", "spark", "submit", str(script), "--yes", "-o", "json")
    assert (said.code, said.json["playbook"], said.json["output"]) == (0, "spark submit", "my own words\n"), said.err
    said = operator("vc", "spark", "submit", str(script), "--yes", "--hide-logs", "-o", "json")
    assert (said.code, "output" in said.json) == (0, False), said.err


def test_a_log_that_is_longer_than_is_read_is_said_to_be_cut(
    operator: Operator, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.write_text("for number in range(200): print(f'line {number}')\n")
    assert operator("vc", "spark", "submit", str(script), "--yes").code == 0
    number = str(operator("vc", "run", "list", "-o", "json").json["runs"][-1]["id"])
    logs = ("vc", "run", "logs", "--id", number, "--type", "driver/stdout")
    assert "only the first" not in operator(*logs).err
    monkeypatch.setattr(runs, "LONGEST_LOG", 500)
    said = operator(*logs)
    assert (len(said.out.strip()) <= 500, "only the first 500 B of that log are read" in said.err) == (True, True), (
        said.err
    )


def test_why_a_run_failed_is_told_though_its_logs_come_late(operator: Operator, script: Path) -> None:
    script.write_text("raise SystemExit('my own reason')\n")
    said = operator("vc", "spark", "submit", str(script), "--yes")
    assert (said.code, "my own reason" in said.err) == (1, True), said.err


def test_a_smoke_test_that_found_no_room_says_so(operator: Operator) -> None:
    operator.lab.break_("jobs-engine", "vc-run-fails")
    said = operator("vc", "smoke", "--yes")
    assert (said.code, "init-user" in said.err, "quota" in said.err) == (1, False, True), said.err


@pytest.mark.parametrize("words", [("job", "run"), ("resource", "upload", "--local-path", __file__)])
def test_what_is_not_there_is_refused_and_no_run_is_left(operator: Operator, words: tuple[str, ...]) -> None:
    before = operator("playbook", "history", "-o", "json").json["runs"]
    said = operator("vc", *words, "--name", "no-such", "--yes")
    assert (said.code, "no-such" in said.err) == (5, True), said.err
    assert operator("playbook", "history", "-o", "json").json["runs"] == before


def test_an_empty_log_of_a_run_that_ended_long_ago_is_not_waited_for(
    operator: Operator, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.write_text("pass\n")
    operator.lab.switch("vc-log-seconds", "0")
    assert operator("vc", "spark", "submit", str(script), "--hide-logs", "--yes").code == 0
    number = str(operator("vc", "run", "list", "-o", "json").json["runs"][-1]["id"])
    monkeypatch.setattr("maint.steps.virtual_clusters.runs._LATE", -60.0)  # for which a run counts as fresh
    before = len(read_requests(operator.lab.log.path))
    said = operator("vc", "run", "logs", "--id", number, "--type", "driver/stdout")
    asked = [line["path"] for line in read_requests(operator.lab.log.path)[before:]]
    assert (said.code, said.out) == (0, ""), said.err
    assert len([path for path in asked if "logs" in path]) == 1, asked
