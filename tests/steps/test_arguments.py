"""What a playbook gives a step and can only be wrong is told by `lint`, with its place, before anything is asked."""

from pathlib import Path

import pytest

from tests.steps.operator import maint

WRONG = {  # and what stands before the place that is told
    "vc.restore, with: {on_conflict: banana}": (
        "on_conflict: ",
        "on_conflict: must be 'refuse', 'skip', 'rename' or 'replace'",
    ),
    "snapshot.hold, with: {snapshot: x, reason: r, until: yesterday}": ("until: ", "until: 'yesterday' is not a day"),
    "snapshot.hold, with: {snapshot: x, reason: r, until: '9999-12-31'}": (
        "until: ",
        "until: '9999-12-31' is the end of the calendar; leave it out for a hold without end",
    ),
    "truststore.deliver, with: {}": ("  - ", "needs one place to go"),
    "truststore.deliver, with: {file: /new, command: gpg}": ("  - ", "needs one place to go"),
    "resource.upload, with: {resource: x, files: []}": ("files: ", "files: needs 1 or more entries"),
    "job.create, with: {definition: {name: x, type: banana}}": (
        "definition: ",
        "a job has a name, and the type spark or airflow",
    ),
    "job.create, with: {definition: {name: x, type: spark, spark: {conf: {a: 1}}}}": (
        "definition: ",
        "put a in quotes",
    ),
    "job.update, with: {job: x, changes: {spark: {file: x.py, conf: {a: 1}}}}": ("changes: ", "put a in quotes"),
    "job.once, with: {definition: {type: spark, spark: {conf: {a: true}}}}": ("definition: ", "put a in quotes"),
    "config.set, with: {service: hdfs, name: x, secret: hunter2}": ("secret: ", "must be a reference to a secret"),
}


@pytest.mark.parametrize("step", WRONG)
def test_an_argument_that_can_only_be_wrong_is_told_where_it_stands(step: str, tmp_path: Path) -> None:
    book = tmp_path / "book.yaml"
    line = f"  - {{name: One, do: {step}}}"
    book.write_text(f"name: book\nsummary: One.\nsteps:\n{line}\n")
    said = maint("playbook", "lint", str(book), HOME=str(tmp_path))
    before, words = WRONG[step]
    assert said.code == 3
    assert f"{book}:4:{line.index(before) + len(before) + 1}: " in said.err
    assert words in said.err
    assert "hunter2" not in said.err


@pytest.mark.parametrize(
    "step",
    [
        'truststore.deliver, with: {file: "{{ one }}", command: "{{ one }}"}',
        'snapshot.hold, with: {snapshot: x, reason: r, until: "{{ one }}"}',
        'job.create, with: {definition: {name: x, type: "{{ one }}"}}',
        'vc.restore, with: {on_conflict: "{{ one }}"}',
        'config.set, with: {service: hdfs, name: x, secret: "{{ one }}"}',
    ],
)
def test_what_a_parameter_fills_is_judged_when_it_is_filled(step: str, tmp_path: Path) -> None:
    book = tmp_path / "book.yaml"
    parameters = "parameters:\n  one: {type: string}\n"
    book.write_text(f"name: book\nsummary: One.\n{parameters}steps:\n  - {{name: One, do: {step}}}\n")
    said = maint("playbook", "lint", str(book), HOME=str(tmp_path))
    assert said.code == 0, said.err


def test_a_flag_that_can_only_be_wrong_is_wrong_usage(tmp_path: Path) -> None:
    said = maint("vc", "restore", "--on-conflict", "banana", "--config", str(tmp_path / "none.yaml"))
    assert (said.code, "there is no --on-conflict 'banana'" in said.err) == (2, True), said.err
