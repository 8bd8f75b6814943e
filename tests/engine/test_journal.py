"""The journal: on disk before the act, readable after a crash, the source of resume."""

import json
import os
import zlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import maint
from maint import files
from maint.adapters.clock import SystemClock
from maint.config.paths import actor
from maint.engine import history, past_runs
from maint.engine import journal as journals
from maint.engine.history import actions_left
from maint.engine.lock import run_at_work, site_lock
from maint.engine.session import RunSession
from maint.errors import WRITABLE, Interrupted, Invalid, Refused, UsageError, WorkFailed
from maint.model.plan import Outcome

NOW = datetime(2026, 1, 15, 3, 0, tzinfo=UTC)
HEAD = "name: x\nsummary: X.\n"
TWO = HEAD + (
    "steps:\n  - {name: A, do: try.change, with: {target: a}}\n  - {name: B, do: try.change, with: {target: b}}\n"
)
SECOND_FAILS = TWO.replace("target: b", "target: b, fail: once, count: 1")


def lines(site, run=None):
    path = next((site.state / "runs").glob(f"{run or '*'}.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_intent_stands_before_the_act_and_the_outcome_after_it(bench):
    bench.run(TWO)
    found = [(line["what"], line.get("index"), line.get("outcome")) for line in lines(bench.site)]
    assert found == [
        ("run", None, None),
        ("intent", 0, None),
        ("outcome", 0, "done"),
        ("intent", 1, None),
        ("outcome", 1, "done"),
        ("ended", None, None),
    ]


def test_every_line_is_on_disk_when_it_is_written(bench, monkeypatch):
    seen = []

    def fsync(handle, real=os.fsync):
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.suffix == ".jsonl":
            seen.append(len(path.read_text().splitlines()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    bench.run(TWO)
    assert seen == [1, 2, 3, 4, 5, 6]


def test_only_the_owner_may_read_a_journal(bench):
    bench.run(TWO)
    path = next((bench.site.state / "runs").iterdir())
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_torn_last_line_is_passed_over_and_ended_on_resume(bench):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").iterdir())
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:4]) + whole[4][:17])  # B's intent whole, its outcome torn
    past = past_runs.unfinished(bench.site.state)[0]
    assert (past.state, past.record(0).settled, past.record(1).begun) == ("unfinished", True, True)
    assert past.record(1).result is None
    assert [one.heard for one in past.attempts] == [json.loads(whole[3])["time"]]
    bench.run(past.plan, past=past)
    found = [line["what"] for line in lines(bench.site)]
    assert found == ["run", "intent", "outcome", "intent", "resumed", "intent", "outcome", "ended"]
    done = past_runs.find(bench.site.state, path.stem)
    assert done.state == "done" and [one.heard for one in done.attempts] == [lines(bench.site)[3]["time"], ""]


def test_a_first_line_that_lacks_nothing_but_its_end_is_of_a_run_that_has_not_begun(bench):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").iterdir())
    path.write_bytes(path.read_bytes().partition(b"\n")[0])
    assert past_runs.history(bench.site.state) == past_runs.unreadable(bench.site.state) == []


def test_a_run_is_at_work_only_while_the_lock_is_held_for_it(bench):
    events = RunSession(bench.site, bench.plan(TWO), {}).events()
    next(events)
    (past,) = past_runs.unfinished(bench.site.state)
    assert run_at_work(bench.site.state) == past.id
    events.close()
    with site_lock(bench.site.state, "prod", "backup verify", bench.site.clock):
        assert run_at_work(bench.site.state) == ""
    events = RunSession(bench.site, past.plan, {}, past=past).events()
    next(events)
    assert run_at_work(bench.site.state) == past.id
    events.close()
    assert run_at_work(bench.site.state) == ""


@pytest.mark.parametrize("kept", range(6))
def test_a_journal_cut_after_any_line_can_be_read_and_resumed_to_the_end(bench, kept):
    plan = bench.plan(TWO)
    bench.run(plan)
    path = next((bench.site.state / "runs").iterdir())
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:kept]))
    if kept == 0:
        assert past_runs.history(bench.site.state) == []
        return
    past = past_runs.unfinished(bench.site.state)[0]
    bench.run(past.plan, past=past)
    assert past_runs.find(bench.site.state, path.stem).state == "done"


