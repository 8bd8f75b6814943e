"""What a run does, in which order, and what it does when something goes wrong."""

import pytest

from maint.cli.boundary import guarded
from maint.cli.run_playbook import _watch as watch
from maint.cli.screen import Screen
from maint.engine import past_runs
from maint.engine.history import actions_left
from maint.engine.hosts import LostHosts
from maint.engine.journal import dismiss
from maint.engine.session import RunSession
from maint.errors import (
    CannotReach,
    DeadlinePassed,
    Interrupted,
    Locked,
    MaintError,
    PartlyDone,
    Refused,
    TimedOut,
    WorkFailed,
)
from maint.model import secret
from maint.model.plan import Action, Effect, Event, Happening
from maint.steps.registry import STEPS
from maint.steps.step import done
from tests.engine.conftest import Bench, Changing, Reading

HEAD = "name: x\nsummary: X.\n"
A, B = "  - {name: A, do: try.change, with: {target: a}}\n", "  - {name: B, do: try.change, with: {target: b}}\n"
TAIL = (
    "on_failure:\n  - {name: O, do: try.change, with: {target: mended}}\n"
    "finally:\n  - {name: F, do: try.change, with: {target: closed}}\n"
)
FAILING = HEAD + "steps:\n" + A + "  - {name: B, do: try.change, with: {target: b, fail: %s, count: 1}}\n" + B + TAIL


def failing(how: str) -> str:
    return FAILING % how


def test_all_steps_are_done_in_order_and_those_for_a_failure_are_not(bench):
    bench.run(HEAD + "steps:\n" + A + B + TAIL)
    assert bench.did == ["a", "b", "closed"]


def test_events_tell_of_each_action_when_it_starts_goes_on_and_finishes(bench):
    events = bench.run(HEAD + "steps:\n" + A)
    assert [(event.what, event.detail) for event in events] == [
        (Happening.STARTED, "work on a"),
        (Happening.PROGRESSED, "working on a"),
        (Happening.FINISHED, "did it"),
    ]


def test_a_failure_is_followed_by_the_steps_for_it_and_the_final_ones(bench):
    error = bench.fails(failing("once"))
    assert bench.did == ["a", "b", "mended", "closed"]
    assert (error.message, error.hint) == ("it failed: once", "mend it")


def test_final_steps_run_after_a_bug_too(bench):
    with pytest.raises(ZeroDivisionError):
        bench.run(failing("bug"))
    assert bench.did == ["a", "b", "mended", "closed"]
    run = past_runs.history(bench.site.state)[0]
    assert run.state == "failed"
    assert "nobody may see" not in (bench.site.state / "runs" / f"{run.id}.jsonl").read_text()


def test_every_final_step_runs_and_the_first_failure_stands(bench):
    text = HEAD + (
        "steps:\n  - {name: A, do: try.read, with: {target: a, fail: first}}\n"
        "finally:\n  - {name: F, do: try.read, with: {target: f, fail: second}}\n"
        "  - {name: G, do: try.read, with: {target: g}}\n"
    )
    assert bench.fails(text).message == "it failed: first"
    assert bench.did == ["a", "f", "g"]


def test_a_failing_final_step_alone_fails_the_run(bench):
    text = HEAD + "steps:\n" + A + "finally:\n  - {name: F, do: try.change, with: {target: f, fail: late}}\n"
    assert bench.fails(text).message == "it failed: late"
    assert past_runs.unfinished(bench.site.state)[0].state == "failed"


def test_a_reading_step_is_tried_again_as_often_as_it_may(bench):
    text = HEAD + (
        "steps:\n  - name: A\n    do: try.read\n    retry: {attempts: 3, pause: 10ms}\n"
        "    with: {target: a, fail: once, count: 2}\n"
    )
    events = bench.run(text)
    assert bench.did == ["a", "a", "a"]
    assert [event.detail for event in events if "try" in event.detail] == [
        "try 1 of 3: it failed: once",
        "try 2 of 3: it failed: once",
    ]


def test_a_reading_step_that_fails_every_time_fails(bench):
    text = HEAD + "steps:\n  - {name: A, do: try.read, retry: {attempts: 2, pause: 0s}, with: {fail: always}}\n"
    assert bench.fails(text).message == "it failed: always"
    assert len(bench.did) == 2


