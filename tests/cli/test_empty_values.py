"""A word that picks what is acted on is never empty."""

import pytest

from tests.steps.operator import maint


@pytest.mark.parametrize(
    "words",
    [
        ("restore", "run", "--plan", "", "--confirm", "lab"),
        ("restore", "run", "--snapshot=", "--confirm", "lab"),
        ("restore", "plan", "--cluster", ""),
        ("backup", "verify", ""),
        ("backup", "list", "--store", ""),
        ("cluster", "list", "--site", ""),
        ("playbook", "run", "stop-cluster", "--yes", "--limit", ""),
        ("playbook", "plan", "stop-cluster", "--limit", " "),
        ("playbook", "run", "stop-cluster", "--yes", "--limit=,"),
        ("host", "check", "--facts", ""),
        ("host", "check", "--save-facts", ""),
        ("host", "check", "--report", ""),
        ("host", "check", "--phase", ""),
        ("host", "check", "--matrix", ""),
        ("backup", "verify", "--stale", ""),
        ("playbook", "history", "--since", ""),
        ("host", "check", "--check", ""),
        ("host", "check", "--group", ""),
        ("host", "check", "--hosts-in", ""),
        ("manager", "start", "--yes", "--without", ""),
        ("setting", "set", "n", "v", "--cluster", "base", "--service", "hdfs", "--role-group", "", "--yes"),
        ("setting", "unset", "n", "--cluster", "base", "--service=", "--yes"),
        ("vc", "run", "list", "--filter", ""),
        ("vc", "resource", "delete-file", "--name", "code", "--resource-path", "", "--yes"),
    ],
)
def test_an_empty_word_for_what_is_acted_on_is_wrong_usage(words: tuple[str, ...]) -> None:
    said = maint(*words, MAINT_CONFIG="/nowhere/config.yaml")
    assert said.code == 2
    assert "it is empty" in said.err


def test_what_must_be_given_is_not_said_to_be_left_out() -> None:
    said = maint("cluster", "stop", "", "-o", "json")
    assert (said.code, said.error["message"].rpartition(": ")[2]) == (2, "it is empty; say which is meant")


def test_left_out_is_not_empty() -> None:
    assert maint("backup", "verify", MAINT_CONFIG="/nowhere/config.yaml").code == 3