def test_history_lists_the_runs_the_oldest_first_and_the_newest_unfinished_is_found(bench):
    bench.run(TWO)
    for _ in range(2):
        bench.fails(TWO.replace("target: b", "target: c, fail: always"))
    runs = past_runs.history(bench.site.state)
    assert [run.state for run in runs] == ["done", "failed", "failed"]
    assert [run.id for run in runs] == sorted(run.id for run in runs)
    assert past_runs.unfinished(bench.site.state)[0].id == runs[-1].id


def test_a_run_begun_after_a_clock_was_put_back_is_the_newer_one_all_the_same(bench, monkeypatch):
    bench.run(TWO)
    real = SystemClock.now
    with monkeypatch.context() as patch:
        patch.setattr(SystemClock, "now", lambda clock: real(clock) + timedelta(hours=3))
        bench.run(TWO)
    (bench.site.state / "runs" / "zzz.jsonl").write_text("somebody else's\n")
    bench.fails(TWO.replace("target: b", "target: b, fail: refused"))
    *_, ahead, last = past_runs.history(bench.site.state)
    assert (ahead.state, last.state) == ("done", "failed")
    assert last.started < ahead.started
    assert [past.id for past in past_runs.unfinished(bench.site.state)] == [last.id]


def test_a_refused_run_that_changed_nothing_is_not_taken_up(bench):
    bench.fails(HEAD + "steps:\n  - {name: A, do: try.read, with: {fail: refused}}\n")
    assert [run.state for run in past_runs.history(bench.site.state)] == ["refused"]
    assert past_runs.unfinished(bench.site.state) == []


def test_a_run_that_was_refused_in_its_middle_is_a_failed_one(bench):
    bench.fails(TWO.replace("target: b", "target: b, fail: refused"))
    assert past_runs.unfinished(bench.site.state)[0].state == "failed"


def test_a_run_is_found_by_the_beginning_of_its_id_when_that_is_clear(bench):
    bench.run(TWO)
    bench.run(TWO)
    first, second = past_runs.history(bench.site.state)
    assert past_runs.find(bench.site.state, second.id[:-1]).id == second.id
    with pytest.raises(UsageError, match="2 runs of this site begin"):
        past_runs.find(bench.site.state, first.id[:2])
    with pytest.raises(UsageError, match="no run of this site begins with 'nope'"):
        past_runs.find(bench.site.state, "nope")


def test_whatever_else_lies_in_the_folder_is_no_run(bench):
    bench.run(TWO)
    folder = bench.site.state / "runs"
    (folder / "empty.jsonl").touch()
    (folder / "list.jsonl").write_text("[1, 2]\n")
    (folder / "other.jsonl").write_text('{"what": "intent", "index": 0}\n')
    assert len(past_runs.history(bench.site.state)) == 1


def test_what_killed_writers_left_in_the_state_folder_goes_with_the_next_run(bench):
    left, live = (bench.site.state / folder / f"{files.STAGING}x" for folder in ("undo", "keys"))
    for path in (left, live):
        files.make_folder(path.parent)
        path.write_bytes(b"half")
    os.utime(left, (0, 0))
    bench.run(TWO)
    assert (left.exists(), live.exists()) == (False, True)


def test_nothing_is_done_once_the_journal_cannot_be_written(bench, monkeypatch):
    def full(handle, content, real=os.write):
        if b'"intent"' in bytes(content):
            raise OSError(28, "No space left on device")
        return real(handle, content)

    monkeypatch.setattr(os, "write", full)
    error = bench.fails(TWO)
    assert isinstance(error, WorkFailed) and "No space left" in error.message
    assert bench.did == []


def test_notes_of_an_earlier_life_are_there_in_the_next(tmp_path, bench):
    journal = journals.start(bench.site.state, bench.plan(TWO), NOW, {})
    journal.write("intent", index=0, time="2026-01-15T03:00:00.000Z")
    journal.write("note", index=0, key="command", value=7)
    journal.write("note", index=0, key="command", value=8)
    journal.close()
    record = past_runs.find(bench.site.state, journal.id).record(0)
    assert (record.notes, record.begun, record.settled) == ({"command": 8}, True, False)


def test_an_outcome_is_read_back_as_it_was_written(bench):
    bench.run(TWO)
    result = past_runs.history(bench.site.state)[0].record(0).result
    assert (result.outcome, result.detail, result.value) == (Outcome.DONE, "did it", {"word": "value of a"})


