"""A command typed again under its key goes on with its own run, and does nothing twice."""

import os
import signal
import time

import pytest

from maint.cli.open_site import opened
from maint.cli.options import Flags
from maint.engine import journal, past_runs
from maint.engine.session import RunSession
from maint.errors import Locked
from tests.steps.operator import Operator

STOP = ("cluster", "stop", "base", "--yes")
STOPPED = "POST /api/v45/clusters/base/commands/stop"
RUNBOOK = """
name: wait-a-while
summary: Say a word on a host.
parameters: {word: {type: string, default: one}}
steps:
  - name: A word is said
    do: host.run
    with: {hosts: [HOST], command: "echo {{ word }}"}
"""


def known(operator: Operator) -> list[journal.RunState]:
    """The runs but for the backup that the lab was laid out with."""
    return past_runs.history(operator.state)[1:]


def runs(operator: Operator) -> list[str]:
    """The states of these runs."""
    return [past.state for past in known(operator)]


def test_a_killed_command_goes_on_under_its_key_and_is_then_done_already(make):
    operator = make(command_seconds="1.5")
    process = operator.fork(*STOP, "--run-key", "night/7/stop/-1", "--allow-plain")
    while not operator.lab.counts().get(STOPPED) and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert runs(operator) == ["unfinished"]

    shown = operator(*STOP, "--run-key", "night/7/stop/-1", "--dry-run", "-o", "json")
    assert [one["name"] for one in shown.json["left"]][-1] == "Stop the cluster"
    assert runs(operator) == ["unfinished"]

    again = operator("--run-key", "night/7/stop/-1", *STOP)  # the key may stand before the noun
    assert (again.code, "taking up run" in again.err) == (0, True), again.err
    assert runs(operator) == ["done"]

    third = operator(*STOP, "--run-key", "night/7/stop/-1", "-o", "json")
    assert (third.code, third.json["done_already"]) == (0, True)
    assert third.json["actions"][-1]["name"] == "Stop the cluster"
    assert (runs(operator), operator.lab.counts()[STOPPED]) == (["done"], 1)

    for other in (("cluster", "start", "base"), ("cluster", "stop", "base", "--max-age", "90h")):
        said = operator(*other, "--yes", "--run-key", "night/7/stop/-1")
        assert (said.code, "belongs to another command" in said.err) == (5, True)
    assert operator(*STOP, "--run-key", "").code == 2
    assert operator(*STOP, "--run-key", "night/8/stop/-1").code == 0  # another night, another run
    assert runs(operator) == ["done", "done"]


def test_a_command_whose_run_was_given_up_begins_anew_under_its_key(loaded):
    key = ("--run-key", "k")
    assert loaded(*STOP, *key).code == 0
    [past] = known(loaded)
    path = loaded.state / "runs" / f"{past.id}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))  # as a kill before the last line leaves it
    assert runs(loaded) == ["unfinished"]
    assert loaded("playbook", "dismiss", past.id, "--reason", "begun by mistake").code == 0
    assert loaded(*STOP, *key).code == 0
    assert runs(loaded) == ["dismissed", "done"]


def test_a_run_of_which_nothing_is_known_is_not_done_again_under_a_key(loaded):
    assert loaded(*STOP, "--run-key", "k").code == 0
    [past] = known(loaded)
    path = loaded.state / "runs" / f"{past.id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"what": "run"', b'"what": "rum"', 1))
    loaded.forget_requests()
    said = loaded(*STOP, "--run-key", "k")
    assert (said.code, "what that run did is not known" in said.err, loaded.sent) == (5, True, [])
    path.unlink()
    assert loaded(*STOP, "--run-key", "k").code == 0


def test_a_runbook_that_was_edited_is_another_one(loaded, tmp_path):
    path = tmp_path / "own.yaml"
    text = RUNBOOK.replace("HOST", loaded.lab.manager_host)
    path.write_text(text)
    run = ("playbook", "run", str(path), "--yes", "--run-key", "k")
    assert loaded(*run).code == 0
    assert "done already" in loaded(*run).err
    assert loaded(*run, "--set", "word=two").code == 5
    path.write_text(text.replace("default: one", "default: three"))
    assert loaded(*run).code == 5


def test_a_playbook_that_is_included_and_was_edited_is_another_command(loaded):
    outer, inner = loaded.lab.folder / "outer.yaml", loaded.lab.folder / "inner.yaml"
    inner.write_text(RUNBOOK.replace("HOST", loaded.lab.manager_host))
    outer.write_text("name: outer\nsummary: O.\nsteps:\n  - {name: All of it, playbook: inner.yaml}\n")
    run = ("playbook", "run", str(outer), "--yes", "--run-key", "k")
    assert loaded(*run).code == 0
    assert "done already" in loaded(*run).err
    inner.write_text(inner.read_text().replace("default: one", "default: three"))
    assert loaded(*run).code == 5


def test_what_another_process_began_under_the_key_meanwhile_is_not_begun_again(loaded):
    assert loaded(*STOP, "--run-key", "k").code == 0
    [past] = known(loaded)

    with opened(Flags(config=loaded.config)) as (site, _), pytest.raises(Locked, match=past.id):
        list(RunSession(site, past.plan, dict(past.options)).events())
    assert runs(loaded) == ["done"]
