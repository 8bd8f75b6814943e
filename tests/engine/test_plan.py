"""A plan is made by looking only: parameters, conditions, loops, inclusion, order, digest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.adapters.seal import AgeSeal
from maint.config.schema import BackupSettings
from maint.engine.parameters import convert
from maint.errors import Invalid, UsageError
from maint.model.plan import Effect, ParameterType, Phase, Plan
from maint.steps.registry import STEPS
from tests.engine.conftest import Changing

HEAD = "name: x\nsummary: X.\n"
TARGETS = (
    HEAD + "parameters:\n  hosts: {type: list}\n  deep: {type: boolean, default: false}\n"
    "  age: {type: duration, default: 24h}\n"
    "steps:\n  - name: Each\n    each: '{{ hosts }}'\n    do: try.change\n    with: {target: 'host {{ item }}'}\n"
    "  - name: Deep\n    when: deep\n    do: try.read\n    with: {target: 'below {{ age }}'}\n"
)


@pytest.mark.parametrize(
    ("kind", "value", "result"),
    [
        ("string", "a", "a"),
        ("integer", "12", 12),
        ("integer", 12, 12),
        ("boolean", "yes", True),
        ("boolean", "False", False),
        ("boolean", True, True),
        ("duration", "30m", 1800.0),
        ("duration", 5, 5.0),
        ("list", "a, b,,c", ["a", "b", "c"]),
        ("list", ["a", 1], ["a", 1]),
        ("string", None, None),
    ],
)
def test_a_parameter_is_read_in_its_type(kind, value, result):
    assert convert(ParameterType(kind), value) == result


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 7),
        ("integer", "seven"),
        ("integer", True),
        ("integer", "1.5"),
        ("integer", "9" * 5000),
        ("boolean", "maybe"),
        ("boolean", 1),
        ("duration", "soon"),
        ("duration", True),
        ("duration", -5),
        ("duration", 10**400),
        ("list", 7),
    ],
)
def test_a_parameter_of_another_type_is_refused(kind, value):
    with pytest.raises(Invalid, match=f"is not of type {kind}"):
        convert(ParameterType(kind), value)


def test_a_mistake_in_a_parameter_names_it(bench):
    text = HEAD + "parameters:\n  many: {type: integer}\nsteps:\n  - {name: A, do: try.read}\n"
    with pytest.raises(Invalid, match=r"parameter many: 'x' is not of type integer") as told:
        bench.plan(text, many="x")
    assert "`maint playbook show x`" in told.value.hint


ANYTHING = st.one_of(st.text(), st.integers(), st.booleans(), st.floats(), st.lists(st.text()))


@given(ANYTHING, st.sampled_from(ParameterType))
def test_whatever_is_given_is_read_or_refused(value, kind):
    try:
        convert(kind, value)
    except Invalid as error:
        assert error.exit_code == 3


def test_unknown_and_missing_parameters_are_told(bench):
    with pytest.raises(Invalid, match="no parameter 'host'") as caught:
        bench.plan(TARGETS, host="a")
    assert caught.value.hint == "did you mean 'hosts'?"
    with pytest.raises(Invalid, match="needs hosts") as caught:
        bench.plan(TARGETS)
    assert "--set hosts=" in str(caught.value.hint)


def test_each_becomes_one_action_per_item_and_when_leaves_actions_out(bench):
    assert [action.target for action in bench.plan(TARGETS, hosts="a,b").actions] == ["host a", "host b"]
    assert [action.target for action in bench.plan(TARGETS, hosts=[], deep="yes", age="1h").actions] == ["below 3600"]


def test_each_over_anything_but_a_list_is_refused_with_its_place(bench):
    text = HEAD + "parameters:\n  a: {type: string}\nsteps:\n  - name: A\n    each: '{{ a }}'\n    do: try.read\n"
    with pytest.raises(Invalid, match=r"book\.yaml:6:5: `each` wants a list"):
        bench.plan(text, a="one")


def test_a_value_that_does_not_fit_once_it_is_filled_in_is_told_with_its_place(bench):
    head = HEAD + "parameters:\n  a: {type: string}\n"
    text = head + "steps:\n  - name: A\n    do: try.read\n    with: {count: '{{ a }}'}\n"
    with pytest.raises(Invalid, match=r"book\.yaml:8:19: count"):
        bench.plan(text, a="one")


def test_what_is_filled_in_deep_in_an_argument_and_cannot_be_is_told_with_its_place(bench):
    text = (
        HEAD
        + "parameters:\n  a: {type: list}\nsteps:\n  - name: A\n    do: try.read\n    with: {more: {b: '{{ a[1] }}'}}\n"
    )
    assert bench.plan(text, a="x,y").actions[0].arguments["more"] == {"b": "y"}
    with pytest.raises(Invalid, match=r"book\.yaml:8:18: .*there is no element 1 in a list"):
        bench.plan(text, a="x")


def test_what_does_not_exist_is_wrong_usage_where_it_was_given_and_a_mistake_where_the_playbook_names_it(
    bench, tmp_path
):
    backup = BackupSettings(store=str(tmp_path / "store"), recipients=(AgeSeal().new_identity()[1],))
    (tmp_path / "store").mkdir()
    bench.site.settings = bench.site.settings.model_copy(update={"backup": backup})
    step = "steps:\n  - {name: A, do: snapshot.release, with: {snapshot: %s, reason: done}}\n"
    with pytest.raises(UsageError, match="no snapshot 2020") as caught:
        bench.plan(HEAD + "parameters:\n  which: {type: string}\n" + step % "'{{ which }}'", which="2020")
    assert caught.value.exit_code == 2
    with pytest.raises(Invalid, match=r"book\.yaml:4:5: .*no snapshot 2020"):
        bench.plan(HEAD + step % "'2020'")


def test_included_playbooks_bring_their_steps_with_the_values_they_are_given(make_bench):
    inner = (
        "name: inner\nsummary: I.\nparameters:\n  word: {type: string}\n  more: {type: boolean, default: true}\n"
        "steps:\n  - name: I\n    do: try.change\n    with: {target: '{{ word }}'}\n"
        "finally:\n  - name: F\n    do: try.read\n    with: {target: 'after {{ word }}'}\n"
    )
    outer = (
        HEAD + "parameters:\n  w: {type: string}\n  on: {type: boolean, default: true}\n"
        "steps:\n  - name: In\n    playbook: inner\n    when: on\n    with: {word: '{{ w }} 1'}\n"
        "  - name: Own\n    do: try.read\n"
    )
    bench = make_bench(inner=inner)
    plan = bench.plan(outer, w="a")
    assert [(action.target, action.phase) for action in plan.actions] == [
        ("a 1", Phase.MAIN),
        ("thing", Phase.MAIN),
        ("after a 1", Phase.FINALLY),
    ]
    assert [action.target for action in bench.plan(outer, w="a", on="no").actions] == ["thing"]


def test_a_playbook_included_in_finally_runs_there_as_a_whole(make_bench):
    bench = make_bench(inner="name: inner\nsummary: I.\nsteps:\n  - name: I\n    do: try.read\n")
    plan = bench.plan(
        HEAD + "steps:\n  - name: A\n    do: try.read\nfinally:\n  - name: In\n    playbook: inner\n",
    )
    assert [action.phase for action in plan.actions] == [Phase.MAIN, Phase.FINALLY]


def test_phases_come_in_order_wherever_the_sections_stand(bench):
    text = (
        HEAD + "finally:\n  - {name: C, do: try.read}\non_failure:\n  - {name: B, do: try.read}\n"
        "steps:\n  - {name: A, do: try.read}\n"
    )
    assert [action.name for action in bench.plan(text).actions] == ["A", "B", "C"]


def test_the_same_facts_give_the_same_digest_and_other_facts_another(bench, tmp_path):
    fact = tmp_path / "fact"
    text = HEAD + f"steps:\n  - name: A\n    do: try.change\n    with: {{fact: {fact}}}\n"
    fact.write_text("one")
    first, again = bench.plan(text), bench.plan(text)
    fact.write_text("two")
    other = bench.plan(text)
    assert first.digest == again.digest
    assert (other.digest != first.digest, other.fingerprint != first.fingerprint) == (True, True)


def test_what_a_step_has_seen_is_told_unless_an_earlier_one_changes_it_or_the_manager_of_it_goes(bench, monkeypatch):
    class Seeing(Changing):
        def plan(self, args, sight):
            yield self.action(args.target, f"stop {args.target} (it runs)", {}, seen="it runs")

    monkeypatch.setitem(STEPS, "try.see", Seeing())
    then = "  - {name: B, do: try.see, with: {target: cluster base}}\n"
    said = {}
    for kind, target in ("read", "cluster base"), ("change", "cluster other"), ("destroy", "manager cm"):
        first = f"steps:\n  - {{name: A, do: try.{kind}, with: {{target: {target}}}}}\n"
        said[kind] = bench.plan(HEAD + first + then).actions[1].summary
    as_it_was, as_left = "stop cluster base (it runs)", "stop cluster base (as step 1 leaves it)"
    assert said == {"read": as_it_was, "change": as_it_was, "destroy": as_left}


def test_parameters_are_part_of_the_digest(bench):
    assert bench.plan(TARGETS, hosts="a").digest != bench.plan(TARGETS, hosts="b").digest


def test_a_plan_survives_its_journal_digest_and_all(bench):
    plan = bench.plan(TARGETS, hosts="a,b", deep=True)
    assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()
    assert Plan.from_json(plan.to_json()).digest == plan.digest


def test_the_worst_effect_and_the_name_to_confirm_are_the_plans(bench):
    text = HEAD + "steps:\n  - {name: A, do: try.read}\n  - {name: B, do: try.destroy, with: {target: ecs}}\n"
    plan = bench.plan(text)
    assert (plan.effect, plan.confirm) == (Effect.DESTROY, "ecs")


def test_planning_does_nothing(bench):
    bench.plan(TARGETS, hosts="a,b", deep=True)
    assert bench.did == []
    assert not bench.site.state.exists()


def test_a_mistake_that_no_parameter_filled_is_not_laid_on_one(bench):
    step = "{name: A, do: try.read, with: {target: '{{ thing }}', %s}}"
    text = HEAD + f"parameters:\n  thing: {{type: string}}\nsteps:\n  - {step}\n"
    with pytest.raises(Invalid, match="count") as caught:
        bench.plan(text % "count: x", thing="a")
    assert "parameters" not in str(caught.value.way_on)
    with pytest.raises(Invalid, match="count") as caught:
        bench.plan(text % "count: '{{ thing }}'", thing="a")
    assert "--set" in str(caught.value.way_on)


def test_a_step_is_called_by_its_name_filled_in_as_far_as_the_plan_knows(bench):
    steps = (
        "  - {name: 'Do {{ item }} of {{ all }}', do: try.change, each: '{{ all }}', with: {target: '{{ item }}'}}\n"
        "  - {name: '{{ all }}', do: try.read, register: found}\n"
        "  - {name: 'as {{ found.word }}', do: try.read}\n"
        "  - {name: 'braces {{', do: try.read}\n"
    )
    parameters = "parameters:\n  all: {type: list, default: [a, b]}\n"
    names = [action.name for action in bench.plan(f"name: x\nsummary: X.\n{parameters}steps:\n{steps}").actions]
    assert names == ["Do a of a, b", "Do b of a, b", "a, b", "as {{ found.word }}", "braces {{"]
