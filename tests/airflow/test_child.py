"""A command as a child: its words come as it says them, and it ends in order when it is asked to."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from maint.airflow.child import Child, TaskOutcome, outcome_of, reason, report_in

SLOW = """
import os, signal, sys, time
def say(words):
    os.write(2, words + b"\\n")  # the signal may come while the words before it are being written
def close(*_):
    say(b"asked"); time.sleep(0.2); say(b"closed"); sys.exit(143)
signal.signal(signal.SIGTERM, close)
say(b"opened True" if os.getsid(0) == os.getpid() else b"opened False")
time.sleep(60)
"""


def child(program: str, told: list[str], **more: str) -> Child:
    return Child([sys.executable, "-c", program], more, told.append)


def test_its_words_come_line_by_line_and_its_json_is_read() -> None:
    told: list[str] = []
    made = child("import sys; print('a\\nb', file=sys.stderr); print('{\"x\":\\n 1}'); sys.exit(7)", told)
    assert (made.wait(), made.result, told) == (7, {"x": 1}, ["a\n", "b\n"])
    assert list(made.lines) == told


def test_a_program_that_cannot_be_run_ends_as_in_a_shell_and_is_tried_no_more(tmp_path: Path) -> None:
    told: list[str] = []
    (tmp_path / "closed").write_text("#!/bin/sh\n")
    for name in ("gone", "closed", "closed/inside"):
        made = Child([str(tmp_path / name), "backup", "list"], {}, told.append)
        assert (made.stop(0.0), made.wait(), made.result) == (True, 127, None)
        assert outcome_of(127) is TaskOutcome.NEVER
        assert reason(127, made.lines).startswith(f"maint: {tmp_path / name} cannot be run: ")
    assert len(told) == 3


def test_what_is_no_json_or_too_much_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    made = child("print('words')", [])
    assert (made.wait(), made.result) == (0, None)
    monkeypatch.setattr("maint.airflow.child._MOST", 10)
    made = child("print('[' + '1,' * 20 + '1]')", [])
    assert (made.wait(), made.result) == (0, None)


def test_asked_to_end_it_is_waited_for_until_it_has_closed() -> None:
    told: list[str] = []
    made = child(SLOW, told)
    while not told:
        time.sleep(0.01)
    assert made.stop(0.0) is False
    assert made.stop(20.0) is True
    assert (made.wait(), told) == (143, ["opened True\n", "asked\n", "closed\n"])  # a session of its own
    assert made.stop(1.0) is True  # nothing is left to be asked


def test_interrupted_while_it_is_waited_for_it_is_asked_once_and_waited_for_again() -> None:
    told: list[str] = []
    made = child(SLOW.replace("time.sleep(0.2)", "time.sleep(0.5)"), told)
    while not told:
        time.sleep(0.01)

    def too_late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_late)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(TimeoutError):
            made.wait()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert made.stop(0.1) is False
    assert made.stop(20.0) is True
    assert (made.wait(), told[1:]) == (143, ["asked\n", "closed\n"])


def test_airflows_own_variables_stay_with_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SECRET", "x")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "x")
    made = child("import os, json; print(json.dumps(dict(os.environ)))", [], MAINT_STATE="/s")
    made.wait()
    assert made.result["MAINT_STATE"] == "/s"
    assert made.result["PATH"] == os.environ["PATH"]
    assert [name for name in made.result if name.startswith("AIRFLOW")] == []


def test_a_program_outside_finds_its_own_packages_whatever_airflows_python_looks_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    outside = Child(["sh", "-c", 'echo "[\\"$PYTHONPATH\\"]"'], {}, print)
    beside = child("import os, json; print(json.dumps([os.environ['PYTHONPATH']]))", [])
    assert (outside.wait(), outside.result) == (0, [""])
    assert (beside.wait(), beside.result) == (0, [str(tmp_path)])


def test_the_report_of_a_run_is_found_where_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "run.md").write_text("# Report\n")
    assert report_in({"report": {"md": str(tmp_path / "run.md")}}) == "# Report\n"
    assert report_in({"report": {"md": "/gone"}}) == report_in([1]) == report_in({"report": {}}) == ""
