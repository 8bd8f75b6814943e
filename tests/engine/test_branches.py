"""Several things side by side in one run: what fails or waits holds up nothing but itself."""

from collections.abc import Mapping

import pytest

from maint.engine import past_runs
from maint.engine.history import actions_left
from maint.engine.plan import LISTS
from maint.engine.session import RunSession
from maint.errors import Invalid, Unfinished
from maint.model.json import Json
from maint.model.plan import Outcome
from maint.steps.registry import STEPS
from tests.engine.conftest import Bench, Changing

HEAD = "name: x\nsummary: X.\nparameters:\n  things: {type: list, default: [a, b]}\n"
INNER = (
    "name: inner\nsummary: I.\nparameters:\n  it: {type: string}\nsteps:\n"
    "  - {name: Wait, do: try.wait, with: {target: 'await {{ it }}', text: '{{ it }}'}}\n"
    "  - {name: Do, do: try.change, with: {target: 'do {{ it }}'}}\n"
    "  - {name: Prove, playbook: proof, with: {it: '{{ it }}'}}\n"
)
PROOF = (
    "name: proof\nsummary: P.\nparameters:\n  it: {type: string}\n"
    "steps:\n  - {name: Prove, do: try.change, with: {target: 'prove {{ it }}'}}\n"
    "finally:\n  - {name: Sweep, do: try.change, with: {target: 'sweep {{ it }}'}}\n"
)
TEXT = (
    HEAD + "steps:\n  - {name: First, do: try.change, with: {target: first}}\n"
    "  - {name: Each, playbook: inner, each: '{{ things }}', apart: true, with: {it: '{{ item }}'}}\n"
    "  - {name: Last, do: try.change, with: {target: last}}\n"
)


class Waiting(Changing):
    """Waits until it is told `there`; fails where it is told so."""

    kind = "try.wait"

    def apply(self, action, site, work):
        """Wait, fail, or go on."""
        if not work.answers.get("base_url"):
            raise Unfinished(f"{action.arguments['text']} is missing", needs=[f"{action.arguments['text']}.base_url"])
        return (yield from super().apply(action, site, work))


@pytest.fixture
def lanes(make_bench, monkeypatch):
    monkeypatch.setitem(STEPS, "try.wait", Waiting())
    return make_bench(inner=INNER, proof=PROOF)


def resumed(bench: Bench, **told: Mapping[str, Json]) -> Unfinished | None:
    """Take the newest run up, and return why it stopped."""
    past = past_runs.unfinished(bench.site.state)[0]
    try:
        list(RunSession(bench.site, past.plan, {}, past, answers=told).events())
    except Unfinished as stop:
        return stop
    return None


def test_a_run_that_waits_is_unfinished_and_names_all_that_it_waits_for(lanes):
    stop = lanes.fails(TEXT)
    assert isinstance(stop, Unfinished)
    assert (stop.message, stop.needs) == ("a is missing; b is missing", ("a.base_url", "b.base_url"))
    past = past_runs.unfinished(lanes.site.state)[0]
    assert (past.state, past.needs) == ("unfinished", ["a.base_url", "b.base_url"])
    assert [past.record(index).result.outcome for index in (1, 4)] == [Outcome.WAITING, Outcome.WAITING]
    assert lanes.did == ["first"]


def test_what_is_told_goes_on_and_what_comes_after_all_waits_for_all(lanes):
    lanes.fails(TEXT)
    stop = resumed(lanes, b={"base_url": "there"})
    assert stop is not None and stop.needs == ("a.base_url",)
    assert lanes.did[1:] == ["await b b", "do b", "prove b", "sweep b"]
    assert resumed(lanes, a={"base_url": "there"}) is None
    assert lanes.did[5:] == ["await a a", "do a", "prove a", "last", "sweep a"]


def test_a_failure_comes_before_what_waits_and_holds_up_its_own_lane_alone(lanes):
    broken = INNER.replace(
        "target: 'do {{ it }}'", 'target: \'do {{ it }}\', fail: \'{{ "now" if it == "a" else "" }}\''
    )
    lanes.library.texts["inner"] = broken
    lanes.fails(
        TEXT,
    )
    past = past_runs.unfinished(lanes.site.state)[0]
    told = {"a": {"base_url": "there"}, "b": {"base_url": "there"}}
    with pytest.raises(Exception, match="it failed: now"):
        list(RunSession(lanes.site, past.plan, {}, past, answers=told).events())
    assert lanes.did[1:] == ["await a a", "do a", "await b b", "do b", "prove b", "sweep b"]
    assert past_runs.unfinished(lanes.site.state)[0].state == "failed"


PATCH = (
    "name: patch\nsummary: P.\nparameters:\n  it: {type: string}\n  bad: {type: string, default: a}\nsteps:\n"
    "  - {name: Wait, do: try.wait, when: it == 'c', with: {target: 'await {{ it }}', text: '{{ it }}'}}\n"
    "  - {name: Do, do: try.change, with: {target: 'do {{ it }}', fail: '{{ \"now\" if it == bad else \"\" }}'}}\n"
    "on_failure:\n  - {name: Back, do: try.change, with: {target: 'back {{ it }}'}}\n"
)
PATCHES = (
    "name: x\nsummary: X.\nsteps:\n"
    '  - {name: Each, playbook: patch, each: \'{{ ["b", "a", "c"] }}\', apart: true, with: {it: \'{{ item }}\'}}\n'
)