def test_a_damaged_line_in_the_middle_refuses_resume_and_nothing_is_done_again(bench):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    whole = path.read_bytes().split(b"\n")
    for number in range(1, len(whole) - 1):
        for spoiled in (whole[number][:-9], whole[number].replace(b"2026", b"2025", 1), b""):
            if spoiled == whole[number]:
                continue
            path.write_bytes(b"\n".join([*whole[:number], spoiled, *whole[number + 1 :]]))
            past = past_runs.unfinished(bench.site.state)[0]
            assert (past.state, past.resumable) == ("damaged", True)
            before = list(bench.did)
            error = bench.fails(past.plan, past=past)
            assert isinstance(error, Refused) and f"line {number + 1} of" in error.message
            assert "maint playbook dismiss" in str(error.hint)
            (known,) = error.detail
            assert ("nothing of it was begun" in known) is (number == 1) and ("the last one begun: B" in known) is (
                number > 3
            )
            assert bench.did == before
    journals.dismiss(bench.site.state, past, NOW, "looked at")  # the way out
    assert past_runs.unfinished(bench.site.state) == []
    assert past_runs.find(bench.site.state, past.id).state == "dismissed"


def test_a_line_that_is_not_in_its_place_refuses_resume(bench):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    first, *lines = path.read_bytes().splitlines(keepends=True)
    for number in range(len(lines) - 1):  # without the last one it is what a kill leaves
        removed = [*lines[:number], *lines[number + 1 :]]
        swapped = [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]]
        twice = [*lines[: number + 1], *lines[number:]]
        for changed, place in ((removed, number + 2), (swapped, number + 2), (twice, number + 3)):
            path.write_bytes(first + b"".join(changed))
            assert f"line {place} of" in past_runs.unfinished(bench.site.state)[0].damage
    path.write_bytes(first + b"".join(lines))
    assert past_runs.unfinished(bench.site.state)[0].damage == ""


def test_the_lines_of_another_run_though_whole_and_in_their_places_refuse_resume(bench):
    bench.run(TWO)
    bench.run(TWO)
    first, second = sorted((bench.site.state / "runs").glob("*.jsonl"))
    head, other = second.read_bytes().splitlines(keepends=True)[:1], first.read_bytes().splitlines(keepends=True)[1:]
    second.write_bytes(b"".join([*head, *other]))  # as a disk gives out another file's block
    past = past_runs.find(bench.site.state, second.stem)
    assert (past.state, "line 2" in past.damage) == ("damaged", True)


def test_a_run_that_a_signal_stops_as_soon_as_a_line_is_on_disk_is_taken_up(bench, monkeypatch):
    journal = journals.start(bench.site.state, bench.plan(TWO), NOW, {})

    def struck(handle, real=os.fsync):
        real(handle)
        raise Interrupted(15)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", struck)
        with pytest.raises(Interrupted):
            journal.write("intent", index=0, time="2026-01-15T03:00:00.000Z")
    journal.write("ended", state="interrupted", time="2026-01-15T03:00:00.000Z", detail="")
    past = past_runs.find(bench.site.state, journal.id)
    assert (past.damage, past.state, past.record(0).begun) == ("", "interrupted", True)


def test_a_journal_of_older_lines_without_numbers_is_read_and_gone_on_with(bench):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    path.write_bytes(b"".join(written({k: v for k, v in line.items() if k not in ("sum", "line")}) for line in lines))
    past = past_runs.unfinished(bench.site.state)[0]
    assert past.damage == ""
    bench.run(past.plan, past=past)
    added = [json.loads(line) for line in path.read_bytes().splitlines()][len(lines) :]
    assert [line["line"] for line in added] == list(range(len(lines) + 1, len(lines) + len(added) + 1))
    assert past_runs.find(bench.site.state, past.id).state == "done"


def test_a_run_that_was_dismissed_is_never_taken_up_and_keeps_its_history(bench):
    bench.fails(SECOND_FAILS)
    past = past_runs.unfinished(bench.site.state)[0]
    journals.dismiss(bench.site.state, past, NOW, "the cluster is gone")
    assert past_runs.unfinished(bench.site.state) == []
    (dismissed,) = past_runs.history(bench.site.state)
    assert dismissed.state == "dismissed" and dismissed.detail.endswith("the cluster is gone")


