"""What differs between two saved plans."""

import json
from pathlib import Path

import pytest

from tests.steps.operator import maint

CONFIG = """
sites:
  prod:
    manager: {host: 127.0.0.1, plain_port: 1, tls_port: 2, password: "env:PASSWORD"}
"""
BOOK = """name: x
summary: X.
parameters: {most: {type: integer, default: 3}}
steps:
  - {name: A, do: assert, with: {that: most > 1}}
  - {name: P, do: pause, with: {duration: 5m}}
"""


@pytest.fixture
def save(tmp_path: Path):
    """Return what saves the plan of a playbook."""
    (tmp_path / "config.yaml").write_text(CONFIG)

    def saved(name: str, text: str, *words: str) -> str:
        (tmp_path / "x.yaml").write_text(text)
        config = str(tmp_path / "config.yaml")
        said = maint("playbook", "plan", str(tmp_path / "x.yaml"), "--config", config, "-o", "json", *words)
        assert said.code == 0, said.err
        (tmp_path / name).write_text(said.out)
        return str(tmp_path / name)

    return saved


def test_equal_plans_have_no_differences(save) -> None:
    said = maint("playbook", "diff", save("a", BOOK), save("b", BOOK), "--exit-code")
    assert (said.code, "would do the same" in said.out) == (0, True)


def test_parameters_actions_and_what_changed_in_them_are_told(save) -> None:
    other = BOOK.replace("5m", "6m") + "  - {name: B, do: approve, with: {question: go on}}\n"
    before, after = save("a", BOOK), save("b", other, "--set", "most=4")
    said = maint("playbook", "diff", before, after, "--exit-code")
    assert said.code == 8
    assert said.out.splitlines() == [
        "~ plan: parameter most 3 → 4",
        "~ pause this run: summary wait for 5m → wait for 6m",
        "+ READ B: ask a person, for at most 1h: go on",
    ]
    assert maint("playbook", "diff", before, after).code == 0
    signs = [one["sign"] for one in maint("playbook", "diff", after, before, "-o", "json").json["differences"]]
    assert set(signs) == {"~", "-"}


@pytest.mark.parametrize("content", ["", "{}", "[1]", json.dumps({"plan": {"actions": [1]}}), json.dumps({"plan": 1})])
def test_what_is_no_saved_plan_is_refused_with_how_to_save_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "a").write_text(content)
    said = maint("playbook", "diff", str(tmp_path / "a"), str(tmp_path / "gone"))
    assert (said.code, "maint playbook plan NAME -o json" in said.err) == (3, True)
