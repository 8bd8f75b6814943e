"""Each step kind keeps to its own guards, whatever playbook it stands in."""

import json

import pytest

from tests.steps.ecs.hosts import ONE, TWO, did, trees


def play(operator, kind, *words):
    path = operator.lab.folder / "mine.yaml"
    step = {"name": "Alone", "do": kind, "with": {"cluster": "ecs-01"}}
    path.write_text(json.dumps({"name": "mine", "summary": "Mine.", "parameters": {}, "steps": [step]}))
    return operator("playbook", "run", str(path), "--yes", "--confirm", "ecs-01", *words)


@pytest.mark.parametrize("kind", ["ecs.clean", "ecs.firewall", "ecs.reboot"])
def test_hosts_of_a_cluster_that_runs_are_left_alone(loaded, kind):
    before = trees(loaded)
    said = play(loaded, kind)
    assert said.code in (1, 5), said.err
    assert "cluster ecs-01 is not at rest, so its hosts are left alone" in said.err
    assert (trees(loaded), loaded.sent) == (before, [])


def test_what_is_left_of_a_cluster_is_named(loaded):
    said = play(loaded, "ecs.verify")
    assert said.code == 1, said.err
    for words in (
        "the manager lists ecs-01",
        f"{ONE}: /run/k3s",
        f"{TWO}: /mnt/docker is not empty",
        "registry (registry:2)",
    ):
        assert words in said.err
    assert did(loaded, ONE) == []


def test_a_base_cluster_is_not_taken_for_an_ecs_one(loaded):
    said = loaded("playbook", "run", "retire-ecs-cluster", "--set", "cluster=base", "--confirm", "base")
    assert said.code == 5, said.err
    assert "cluster base is not an ECS cluster (BASE_CLUSTER, CDH7)" in said.err