@pytest.mark.parametrize("removed", [0, 1, 2, 3])
def test_a_dismissed_run_stays_so_wherever_its_being_forgotten_is_cut_off(bench, monkeypatch, removed):
    bench.fails(SECOND_FAILS)
    past = past_runs.unfinished(bench.site.state)[0]
    journals.dismiss(bench.site.state, past, NOW, "the cluster is gone")
    (bench.site.state / "runs" / f"{past.id}.approval-1").write_text("{}")
    left = [removed]

    def cut(path):
        if not left[0]:
            raise Interrupted(15)
        left[0] -= 1
        files.remove(path)

    monkeypatch.setattr(history, "remove", cut)
    with suppress(Interrupted):
        history.forget(bench.site.state, [past])
    assert past_runs.unfinished(bench.site.state) == []
    assert [one.id for one in past_runs.history(bench.site.state)] == ([past.id] if removed < 2 else [])


@pytest.mark.parametrize("when", ["x", "2026-11-21T02:15:00", 7])
def test_a_dismissal_with_a_broken_time_is_one_all_the_same(bench, when):
    bench.fails(SECOND_FAILS)
    past = past_runs.unfinished(bench.site.state)[0]
    journals.dismiss(bench.site.state, past, NOW, "so")
    path = next((bench.site.state / "runs").glob("*.dismissed"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "time": when}))
    (dismissed,) = past_runs.history(bench.site.state)
    assert (dismissed.state, dismissed.at) == ("dismissed", past.at)


def test_a_run_that_works_again_has_not_ended(bench):
    bench.fails(SECOND_FAILS)
    (past,) = past_runs.history(bench.site.state)
    assert past.at
    journals.reopen(bench.site.state, past, NOW, {}).close()
    (past,) = past_runs.history(bench.site.state)
    assert (past.ended, past.at) == (None, "")


def test_a_journal_says_who_began_the_run_with_which_version(bench):
    bench.run(TWO)
    (past,) = past_runs.history(bench.site.state)
    assert past.actor == actor() and "@" in past.actor
    assert (past.version, past.format) == (maint.__version__, journals.FORMAT)


def test_a_run_of_the_first_format_is_read_and_refused_with_the_version_that_began_it(bench):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    old = [json.loads(line) for line in path.read_text().splitlines()]
    for line in old:
        for key in ("sum", "format", "version", "actor"):
            line.pop(key, None)
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    past = past_runs.unfinished(bench.site.state)[0]
    assert past.state == "failed" and past.record(0).settled
    error = bench.fails(past.plan, past=past)
    assert isinstance(error, Refused) and "begun by maint 0.1.0" in error.message


def test_a_line_that_was_written_in_part_is_taken_back_before_another_is_written(bench, monkeypatch):
    journal = journals.start(bench.site.state, bench.plan(TWO), NOW, {})
    (bench.site.state / "runs" / f"{journal.id}.room").unlink()

    def short(handle, content, real=os.write):
        if bytes(content).startswith(b'{"what": "intent"'):
            return real(handle, bytes(content)[:20])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", short)
        with pytest.raises(WorkFailed, match="No space left"):
            journal.write("intent", index=0, time="2026-01-15T03:00:00.000Z")
    journal.write("intent", index=1, time="2026-01-15T03:00:00.000Z")
    past = past_runs.find(bench.site.state, journal.id)
    assert (past.damage, past.record(0).begun, past.record(1).begun) == ("", False, True)


def test_a_full_disk_takes_the_room_that_was_kept_back(bench, monkeypatch):
    journal = journals.start(bench.site.state, bench.plan(TWO), NOW, {})
    room = bench.site.state / "runs" / f"{journal.id}.room"
    assert room.stat().st_blocks > 0

    def full(handle, content, real=os.write):
        if room.exists():
            raise OSError(28, "No space left on device")
        return real(handle, content)

    monkeypatch.setattr(os, "write", full)
    journal.write("intent", index=0, time="2026-01-15T03:00:00.000Z")
    assert not room.exists()
    assert past_runs.find(bench.site.state, journal.id).record(0).begun


def test_a_run_that_is_taken_up_keeps_room_back_again(bench):
    bench.fails(SECOND_FAILS)
    (past,) = past_runs.unfinished(bench.site.state)
    room = bench.site.state / "runs" / f"{past.id}.room"
    assert not room.exists()
    journal = journals.reopen(bench.site.state, past, NOW, {})
    assert room.stat().st_blocks > 0
    journal.close()
    assert not room.exists()