def test_a_changing_step_is_never_tried_again(bench):
    bench.fails(failing("once"))
    assert bench.did.count("b") == 1


def test_a_limit_that_has_passed_is_no_reason_to_try_again(bench):
    text = HEAD + (
        "steps:\n  - {name: A, do: try.read, timeout: 1s, retry: {attempts: 3, pause: 0s}, with: {fail: sleep}}\n"
    )
    assert isinstance(bench.fails(text), DeadlinePassed)
    assert len(bench.did) == 1


def test_registered_values_fill_late_arguments_and_conditions(bench):
    text = HEAD + (
        "steps:\n  - {name: A, do: try.read, with: {target: a}, register: found}\n"
        "  - {name: B, do: try.read, with: {target: b, text: 'saw {{ found.word }}'}}\n"
        "  - {name: C, do: try.read, with: {target: c}, when: found.word == 'other'}\n"
        "  - {name: D, do: try.read, with: {target: d}, when: found.word == 'value of a'}\n"
    )
    bench.run(text)
    assert bench.did == ["a", "b saw value of a", "d"]
    assert bench.outcomes == [(0, "done"), (1, "done"), (2, "skipped"), (3, "done")]


def test_registered_values_of_an_earlier_life_are_known_on_resume(bench):
    text = HEAD + (
        "steps:\n  - {name: A, do: try.change, with: {target: a}, register: found}\n"
        "  - {name: B, do: try.change, with: {target: b, fail: once, count: 1, text: '{{ found.word }}'}}\n"
    )
    text = text.replace("do: try.change, with: {target: b", "do: try.read, with: {target: b")
    bench.fails(text.replace("fail: once, count: 1", "fail: always"))
    past = past_runs.unfinished(bench.site.state)[0]
    assert bench.fails(past.plan, past=past).message == "it failed: always"
    assert bench.did == ["a", "b value of a", "b value of a"]


JUDGED = HEAD + (
    "steps:\n  - {name: A, do: try.KIND, with: {target: a}, register: found}\n"
    "  - {name: B, do: try.change, with: {target: b}}\n"
    "  - {name: C, do: assert, with: {that: \"found.word == 'mended'\"}}\n"
)


def test_what_an_assert_did_not_accept_is_looked_at_again_on_resume(bench, monkeypatch):
    bench.fails(JUDGED.replace("KIND", "read"))
    past = past_runs.unfinished(bench.site.state)[0]
    assert [(action.name, state) for action, state in actions_left(past)] == [("A", "looks again"), ("C", "failed")]
    monkeypatch.setattr(STEPS["try.read"], "apply", lambda *_: (yield from ()) or done("mended", {"word": "mended"}))
    bench.run(past.plan, past=past)
    assert bench.did == ["a", "b"]
    assert bench.outcomes == [(0, "done"), (2, "done")]


def test_what_is_left_of_a_run_names_the_final_steps_that_follow_each_attempt(bench):
    bench.fails(failing("second"))
    past = past_runs.unfinished(bench.site.state)[0]
    left = [(action.target, state) for action, state in actions_left(past)]
    begun = len(bench.did)
    bench.run(past.plan, past=past)
    assert left == [("b", "failed"), ("b", "not begun"), ("closed", "looks again")]
    assert bench.did[begun:] == [target for target, _ in left]


def test_a_mistake_that_the_plan_keeps_is_told_with_a_way_on_that_is_one(bench):
    failure = bench.fails(JUDGED.replace("KIND", "read").replace("word", "wrod"))
    assert failure.message == "`found.wrod == 'mended'`: there is no 'wrod' in what has word"
    assert failure.hint.startswith("correct the playbook, and run it anew")


def test_what_an_assert_did_not_accept_is_not_done_again_where_that_changes_something(bench):
    bench.fails(JUDGED.replace("KIND", "change"))
    past = past_runs.unfinished(bench.site.state)[0]
    bench.fails(past.plan, past=past)
    assert bench.did == ["a", "b"]


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_the_run_after_its_final_steps(bench, name, code):
    plan = bench.plan(failing(name))
    assert guarded(lambda: Screen(quiet=True), lambda: bench.run(plan) and 0) == code
    assert bench.did == ["a", "b", "mended", "closed"]
    past = past_runs.unfinished(bench.site.state)[0]
    assert (past.state, actions_left(past)[0][1]) == ("interrupted", "interrupted")