def test_a_member_that_went_well_or_waits_is_not_put_back_where_another_one_fails(lanes):
    lanes.library.texts["patch"] = PATCH
    lanes.fails(PATCHES)
    assert lanes.did == ["do b", "do a", "back a"]
    path = next((lanes.site.state / "runs").glob("*.jsonl"))
    before, cut, after = path.read_bytes().partition(b'{"what": "intent", "index": 5')
    path.write_bytes(before + cut + after.partition(b"\n")[0] + b"\n")
    past = past_runs.unfinished(lanes.site.state)[0]
    assert "while it put things back" in lanes.fails(past.plan, past=past).message
    assert lanes.did[3:] == ["back a"]


def test_all_members_are_put_back_where_what_comes_after_them_fails(lanes):
    lanes.library.texts["patch"] = PATCH.replace("default: a", "default: none")
    last = "  - {name: Last, do: try.change, with: {target: last, fail: now}}\n"
    lanes.fails(PATCHES.replace('"c"', '"d"') + last)
    assert lanes.did == ["do b", "do a", "do d", "last", "back b", "back a", "back d"]


def test_what_a_waiting_branch_needs_is_not_lost_where_another_one_fails(lanes):
    broken = INNER.replace("target: 'do {{ it }}'", "target: 'do {{ it }}', fail: now")
    lanes.library.texts["inner"] = broken
    lanes.fails(TEXT)
    past = past_runs.unfinished(lanes.site.state)[0]
    with pytest.raises(Exception, match="it failed: now") as failure:
        list(RunSession(lanes.site, past.plan, {}, past, answers={"a": {"base_url": "there"}}).events())
    assert "b.base_url" in failure.value.needs
    past = past_runs.unfinished(lanes.site.state)[0]
    assert (past.state, past.needs) == ("failed", ["b.base_url"])


def test_what_no_longer_holds_is_done_again_only_where_its_own_lane_goes_on(lanes, monkeypatch):
    asked = []
    monkeypatch.setattr(Waiting, "holds", lambda self, action, site, work: asked.append(action.target))
    lanes.fails(TEXT)
    resumed(lanes, b={"base_url": "there"})
    assert resumed(lanes, a={"base_url": "there"}) is None
    assert (asked, lanes.did.count("await b b")) == ([], 1)


def test_another_address_begins_a_lane_anew_and_the_same_one_does_not(lanes):
    lanes.fails(TEXT)
    resumed(lanes, b={"base_url": "here"})
    before = list(lanes.did)
    resumed(lanes, b={"base_url": "here"})
    assert lanes.did == before
    resumed(lanes, b={"base_url": "elsewhere"})
    assert lanes.did[len(before) :] == ["await b b", "do b", "prove b", "sweep b"]


def test_what_is_left_out_is_skipped_and_the_run_ends_partly_done(lanes):
    lanes.fails(TEXT)
    past = past_runs.unfinished(lanes.site.state)[0]
    told = {"a": {"skip": True}, "b": {"base_url": "there"}}
    with pytest.raises(Exception, match="not all that was asked for"):
        list(RunSession(lanes.site, past.plan, {}, past, answers=told).events())
    assert [thing for thing in lanes.did if thing.endswith("a")] == []
    assert lanes.did[-2:] == ["last", "sweep b"]


def test_final_steps_of_an_included_playbook_follow_only_its_own(make_bench):
    bench = make_bench(proof=PROOF)
    text = (
        "name: x\nsummary: X.\nsteps:\n  - {name: A, do: try.change, with: {target: a, fail: now, count: 1}}\n"
        "  - {name: P, playbook: proof, with: {it: it}}\nfinally:\n  - {name: F, do: try.read, with: {target: f}}\n"
    )
    bench.fails(text)
    assert bench.did == ["a", "f"]


NEST = (
    "name: nest\nsummary: N.\nparameters:\n  it: {type: string}\n"
    "steps:\n  - {name: P, playbook: proof, with: {it: '{{ it }}'}}\n"
    "  - {name: Q, do: try.change, with: {target: 'quit {{ it }}'}}\n"
    "on_failure:\n  - {name: U, do: try.change, with: {target: 'undo {{ it }}'}}\n"
    "finally:\n  - {name: S, do: try.change, with: {target: 'seal {{ it }}'}}\n"
)