def test_a_run_whose_final_step_alone_could_not_be_written_down_says_so(bench, monkeypatch):
    def full(handle, content, real=os.write):
        if b'"index": 2' in bytes(content):
            raise OSError(28, "No space left on device")
        return real(handle, content)

    monkeypatch.setattr(os, "write", full)
    error = bench.fails(TWO + "finally:\n  - {name: C, do: try.change, with: {target: closed}}\n")
    assert isinstance(error, WorkFailed) and "No space left" in error.message
    assert bench.did[-1] == "closed"


def test_a_run_that_could_not_be_begun_is_not_to_be_resumed(bench, monkeypatch):
    def full(handle, content, real=os.write):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(WorkFailed, match="No space left") as failure:
        journals.start(bench.site.state, bench.plan(TWO), NOW, {})
    assert "run it again" in failure.value.hint


def test_final_steps_are_done_on_a_full_disk_and_the_run_says_so(bench, monkeypatch):
    def full(handle, content, real=os.write):
        if b'"what": "run"' in bytes(content) or not bytes(content).startswith(b"{"):
            return real(handle, content)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    error = bench.fails(TWO + "finally:\n  - {name: C, do: try.change, with: {target: closed}}\n")
    assert isinstance(error, WorkFailed) and "No space left" in error.message
    assert bench.did == ["closed"]


def written(line):
    whole = json.dumps(line).encode()
    return whole[:-1] + f', "sum": "{zlib.crc32(whole):08x}"}}\n'.encode()


@pytest.mark.parametrize(
    ("line", "damaged"),
    [
        ({"what": "answers", "lane": "x", "values": [1]}, True),
        ({"what": "intent", "index": 99}, True),
        ({"what": "note", "index": 0, "key": "k"}, True),
        ({"what": "note", "index": 0, "key": "until", "value": "soon"}, True),
        ({"what": "note", "index": 0, "key": "until", "value": "2026-01-15T03:00:00"}, True),
        ({"what": "outcome", "index": 0, "outcome": "odd", "detail": "", "value": None, "partly": False}, True),
        ({"what": "resumed", "time": "soon"}, True),
        ({"what": "intent", "index": 0, "time": "2026-01-15T03:00:00"}, True),
        ([1], True),
        ({"what": "of a later version", "index": 0}, False),
    ],
)
def test_a_line_that_makes_no_sense_is_damage_however_well_it_was_written(bench, line, damaged):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    path.write_bytes(path.read_bytes() + written(line))
    assert bool(journals.read(path).damage) is damaged


def test_a_line_without_the_check_value_that_the_others_have_is_damage(bench):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    path.write_bytes(
        path.read_bytes() + b'{"what": "outcome", "index": 1, "outcome": "done", "detail": "", "value": null}\n'
    )
    past = journals.read(path)
    assert (past.state, past.record(1).settled) == ("damaged", False)


@pytest.mark.parametrize(
    "change",
    [{"plan": []}, {"options": 1}, {"what": "note"}, {"format": "x"}, {"id": "another"}, {"time": "2026-02-30"}],
)
def test_a_first_line_that_makes_no_sense_is_no_run_and_asking_for_it_says_why(bench, change):
    bench.run(TWO)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    first, rest = path.read_bytes().split(b"\n", 1)
    head = {key: value for key, value in json.loads(first).items() if key != "sum"}
    path.write_bytes(written(head | change) + rest)
    assert (past_runs.history(bench.site.state), past_runs.unreadable(bench.site.state)) == ([], [path])
    with pytest.raises(Refused, match="damaged in its first line"):
        past_runs.find(bench.site.state, path.stem)


def test_a_run_that_a_later_version_began_is_told_as_that_and_its_journal_is_not_to_be_moved_away(bench):
    bench.run(TWO)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    first, rest = path.read_bytes().split(b"\n", 1)
    head = {key: value for key, value in json.loads(first).items() if key not in ("sum", "plan")}
    later = json.dumps(head | {"format": 99, "version": "9.1.0", "seal": "x"}).encode()
    path.write_bytes(later + b"\n" + rest)
    assert (past_runs.history(bench.site.state), past_runs.unreadable(bench.site.state)) == ([], [path])
    with pytest.raises(Refused, match=r"is of maint 9\.1\.0: this version cannot read") as refused:
        past_runs.find(bench.site.state, path.stem)
    assert "the file stays where it is" in str(refused.value.hint)
    assert "move the file away" not in str(refused.value.hint)


