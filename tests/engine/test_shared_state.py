"""A run on a site that several machines work on: two state folders, one shared folder."""

import ast
import json
import os
import shutil
import signal
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from maint import files
from maint.adapters import clock
from maint.adapters.clock import SystemClock
from maint.adapters.seal import AgeSeal
from maint.adapters.stores.local import LocalStore
from maint.cli.composition import ConfiguredSite
from maint.config.notices import Hooks
from maint.config.schema import BackupSettings
from maint.config.secrets import ReferencedSecrets
from maint.engine import journal as journals
from maint.engine import lease, past_runs, session
from maint.engine import lease as leases
from maint.engine.lease import Lease, LeaseLost, Terms, newest, refuse_elsewhere
from maint.engine.lock import site_lock, works_on
from maint.engine.shared_runs import (
    _WITH_RUNS,
    Piece,
    Sealed,
    SharedRuns,
    at_work,
    owner,
    unless_held,
)
from maint.errors import CannotReach, DeadlinePassed, Locked, Refused, StoreFailed, Unfinished, WorkFailed
from maint.model.secret import Secret
from maint.snapshots.open_windows import RECORD, Window, announce, close_announced, remembered
from maint.steps import flow as approval
from maint.steps.registry import STEPS
from tests.engine.conftest import TRIES, Bench, Changing, site_in
from tests.house.source import modules, nodes, tree

HEAD = "name: x\nsummary: X.\n"
A, B = "  - {name: A, do: try.change, with: {target: a}}\n", "  - {name: B, do: try.change, with: {target: b}}\n"
READ = "  - {name: R, do: try.read, with: {target: r}}\n"
KEY = "AGE-SECRET-KEY-13V3FC0CEDP3TSPKZGZ86HG2EER6N5Z45PDCDPGGVDZ82HQR8M0EQUNQSGL"  # as good as any
TAIL = "finally:\n  - {name: F, do: try.change, with: {target: closed}}\n"


def machine(folder: Path, name: str) -> Bench:
    """Return a machine with a state folder of its own; what all of them do is written beside that."""
    site = site_in(folder)
    # By a name of its own: what lies beside the state folders is one machine's, locks of its managers among it.
    manager = site.settings.manager.model_copy(update={"host": f"manager-of-{name}.invalid"})
    changes = {"state": folder / name, "manager": manager}
    changes |= {"shared_state": str(folder / "shared"), "shared_state_key": "env:SHARED"}
    settings = site.settings.model_copy(update=changes)
    return Bench(ConfiguredSite(settings, ReferencedSecrets(folder, {"SHARED": KEY}), lambda words: None))


@pytest.fixture
def one(tmp_path: Path) -> Bench:
    return machine(tmp_path, "one")


@pytest.fixture
def other(tmp_path: Path) -> Bench:
    return machine(tmp_path, "other")


class Silent:
    """A shared state that fails whatever is asked of it."""

    location = "a folder"

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    def __getattr__(self, _name: str) -> object:
        raise self._failure


def steal(folder: Path, run: str = "") -> None:
    """Take the lease away, as another machine does once it has lapsed, for a run."""
    store = LocalStore(folder / "shared")
    row = newest(store, "prod")
    assert row is not None
    lease = Lease(store, "prod", SystemClock(), row.claim.owner, "stealing", Terms(beat=0))
    list(lease.take())
    lease.works_on(run)
    lease.renew("")


