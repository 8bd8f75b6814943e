"""What a DAG's source tells without running it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.snapshots.virtual_clusters.dag_source import in_order, read_dag


@pytest.mark.parametrize(
    ("arguments", "races"),
    [
        ("schedule=None", False),
        ("schedule_interval=None", False),
        ("schedule='@once'", True),
        ("schedule='0 2 * * *', is_paused_upon_creation=True", False),
        ("schedule='0 2 * * *', is_paused_upon_creation=False", True),
        ("schedule=made_up()", True),
        ("start_date=None", True),
        ("schedule=NEVER", False),
        ("schedule=DAILY", True),
    ],
)
@pytest.mark.parametrize("form", ["DAG('x', {})", "airflow.DAG('x', {})", "dag({})"])
def test_a_dag_races_unless_it_says_that_it_will_not(form: str, arguments: str, races: bool) -> None:
    dag = read_dag(f"NEVER = None\nDAILY = '@daily'\n{form.format(arguments)}\n".encode())
    assert dag is not None
    assert dag.races is races


@pytest.mark.parametrize(
    "second",
    [
        "from airflow.models import DAG as Flow\nFlow('y', schedule='@daily')",
        "import airflow\nFlow = airflow.DAG\nFlow('y', schedule='@daily')",
        "class Flow(DAG):\n    pass\nFlow('y', schedule='@daily')",
        "Flow = partial(DAG, catchup=False)\nFlow('y', schedule='@daily')",
    ],
)
@pytest.mark.parametrize("first", ["schedule=None", "schedule='@daily', is_paused_upon_creation=True"])
def test_a_second_dag_of_a_file_races_by_whichever_name_it_is_made(first: str, second: str) -> None:
    dag = read_dag(f"DAG('x', {first})\n{second}\n".encode())
    assert dag is not None
    assert dag.races


def test_a_dag_by_another_name_that_will_not_race_does_not() -> None:
    dag = read_dag(b"from airflow.models import DAG as Flow\nFlow('x', schedule=None)\nisinstance(1, Flow)\n")
    assert dag is not None
    assert not dag.races


def test_the_jobs_that_a_dag_calls_are_read_from_text_and_constants() -> None:
    source = b"JOB = 'b'\nDAG('x', schedule=None)\nCdeRunJobOperator(job_name='a')\nCDEJobRunOperator(job_name=JOB)\n"
    dag = read_dag(source)
    assert dag is not None
    assert (dag.calls, dag.unclear) == (("a", "b"), False)


def test_a_name_that_is_made_up_is_unclear() -> None:
    dag = read_dag(b"DAG('x')\nCdeRunJobOperator(job_name=f'{x}-1')\n")
    assert dag is not None
    assert dag.unclear


@pytest.mark.parametrize(
    "before",
    [
        "when = None\nwhen += '@daily'\n",
        "when = None\nfor when in ('@daily',): pass\n",
        "when = None\ndef made(when='@daily'): pass\n",
        "when = None\n(when := '@daily')\n",
        "when = None\nwhen: str = '@daily'\n",
        "try:\n    from settings import when\nexcept ImportError:\n    when = None\n",
        "when = None\nimport settings as when\n",
        "when = None\nimport when.of\n",
        "when = None\nfrom settings import *\n",
        "when = None\ndef when(): pass\n",
        "when = None\nmatch 1:\n    case when: pass\n",
        "when = None\nmatch {}:\n    case {**when}: pass\n",
    ],
)
def test_a_name_that_is_bound_in_two_ways_may_stand_for_anything(before: str) -> None:
    dag = read_dag(f"{before}DAG('x', schedule=when)\nCDEJobRunOperator(job_name=when)\n".encode())
    assert dag is not None
    assert (dag.races, dag.unclear) == (True, True)


def test_a_task_whose_arguments_come_from_elsewhere_is_unclear() -> None:
    dag = read_dag(b"DAG('x', schedule=None)\nCDEJobRunOperator(task_id='a', **more)\nother(**more)\n")
    assert dag is not None
    assert dag.unclear


@pytest.mark.parametrize("source", [b"def (", b"\x00", b"\xff\xfe\x00"])
def test_what_is_no_python_tells_nothing(source: bytes) -> None:
    assert read_dag(source) is None


def test_a_file_without_a_dag_is_not_trusted() -> None:
    dag = read_dag(b"make_dag()")
    assert dag is not None
    assert dag.races


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=20))
def test_each_comes_once_and_after_what_it_calls(pairs: list[tuple[int, int]]) -> None:
    calls: dict[str, set[str]] = {str(number): set() for number in range(9)}
    for one, other in pairs:
        if other < one:  # no circles
            calls[str(one)].add(str(other))
    order = list(in_order(calls))
    assert sorted(order) == sorted(calls)
    assert all(order.index(inner) < order.index(name) for name, inners in calls.items() for inner in inners)
    circle = in_order({"a": ["b"], "b": ["a"]})
    assert sorted(circle) == ["a", "b"]


def test_a_chain_of_thousands_is_no_matter() -> None:
    names = [f"{number:05}" for number in range(5000)]
    assert list(in_order({one: [after] for one, after in pairwise([*names, "none"])})) == names[::-1]


@pytest.mark.parametrize("source", [b"(" * 100_000, b"x = " + b"-" * 100_000 + b"1", b"a" + b".a" * 100_000])
def test_what_is_nested_too_deep_for_python_tells_nothing(source: bytes) -> None:
    assert read_dag(source) is None
