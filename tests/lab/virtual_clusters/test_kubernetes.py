"""The API server of Kubernetes stops with the ECS cluster that it belongs to, and runs on where no manager knows it."""

import pytest

from maint.lab.hosts.shell.executor import Ended, run
from maint.lab.manager.load import Options
from maint.lab.manager.world import STARTED, STOPPED, Command
from maint.lab.running import Lab

NODES = "KUBECONFIG=/etc/rancher/rke2/rke2.yaml /var/lib/rancher/rke2/bin/kubectl get nodes -o name"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab") / "lab", Options(ssh=False))


def moved(lab: Lab, name: str, state: str) -> None:
    """Have the manager carry a command out on the ECS servers."""
    services = [service for cluster in lab.world.deployment["clusters"] for service in cluster["services"]]
    servers = [role["name"] for one in services for role in one["roles"] if role["type"] == "ECS_SERVER"]
    number = len(lab.world.commands) + 1
    lab.world.commands[number] = Command(number, name, {}, 0.0, 0.0, ended=0.0, roles=dict.fromkeys(servers, state))
    lab.world.role_states.update(dict.fromkeys(servers, state))


def nodes(lab: Lab) -> Ended:
    return run(lab.machines["ds-01.example.internal"], NODES)


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("{", "error: error parsing STDIN"),
        ("[]", "kind not set"),
        ('{"kind": "List", "items": [null]}', "kind not set"),
        ('{"kind": "Secret"}', "resource name may not be empty"),
        ('{"kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "%"}}', "illegal base64 data"),
    ],
)
def test_what_is_no_manifest_of_a_secret_is_refused_in_the_words_of_kubectl(
    lab: Lab, manifest: str, words: str
) -> None:
    line = NODES.replace("get nodes -o name", "apply -n dex-base-abc12345 -f -")
    said = run(lab.machines["ds-01.example.internal"], line, stdin=manifest.encode())
    assert (said.status, said.err.startswith(b"error: ")) == (1, True), said.err
    assert words in said.err.decode()


def test_kubectl_is_refused_while_the_ecs_cluster_is_stopped_and_answers_once_it_runs(lab: Lab) -> None:
    moved(lab, "Stop", STOPPED)
    stopped = nodes(lab)
    assert (stopped.status, stopped.out) == (1, b"")
    assert stopped.err.startswith(b"The connection to the server 127.0.0.1:6443 was refused"), stopped.err
    moved(lab, "Start", STARTED)
    assert nodes(lab).out.startswith(b"node/")


def test_an_api_server_that_the_manager_has_not_stopped_runs_on_whatever_that_knows_of_it(lab: Lab) -> None:
    moved(lab, "Start", STOPPED)  # as after a PUT, which forgets the states of roles
    assert nodes(lab).out.startswith(b"node/")
    lab.world.deployment["clusters"] = []
    assert nodes(lab).out.startswith(b"node/")