def test_a_signal_among_the_final_steps_does_not_keep_them_from_being_done(bench):
    final = "finally:\n  - {name: F, do: try.change, with: {target: f, fail: SIGINT, count: 1}}\n"
    text = HEAD + "steps:\n" + A + final
    plan = bench.plan(text)
    assert guarded(lambda: Screen(quiet=True), lambda: bench.run(plan) and 0) == 130
    assert bench.did == ["a", "f", "f"]
    assert past_runs.unfinished(bench.site.state)[0].record(1).settled


def test_a_second_signal_in_the_same_final_step_stops_it_and_the_next_one_is_still_done(bench):
    text = (
        HEAD
        + "steps:\n"
        + A
        + (
            "finally:\n  - {name: F, do: try.change, with: {target: f, fail: SIGINT}}\n"
            "  - {name: G, do: try.change, with: {target: g}}\n"
        )
    )
    plan = bench.plan(text)
    assert guarded(lambda: Screen(quiet=True), lambda: bench.run(plan) and 0) == 130
    assert bench.did == ["a", "f", "f", "g"]
    past = past_runs.unfinished(bench.site.state)[0]
    assert (past.state, past.record(1).settled) == ("interrupted", False)


def test_a_final_step_that_a_signal_begins_once_more_keeps_what_it_had_noted(bench, monkeypatch):
    sent: list[object] = []

    class Once(Changing):
        def apply(self, action, site, work):
            yield "looking whether it was sent"
            if work.noted("sent") is None:
                sent.append(action.target)
                work.note("sent", True)
                if len(sent) == 2:
                    raise Interrupted(15)
            return done("sent")

    monkeypatch.setitem(STEPS, "try.change", Once())
    text = HEAD + "steps:\n  - {name: A, do: try.read, with: {fail: work, count: 2}}\n"
    bench.fails(text + "finally:\n  - {name: F, do: try.change}\n")
    past = past_runs.unfinished(bench.site.state)[0]
    bench.fails(past.plan, past=past)
    path = bench.site.state / "runs" / f"{past.id}.jsonl"
    before, begun, after = path.read_bytes().rpartition(b'{"what": "intent"')
    path.write_bytes(before + begun + after.partition(b"\n")[0] + b"\n")  # killed as it was begun once more
    past = past_runs.unfinished(bench.site.state)[0]
    bench.run(past.plan, past=past)
    assert len(sent) == 2


def test_the_limit_of_a_run_bounds_its_steps_and_not_the_final_ones(bench):
    error = bench.fails(failing("sleep"), limit=1)
    assert isinstance(error, DeadlinePassed)
    assert [line.partition(":")[0] for line in error.detail] == [
        "it passed during",
        "what was sent before that goes on without maint",
    ]
    assert bench.did == ["a", "b", "mended", "closed"]


def test_the_limit_of_a_step_ends_that_step(bench):
    text = HEAD + "steps:\n  - {name: A, do: try.change, timeout: 50ms, with: {fail: sleep}}\n"
    assert isinstance(bench.fails(text), DeadlinePassed)


def test_no_way_in_is_exit_4_before_anything_was_changed_and_1_after(bench):
    first = HEAD + "steps:\n  - {name: A, do: try.read, with: {fail: unreachable}}\n"
    assert bench.fails(first).exit_code == 4
    assert bench.fails(failing("unreachable")).exit_code == 1


@pytest.mark.parametrize(("how", "code"), [("invalid", 3), ("misused", 2)])
def test_a_setting_that_goes_wrong_is_so_before_anything_was_changed_and_a_failure_after(bench, how, code):
    first = HEAD + f"steps:\n  - {{name: A, do: try.read, with: {{fail: {how}}}}}\n"
    assert bench.fails(first).exit_code == code
    assert bench.fails(failing(how)).exit_code == 1


