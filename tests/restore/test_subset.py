"""Clusters that the manager lacks come back from a full snapshot, and nothing that is there is touched."""

import copy
from pathlib import Path
from typing import Any

import pytest

from maint.deployment.document import parse
from maint.errors import Refused
from maint.lab.running import Lab
from maint.model.manager import Cluster, Host
from maint.restore.payload import Choice, choice_of, part_of
from tests.restore.documents import all_roles, plain, recording
from tests.steps.conftest import MakeLab, back_up
from tests.steps.conftest import copy as copy_of
from tests.steps.operator import Operator, Said

ADD = "PUT /api/v49/cm/deployment?deleteCurrentDeployment=false"
DS_2 = "ds-02.example.internal"


@pytest.fixture(scope="module")
def without(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a lab, now down, from which a cluster was deleted."""
    with Lab(copy_of(backed_up, tmp_path_factory.mktemp("without") / "lab")) as lab:
        delete(Operator(lab))
    return lab.folder


@pytest.fixture
def bereft(make: MakeLab, without: Path) -> Operator:
    """An operator at a manager from which a cluster was deleted."""
    operator = make(template=without)
    operator.forget_requests()
    return operator


def delete(operator: Operator) -> None:
    said = operator("cluster", "delete", "ecs-01", "--api-only", "--confirm", "ecs-01")
    assert said.code == 0, said.err
    operator.forget_requests()


def bring_back(operator: Operator, *words: str) -> Said:
    return operator("restore", "run", "--cluster", "ecs-01", "--yes", *words)


def clusters(operator: Operator) -> dict[str, list[str]]:
    found = operator("cluster", "list", "-o", "json").json["clusters"]
    return {cluster["name"]: cluster["states"] for cluster in found}


def world(operator: Operator) -> dict[str, Any]:
    deployment: dict[str, Any] = operator.lab.world.deployment
    return deployment


def test_it_comes_back_on_a_fresh_server_too(lost):
    assert lost("manager", "license", str(lost.lab.folder / "license.txt"), "--yes").code == 0
    lost.forget_requests()
    said = bring_back(lost, "--allow-plain")
    assert said.code == 0, said.err
    assert lost.sent == [ADD]


def test_it_is_a_change_that_asks_and_no_destruction_also_by_its_display_name_and_without_a_safety_net(bereft):
    words = ("restore", "run", "--cluster", "Data Services ECS", "--no-safety-net", "it is a lab")
    assert bereft(*words, given="no\n").code == 5
    assert bereft.sent == []
    said = bereft(*words, given="yes\n")
    assert said.code == 0, said.err
    assert bereft.sent == [ADD]  # never with the flag that deletes the rest


def test_one_that_is_there_not_in_the_snapshot_or_has_a_taken_role_name_is_refused_and_comes_back_as_it_was_otherwise(
    loaded,
):
    said = bring_back(loaded)
    assert said.code == 5
    assert "the manager has a cluster 'ecs-01' already" in said.err
    said = loaded("restore", "run", "--cluster", "ecs-1", "--yes")
    assert said.code == 2
    assert "did you mean 'ecs-01'?" in said.err
    assert loaded.sent == []
    of_before = next(one for one in world(loaded)["clusters"] if one["name"] == "ecs-01")
    taken = of_before["services"][0]["roles"][0]["name"]
    delete(loaded)
    before = clusters(loaded)
    role = world(loaded)["clusters"][0]["services"][0]["roles"][0]
    with loaded.lab.world.lock:
        own, role["name"] = role["name"], taken
    said = bring_back(loaded)
    assert (said.code, loaded.sent) == (5, [])
    assert f"role {taken}" in said.err
    with loaded.lab.world.lock:
        role["name"] = own
    said = bring_back(loaded, "-o", "json")
    assert said.code == 0, said.err
    assert loaded.sent == [ADD]
    assert clusters(loaded) == {**before, "ecs-01": ["STOPPED"]}  # the others go on running
    assert said.json["actions"][-1]["kind"] == "deployment.compare"
    assert said.json["actions"][-1]["outcome"] == "done"
    after = next(one for one in world(loaded)["clusters"] if one["name"] == "ecs-01")
    assert after["services"] == of_before["services"]


def test_hosts_that_the_server_lacks_come_back_and_one_under_another_id_is_refused_with_the_way_round_that_works(
    bereft,
):
    with bereft.lab.world.lock:
        hosts = world(bereft)["hosts"] = [one for one in world(bereft)["hosts"] if one["hostname"] != DS_2]
        next(one for one in hosts if one["hostname"] == "ds-01.example.internal")["hostId"] = "another-id"
    said = bring_back(bereft)
    assert (said.code, bereft.sent) == (5, [])
    assert "--map-host ds-01.example.internal=another-id" in said.err
    said = bring_back(bereft, "--map-host", "ds-01.example.internal=another-id", "--open-window")
    assert said.code == 0, said.err
    assert [line for line in bereft.sent if line.startswith("PUT")] == [ADD]
    assert DS_2 in {host["hostname"] for host in world(bereft)["hosts"]}
    roles = all_roles({"clusters": [one for one in world(bereft)["clusters"] if one["name"] == "ecs-01"]})
    assert "another-id" in {role["hostRef"]["hostId"] for role in roles}


def test_hosts_without_a_role_what_was_made_of_it_and_who_was_limited_to_it_are_named_as_not_brought_back(loaded):
    mine, other = [{"clusterName": "ecs-01", "serviceName": "ecs"}], [{"clusterName": "base", "serviceName": "hdfs"}]
    with loaded.lab.world.lock:
        world(loaded)["hosts"].append(
            {"hostId": "idle", "hostname": "idle.example.internal", "ipAddress": "192.0.2.77"}
        )
        world(loaded)["dataContexts"] = {
            "items": [{"name": "lake-1", "services": mine}, {"name": "lake-2", "services": other}]
        }
        limited = next(one for one in world(loaded)["authRoles"] if one["name"] == "ROLE_OPERATOR")
        limited["clusters"] = [{"clusterName": "ecs-01"}]
    back_up(loaded)
    with loaded.lab.world.lock:  # as by somebody else
        templates = [one for one in world(loaded)["hostTemplates"]["items"] if "ecs-01" not in str(one["clusterRef"])]
        world(loaded)["hostTemplates"] = {"items": templates}
        world(loaded)["clusters"] = [one for one in world(loaded)["clusters"] if one["name"] != "ecs-01"]
        loaded.lab.world.changed()
    idle = "host idle.example.internal (without a role"
    assert idle not in loaded("restore", "plan", "--cluster", "ecs-01").out
    with loaded.lab.world.lock:
        world(loaded)["hosts"] = [one for one in world(loaded)["hosts"] if one["hostId"] != "idle"]
    said = loaded("restore", "plan", "--cluster", "ecs-01")
    words = "not brought back, make it anew in the manager: "
    assert f"{words}{idle}" in said.out, said.err
    assert "to which cluster a host without roles belongs" in said.out
    assert f"{words}data context lake-1" in said.out
    assert "lake-2" not in said.out
    assert f"{words}the limit of the user role Operator to cluster ecs-01" in said.out


def test_after_a_failure_the_run_is_taken_up_and_sends_once_more_and_a_lost_answer_is_replaced_by_a_look(bereft):
    bereft.lab.break_("restore", "put-fails")
    assert bring_back(bereft).code == 1
    bereft.lab.repair()
    bereft.lab.break_("restore", "put-answer-lost")
    said = bereft("playbook", "resume")
    assert said.code == 0, said.err
    assert bereft.sent == [ADD, ADD]
    purposes = [one["purpose"] for one in bereft("backup", "list", "-o", "json").json["snapshots"]]
    assert purposes == ["backup", "safety", "safety"]  # one for the delete, one for the restore


def test_the_part_holds_the_cluster_its_hosts_and_templates_and_nothing_else() -> None:
    document = parse(recording("example"))
    known = [Host(one["hostId"], one["hostname"], one["ipAddress"]) for one in document["hosts"][:4]]
    choice = choice_of(document, ["ecs-01"], [], known)
    part = part_of(document, choice)
    assert set(part) == {"clusters", "hosts", "hostTemplates"}
    assert [one["name"] for one in part["clusters"]] == ["ecs-01"]
    assert [one["hostname"] for one in part["hosts"]] == ["ds-02.example.internal"]
    assert {one["clusterRef"]["clusterName"] for one in part["hostTemplates"]["items"]} == {"ecs-01"}


@pytest.mark.parametrize("wanted", ["02", "03", "17", "21"])
def test_of_a_recording_with_one_cluster_the_part_is_all_of_it(wanted: str) -> None:
    document, before = parse(recording(wanted)), plain(recording(wanted))
    name = before["clusters"][0]["name"]
    choice = choice_of(document, [name], [], [])
    assert choice.clusters == (name,)
    assert part_of(document, choice)["clusters"] == before["clusters"]
    assert set(choice.hosts) == {role["hostRef"]["hostId"] for role in all_roles({"clusters": before["clusters"]})}


def test_a_display_name_that_is_taken_is_refused() -> None:
    document = parse(recording("example"))
    taken = Cluster("other", "Data Services ECS", "EXPERIENCE_CLUSTER", "EXPERIENCE1")
    with pytest.raises(Refused, match="Data Services ECS"):
        choice_of(copy.deepcopy(document), ["ecs-01"], [taken], [])


def test_what_was_chosen_can_be_written_down() -> None:
    from maint.restore.payload import Edit

    edit = Edit((), Choice(("a",), ("h-1", "h-2")), ("clusters/a",), ("data context d",))
    assert Edit.from_json(edit.to_json()) == edit
