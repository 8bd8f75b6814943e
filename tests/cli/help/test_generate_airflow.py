"""The DAG that is printed: Python that says what was asked for, with no Airflow at hand."""

import ast
import shlex
from pathlib import Path

import pytest

from tests.steps.operator import maint


def dag(*words: str) -> str:
    said = maint("generate", "airflow", *words)
    assert said.code == 0, said.err
    ast.parse(said.out, feature_version=(3, 10))
    return said.out


def test_it_says_when_where_and_how_many_at_once() -> None:
    text = dag("--at", "03:40", "--timezone", "Europe/Berlin", "--drill", "Wed", "--pool", "p", "--at-once", "5")
    assert 'schedule="40 3 * * *"' in text
    assert 'tzinfo=ZoneInfo("Europe/Berlin")),' in text
    assert 'ZoneInfo("Europe/Berlin")).weekday() != 2' in text
    assert "airflow pools set p 5" in text
    assert "WHERE = {}" in text
    assert '"restore"' not in text
    assert '"--close-window", "--yes", site=site, trigger_rule="all_done"' in text
    assert "WHERE = {'config': '/etc/c.yaml'}" in dag("--config", "/etc/c.yaml")
    assert "WHERE = {'maint_conn_id': 'prod'}" in dag("--connection", "prod")


@pytest.mark.parametrize("pool", ["two words", 'my """pool""" \\N{x}', "it's; rm"])
def test_a_pool_of_any_name_is_made_by_the_line_that_the_dag_tells(pool: str) -> None:
    text = dag("--pool", pool)
    told = ast.get_docstring(ast.parse(text)) or ""
    (line,) = [line for line in told.splitlines() if "airflow pools set" in line]
    assert shlex.split(line.partition("at once: ")[2]) == ["airflow", "pools", "set", pool, "8", "maint"]


def test_without_maint_beside_airflow_it_holds_all_that_it_needs() -> None:
    text = dag("--program", "/opt/maint/bin/maint")
    imported = {node.module for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)}
    assert not any((name or "").startswith("maint") for name in imported)
    assert "class MaintOperator(BaseSensorOperator):" in text
    assert "class MaintOperator" not in dag()


@pytest.mark.parametrize(
    "words",
    [
        ("--drill", "Someday"),
        ("--dag-id", 'my "dag"'),
        ("--timezone", "Mars/Base"),
        ("--limit-each", "soon"),
        ("--connection", "a", "--config", "b"),
        ("--at", "25"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(words: tuple[str, ...]) -> None:
    assert maint("generate", "airflow", *words).code == 2


def test_one_playbook_is_a_dag_too_with_its_parameters_agreed_to() -> None:
    words = ("--set", "cluster=base", "--at", "Sun 03:30", "--airflow", "--config", "/etc/c.yaml")
    said = maint("playbook", "schedule", "start-cluster", *words)
    assert said.code == 0, said.err
    ast.parse(said.out, feature_version=(3, 10))
    assert "['playbook', 'run', 'start-cluster', '--set', 'cluster=base', '--yes']" in said.out
    assert 'schedule="30 3 * * Sun"' in said.out
    assert maint("playbook", "schedule", "retire-cluster", "--set", "cluster=base", "--airflow").code == 5


def test_a_dag_that_would_wait_for_a_person_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "ask.yaml"
    path.write_text("name: ask\nsummary: X.\nsteps:\n  - {name: A, do: approve, with: {question: go on}}\n")
    said = maint("playbook", "schedule", str(path), "--airflow")
    assert (said.code, "warning: it asks a person" in said.err) == (0, True)
