"""Every mistake in a playbook is found, with its place, before anything is touched."""

import time
from pathlib import Path

import pytest

from maint.config.paths import playbooks
from maint.engine.load import Library, examine, load
from maint.errors import Invalid, UsageError
from maint.model.plan import Phase

HEAD = "name: x\nsummary: X.\n"
MISTAKES = {
    "unknown key of a step": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    wehn: 'true'\n",
        "book.yaml:6:5",
        "when",
    ),
    "unknown key of a playbook": (
        HEAD + "step:\n  - name: A\n    do: try.read\n",
        "book.yaml:3:1",
        "steps",
    ),
    "unknown step kind": (HEAD + "steps:\n  - name: A\n    do: try.raed\n", "book.yaml:5:9", "try.read"),
    "duplicate key": (HEAD + "steps:\n  - name: A\n    do: try.read\n    do: try.read\n", "book.yaml:6:5", "do"),
    "wrong type of a key": (HEAD + "steps:\n  - name: 7\n    do: try.read\n", "book.yaml:4:11", "name"),
    "wrong type of an argument": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    with: {count: many}\n",
        "book.yaml:6:19",
        "count",
    ),
    "unknown argument": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    with: {tarket: y}\n",
        "book.yaml:6:12",
        "target",
    ),
    "missing argument": (
        HEAD + "steps:\n  - name: A\n    do: cluster.stop\n",
        "book.yaml:5:5",
        "cluster",
    ),
    "undefined variable": (
        HEAD + "parameters:\n  name: {type: string}\nsteps:\n  - name: A\n    do: try.read\n"
        "    with:\n      target: '{{ nmae }}'\n",
        "book.yaml:9:15",
        "name",
    ),
    "undefined variable deep in an argument": (
        HEAD + "parameters:\n  name: {type: string}\nsteps:\n  - name: A\n    do: try.read\n"
        "    with:\n      more:\n        word: '{{ nmae }}'\n",
        "book.yaml:10:15",
        "name",
    ),
    "undefined variable in when": (
        HEAD + "parameters:\n  deep: {type: boolean}\nsteps:\n  - name: A\n    do: try.read\n    when: depe\n",
        "book.yaml:8:11",
        "deep",
    ),
    "undefined variable in each": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    each: '{{ hosts }}'\n",
        "book.yaml:6:11",
        "hosts",
    ),
    "retry on a step that changes": (
        HEAD + "steps:\n  - name: A\n    do: try.change\n    retry: {attempts: 3}\n",
        "book.yaml:6:12",
        "retry",
    ),
    "registered under a parameter's name": (
        HEAD + "parameters:\n  found: {type: boolean, default: false}\n"
        "steps:\n  - name: A\n    do: try.read\n    register: found\n",
        "book.yaml:8:15",
        "found",
    ),
    "registered value in a target": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    register: found\n"
        "  - name: B\n    do: try.read\n    with: {target: '{{ found.word }}'}\n",
        "book.yaml:9:20",
        "found",
    ),
    "registered value in each": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    register: found\n"
        "  - name: B\n    do: try.read\n    each: '{{ found }}'\n",
        "book.yaml:9:11",
        "found",
    ),
    "registered value in the condition of an included playbook": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    register: found\n"
        "  - name: B\n    playbook: other\n    when: found.word\n    with: {word: x}\n",
        "book.yaml:9:11",
        "found",
    ),
    "neither do nor playbook": (HEAD + "steps:\n  - name: A\n", "book.yaml:4:5", "playbook"),
    "both do and playbook": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    playbook: other\n",
        "book.yaml:4:5",
        "playbook",
    ),
    "no steps": (HEAD + "steps: []\n", "book.yaml:3:1", "step"),
    "unknown included playbook": (
        HEAD + "steps:\n  - name: A\n    playbook: oter\n",
        "book.yaml:5:15",
        "other",
    ),
    "unknown parameter of an included playbook": (
        HEAD + "steps:\n  - name: A\n    playbook: other\n    with: {wrod: x}\n",
        "book.yaml:6:12",
        "word",
    ),
    "parameter that an included playbook needs": (
        HEAD + "steps:\n  - name: A\n    playbook: other\n",
        "book.yaml:5:15",
        "word",
    ),
    "key that belongs to the steps of an included playbook": (
        HEAD + "steps:\n  - name: A\n    playbook: other\n    max_fail: 1\n    with: {word: x}\n",
        "book.yaml:5:15",
        "belong to the steps of the included playbook",
    ),
    "playbook that includes itself": (
        "name: x\nsummary: X.\nsteps:\n  - name: A\n    playbook: circle\n",
        "circle.yaml:5:15",
        "x",
    ),
    "unknown type of a parameter": (
        HEAD + "parameters:\n  p: {type: sting}\nsteps:\n  - name: A\n    do: try.read\n",
        "book.yaml:4:13",
        "string",
    ),
    "default that does not fit": (
        HEAD + "parameters:\n  p: {type: integer, default: many}\nsteps:\n  - name: A\n    do: try.read\n",
        "book.yaml:4:",
        "many",
    ),
    "expression that is not one": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    when: '1 +'\n",
        "book.yaml:6:11",
        "book.yaml:6:11: the expression ends too early",
    ),
    "template that is not one": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    with: {target: '{{ a'}\n",
        "book.yaml:6:20",
        "is not closed",
    ),
    "duration that is not one": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    timeout: soon\n",
        "book.yaml:6:14",
        "soon",
    ),
    "no time to answer": (
        HEAD + "steps:\n  - name: A\n    do: approve\n    with: {question: Go, within: 0s}\n",
        "book.yaml:6:34",
        "within: must be more than 0",
    ),
    "no age that would do": (
        HEAD + "steps:\n  - name: A\n    do: backup.require\n    with: {max_age: 0s}\n",
        "book.yaml:6:21",
        "max_age: must be more than 0",
    ),
    "no time for a step": (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    timeout: 0s\n",
        "book.yaml:6:14",
        "timeout: must be more than 0",
    ),
    "not YAML": (HEAD + "steps: [\n", "book.yaml:", ""),
}
LIBRARY = Library(
    {
        "other": "name: other\nsummary: O.\nparameters:\n  word: {type: string}\n"
        "steps:\n  - name: I\n    do: try.read\n    with: {target: '{{ word }}'}\n",
        "circle": "name: circle\nsummary: C.\nsteps:\n  - name: I\n    playbook: x\n",
        "x": "name: x\nsummary: X.\nsteps:\n  - name: A\n    playbook: circle\n",
    }
)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_what_was_meant(mistake):
    text, place, meant = MISTAKES[mistake]
    with pytest.raises(Invalid) as caught:
        load(text, "book.yaml", LIBRARY)
    error = caught.value
    assert error.exit_code == 3
    assert error.message.startswith(place)
    assert meant in " ".join((error.message, *error.detail, error.hint or ""))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (MISTAKES["unknown step kind"][0], "did you mean 'try.read'?"),
        (
            HEAD + "parameters:\n  word: {type: strin}\nsteps:\n  - name: A\n    do: try.read\n",
            "did you mean 'string'?",
        ),
    ],
)
def test_did_you_mean_stands_in_the_hint(text, hint):
    with pytest.raises(Invalid) as caught:
        load(text, "book.yaml", LIBRARY)
    assert caught.value.hint == hint


