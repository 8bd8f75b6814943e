"""kill -9 at every boundary, then `maint playbook resume`: the end is that of an undisturbed run.

The process is killed when its journal reaches its n-th line. By default a few of these points are tried; all of
them, and some random instants, with MAINT_CAMPAIGN=all in the environment.
"""

import os
import random
import signal
import time

import pytest

from maint.lab.create import SITE

CAMPAIGN = bool(os.environ.get("MAINT_CAMPAIGN"))
RECOVERY = ("restore", "run", "--confirm", SITE, "--manager-only")
EXPORT = ("backup", "create", "--open-window", "--yes")
RECOVERY_LINES, EXPORT_LINES = 36, 13  # more than an undisturbed run writes; later points end before they strike
SOON, LATE = ([random.Random(seed).uniform(0.4, until) for seed in range(12)] for until in (1.6, 2.0))  # seconds


def sample(every, few):
    """The points to try: all of them in a campaign, else a few."""
    return list(every) if CAMPAIGN else few


def runs(operator):
    """The journals there are."""
    return set((operator.state / "runs").glob("*.jsonl"))


def kill_at(operator, process, point):
    """Kill a command once its journal has so many lines, or after so many seconds; return whether it was at work."""
    if isinstance(point, float):
        time.sleep(point)
        return kill(process)
    journal = None
    while process.poll() is None:
        journal = journal or next(iter(runs(operator) - operator.known), None)
        if journal is not None and journal.read_bytes().count(b"\n") >= point:
            break
        time.sleep(0.0005 if journal else 0.002)
    return kill(process)


def kill(process):
    """Kill a command; return whether it was still at work."""
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL


def start(operator, *words):
    """Start a command after which only its own requests and journal count."""
    operator.forget_requests()
    operator.known = runs(operator)
    return operator.fork(*words)


def begun(operator):
    """Whether the command came as far as a whole first line of its journal."""
    return any(path.read_bytes().count(b"\n") for path in runs(operator) - operator.known)


def finish(operator, words):
    """Resume until the run is done: once, or from the start where it had not begun."""
    said = operator("playbook", "resume") if begun(operator) else operator(*words)
    assert said.code == 0, said.err
    runs_ = operator("playbook", "history", "-o", "json").json["runs"]
    assert runs_[-1]["state"] == "done"


def repeated(operator):
    """Requests that change something and were sent more than once."""
    return sorted({line for line in operator.sent if operator.sent.count(line) > 1})


def world(operator):
    """What the lab's manager holds, but for what differs between any two runs."""
    with operator.lab.world.lock:
        held = operator.lab.world
        return held.deployment, held.tls, held.license


def nothing_left_open(operator, options):
    assert operator.options.read_bytes() == options
    assert (operator.window, operator.kept) == (False, [])


@pytest.fixture(scope="module")
def undisturbed(backed_up, tmp_path_factory):
    """What a recovery leaves that nobody disturbs."""
    from maint.lab.running import Lab
    from tests.steps.conftest import copy
    from tests.steps.operator import Operator

    folder = copy(backed_up, tmp_path_factory.mktemp("undisturbed") / "lab")
    with Lab(folder) as lab:
        lab.lose_database()
        operator = Operator(lab)
        assert operator(*RECOVERY).code == 0
        return world(operator), operator.options.read_bytes()


def same_as(undisturbed, operator):
    expected, options = undisturbed
    assert world(operator) == expected
    nothing_left_open(operator, options)


@pytest.mark.parametrize("point", sample([*range(1, RECOVERY_LINES), *LATE], [6, 14]))
def test_a_recovery_killed_at_any_boundary_or_instant_ends_as_if_undisturbed(lost, undisturbed, point):
    killed = kill_at(lost, start(lost, *RECOVERY), point)
    if killed:
        finish(lost, RECOVERY)
    same_as(undisturbed, lost)
    assert [line for line in repeated(lost) if not line.startswith("PUT")] == []
    assert committed(lost) <= 1


def committed(operator):
    """How many deployments the manager answered with 200 since."""
    return sum(line["method"] == "PUT" and line["status"] == 200 for line in operator.asked)


@pytest.mark.parametrize("point", sample([*range(1, EXPORT_LINES), *SOON], [4, 9]))
def test_an_export_killed_at_any_boundary_or_instant_leaves_no_window_open(loaded, point):
    options = loaded.options.read_bytes()
    killed = kill_at(loaded, start(loaded, *EXPORT), point)
    if killed:
        finish(loaded, EXPORT)
    nothing_left_open(loaded, options)
    assert loaded("site", "status", "-o", "json").json["redaction"] == "on"
    found = loaded("backup", "list", "-o", "json").json["snapshots"]
    assert [snapshot["restorable"] for snapshot in found] == [True, True]


def test_a_recovery_killed_again_and_again_still_ends(lost, undisturbed):
    killed = kill_at(lost, start(lost, *RECOVERY), 4)
    journal = next(iter(runs(lost) - lost.known))
    for lines in (9, 24):
        if killed:
            process = lost.fork("playbook", "resume")
            lost.known = runs(lost) - {journal}
            killed = kill_at(lost, process, lines)
    if killed:
        finish(lost, RECOVERY)
    same_as(undisturbed, lost)
    assert committed(lost) == 1
