"""What must wait until a restore that stopped half-way has ended."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from maint.engine import journal, past_runs
from maint.engine.plan import refuse_conflicting
from maint.errors import Refused
from maint.model.plan import Action, Effect, Plan
from maint.steps.registry import STEPS

NOW = datetime(2026, 11, 21, 2, tzinfo=UTC)


def plan(kind, **arguments):
    action = Action("Do it", kind, "thing", Effect.CHANGE, "do it", arguments=arguments)
    return Plan(kind.replace(".", "-"), "prod", {}, (action,))


RESTORE = plan("deployment.put", snapshot="x")
PRUNE = plan("snapshot.prune", thaw="", damaged=False)


def ran(state, what, ended, minutes=0):
    """Leave the journal of a run; `ended` None is one that was killed."""
    run = journal.start(state, what, NOW + timedelta(minutes=minutes), {})
    if ended:
        run.write("ended", state=ended, time=NOW.isoformat(), detail="")
    run.close()
    return run.id


@pytest.mark.parametrize("ended", [None, "failed", "interrupted"])
def test_pruning_waits_for_a_restore_that_has_not_ended_well(tmp_path, ended):
    run = ran(tmp_path, RESTORE, ended)
    with pytest.raises(Refused, match=run) as caught:
        refuse_conflicting(PRUNE, tmp_path)
    assert f"playbook resume {run}" in caught.value.hint


@pytest.mark.parametrize("ended", ["done", "refused"])
def test_pruning_does_not_wait_for_a_restore_that_ended_or_never_began(tmp_path, ended):
    ran(tmp_path, RESTORE, ended)
    refuse_conflicting(PRUNE, tmp_path)


def test_a_newer_restore_that_ended_well_stands_for_those_before_it(tmp_path):
    ran(tmp_path, RESTORE, None)
    ran(tmp_path, RESTORE, "done", minutes=1)
    refuse_conflicting(PRUNE, tmp_path)


def test_no_restore_is_taken_up_whose_work_a_newer_one_has_done_although_all_was_at_rest_by_then(tmp_path):
    put, stop = RESTORE.actions[0], Action("Stop it", "cluster.stop", "cluster base", Effect.CHANGE, "stop it")
    older = ran(tmp_path, replace(RESTORE, actions=(stop, put)), None)
    assert [one.id for one in past_runs.unfinished(tmp_path)] == [older]
    ran(tmp_path, replace(RESTORE, actions=(put, replace(put, target="another"))), "failed", minutes=1)
    assert len(past_runs.unfinished(tmp_path)) == 2
    ran(tmp_path, replace(RESTORE, actions=(put, replace(put, target="another"))), "done", minutes=2)
    assert past_runs.unfinished(tmp_path) == []
    refuse_conflicting(PRUNE, tmp_path)


def test_a_restore_that_was_taken_up_after_a_newer_one_had_ended_well_is_unfinished_again(tmp_path):
    older = ran(tmp_path, RESTORE, "failed")
    ran(tmp_path, RESTORE, "done", minutes=1)
    again = journal.reopen(tmp_path, past_runs.find(tmp_path, older), NOW + timedelta(minutes=2), {})
    again.write("ended", state="failed", time=(NOW + timedelta(minutes=3)).isoformat(), detail="")
    again.close()
    assert [one.id for one in past_runs.unfinished(tmp_path)] == [older]
    with pytest.raises(Refused, match=older):
        refuse_conflicting(PRUNE, tmp_path)
    ran(tmp_path, RESTORE, "done", minutes=4)
    assert past_runs.unfinished(tmp_path) == []
    refuse_conflicting(PRUNE, tmp_path)


@pytest.mark.parametrize("ended", ["done", "refused"])
def test_a_newer_restore_of_something_else_or_that_was_refused_stands_for_none_before_it(tmp_path, ended):
    run = ran(tmp_path, RESTORE, None)
    other = RESTORE if ended == "refused" else plan("vc.restore", snapshot="x", vc="default-vc")
    ran(tmp_path, other, ended, minutes=1)
    with pytest.raises(Refused, match=run):
        refuse_conflicting(PRUNE, tmp_path)


@pytest.mark.parametrize("kind", sorted(name for name, one in STEPS.items() if one.restores))
def test_pruning_waits_for_whatever_restores_from_a_snapshot(tmp_path, kind):
    run = ran(tmp_path, plan(kind, snapshot="x"), "unfinished")
    with pytest.raises(Refused, match=run):
        refuse_conflicting(PRUNE, tmp_path)


def test_other_runs_that_stopped_do_not_keep_pruning_waiting(tmp_path):
    ran(tmp_path, plan("cluster.stop", cluster="base"), None)
    refuse_conflicting(PRUNE, tmp_path)


def test_a_one_off_command_that_failed_keeps_no_pruning_waiting(tmp_path):
    ran(tmp_path, replace(plan("config.restore", snapshot="x"), source="restore config"), "failed")
    refuse_conflicting(PRUNE, tmp_path)


def test_other_work_does_not_wait_for_a_restore(tmp_path):
    ran(tmp_path, RESTORE, None)
    refuse_conflicting(plan("snapshot.take", purpose="backup"), tmp_path)
    refuse_conflicting(RESTORE, tmp_path)


def test_the_operator_may_say_that_there_is_no_need_to_wait(tmp_path):
    ran(tmp_path, RESTORE, None)
    refuse_conflicting(plan("snapshot.prune", thaw="another server was built", damaged=False), tmp_path)


def test_without_any_run_nothing_waits(tmp_path):
    refuse_conflicting(PRUNE, tmp_path / "never-made")
