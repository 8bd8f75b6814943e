"""A backup whose machine dies while its redaction window is open ends on another machine that shares the state."""

import errno
import json
import os
import signal
import time
from pathlib import Path

import pytest

from maint.adapters import clock
from maint.adapters.seal import AgeSeal
from maint.engine.run import Runner
from maint.model import java_options
from maint.steps import guards
from maint.steps.snapshots import snapshot
from tests.steps.test_window import journals, redacts, stopped_in_the_window
from tests.steps.test_window_elsewhere import Elsewhere


def share(operator, *, key: bool = True) -> None:
    """Let machines share their state, and the key to seal unfinished runs in it."""
    folder = operator.lab.folder
    (folder / "shared-key").write_text(AgeSeal().new_identity()[0].reveal())
    (folder / "shared-key").chmod(0o600)
    config = folder / "config.yaml"
    own = "    shared_state: shared\n" + "    shared_state_key: file:shared-key\n" * key + "    backup:\n"
    config.write_text(config.read_text().replace("    backup:\n", own))


@pytest.fixture
def died(loaded):
    """An operator on a machine that died in the window, another machine, and the options file as it was before."""
    folder, before = loaded.lab.folder, loaded.options.read_bytes()
    share(loaded)
    known = journals(loaded)
    process = stopped_in_the_window(loaded)
    for _ in range(200):  # until all that its journal says has gone along
        (journal,) = journals(loaded) - known
        sent = [path.stat().st_mtime_ns for path in (folder / "shared").rglob(f"{journal.stem}/*")]
        if b'"key": "snapshot"' in journal.read_bytes() and max(sent, default=0) >= journal.stat().st_mtime_ns:
            break
        time.sleep(0.02)
    process.kill()
    process.communicate()
    assert loaded.window
    loaded.lab.switch("get-seconds", "0")
    return loaded, Elsewhere(loaded), before


def pass_by(operator, seconds: int) -> None:
    """Let so many seconds pass for the lease: a folder tells them by the times of its files."""
    lapse(operator.lab.folder / "shared", seconds)


def lapse(shared: Path, seconds: int) -> None:
    """Let so many seconds pass for the lease in a shared folder."""
    for row in shared.rglob("lease/0*"):
        then = row.stat().st_mtime - seconds
        os.utime(row, (then, then))


def test_another_machine_waits_for_the_lease_with_all_that_changes_the_store_then_resumes_the_run_and_closes_its_window(
    died,
):
    here, there, before = died
    stored = sorted((here.lab.folder / "backups").rglob("*"))
    (newest,) = (one["id"] for one in there("backup", "list", "-o", "json").json["snapshots"])
    for words in (
        ("verify", newest),
        ("drill", newest),
        ("heal", newest, "--from", newest),
        ("list", "--rebuild"),
        ("create", "--yes"),
    ):
        said = there("backup", *words)
        assert (said.code, "another machine works on site" in said.err) == (6, True), (words, said.err)
    assert sorted((here.lab.folder / "backups").rglob("*")) == stored
    said = there("host", "trust", "--yes")  # which changes this machine alone
    assert said.code == 0, said.err
    refused = there("playbook", "resume")
    assert (refused.code, "lapses in" in refused.err) == (6, True)
    pass_by(here, 400)
    said = there("playbook", "resume")
    assert said.code == 0, said.err
    assert "taking over the lease of" in said.err
    assert (here.options.read_bytes(), redacts(here)) == (before, True)
    assert there.window() == [("ok", "closed")]
    again = here("playbook", "resume")
    assert "was brought to its end by another machine" in again.err
    assert not here.window
    (path,) = (here.lab.folder / "another-state").glob("*/runs/*.jsonl")
    noted = [line for line in map(json.loads, path.read_text().splitlines()) if line.get("key") == "snapshot"]
    assert len(noted) == 2, "which snapshot was being taken is known there: one of each machine"
    assert there("backup", "verify", newest).code == 0
    rows = sorted((here.lab.folder / "shared").rglob("lease/0*"))
    assert '"token":""' in rows[-1].read_text()


def test_a_window_closes_though_the_disk_is_too_full_to_tell_other_machines(loaded, monkeypatch):
    share(loaded)
    before, close, write, full = loaded.options.read_bytes(), Runner._carry_out, os.write, []

    def closing(runner, index, action):
        if action.kind == "window.close":
            full.append(str(loaded.state))
        return close(runner, index, action)

    def filled(handle, content):
        if full and str(Path(f"/proc/self/fd/{handle}").readlink()).startswith(full[0]):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, content)

    monkeypatch.setattr(Runner, "_carry_out", closing)
    monkeypatch.setattr(os, "write", filled)
    said = loaded("backup", "create", "--open-window", "--yes")
    assert (said.code, "No space left on device" in said.err) == (1, True), said.err
    assert (loaded.options.read_bytes(), redacts(loaded), loaded.window) == (before, True, False)


def test_the_next_run_of_another_machine_closes_the_window_too(died):
    here, there, before = died
    pass_by(here, 400)
    said = there("backup", "create", "--yes")
    assert said.code in (0, 7), said.err
    assert "left open" in said.err
    assert (here.options.read_bytes(), redacts(here)) == (before, True)


GUARDED = ("cluster", "delete", "ecs-01", "--api-only", "--confirm", "ecs-01", "--open-window")
EXPORT = ("backup", "create", "--open-window", "--yes")


@pytest.mark.parametrize(
    ("words", "place", "key"),
    [(GUARDED, guards, True), (EXPORT, snapshot, True), (EXPORT, snapshot, False)],
    ids=["of a guard", "of an export", "of an export, without a key"],
)
def test_a_machine_that_slept_in_its_window_leaves_that_of_the_one_that_took_over(
    loaded, monkeypatch, words, place, key
):
    share(loaded, key=key)
    there, before, others = Elsewhere(loaded), loaded.options.read_bytes(), []

    def sleeping(*_, **__):
        yield "falling asleep"
        pass_by(loaded, 400)
        others.append(stopped_in_the_window(there, "1"))
        others[0].send_signal(signal.SIGSTOP)  # until it was looked at
        monkeypatch.setattr(clock, "uptime", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) + 400)
        signal.raise_signal(signal.SIGALRM)  # as the timer of that clock does when the machine wakes

    monkeypatch.setattr(place, "taken_once", sleeping)
    said = loaded(*words)
    (other,) = others
    try:
        assert (said.code, "not renewed for" in said.err) == (1, True), said.err
        assert (java_options.LINE.encode() in loaded.options.read_bytes(), redacts(loaded)) == (True, False)
        assert not loaded.window
    finally:
        other.send_signal(signal.SIGCONT)
        _, err = other.communicate()
    assert other.returncode == 0, err
    assert (loaded.options.read_bytes(), redacts(loaded)) == (before, True)
    assert [one["restorable"] for one in there("backup", "list", "-o", "json").json["snapshots"]] == [True, True]


ASKING = """name: x
summary: X.
steps:
  - {name: Take, do: snapshot.take}
  - {name: Ask, do: approve, with: {question: go on}}
"""


def test_a_run_that_waits_is_approved_on_another_machine_and_goes_on_here(loaded, tmp_path):
    share(loaded)
    (tmp_path / "own.yaml").write_text(ASKING)
    run = loaded.run_of(loaded("playbook", "run", str(tmp_path / "own.yaml")))["id"]
    said = Elsewhere(loaded, trusted=False)("playbook", "approve", run)
    assert (said.code, "approved: go on" in said.err) == (0, True), said.err
    assert "approved by" in loaded("playbook", "resume", run).err
