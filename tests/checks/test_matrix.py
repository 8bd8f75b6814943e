"""Releases are judged by the operator's support matrix; without one that is said, and nothing passes in silence."""

import pytest

from maint.checks.check import judge
from maint.checks.facts_file import from_json, to_json, with_matrix
from maint.checks.registry import CHECKS
from maint.checks.thresholds import matrix_of, supported
from maint.errors import Invalid
from maint.model.fleet import State
from tests.checks.facts import host, site

MATRIX = {"os": ["rhel 8.8", "rhel 8.10", "rhel 9"], "python": ["3.9"], "postgresql": ["14"]}
RHEL = 'ID="rhel"\nVERSION_ID="{}"\n'


@pytest.mark.parametrize("release", ["rhel 8.10", "rhel 9.4", "RHEL  9"])
def test_an_entry_stands_for_itself_and_for_what_lies_within(release: str) -> None:
    assert supported(MATRIX, "os", release) is True


@pytest.mark.parametrize("release", ["rhel 8.1", "rhel 8", "rhel 90", "centos 9"])
def test_what_only_looks_like_an_entry_is_not_listed(release: str) -> None:
    assert supported(MATRIX, "os", release) is False


def test_a_subject_of_which_nobody_speaks_is_neither_supported_nor_not() -> None:
    assert supported(None, "os", "rhel 9.4") is None
    assert supported({"python": ["3.9"]}, "os", "rhel 9.4") is None


@pytest.mark.parametrize(
    "data", [None, [], {}, {"linux": ["rhel 9"]}, {"os": "rhel 9"}, {"os": []}, {"os": [8.10]}, {"python": [3]}]
)
def test_what_is_no_matrix_is_refused(data: object) -> None:
    with pytest.raises(Invalid, match=r"support matrix|list of releases|not a text"):
        matrix_of(data, "matrix.yaml")


def states(check: str, question: str, *answers: str, matrix: object = None) -> list[tuple[State, str]]:
    known = site(matrix=matrix)
    for number, answer in enumerate(answers):
        host({question: answer}, name=f"wn{number}", profiles="BD", site=known)
    return [(finding.state, finding.observed) for finding in judge([CHECKS[check]], known)]


def test_without_a_matrix_equal_releases_are_skipped_and_odd_ones_fail() -> None:
    found = states("os.release", "os_release", *map(RHEL.format, ("8.10", "8.10", "9.4")))
    assert [state for state, _ in found] == [State.SKIP, State.SKIP, State.FAIL]
    assert "support matrix" in found[0][1]


def test_with_a_matrix_releases_pass_or_fail_by_it() -> None:
    found = states("os.release", "os_release", *map(RHEL.format, ("8.10", "8.10", "9.4")), matrix=MATRIX)
    assert [state for state, _ in found] == [State.PASS, State.PASS, State.FAIL]
    found = states("os.release", "os_release", RHEL.format("7.9"), matrix=MATRIX)
    assert found == [(State.FAIL, "rhel 7.9, which the support matrix does not list")]


@pytest.mark.parametrize(
    ("answer", "matrix", "state"),
    [
        ("python3=Python 3.9.18", MATRIX, State.PASS),
        ("python3=Python 3.11.2", MATRIX, State.WARN),
        ("python3=Python 3.9.18", None, State.SKIP),
        ("python2=Python 2.7.18", None, State.WARN),
    ],
)
def test_python_is_judged_by_the_matrix(answer: str, matrix: object, state: State) -> None:
    assert [found for found, _ in states("os.python", "python", answer, matrix=matrix)] == [state]


@pytest.mark.parametrize(
    ("matrix", "state"), [(MATRIX, State.FAIL), ({"postgresql": ["15"]}, State.PASS), (None, State.PASS)]
)
def test_a_databases_version_is_judged_by_the_matrix(matrix: object, state: State) -> None:
    answer = "max_connections=900\nssl=on\nserver_encoding=UTF8\nserver_version=15.4 (Debian)\ndatabases=4"
    ((found, words),) = states("db.pg", "db_pg", answer, matrix=matrix)
    assert found is state
    assert ("support matrix" in words) == (matrix is None or state is State.FAIL)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("file=ab-1\ndatabase=AB-1", State.PASS),
        ("file=ab-1\ndatabase=cd-2", State.FAIL),
        ("file=ab-1\ndatabase=", State.PASS),  # a new one
        ("file=ab-1", State.ERROR),  # nobody could look
        ("database=ab-1", State.FAIL),
        ("", State.FAIL),
    ],
)
def test_a_servers_uuid_is_held_against_its_database(answer: str, state: State) -> None:
    found = CHECKS["cm.uuid"].judge(host({"cm_uuid": answer}, profiles="M"))
    assert found.state is state


def test_a_matrix_is_kept_with_the_facts_and_another_may_be_given() -> None:
    import json

    known = site(matrix=MATRIX)
    host({"os_release": RHEL.format("9.4")}, site=known)
    kept, _ = from_json(json.dumps(to_json(known, {})), "facts.json")
    assert kept.setting.matrix == MATRIX
    assert [finding.state for finding in judge([CHECKS["os.release"]], kept)] == [State.PASS]
    other = with_matrix(kept, {"os": ["rhel 8"]})
    assert [finding.state for finding in judge([CHECKS["os.release"]], other)] == [State.FAIL]
