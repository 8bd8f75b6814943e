"""What becomes of a task by its command's exit code; no Airflow is needed to say so."""

import json
from typing import Any

import pytest

from maint.airflow import get_provider_info
from maint.airflow.child import TaskOutcome, as_log_line, last_verified, outcome_of, reason, words_of
from maint.cli.boundary import EXIT_CODES

FOR_GOOD = {2, 3, 5, 70}


@pytest.mark.parametrize("code", [*EXIT_CODES, -9, -15, 126, 255])
def test_only_what_would_end_the_same_way_is_never_tried_again(code: int) -> None:
    wanted = {0: TaskOutcome.DONE, 6: TaskOutcome.HELD, 7: TaskOutcome.PARTLY, 8: TaskOutcome.PARTLY}
    wanted |= dict.fromkeys(FOR_GOOD, TaskOutcome.NEVER)
    assert outcome_of(code) is wanted.get(code, TaskOutcome.AGAIN)


def test_the_reason_is_the_error_that_the_command_told() -> None:
    error = {"message": "the plan is stale", "detail": ["it had 1, now 2"], "hint": "make it again", "exit": 5}
    lines = ["[1/3] something …\n", json.dumps({"schema": "maint/1", "error": error}) + "\n"]
    assert reason(5, lines) == "maint: the plan is stale; it had 1, now 2; hint: make it again (exit 5)"
    assert reason(-9, ["Killed\n"]) == "maint: Killed (signal 9)"
    assert reason(1, []) == "maint: it said nothing (exit 1)"


def test_the_reason_of_a_host_check_is_what_it_found_broken() -> None:
    redaction = {"check": "cm.redaction", "state": "fail", "observed": "false", "hosts": ["a1", "b2"]}
    others = [{**redaction, "state": "pass"}, {**redaction, "state": "warn"}]
    result = {"findings": [*others, redaction, {**redaction, "check": "cm.time", "hosts": []}]}
    last = ["[5/5] a1 answered in 0.8 s\n"]
    assert reason(1, last, result) == "maint: cm.redaction (a1, b2): false; cm.time (site): false (exit 1)"
    for other in ({"findings": [7]}, {"findings": others}, {"snapshots": []}, [1], None):
        assert reason(1, last, other) == "maint: [5/5] a1 answered in 0.8 s (exit 1)"


def test_a_warning_is_told_as_one() -> None:
    assert as_log_line('{"schema": "maint/1", "warning": "no TLS"}\n') == ("no TLS", True)
    assert as_log_line("plan export for site lab\n") == ("plan export for site lab", False)
    assert as_log_line("[1, 2]\n") == ("[1, 2]", False)


def test_airflow_finds_what_the_provider_names() -> None:
    told_of = get_provider_info()
    assert told_of["package-name"] == "maint"
    assert told_of["connection-types"][0]["hook-class-name"] == "maint.airflow.hook.MaintHook"


def test_the_sensor_waits_for_a_backup_and_not_for_a_program_that_lists_none() -> None:
    newest = {"id": "20261129T180101.819Z-d140", "age": 3.0}
    assert last_verified(0, {"snapshots": [], "last_verified": newest}) == newest
    for code, result in ((0, {"snapshots": [], "last_verified": None}), (4, None), (-9, None), (1, [1])):
        assert last_verified(code, result) is None
    for other in (None, [1], {"jobs": []}, "words", {"last_verified": "words"}, {"last_verified": {"id": "x"}}):
        with pytest.raises(ValueError, match="no list of backups"):
            last_verified(0, other)


def test_a_number_among_the_words_of_a_command_is_one_of_them() -> None:
    command: list[Any] = ["backup", "verify", "--level", 1]  # as a template renders it, or somebody writes it
    assert words_of(command) == ["backup", "verify", "--level", "1"]


def test_a_command_in_one_text_is_refused_and_not_taken_letter_by_letter() -> None:
    assert words_of(("backup", "create")) == ["backup", "create"]
    with pytest.raises(ValueError, match=r"\['backup', 'create', '--yes'\]"):
        words_of("backup create --yes")