def test_a_journal_that_leads_nowhere_is_told_and_no_bug(bench):
    path = bench.site.state / "runs/20261122T000000.000Z-abcd.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("nowhere")
    with pytest.raises(Refused, match="what that run did is not known"):
        past_runs.find(bench.site.state, path.stem)


@pytest.mark.parametrize("number", [0, 2])
def test_a_line_that_is_nested_too_deep_is_damage(bench, number):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").glob("*.jsonl"))
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([*lines[:number], b'{"what": ' + b"[" * 100_000, *lines[number:]]))
    if number:
        assert past_runs.unfinished(bench.site.state)[0].state == "damaged"
    else:
        assert past_runs.unreadable(bench.site.state) == [path]


def test_a_journal_that_is_not_ours_to_read_is_told_with_a_way_out_by_whoever_must_know_it(bench):
    bench.run(TWO)
    path = bench.site.state / "runs" / "20260101T000000.000Z-0000.jsonl"
    # Neither can be read, whoever asks: by what the system says, the disk is broken, or that is not said.
    for place, way in (("/proc/self/mem", "look at that disk"), ("/proc/self/clear_refs", "the account that owns")):
        path.unlink(missing_ok=True)
        path.symlink_to(place)
        assert len(past_runs.history(bench.site.state)) == 1
        with pytest.raises(Invalid) as caught:
            past_runs.unreadable(bench.site.state)
        assert way in (caught.value.hint or "")


def test_what_is_left_of_a_run_is_told_and_a_key_finds_its_newest_run(bench):
    bench.fails(SECOND_FAILS)
    past = past_runs.unfinished(bench.site.state)[0]
    assert [(action.name, state) for action, state in actions_left(past)] == [("B", "failed")]
    journal = journals.start(bench.site.state, bench.plan(TWO), NOW, {"run_key": "night"})
    journal.close()
    assert past_runs.of_key(bench.site.state, "night").id == journal.id
    assert [state for _, state in actions_left(past_runs.of_key(bench.site.state, "night"))] == ["not begun"] * 2
    assert past_runs.of_key(bench.site.state, "day") is None


def test_a_disk_that_takes_nothing_begins_no_run_and_takes_no_dismissal(bench, monkeypatch):
    bench.fails(SECOND_FAILS)
    past = past_runs.unfinished(bench.site.state)[0]

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkFailed, match="No space left"):
        journals.start(bench.site.state, bench.plan(TWO), NOW, {})
    with pytest.raises(WorkFailed, match="No space left"):
        journals.dismiss(bench.site.state, past, NOW, "so")
    assert [path.stem for path in (bench.site.state / "runs").iterdir()] == [past.id]


def test_a_run_whose_journal_cannot_be_opened_for_writing_is_not_gone_on_with(bench, monkeypatch):
    bench.fails(SECOND_FAILS)
    past, did = past_runs.unfinished(bench.site.state)[0], bench.did

    def read_only(path, flags, *more, real=os.open, **named):
        if str(path).endswith(".jsonl") and flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(30, "Read-only file system")
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", read_only)
    error = bench.fails(past.plan, past=past)
    assert (isinstance(error, WorkFailed), "Read-only file system" in error.message, bench.did) == (True, True, did)
    assert "`maint playbook resume`" in error.hint


def test_a_torn_line_that_a_disk_does_not_let_go_of_is_told_and_no_bug(bench, monkeypatch):
    bench.fails(SECOND_FAILS)
    path = next((bench.site.state / "runs").iterdir())
    path.write_bytes(path.read_bytes()[:-5])
    past = past_runs.unfinished(bench.site.state)[0]

    def truncate(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "truncate", truncate)
    failure = bench.fails(past.plan, past=past)
    assert isinstance(failure, WorkFailed) and "Read-only" in failure.message
    assert failure.hint == f"look at the disk of the state folder: {WRITABLE}, then `maint playbook resume`"


def test_a_torn_line_that_cannot_be_taken_back_ends_the_journal(bench, monkeypatch):
    journal = journals.start(bench.site.state, bench.plan(TWO), NOW, {})
    (bench.site.state / "runs" / f"{journal.id}.room").unlink()

    def refuse(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        patched.setattr(os, "ftruncate", refuse)
        with pytest.raises(WorkFailed, match="Input/output"):
            journal.write("intent", index=0, time="2026-01-15T03:00:00.000Z")
    with pytest.raises(WorkFailed, match="could not be taken back"):
        journal.write("intent", index=1, time="2026-01-15T03:00:00.000Z")