@pytest.mark.parametrize("quits", [True, False])
def test_what_follows_an_included_playbook_does_so_where_a_step_of_one_that_it_includes_was_begun(make_bench, quits):
    failing = PROOF.replace("'prove {{ it }}'", """'prove {{ it }}', fail: '{{ "now" if it == "b" else "" }}'""")
    nest = NEST if quits else NEST.replace("  - {name: Q, do: try.change, with: {target: 'quit {{ it }}'}}\n", "")
    bench = make_bench(nest=nest, proof=failing)
    bench.fails(
        "name: x\nsummary: X.\nsteps:\n"
        '  - {name: Each, playbook: nest, each: \'{{ ["a", "b", "c"] }}\', with: {it: \'{{ item }}\'}}\n'
    )
    first = ["prove a", *["quit a"] * quits, "prove b", "undo a", "undo b"]
    assert bench.did == [*first, "sweep a", "seal a", "sweep b", "seal b"]


@pytest.mark.parametrize("phase", ["on_failure", "finally"])
def test_a_playbook_included_among_the_steps_that_follow_puts_back_only_where_it_fails_itself(make_bench, phase):
    bench = make_bench(patch=PATCH.replace("try.wait", "try.read"))
    include = "{name: P, playbook: patch, each: '{{ [\"b\", \"a\"] }}', with: {it: '{{ item }}'}}"
    text = (
        "name: x\nsummary: X.\nsteps:\n  - {name: A, do: try.change, with: {target: main, fail: now, count: 1}}\n"
        f"{phase}:\n  - {include}\n"
    )
    assert [one.follows for one in bench.plan(text).actions[1:]] == [phase, f"{phase}, where it fails"] * 2
    bench.fails(text)
    assert bench.did == ["main", "do b", "do a", "back a"]
    left = [one.target for one, _ in actions_left(past_runs.unfinished(bench.site.state)[0])]
    assert [target for target in left if target.startswith("back")] == []


def test_what_follows_an_included_playbook_of_which_nothing_is_to_be_done_is_not_planned(make_bench):
    bench = make_bench(proof=PROOF.replace("with: {target: 'prove", "when: it == 'b', with: {target: 'prove"))
    plan = bench.plan(
        "name: x\nsummary: X.\nsteps:\n"
        "  - {name: Each, playbook: proof, each: '{{ [\"a\", \"b\"] }}', with: {it: '{{ item }}'}}\n"
        "finally:\n  - {name: P, playbook: proof, with: {it: c}}\n"
    )
    assert [one.target for one in plan.actions] == ["prove b", "sweep b", "sweep c"]


@pytest.mark.parametrize("phase", ["on_failure", "finally"])
def test_a_playbook_that_another_includes_among_its_final_steps_follows_only_where_a_step_of_that_was_begun(
    make_bench, phase
):
    around = (
        "name: around\nsummary: A.\nparameters:\n  it: {type: string}\n"
        "steps:\n  - {name: Do, do: try.change, with: {target: 'do {{ it }}'}}\n"
        f"{phase}:\n  - {{name: P, playbook: proof, with: {{it: '{{{{ it }}}}'}}}}\n"
    )
    bench = make_bench(around=around, proof=PROOF)
    bench.fails(
        "name: x\nsummary: X.\nsteps:\n  - {name: In, playbook: around, with: {it: a}}\n"
        "  - {name: A, do: try.change, with: {target: main, fail: now, count: 1}}\n"
        "  - {name: In, playbook: around, with: {it: b}}\n"
    )
    assert bench.did == ["do a", "main", "prove a", "sweep a"]


def test_a_list_that_nobody_gave_comes_from_the_site(bench, monkeypatch):
    monkeypatch.setitem(LISTS, "users", lambda sight, values: ["one", str(values["word"])])
    text = (
        "name: x\nsummary: X.\nparameters:\n  word: {type: string, default: two}\n  all: {type: list, from: users}\n"
        "steps:\n  - {name: A, do: try.read, each: '{{ all }}', with: {target: '{{ item }}'}}\n"
    )
    assert [action.target for action in bench.plan(text).actions] == ["one", "two"]
    assert [action.target for action in bench.plan(text, all="three").actions] == ["three"]
    assert bench.plan(text, all="").actions == ()


@pytest.mark.parametrize(
    ("parameter", "step", "words"),
    [
        ("{type: list, from: thing}", "", "there is no list 'thing'"),
        ("{type: string, from: users}", "", "of type list that has no default"),
        ("{type: list, from: users, default: []}", "", "of type list that has no default"),
        ("{type: list, default: []}", ", apart: true", "`apart` belongs to a step with `each`"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_place(bench, parameter, step, words):
    text = f"name: x\nsummary: X.\nparameters:\n  p: {parameter}\nsteps:\n  - {{name: A, do: try.read{step}}}\n"
    with pytest.raises(Invalid, match=f"book.yaml:[46]:.*{words}"):
        bench.plan(text)


def test_a_run_whose_work_a_later_one_has_done_is_not_taken_up(bench):
    text = "name: x\nsummary: X.\nsteps:\n  - {name: A, do: try.change, with: {target: %s, fail: '%s'}}\n"
    bench.fails(text % ("a", "now"))
    bench.fails(text % ("b", "now"))
    bench.run(text % ("a", ""))
    assert [past.plan.actions[0].target for past in past_runs.unfinished(bench.site.state)] == ["b"]
