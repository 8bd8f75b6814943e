"""kill -9 in a guarded run, then `maint playbook resume`: nothing is kept twice, nothing proven less, no window open.

A few points by default; all of them with MAINT_CAMPAIGN=all in the environment.
"""

from collections import Counter

import pytest

from maint.lab.running import Lab
from tests.steps.conftest import copy
from tests.steps.guards.test_clusters import snapshots
from tests.steps.operator import Operator
from tests.steps.test_kills import committed, finish, kill_at, repeated, sample, start

DELETE = ("cluster", "delete", "ecs-01", "--api-only", "--confirm", "ecs-01", "--open-window")
ADD = ("restore", "run", "--cluster", "ecs-01", "--yes", "--open-window")
DELETE_LINES, ADD_LINES = 15, 20  # more than an undisturbed run writes


def safety(operator):
    """Whether each safety copy is restorable."""
    return [item["restorable"] for item in snapshots(operator) if item["purpose"] == "safety"]


@pytest.mark.parametrize("lines", sample(range(1, DELETE_LINES), (7, 9)))
def test_a_delete_killed_at_any_boundary_ends_as_if_undisturbed(loaded, lines):
    options = loaded.options.read_bytes()
    kill_at(loaded, start(loaded, *DELETE), lines)
    finish(loaded, DELETE)
    assert safety(loaded) == [True]
    assert (loaded.options.read_bytes(), loaded.window) == (options, False)
    assert [name for name in Counter(loaded.sent) if name.startswith("DELETE")] == ["DELETE /api/v45/clusters/ecs-01"]
    assert repeated(loaded) == []


@pytest.fixture(scope="module")
def deleted(backed_up, tmp_path_factory):
    """The folder of a lab, now down, whose ECS cluster was deleted."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("deleted") / "lab")) as lab:
        assert Operator(lab)(*DELETE[:-1]).code == 0
    return lab.folder


@pytest.mark.parametrize("lines", sample(range(1, ADD_LINES), (5, 11)))
def test_a_cluster_on_its_way_back_comes_back_once(make, deleted, lines):
    loaded = make(template=deleted)
    options = loaded.options.read_bytes()
    kill_at(loaded, start(loaded, *ADD), lines)
    finish(loaded, ADD)
    clusters = loaded("cluster", "list", "-o", "json").json["clusters"]
    assert sorted(cluster["name"] for cluster in clusters) == ["base", "ecs-01"]
    assert safety(loaded) == [False, True]
    assert (loaded.options.read_bytes(), loaded.window) == (options, False)
    # A body that was cut off by the kill is sent again; what arrived whole is not.
    assert [line for line in repeated(loaded) if not line.startswith("PUT")] == []
    assert committed(loaded) == 1