def test_a_wrong_key_of_a_step_hides_none_of_its_other_mistakes():
    text = HEAD + "steps:\n  - {name: A, do: try.read, with: {targt: a}, retry: {attemps: 2}, serial: 0}\n"
    told = " ".join(one.message for one in examine(text, "book.yaml", LIBRARY)[1])
    assert [word in told for word in ("targt", "attemps", "`serial` is at least 1")] == [True] * 3, told


@pytest.mark.parametrize(
    "step",
    [
        "{name: A, doo: try.read, with: {target: a}}",
        "{name: A, do: try.read, wiht: {target: a}}",
        "{name: A, do: try.read, eahc: [a], with: {target: '{{ item }}'}}",
    ],
)
def test_a_misspelt_key_makes_no_further_mistakes(step):
    assert len(examine(f"{HEAD}steps:\n  - {step}\n", "book.yaml", LIBRARY)[1]) == 1


def test_values_registered_before_may_be_used_in_conditions_and_late_arguments():
    text = (
        HEAD + "steps:\n  - name: A\n    do: try.read\n    register: found\n  - name: B\n    do: try.read\n"
        "    when: found.word != ''\n    with: {text: '{{ found.word }}'}\n"
    )
    assert len(load(text, "book.yaml", LIBRARY).steps) == 2


@pytest.mark.parametrize("name", ["true", "false", "none", "not", "self"])
def test_no_value_has_a_name_that_means_something_else_in_a_template(name):
    text = f"{HEAD}parameters:\n  '{name}': {{type: string, default: x}}\nsteps:\n  - name: A\n    do: try.read\n"
    told = [one.message for one in examine(f"{text}    register: '{name}'\n", "book.yaml", LIBRARY)[1]]
    assert told == [f"book.yaml:{at}: {name!r} cannot be the name of a value" for at in ("4:3", "8:15")]


def test_a_value_cannot_be_used_before_it_is_registered():
    text = (
        HEAD + "steps:\n  - name: B\n    do: try.read\n    when: found.word != ''\n"
        "  - name: A\n    do: try.read\n    register: found\n"
    )
    with pytest.raises(Invalid, match=r"book\.yaml:6:11: 'found' is not defined"):
        load(text, "book.yaml", LIBRARY)


def test_sections_become_phases_in_their_order():
    text = (
        HEAD + "finally:\n  - name: C\n    do: try.read\non_failure:\n  - name: B\n    do: try.read\n"
        "steps:\n  - name: A\n    do: try.read\n"
    )
    steps = load(text, "book.yaml", LIBRARY).steps
    assert [(step.name, step.phase) for step in steps] == [
        ("A", Phase.MAIN),
        ("B", Phase.ON_FAILURE),
        ("C", Phase.FINALLY),
    ]


@pytest.mark.parametrize("name", sorted(playbooks()))
def test_a_shipped_playbook_has_no_mistake_and_bears_its_files_name(name):
    assert Library(playbooks()).load(name).name == name


def test_a_playbook_that_does_not_exist_is_told_with_the_one_that_was_meant():
    with pytest.raises(UsageError, match="stop-clustr") as caught:
        Library(playbooks()).load("stop-clustr")
    assert caught.value.hint == "did you mean 'stop-cluster'?"


@pytest.mark.parametrize(("kind", "words"), [("try.read", "at most 10000 steps"), ("try.raed", "'try.raed'")])
def test_playbooks_that_include_each_other_many_times_are_refused_before_they_fill_the_memory(
    tmp_path: Path, kind: str, words: str
) -> None:
    text = HEAD + "steps:\n" + f"  - {{name: A, do: {kind}}}\n" * 50
    for depth in range(5):
        (tmp_path / f"{depth}.yaml").write_text(text)
        text = HEAD + "steps:\n" + f"  - {{name: A, playbook: ./{depth}.yaml}}\n" * 50
    begun = time.process_time()
    with pytest.raises(Invalid, match=words):
        load(text, str(tmp_path / "all.yaml"), Library({}))
    assert time.process_time() - begun < 5  # seconds; there are 15 billion
