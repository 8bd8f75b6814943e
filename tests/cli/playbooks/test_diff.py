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


OWNER = {"duration": "5m", "app": ""}, {"duration": "5m", "app": "etl"}
MORE = ["retries 1 → 3", "on ecs-1 → ecs-1, ecs-2, ecs-3"]
HOSTS = {"retries": 1, "on": ["ecs-1"]}, {"retries": 3, "on": ["ecs-1", "ecs-2", "ecs-3"]}


@pytest.mark.parametrize(
    ("arguments", "summaries", "told"),
    [
        (OWNER, ("wait for 5m", "wait for 6m"), ['app "" → etl']),
        (HOSTS, ("on ecs-1, 1 host", "on ecs-1, ecs-2, ecs-3, 4 hosts"), MORE),
        (({"a": ["x"]}, {"a": []}), ("on x", "on y"), ["a x → none"]),
        (({"s": 300, "a": ["x", "y"]}, {"s": 360, "a": ["x", "z"]}), ("5m: x, y", "6m: x, z"), []),
    ],
)
def test_a_change_is_left_out_only_where_the_words_of_its_action_tell_it(save, arguments, summaries, told) -> None:
    path = Path(save("a", BOOK))
    for name, given, words in zip("ab", arguments, summaries, strict=True):
        plan = json.loads(path.read_text())
        plan["plan"]["actions"][1] |= {"arguments": given, "summary": words}
        path.with_name(name).write_text(json.dumps(plan))
    first, *others = maint("playbook", "diff", str(path), str(path.with_name("b"))).out.splitlines()
    assert first == f"~ pause this run: summary {' → '.join(summaries)}"
    assert others == [f"~ pause this run: {one}" for one in told]


@pytest.mark.parametrize(
    "wrong", [{"limit": 5}, {"limit": None}, {"limit": "ab"}, {"parameters": 5}, {"parameters": []}, {"source": []}]
)
def test_a_plan_of_another_shape_is_no_saved_plan(save, wrong) -> None:
    path = Path(save("a", BOOK))
    plan = json.loads(path.read_text())
    path.with_name("b").write_text(json.dumps({"plan": plan["plan"] | wrong}))
    said = maint("playbook", "diff", str(path), str(path.with_name("b")))
    assert (said.code, "is not a saved plan" in said.err) == (3, True)


@pytest.mark.parametrize("content", ["", "{}", "[1]", json.dumps({"plan": {"actions": [1]}}), json.dumps({"plan": 1})])
def test_what_is_no_saved_plan_is_refused_with_how_to_save_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "a").write_text(content)
    said = maint("playbook", "diff", str(tmp_path / "a"), str(tmp_path / "gone"))
    assert (said.code, "maint playbook plan NAME -o json" in said.err) == (3, True)


def test_what_has_no_end_is_no_saved_plan_and_is_not_read_on() -> None:
    said = maint("playbook", "diff", "/dev/zero", "/dev/zero")
    assert said.code == 3 and "/dev/zero cannot be read: it is a device" in said.err, said.err


def test_plans_that_differ_in_what_they_do_not_show_differ(save) -> None:
    book = BOOK + "  - {name: B, do: approve, with: {question: 'is a.password=%s right'}}\n"
    first, second = save("a", book % "hunter-one"), save("b", book % "hunter-two")
    said = maint("playbook", "diff", first, second, "--exit-code")
    assert (said.code, said.out.startswith("~ plan: digest "), "hunter" in said.out) == (8, True, False)
    assert "hunter" not in Path(first).read_text()