def test_resume_does_what_is_left_and_repeats_nothing_that_was_settled(bench):
    bench.fails(failing("once"))
    past = past_runs.unfinished(bench.site.state)[0]
    bench.run(past.plan, past=past)
    assert bench.did == ["a", "b", "mended", "closed", "b", "b", "closed"]
    assert past_runs.find(bench.site.state, past.id).state == "done"


def test_resume_does_again_what_no_longer_holds_when_something_later_needs_it(bench, monkeypatch):
    class Fleeting(Changing):
        kind = "try.change"

        def holds(self, action, site, work):
            return action.target != "a"

    monkeypatch.setitem(STEPS, "try.change", Fleeting())
    bench.fails(failing("once"))
    past = past_runs.unfinished(bench.site.state)[0]
    bench.run(past.plan, past=past)
    assert bench.did == ["a", "b", "mended", "closed", "a", "b", "b", "closed"]


def test_a_step_that_was_begun_knows_on_resume_that_it_was(bench, monkeypatch):
    seen = []

    class Curious(Reading):
        kind = "try.read"

        def apply(self, action, site, work):
            seen.append((work.resumed, work.noted("key")))
            work.note("key", "value")
            if len(seen) == 1:
                raise WorkFailed("once")
            yield "again"
            return done("well")

    monkeypatch.setitem(STEPS, "try.read", Curious())
    bench.fails(HEAD + "steps:\n  - {name: A, do: try.read}\n")
    (past,) = past_runs.history(bench.site.state)
    bench.run(past.plan, past=past)
    assert seen == [(False, None), (True, "value")]


def test_a_run_killed_among_the_steps_for_a_failure_finishes_those_first(bench):
    bench.fails(failing("once"))
    path = next((bench.site.state / "runs").iterdir())
    lines = path.read_bytes().splitlines(keepends=True)
    begun = next(n for n, line in enumerate(lines) if b'"intent", "index": 3' in line)
    path.write_bytes(b"".join(lines[: begun + 1]))
    past = past_runs.unfinished(bench.site.state)[0]
    error = bench.fails(past.plan, past=past)
    assert "while it put things back" in error.message
    assert bench.did == ["a", "b", "mended", "closed", "mended", "closed"]
    past = past_runs.unfinished(bench.site.state)[0]
    bench.run(past.plan, past=past)
    assert bench.did[-3:] == ["b", "b", "closed"]


def test_the_steps_that_a_kill_cut_off_know_on_resume_what_was_registered_before(bench):
    text = HEAD + (
        "steps:\n  - {name: A, do: try.read, with: {target: a}, register: found}\n"
        "  - {name: B, do: try.change, with: {target: b, fail: once, count: 1}}\n"
        "on_failure:\n  - {name: O, do: try.read, with: {target: o, text: '{{ found.word }}'}}\n"
        "finally:\n  - {name: F, do: try.read, with: {target: f}, when: found.word != ''}\n"
    )
    bench.fails(text)
    path = next((bench.site.state / "runs").iterdir())
    before, intent, after = path.read_bytes().partition(b'{"what": "intent", "index": 2')
    path.write_bytes(before + intent + after.partition(b"\n")[0] + b"\n")
    past = past_runs.unfinished(bench.site.state)[0]
    bench.fails(past.plan, past=past)
    assert bench.did == ["a", "b", *["o value of a", "f"] * 2]


def test_what_a_step_is_given_hides_what_another_playbook_registers_under_that_name(make_bench):
    bench = make_bench(
        inner="name: inner\nsummary: I.\nsteps:\n  - {name: I, do: try.read, with: {target: i}, register: thing}\n"
    )
    text = HEAD + (
        "parameters:\n  thing: {type: string, default: mine}\nsteps:\n  - {name: A, playbook: inner}\n"
        "  - {name: B, do: try.read, with: {target: b}, register: found}\n"
        "  - {name: C, do: try.read, with: {target: c, text: '{{ thing }} and {{ found.word }}'}}\n"
    )
    bench.run(text)
    assert bench.did == ["i", "b", "c mine and value of b"]