@pytest.fixture
def stolen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While step `a` acts, another machine takes the lease."""
    apply = Changing.apply

    def stealing(step, action, site, work):
        if action.target == "a":
            steal(tmp_path)
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", stealing)


def test_a_run_takes_the_lease_names_itself_and_its_act_and_gives_it_back(one, monkeypatch):
    seen = []
    apply = Changing.apply

    def looking(step, action, site, work):
        seen.append(newest(site.shared, "prod").claim)
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", looking)
    one.run(HEAD + "steps:\n" + A + B)
    run = past_runs.history(one.site.state)[0].id
    assert [(claim.run, claim.act) for claim in seen] == [(run, "work on a"), (run, "work on b")]
    assert newest(one.site.shared, "prod").claim.token == ""


def test_what_a_site_does_before_a_run_is_an_act_that_others_wait_for(one, tmp_path):
    looking = f"for row in {tmp_path}/shared/prod/lease/0*; do cat $row; echo; done > {tmp_path}/seen"
    hooks = Hooks(before_run=(("/bin/sh", "-c", looking),))
    one.site.settings = one.site.settings.model_copy(update={"hooks": hooks})
    one.run(HEAD + "steps:\n" + A)
    assert json.loads((tmp_path / "seen").read_text().splitlines()[-1])["act"] == "preparing the run"


def test_a_run_whose_lease_is_lost_before_its_first_step_has_failed_and_says_why(one, tmp_path, monkeypatch):
    one.site.settings = one.site.settings.model_copy(update={"hooks": Hooks(before_run=(("/bin/true",),))})
    monkeypatch.setattr(session, "works_on", lambda *_: steal(tmp_path))
    assert isinstance(one.fails(HEAD + "steps:\n" + A), LeaseLost)
    past = past_runs.history(one.site.state)[0]
    assert (past.ended, one.did) == ("failed", [])
    assert "went to another machine" in past.detail


def test_the_limit_of_a_run_holds_while_the_act_of_another_machine_is_waited_for(one, tmp_path):
    dead = Lease(one.site.shared, "prod", one.site.clock, "somebody", "playbook x", Terms(lapses=-10, beat=0))
    list(dead.take())
    dead.renew("restarting")
    failure = one.fails(HEAD + "steps:\n" + A, limit=0.2)
    assert isinstance(failure, DeadlinePassed)
    assert (failure.detail, one.did) == (("it passed during: playbook x",), [])


def test_without_a_shared_state_nothing_is_leased(tmp_path):
    bench = Bench(site_in(tmp_path))
    bench.run(HEAD + "steps:\n" + A)
    assert bench.site.shared is None
    assert not (bench.site.state / "owner").exists()


def test_a_second_machine_is_refused_while_the_first_one_works(one, other):
    held = Lease(one.site.shared, "prod", one.site.clock, "somebody", "playbook restore")
    list(held.take())
    assert isinstance(other.fails(HEAD + "steps:\n" + A), Locked)
    assert (other.did, past_runs.history(other.site.state)) == ([], [])
    with pytest.raises(Locked, match="another machine works on site prod"), unless_held(other.site):
        raise CannotReach("the manager does not answer: the first one restarts it")
    held.give_back()
    with pytest.raises(CannotReach), unless_held(other.site):
        raise CannotReach("the manager does not answer: it is down")
    other.run(HEAD + "steps:\n" + A)
    assert other.did == ["a"]


def test_a_shared_folder_that_is_not_mounted_is_refused_by_a_machine_that_has_worked_with_it(one, other, tmp_path):
    playbook, shared = HEAD + "steps:\n" + A, tmp_path / "shared"
    one.run(playbook)
    shared.rename(tmp_path / "elsewhere")
    shared.mkdir()
    failure = one.fails(playbook)
    assert (
        isinstance(failure, Refused) and "is empty, or not the one that this machine has worked with" in failure.message
    )
    assert one.did == ["a"] and list(shared.iterdir()) == []
    machine(tmp_path, "before").run(playbook)
    assert isinstance(one.fails(playbook), Refused)
    shutil.rmtree(shared)
    (tmp_path / "elsewhere").rename(shared)
    one.run(playbook)
    other.run(playbook)
    assert one.did == ["a", "a", "a", "a"]


def test_a_run_whose_shared_folder_is_unmounted_begins_no_further_act(one, tmp_path, monkeypatch):
    apply, shared = Changing.apply, tmp_path / "shared"

    def unmounting(step, action, site, work):
        if not (tmp_path / "elsewhere").exists():
            shared.rename(tmp_path / "elsewhere")
            shared.mkdir()
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", unmounting)
    error = one.fails(HEAD + "steps:\n" + A + B)
    assert isinstance(error, LeaseLost) and "were not mounted any more" in error.message
    assert one.did == ["a"]
    assert isinstance(one.fails(HEAD + "steps:\n" + A), Refused)


def test_who_works_on_a_site_is_told_only_where_it_can_be_seen_and_a_limit_ends_that_look_too(other):
    for silent, ends in ((StoreFailed("it is away"), CannotReach), (DeadlinePassed("too late"), DeadlinePassed)):
        other.site.shared = Silent(silent)
        with pytest.raises(ends), unless_held(other.site):
            raise CannotReach("the manager does not answer")


def test_what_only_reads_asks_for_no_further_number(one):
    one.run(HEAD + "steps:\n" + READ * 3)
    assert newest(one.site.shared, "prod").number == 2  # taken, and given back


def test_a_machine_that_lost_its_lease_begins_no_further_act(one, stolen):
    error = one.fails(HEAD + "steps:\n" + A + B + TAIL)
    assert isinstance(error, LeaseLost)
    assert one.did == ["a"]
    run = past_runs.history(one.site.state)[0]
    assert (run.state, run.record(1).begun, run.record(2).begun) == ("failed", False, False)


def test_a_machine_that_lost_its_lease_as_its_run_ended_has_no_say_and_nothing_to_tell(one, tmp_path, monkeypatch):
    tell_end = session.RunSession._tell_end

    def stealing(*args, **options):
        steal(tmp_path)
        return tell_end(*args, **options)

    monkeypatch.setattr(session.RunSession, "_tell_end", staticmethod(stealing))
    told = list(session.RunSession(one.site, one.plan(HEAD + "steps:\n" + A), {}).events())
    assert not [line for line in told if isinstance(line, str) and "other machines" in line]
    assert (one.did, past_runs.history(one.site.state)[0].state) == (["a"], "done")


def test_where_one_branch_lost_the_lease_no_other_goes_on(one, stolen):
    plan = one.plan(HEAD + "steps:\n" + A + B + READ)
    lanes = [replace(action, lane=f"lane-{number}") for number, action in enumerate(plan.actions)]
    assert isinstance(one.fails(replace(plan, actions=lanes)), LeaseLost)
    assert one.did == ["a"]


def test_the_window_that_it_opened_is_closed_even_by_a_machine_that_lost_its_lease(one, stolen, monkeypatch):
    monkeypatch.setitem(STEPS, "window.close", TRIES["try.change"])
    plan = one.plan(HEAD + "steps:\n" + A + B + TAIL)
    closing = replace(plan.actions[-1], kind="window.close")
    assert isinstance(one.fails(replace(plan, actions=[*plan.actions[:-1], closing])), LeaseLost)
    assert one.did == ["a", "closed"]


def test_closing_that_went_on_for_longer_than_the_lease_holds_is_begun_again_and_looks_whose_window_it_is(
    one, monkeypatch
):
    alone = []

    class Closing(Changing):
        def apply(self, action, site, work):
            alone.append(work.heir() is None)
            if len(alone) == 1:
                site.clock.sleep(5)
            return (yield from super().apply(action, site, work))

    monkeypatch.setattr(leases, "TERMS", Terms(lapses=0.2, ends=0.4, beat=0))
    monkeypatch.setitem(STEPS, "window.close", Closing())
    plan = one.plan(HEAD + "steps:\n" + A + TAIL)
    one.run(replace(plan, actions=[plan.actions[0], replace(plan.actions[-1], kind="window.close")]))
    assert (one.did, alone) == (["a", "closed"], [True, False])


def test_the_window_of_the_machine_that_took_the_lease_is_left_open_to_it(one, tmp_path, monkeypatch):
    backup = BackupSettings(store=str(tmp_path / "backups"), recipients=(AgeSeal().new_identity()[1],))
    settings = one.site.settings.model_copy(update={"backup": backup})
    one.site = ConfiguredSite(settings, ReferencedSecrets(tmp_path, {"SHARED": KEY}), lambda words: None)
    apply = Changing.apply

    def overtaken(step, action, site, work):
        if action.target == "a":
            record = {"run": work.run, "opened_at": "2026-11-23T02:00:00Z", "hosts": {}}
            (site.state / "window.json").write_text(json.dumps(record))
            announce(site, work.run, record["opened_at"], {})
            steal(tmp_path, "theirs")
            close_announced(site, work.run, record["opened_at"])
            announce(site, "theirs", "2026-11-23T02:06:00Z", {})
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", overtaken)
    plan = one.plan(HEAD + "steps:\n" + A + B + TAIL)
    closing = replace(plan.actions[-1], kind="window.close")
    assert isinstance(one.fails(replace(plan, actions=[*plan.actions[:-1], closing])), LeaseLost)
    assert one.did == ["a"]
    assert "closed it" in one.events[-1].detail
    assert not (one.site.state / "window.json").exists()


def test_the_window_of_a_run_that_another_machine_has_taken_up_is_left_to_that_one(one, tmp_path, monkeypatch):
    apply = Changing.apply

    def overtaken(step, action, site, work):
        if action.target == "a":
            record = {"run": work.run, "opened_at": "2026-11-23T02:00:00Z", "hosts": {}}
            (site.state / "window.json").write_text(json.dumps(record))
            steal(tmp_path, work.run)
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", overtaken)
    plan = one.plan(HEAD + "steps:\n" + A + B + TAIL)
    closing = replace(plan.actions[-1], kind="window.close")
    assert isinstance(one.fails(replace(plan, actions=[*plan.actions[:-1], closing])), LeaseLost)
    assert (one.did, "taken the run up" in one.events[-1].detail) == (["a"], True)


def test_a_window_that_was_left_open_is_closed_as_an_act_that_others_wait_for(one, monkeypatch):
    acts = []

    def closing(site, window):
        acts.append(newest(site.shared, "prod").claim.act)
        (site.state / "window.json").unlink()
        yield "closed"

    monkeypatch.setattr(session, "close", closing)
    one.site.state.mkdir()
    (one.site.state / "window.json").write_text('{"run": "before", "opened_at": "2026-11-23T02:00:00Z", "hosts": {}}')
    one.run(HEAD + "steps:\n" + A)
    assert acts == ["closing the redaction window"]


FAILING = HEAD + "steps:\n" + A + "  - {name: B, do: try.change, with: {target: b, fail: once, count: 1}}\n" + TAIL


def take_up(bench: Bench, run: str) -> None:
    """Take a run up, as `playbook resume` does."""
    learn(bench)
    past = past_runs.find(bench.site.state, run)
    bench.run(past.plan, past=past)


def learn(bench: Bench, key: str = "") -> list[str]:
    told: list[str] = []
    with at_work(bench.site, "learning", told.append, key):
        pass
    return told


def shared_runs(bench: Bench) -> list[str]:
    return list(bench.site.shared.names("prod/runs"))


def test_a_run_that_stopped_on_one_machine_is_taken_up_on_another(one, other):
    one.fails(FAILING)
    run = past_runs.history(one.site.state)[0].id
    assert past_runs.history(other.site.state) == []
    take_up(other, run)
    assert one.did == ["a", "b", "closed", "b", "closed"]
    assert past_runs.find(other.site.state, run).state == "done"
    assert shared_runs(other) == []


def test_a_run_that_another_machine_ended_is_not_taken_up_again_by_the_first(one, other):
    one.fails(FAILING)
    run = past_runs.history(one.site.state)[0].id
    take_up(other, run)
    assert learn(one) == [f"run {run} was brought to its end by another machine"]
    past = past_runs.find(one.site.state, run)
    assert (past.state, "another machine" in past.detail) == ("dismissed", True)


def test_that_a_run_has_ended_is_asked_for_by_name_since_a_list_may_leave_it_out(one, other, tmp_path):
    one.fails(FAILING)
    (past,) = past_runs.history(one.site.state)
    take_up(other, past.id)
    one.site.__dict__["shared"] = Forgetful(tmp_path / "shared", range(0), but="/ended/")
    assert learn(one) == [f"run {past.id} was brought to its end by another machine"]


def test_a_run_that_another_machine_ended_while_its_plan_was_shown_is_not_gone_on_with(one, other):
    one.fails(FAILING)
    (stale,) = past_runs.history(one.site.state)
    take_up(other, stale.id)
    with pytest.raises(Refused, match="is dismissed by now"):
        one.run(stale.plan, past=stale)
    assert one.did == ["a", "b", "closed", "b", "closed"]


def test_a_window_is_not_taken_for_closed_because_its_run_is_listed_no_more(one, other):
    one.fails(FAILING)
    (past,) = past_runs.history(one.site.state)
    window = Window(past.id, "2026-11-23T02:00:00Z", {})
    files.keep_record(one.site.state / RECORD, window)
    shutil.rmtree(other.site.state.parent / "shared/prod/runs")
    learn(one)
    assert remembered(one.site.state) == window


def test_whether_the_window_of_a_run_at_work_was_closed_elsewhere_is_asked_of_no_store(one):
    one.run(HEAD + "steps:\n" + A)
    files.keep_record(one.site.state / RECORD, Window("r", "2026-11-23T02:00:00Z", {}))
    one.site.settings = one.site.settings.model_copy(update={"backup": BackupSettings(store="/nowhere")})
    one.site.store = Silent(DeadlinePassed("it is away"))
    with site_lock(one.site.state, "prod", "playbook x", one.site.clock):
        works_on(one.site.state, "r")
        assert session.abandoned_window(one.site) is None
    with pytest.raises(DeadlinePassed):
        session.abandoned_window(one.site)


def test_a_run_that_was_answered_while_its_plan_was_shown_is_looked_at_again(tmp_path):
    alone = Bench(site_in(tmp_path))
    alone.fails(FAILING)
    (stale,) = past_runs.history(alone.site.state)
    with closing(journals.reopen(alone.site.state, stale, alone.site.clock.now(), {})) as run:
        run.write("answers", lane="", values={"applied": True}, time=alone.site.clock.now().isoformat())
    with pytest.raises(Refused, match="was answered by another process"):
        alone.run(stale.plan, past=stale)


@pytest.mark.parametrize("lost", ["", "00000001", "0000000?"])
def test_a_run_that_was_given_up_while_the_shared_state_was_away_is_forgotten_there_too(one, other, tmp_path, lost):
    one.fails(FAILING)
    (past,) = past_runs.history(one.site.state)
    learn(other)
    journals.dismiss(one.site.state, past, one.site.clock.now(), "mended by hand")
    for piece in (tmp_path / "shared/prod/runs" / past.id).glob(lost) if lost else ():
        piece.unlink()
    assert learn(one) == []
    assert (shared_runs(one), learn(other)) == ([], [f"run {past.id} was brought to its end by another machine"])
    assert learn(one) == learn(other) == []


class Stopping(LocalStore):
    """A shared state that is gone once the first piece of a run was removed."""

    gone = False

    def remove(self, name):
        """Remove one."""
        if "/runs/" in name and self.gone:
            raise StoreFailed("it is away")
        self.gone = "/runs/" in name
        super().remove(name)


def test_a_run_whose_removal_was_stopped_on_the_way_is_removed_and_known_to_nobody(one, other, tmp_path):
    one.fails(FAILING)
    (past,) = past_runs.history(one.site.state)
    learn(other)
    one.site.__dict__["shared"] = Stopping(tmp_path / "shared")
    one.run(past.plan, past=past)
    assert shared_runs(other) != []
    third = machine(tmp_path, "third")
    assert (learn(third), shared_runs(other), past_runs.history(third.site.state)) == ([], [], [])
    assert learn(other) == [f"run {past.id} was brought to its end by another machine"]


@pytest.mark.parametrize("lost", ["all", "the first piece"])
def test_a_run_that_is_only_gone_from_the_shared_state_has_not_ended_and_is_told_anew(one, other, tmp_path, lost):
    one.fails(FAILING)
    (past,) = past_runs.history(one.site.state)
    folder = tmp_path / "shared/prod/runs" / past.id
    if lost == "all":
        shutil.rmtree(folder.parent)
    else:
        (folder / "00000001").unlink()
        there = shared_runs(one)
        (words,) = learn(other)
        assert f"{past.id}/00000001 is missing" in words and shared_runs(other) == there
    (words,) = learn(one)
    assert f"run {past.id} was gone from" in words and f"maint playbook dismiss {past.id}" in words
    assert (past_runs.find(one.site.state, past.id).state, learn(one)) == ("failed", [])
    take_up(other, past.id)
    assert one.did == ["a", "b", "closed", "b", "closed"]
    assert learn(one) == [f"run {past.id} was brought to its end by another machine"]
    assert (past_runs.find(one.site.state, past.id).state, shared_runs(one)) == ("dismissed", [])


def test_that_a_run_has_ended_is_believed_of_who_has_the_key_alone_and_the_newest_ends_stay(one, other, monkeypatch):
    one.fails(FAILING)
    (past,) = past_runs.history(one.site.state)
    with one.site.shared.create(f"prod/ended/{past.id}") as file:
        file.write(b"x" * 99)
    with pytest.raises(Refused, match="was not written with the key"):
        learn(one)
    assert past_runs.find(one.site.state, past.id).state == "failed"
    one.site.shared.remove(f"prod/ended/{past.id}")
    monkeypatch.setattr("maint.engine.shared_runs._ENDS_STAY", 1)
    one.run(HEAD + "steps:\n" + A)
    take_up(other, past.id)  # it began before that one, and ends after it
    assert len(list(one.site.shared.names("prod/ended"))) == 2
    assert learn(one) == [f"run {past.id} was brought to its end by another machine"]
    monkeypatch.setattr("maint.engine.shared_runs._KEYS_STAY", timedelta(0))
    one.run(HEAD + "steps:\n" + A)
    (last,) = one.site.shared.names("prod/ended")
    assert last == f"prod/ended/{past_runs.history(one.site.state)[-1].id}"


def test_an_answer_given_on_another_machine_is_heard_by_whoever_takes_the_run_up_and_goes_with_it(one, other, tmp_path):
    one.site.person = None
    one.fails(HEAD + "steps:\n" + A + "  - {name: Ask, do: approve, with: {question: go on}}\n" + B)
    learn(other)
    (past,) = past_runs.history(other.site.state)
    token = past.record(1).notes["token"]
    shared = [SharedRuns(bench.site, bench.site.shared, Secret(KEY)) for bench in (other, one)]
    words = [approval.Approval(yes, "ann@desk", SystemClock().now().isoformat()) for yes in (True, False)]
    for told, word in zip(shared, words, strict=True):  # the first one counts
        assert told.say(past.id, f"approval-{token}", msgspec.json.encode(word))
    assert approval.answered(one.site.state, past.id, token) == words[0]
    third = machine(tmp_path, "third")
    assert not SharedRuns(third.site, third.site.shared, Secret(KEY)).say("none", f"approval-{token}", b"{}")
    third.site.person = None
    take_up(third, past.id)
    assert (one.did, shared_runs(one)) == (["a", "b"], [])


def test_a_run_that_waits_and_has_changed_nothing_is_known_on_every_machine(one, other):
    one.site.person = other.site.person = None
    one.fails(HEAD + "steps:\n  - {name: Ask, do: approve, with: {question: go on}}\n" + A)
    (past,) = past_runs.history(one.site.state)
    assert learn(other) == [f"run {past.id} of another machine is known here now"]
    (known,) = past_runs.history(other.site.state)
    assert (known.id, known.state, known.resumable) == (past.id, "unfinished", True)
    word = approval.Approval(True, "ann@desk", SystemClock().now().isoformat())
    told = SharedRuns(other.site, other.site.shared, Secret(KEY))
    assert told.say(past.id, f"approval-{known.record(0).notes['token']}", msgspec.json.encode(word))
    take_up(other, past.id)
    assert (one.did, shared_runs(one)) == (["a"], [])
    assert learn(one) == [f"run {past.id} was brought to its end by another machine"]


def test_that_others_may_not_know_of_a_run_that_waits_is_told(one, monkeypatch):
    def away(*_, **__):
        raise StoreFailed("it is away")

    one.site.person = None
    monkeypatch.setattr(SharedRuns, "ended", away)
    plan, told = one.plan(HEAD + "steps:\n  - {name: Ask, do: approve, with: {question: go on}}\n" + A), []
    with pytest.raises(Unfinished):
        for line in session.RunSession(one.site, plan, {}).events():
            told.append(line)
    (past,) = past_runs.history(one.site.state)
    assert f"other machines may not know that run {past.id} waits: it is away" in told


def test_who_answers_a_run_that_is_at_work_on_another_machine_is_told_where(one, other):
    held = Lease(one.site.shared, "prod", one.site.clock, owner(one.site), "playbook x")
    list(held.take())
    held.works_on("20260101T000000.000Z-0000")
    held.renew("")
    with pytest.raises(WorkFailed, match=f"is at work on {os.uname().nodename}") as told:
        refuse_elsewhere(other.site, "20260101")
    assert "maint playbook approve 20260101T000000.000Z-0000" in told.value.hint
    refuse_elsewhere(other.site, "20260102")
    refuse_elsewhere(one.site, "20260101")
    held.give_back()
    refuse_elsewhere(other.site, "20260101")


class Forgetful(LocalStore):
    """A store whose list leaves out pieces of runs that are there, and what else is told."""

    def __init__(self, root: Path, left_out: range, but: str = "//") -> None:
        super().__init__(root)
        self.left_out, self.but = left_out, but

    def names(self, prefix=""):
        """Yield the names of a folder, but those of such pieces."""
        for name in super().names(prefix):
            number = name.rpartition("/")[2]
            gone = "/runs/" in name and number.isdigit() and int(number) in self.left_out
            if not gone and self.but not in name:
                yield name


@pytest.mark.parametrize("left_out", [range(1, 99), range(1, 2), range(2, 3), range(3, 99)])
def test_a_list_that_leaves_out_pieces_of_a_run_ends_no_run_and_removes_none(one, other, tmp_path, left_out):
    one.fails(FAILING)
    (past,) = past_runs.history(one.site.state)
    there = shared_runs(one)
    whole = one.site.shared
    assert len(there) > 3
    for bench in (one, other):
        bench.site.__dict__["shared"] = Forgetful(tmp_path / "shared", left_out)
    with pytest.raises(WorkFailed, match="does not list all pieces of run"):
        learn(one)
    if len(left_out) < 98:  # a machine that has never heard of the run cannot ask for it
        with pytest.raises(WorkFailed, match="does not list all pieces of run"):
            learn(other)
    one.site.__dict__["shared"] = whole
    assert (past_runs.find(one.site.state, past.id).state, shared_runs(one)) == ("failed", there)
    take_up(one, past.id)
    assert past_runs.find(one.site.state, past.id).state == "done"


def test_a_run_of_which_the_store_has_lost_a_piece_is_not_taken_for_what_is_left_of_it(one, other, tmp_path):
    one.fails(FAILING)
    (run,) = past_runs.history(one.site.state)
    lost = tmp_path / "shared/prod/runs" / run.id / "00000002"
    content = lost.read_bytes()
    lost.unlink()
    with pytest.raises(Refused, match="a piece is missing: what it has done is not known") as refused:
        learn(other)
    assert "take it up on the machine that began it" in str(refused.value.hint)
    assert past_runs.history(other.site.state) == []
    lost.write_bytes(content)
    learn(other)
    assert past_runs.history(other.site.state) == [run]


class Reluctant(LocalStore):
    """A store that does not take the first piece of a run that it is given."""

    refused = False

    def create(self, name):
        """Refuse it once."""
        if "/runs/" in name and not self.refused:
            self.refused = True
            raise StoreFailed("it is busy")
        return super().create(name)


def test_a_run_whose_first_piece_was_not_taken_is_known_to_others_once_the_next_one_is(one, other, tmp_path):
    one.site.__dict__["shared"] = Reluctant(tmp_path / "shared")
    one.fails(FAILING)
    (past,) = past_runs.history(one.site.state)
    learn(other)
    learn(one)
    assert [past_runs.find(bench.site.state, past.id).state for bench in (one, other)] == ["failed", "failed"]


def test_a_mark_of_a_run_whose_journal_is_gone_goes_too(one):
    mark = one.site.state / "runs/20260101T000000.000Z-0000.shared"
    mark.parent.mkdir(parents=True)
    mark.write_text("3")
    assert (learn(one), mark.exists()) == ([], False)


def test_what_a_run_took_away_on_another_machine_is_gone_here_too(one, other, monkeypatch):
    apply = Changing.apply

    def opening_and_closing(step, action, site, work):
        window = site.state / "window.json"
        if action.target == "a":
            window.write_text(json.dumps({"run": work.run, "opened_at": "2026-11-23T02:00:00Z", "hosts": {}}))
        elif action.target == "b" and site.state.name == "other":
            window.unlink()
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", opening_and_closing)
    one.fails(FAILING.replace("count: 1", "count: 9"))
    (run,) = past_runs.history(one.site.state)
    with pytest.raises(WorkFailed):
        take_up(other, run.id)
    assert (one.site.state / "window.json").exists()
    learn(one)
    assert not (one.site.state / "window.json").exists()


PIECES = {
    "names files outside": msgspec.json.encode(Piece(0, b"{}\n", {"../out": b"x"}, (), {})),
    "cannot be read": b"{}",
    "is too large to be one of ours": os.urandom(10_000),
}


@pytest.mark.parametrize("words", PIECES)
def test_a_piece_that_makes_no_sense_is_refused_although_it_was_written_with_the_key(one, monkeypatch, words):
    name = "prod/runs/20260101T000000.000Z-0000/00000001"
    Sealed(one.site, one.site.shared, Secret(KEY)).write(name, PIECES[words])
    monkeypatch.setattr("maint.engine.sealed._LARGEST", 9_000)
    with pytest.raises(Refused, match=words):
        learn(one)
    assert past_runs.history(one.site.state) == []
    assert not (one.site.state.parent / "out").exists()


def lose_lease(folder: Path) -> None:
    """Leave a file where the folder of the lease was: no store can work with that."""
    shutil.rmtree(folder / "shared/prod/lease")
    (folder / "shared/prod/lease").touch()


def test_a_lease_that_cannot_be_given_back_fails_nothing_and_is_told(one, tmp_path):
    lease, away = tmp_path / "shared/prod/lease", tmp_path / "away"
    lost = f"mv {lease} {away}; touch {lease}"
    one.site.settings = one.site.settings.model_copy(update={"hooks": Hooks(after_run=(("/bin/sh", "-c", lost),))})
    told = list(session.RunSession(one.site, one.plan(HEAD + "steps:\n" + A), {}).events())
    assert "the lease could not be given back" in told[-1]
    lease.unlink()
    away.rename(lease)
    words: list[str] = []
    with at_work(one.site, "learning", words.append):
        lose_lease(tmp_path)
    assert ["the lease could not be given back" in line for line in words] == [True]


def restoring(one, tmp_path, monkeypatch, before_it):
    """Return a plan of one step that restores from a store, and calls something first."""

    class Restoring(Changing):
        restores = True

        def apply(self, action, site, work):
            before_it()
            return (yield from super().apply(action, site, work))

    monkeypatch.setitem(STEPS, "try.restore", Restoring())
    backup = BackupSettings(store=str(tmp_path / "backups"), recipients=(AgeSeal().new_identity()[1],))
    settings = one.site.settings.model_copy(update={"backup": backup, "shared_state": None})
    one.site = ConfiguredSite(settings, ReferencedSecrets(tmp_path, {}), lambda words: None)
    plan = one.plan(HEAD + "steps:\n" + A)
    given = {**plan.actions[0].arguments, "snapshot": "20260101T000000.000Z-0000"}
    return replace(plan, actions=[replace(plan.actions[0], kind="try.restore", arguments=given)])


@pytest.mark.parametrize(("when", "words"), [("before", "could not be held"), ("meanwhile", "is still held: the disk")])
def test_a_store_that_is_full_keeps_no_restore_from_going_on_and_is_told(one, tmp_path, monkeypatch, when, words):
    def full(store, name):
        raise StoreFailed("the disk is full")

    plan = restoring(one, tmp_path, monkeypatch, lambda: monkeypatch.setattr(LocalStore, "create", full))
    if when == "before":
        monkeypatch.setattr(LocalStore, "create", full)
    told = [line for line in session.RunSession(one.site, plan, {}).events() if isinstance(line, str)]
    assert [words in line for line in told] == [True]
    assert one.did == ["a"]


def test_a_store_that_hangs_takes_a_restore_no_longer_than_its_limit(one, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalStore, "create", lambda store, name: time.sleep(60))
    plan, begun = restoring(one, tmp_path, monkeypatch, lambda: time.sleep(60)), time.monotonic()
    with pytest.raises(DeadlinePassed, match="the limit of 2s has passed"):
        list(session.RunSession(one.site, plan, {}, limit=2.0, limit_of=2.0).events())
    assert time.monotonic() - begun < 30


def test_a_store_that_hangs_at_the_end_of_a_restore_is_not_waited_for(one, tmp_path, monkeypatch):
    def hang():
        monkeypatch.setattr(LocalStore, "create", lambda store, name: time.sleep(60))

    monkeypatch.setattr(session, "TIDYING", 1.0)
    plan, begun = restoring(one, tmp_path, monkeypatch, hang), time.monotonic()
    told = [line for line in session.RunSession(one.site, plan, {}).events() if isinstance(line, str)]
    assert ["is still held: the limit of 1s has passed" in line for line in told] == [True]
    assert one.did == ["a"] and time.monotonic() - begun < 30


def test_a_run_that_another_machine_went_on_with_is_known_as_it_is_now(one, other):
    text = FAILING.replace("count: 1", "count: 9")
    one.fails(text)
    run = past_runs.history(one.site.state)[0].id
    with pytest.raises(WorkFailed):
        take_up(other, run)
    stale = past_runs.find(one.site.state, run)
    with pytest.raises(Refused, match="taken up by another machine"):
        one.run(stale.plan, past=stale)
    assert len(past_runs.find(one.site.state, run).attempts) == 2
    assert one.did == ["a", "b", "closed", "b", "closed"]


def test_a_machine_that_lost_its_lease_in_its_sleep_adds_nothing_to_what_the_next_one_told(
    one, other, tmp_path, monkeypatch
):
    def apply(step, action, site, work):
        yield "working"
        if site.state.name == "one":
            for row in (tmp_path / "shared").rglob("lease/0*"):
                os.utime(row, (row.stat().st_mtime - 400,) * 2)
            with pytest.raises(WorkFailed, match="stopped"):
                take_up(other, work.run)
            monkeypatch.setattr(clock, "uptime", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) + 400)
            signal.raise_signal(signal.SIGALRM)
        raise WorkFailed("stopped", hint="again")

    monkeypatch.setattr(Changing, "apply", apply)
    assert isinstance(one.fails(HEAD + "steps:\n" + A), LeaseLost)
    (run,) = past_runs.history(other.site.state)
    third = machine(tmp_path, "third")
    assert learn(third) == [f"run {run.id} of another machine is known here now"]
    assert past_runs.history(third.site.state) == [run]


def test_a_piece_of_a_machine_that_wrote_on_though_another_had_taken_the_run_up_counts_for_nothing(one, other):
    one.fails(FAILING.replace("count: 1", "count: 9"))
    (run,) = past_runs.history(one.site.state)
    stale = SharedRuns(one.site, one.site.shared, Secret(KEY))
    stale.follow(run)
    stale.push(run.id)
    with pytest.raises(WorkFailed):
        take_up(other, run.id)
    path = one.site.state / f"runs/{run.id}.jsonl"
    path.write_bytes(path.read_bytes() + path.read_bytes().splitlines(keepends=True)[-1])
    stale.push(run.id)
    third = machine(one.site.state.parent, "third")
    learn(third)
    assert past_runs.history(third.site.state) == past_runs.history(other.site.state)


def test_what_is_needed_to_undo_goes_along_with_its_content(one, other, monkeypatch):
    apply = Changing.apply

    def keeping(step, action, site, work):
        if action.target == "a":
            work.note("kept", site.undo.keep(b"as it was"))
            (site.state / "window.json").write_text("{}")
            work.note("opened", True)
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", keeping)
    one.fails(FAILING)
    learn(other)
    past = past_runs.history(other.site.state)[0]
    assert other.site.undo.fetch(past.record(0).notes["kept"]) == b"as it was"
    assert (other.site.state / "window.json").read_text() == "{}"
    shared = [path.read_bytes() for path in (other.site.state.parent / "shared").rglob("*") if path.is_file()]
    assert shared
    assert not any(b"as it was" in content for content in shared)


def test_what_cannot_be_told_of_a_run_that_failed_keeps_no_program_from_being_run(one, tmp_path, monkeypatch):
    apply = Changing.apply

    def opening(step, action, site, work):
        (site.state / "undo" / site.undo.keep(b"as it was")).chmod(0o644)
        raise WorkFailed("it failed")
        yield from apply(step, action, site, work)

    monkeypatch.setattr(Changing, "apply", opening)
    hooks = Hooks(on_failure=(("/bin/sh", "-c", f"touch {tmp_path}/told"),))
    one.site.settings = one.site.settings.model_copy(update={"hooks": hooks})
    plan, told = one.plan(HEAD + "steps:\n" + A), []
    with pytest.raises(WorkFailed, match="it failed"):
        for line in session.RunSession(one.site, plan, {}).events():
            told.append(line)
    assert (tmp_path / "told").exists()
    assert any("can be read by others" in line for line in told if isinstance(line, str))


def test_however_much_a_run_sealed_another_machine_can_read_it(one, other, monkeypatch):
    monkeypatch.setattr("maint.engine.sealed._LARGEST", 2 << 20)
    apply, names, contents = Changing.apply, list[str](), [os.urandom(160_000) for _ in range(20)]

    def keeping(step, action, site, work):
        if not names:
            names.extend(map(site.undo.keep, contents))
            work.note("kept", list(names))
        return (yield from apply(step, action, site, work))

    monkeypatch.setattr(Changing, "apply", keeping)
    one.fails(FAILING)
    learn(other)
    assert list(map(other.site.undo.fetch, names)) == contents


def test_nothing_in_the_shared_state_is_believed_that_was_not_written_with_its_key(one, other):
    one.fails(FAILING)
    shared = other.site.state.parent / "shared"
    first = min((shared / "prod/runs").rglob("00000001"))
    content = first.read_bytes()
    first.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    with pytest.raises(Refused, match="was not written with the key"):
        learn(other)
    assert past_runs.history(other.site.state) == []


def test_a_run_that_ended_well_leaves_nothing_in_the_shared_state(one, other):
    one.run(HEAD + "steps:\n" + A + B)
    assert shared_runs(one) == []
    assert list((one.site.state / "runs").glob("*.shared")) == []
    assert learn(other) == []


def test_what_was_done_under_a_run_key_is_known_on_every_machine_and_done_by_none_again(one, other):
    key = {"run_key": "night/1", "asked": "this"}
    one.run(HEAD + "steps:\n" + A, options=key)
    (past,) = past_runs.history(one.site.state)
    assert learn(other, "night/2") == []
    assert learn(other, "night/1") == [f"run {past.id} of another machine is known here now"]
    found = past_runs.of_key(other.site.state, "night/1")
    assert found is not None and (found.id, found.state, found.options["asked"]) == (past.id, "done", "this")
    assert learn(other, "night/1") == []


def test_a_run_that_another_machine_ended_under_the_key_a_moment_ago_is_not_begun_again(one, other):
    key = {"run_key": "night/1", "asked": "this"}
    one.run(HEAD + "steps:\n" + A, options=key)
    assert isinstance(other.fails(HEAD + "steps:\n" + A, options=key), Locked)
    assert one.did == ["a"]


def test_a_run_that_another_machine_took_up_and_did_is_done_under_its_key_on_the_first_one_too(one, other):
    one.fails(FAILING, options={"run_key": "night/1", "asked": "this"})
    (past,) = past_runs.history(one.site.state)
    take_up(other, past.id)
    assert learn(one, "night/1") == [f"run {past.id} was brought to its end by another machine"]
    found = past_runs.of_key(one.site.state, "night/1")
    assert found is not None and (found.id, found.state) == (past.id, "done")


def test_what_was_done_under_a_run_key_is_forgotten_after_a_month_by_the_clock_of_the_store(
    one, other, tmp_path, monkeypatch
):
    begin = SystemClock().now()
    for number, days in ((1, 40), (2, 20), (3, 0)):
        ahead = begin + timedelta(days=number * 4000)
        monkeypatch.setattr(SystemClock, "now", lambda clock, now=ahead: now)
        one.run(HEAD + "steps:\n" + A, options={"run_key": str(number), "asked": "this"})
        written = begin.timestamp() - days * 86400
        for path in (tmp_path / "shared/prod/keys").glob(f"*/{ahead:%Y%m%d}*"):
            os.utime(path, (written, written))
    assert len(list((tmp_path / "shared/prod/keys").glob("*/*"))) == 2
    for number in (1, 2, 3):
        learn(other, str(number))
    assert [past_runs.of_key(other.site.state, str(number)) is not None for number in (1, 2, 3)] == [False, True, True]


def test_one_key_of_fingerprints_serves_all_machines(one, other):
    one.site.settings = one.site.settings.model_copy(update={"backup": BackupSettings(store="/nowhere")})
    other.site.settings = other.site.settings.model_copy(update={"backup": BackupSettings(store="/nowhere")})
    key = one.site.fingerprint_key.reveal()
    learn(one)
    assert other.site.fingerprint_key.reveal() == key


@pytest.mark.parametrize("by", ["the run", "what looks for runs before it"])
def test_a_lease_that_was_taken_over_is_kept_and_stands_in_the_journal_once(one, other, by):
    lapsed = Terms(lapses=-10.0, ends=0.0, beat=0.0)
    held = Lease(one.site.shared, "prod", one.site.clock, "somebody", "playbook restore", lapsed)
    list(held.take())
    if by != "the run":
        learn(other)
    other.run(HEAD + "steps:\n" + A)
    other.run(HEAD + "steps:\n" + A)
    one_over = lease.last_takeover(other.site.state)
    assert one_over is not None and (one_over.playbook, one_over.told) == ("restore", False)
    texts = [path.read_text() for path in (other.site.state / "runs").glob("*.jsonl")]
    lines = [json.loads(line) for text in texts for line in text.splitlines()]
    (told,) = [line for line in lines if line["what"] == "lease"]
    assert "playbook restore" in told["taken_over"]
    assert [past.state for past in past_runs.history(other.site.state)] == ["done", "done"]
    damaged = other.site.state / "takeover.json"
    damaged.write_text(damaged.read_text().replace('"at":"', '"at":"about '))
    assert lease.last_takeover(other.site.state) is None


def test_a_lease_of_this_machine_that_was_not_given_back_is_no_other_machines(one):
    list(Lease(one.site.shared, "prod", one.site.clock, owner(one.site), "playbook restore", Terms(beat=0.0)).take())
    one.run(HEAD + "steps:\n" + A)
    assert lease.last_takeover(one.site.state) is None


def test_what_steps_keep_in_the_state_folder_goes_along_with_their_run():
    kept = set()
    for name, path in modules().items():
        if not name.startswith(("maint.steps", "maint.snapshots")):
            continue
        known = {
            target.id: node.value.value
            for node in tree(path).body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        imported = {alias.name for node in tree(path).body if isinstance(node, ast.ImportFrom) for alias in node.names}
        for node in nodes(path):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                right = ast.unparse(node.right)
                if ast.unparse(node.left).split(".")[-1] == "state" and right not in imported:
                    kept.add(known.get(right) or right.strip("'"))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("UndoRecords", "RunRecords"):
                kept.add(node.args[0].value)
    kept.remove("self._folder")  # of UndoRecords
    of_this_machine = {"seen.json", "owner", "recorded.json"}
    assert kept - {"RUNS", "runs", "undo"} - of_this_machine == set(_WITH_RUNS)  # journals and undo go along besides


def test_a_certificate_that_a_run_had_made_replaces_the_older_one_that_another_machine_has(one, other, monkeypatch):
    apply = Changing.apply

    def making(step, action, site, work):
        (site.state / "certificates").mkdir(exist_ok=True)
        (site.state / "certificates/vc.pem").write_text("new")
        yield from apply(step, action, site, work)
        raise WorkFailed("stopped", hint="again")

    monkeypatch.setattr(Changing, "apply", making)
    (other.site.state / "certificates").mkdir(parents=True)
    (other.site.state / "certificates/vc.pem").write_text("old")
    one.fails(HEAD + "steps:\n" + A)
    learn(other)
    assert (other.site.state / "certificates/vc.pem").read_text() == "new"


@pytest.mark.parametrize("kind", ["snapshot.take", "snapshot.copy", "snapshot.hold", "snapshot.release", "vc.take"])
def test_what_stores_although_it_only_reads_the_site_is_leased_like_a_change(one, stolen, monkeypatch, kind):
    monkeypatch.setattr(type(TRIES["try.read"]), "stores", STEPS[kind].stores)
    assert isinstance(one.fails(HEAD + "steps:\n" + A + READ), LeaseLost)
    assert one.did == ["a"]