def test_a_host_that_is_left_out_is_told_with_its_own_reason_though_its_name_begins_anothers():
    failed = WorkFailed("2 of 2 hosts failed", detail=["ecs-10: refused", "ecs-1: no room"])
    failed.hosts = ("ecs-10", "ecs-1")
    action = Action("A", "host.run", "hosts", Effect.CHANGE, "run", {"hosts": ["ecs-10", "ecs-1"]}, max_fail=2)
    assert LostHosts([]).lose(action, failed) == {"ecs-10": "ecs-10: refused", "ecs-1": "ecs-1: no room"}


def test_a_run_that_was_only_partly_done_says_so(bench, monkeypatch):
    class Half(Reading):
        kind = "try.read"

        def apply(self, action, site, work):
            yield "half"
            return done("half", partly=True)

    monkeypatch.setitem(STEPS, "try.read", Half())
    error = bench.fails(HEAD + "steps:\n  - {name: A, do: try.read}\n")
    assert (type(error), error.exit_code) == (PartlyDone, 7)
    assert past_runs.history(bench.site.state)[0].state == "partly"


def test_two_runs_never_work_at_the_same_time(bench, site):
    outer = RunSession(site, bench.plan(HEAD + "steps:\n" + A), {}).events()
    next(outer)
    other = Bench(site)
    error = other.fails(HEAD + "steps:\n" + B)
    assert (type(error), error.exit_code) == (Locked, 6)
    assert "playbook x" in error.detail[0]
    assert [event.what for event in outer if isinstance(event, Event)][-1] is Happening.FINISHED
    assert other.did == ["a"]


def test_a_run_taken_up_twice_is_done_once(bench):
    bench.fails(failing("once"))
    past = past_runs.unfinished(bench.site.state)[0]
    bench.run(past.plan, past=past)
    before = bench.did
    bench.run(past.plan, past=past)  # a second operator read the journal before the first took the lock
    assert bench.did[len(before) :] == ["closed"]


def test_a_run_that_somebody_gave_up_meanwhile_is_not_taken_up(bench):
    bench.fails(failing("once"))
    past = past_runs.unfinished(bench.site.state)[0]
    dismiss(bench.site.state, past, bench.site.clock.now(), "the host is gone")
    before = bench.did
    error = bench.fails(past.plan, past=past)  # the journal was read before that
    assert (error.exit_code, bench.did) == (5, before)
    assert f"run {past.id} is dismissed by now" in error.message
    assert past_runs.find(bench.site.state, past.id).state == "dismissed"


def test_a_bug_in_what_shows_a_run_does_not_keep_it_from_putting_things_back(bench):
    def show(event: Event | str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        watch(RunSession(bench.site, bench.plan(HEAD + "steps:\n" + A + B + TAIL), {}).events(), show)
    assert bench.did == ["mended", "closed"]
    assert past_runs.history(bench.site.state)[0].detail == "a bug in maint: ZeroDivisionError"


def test_errors_keep_their_place_in_the_tree():
    assert not issubclass(DeadlinePassed, TimedOut)  # a wait that may be given up, against a limit that stops all
    codes = {WorkFailed: 1, CannotReach: 4, Refused: 5, Locked: 6, PartlyDone: 7, MaintError: 1}
    assert {kind: kind.exit_code for kind in codes} == codes


def test_a_run_that_is_refused_on_resume_can_be_resumed_again(bench):
    bench.fails(HEAD + "steps:\n  - {name: A, do: try.change, with: {fail: SIGINT, count: 1}}\n")
    past = past_runs.unfinished(bench.site.state)[0]
    refused = HEAD + "steps:\n  - {name: A, do: try.read, with: {fail: refused}}\n"
    error = bench.fails(bench.plan(refused), past=past)
    assert error.exit_code == 5
    assert past_runs.find(bench.site.state, past.id).state == "failed"


def test_words_of_a_failure_that_hold_a_secret_reach_neither_journal_nor_screen(bench, monkeypatch):
    monkeypatch.setattr(secret, "_KNOWN", set())
    secret.know("failed: work")
    bench.fails("name: x\nsummary: X.\nsteps:\n  - {name: A, do: try.change, with: {target: a, fail: work}}\n")
    (path,) = (bench.site.state / "runs").glob("*.jsonl")
    told = path.read_text() + "".join(event.detail for event in bench.events)
    assert ("failed: work" in told, "it •••" in told) == (False, True)
