"""An ECS cluster is taken off its hosts and out of the manager, in an order that leaves a way on at every point."""

import json
import re
import shutil
import signal
from collections import Counter

import pytest
import yaml

from maint.adapters.stores.local import LocalStore
from maint.lab.create import SITE
from tests.steps.ecs.hosts import DELETE, ONCE, ONE, RETIRE, STOP, TWO, did, machine, on, retire, trees, when_told
from tests.steps.operator import Operator
from tests.steps.test_kills import finish, kill_at, repeated, sample, start

KINDS = ["ecs.registry", "cluster.stop", "ecs.clean", "cluster.delete", "ecs.firewall", "ecs.verify"]
GONE = [
    "/etc/docker", "/etc/iscsi", "/opt/cni", "/opt/containerd", "/run/containerd", "/run/docker", "/run/k3s",
    "/run/longhorn-iscsi.lock", "/var/lib/calico", "/var/lib/docker_server", "/var/lib/kubelet", "/var/lib/rancher",
    "/var/log/containers", "/var/log/pods", "/mnt2/ecs/longhorn-storage", "/mnt/ecs/local-storage",
]  # fmt: skip
# What rke2's own script takes off, and what the lab keeps in files though it is not a file of a host.
BESIDE = [
    "/etc/rancher",
    "/var/lib/rpm",
    "/proc",
    "/dev",
    "/var/log",
]


def within(path, folders):
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def is_clean(operator: Operator) -> None:
    """Assert what must hold on both hosts when all is done."""
    for host in (ONE, TWO):
        files = machine(operator, host).files
        assert [path for path in GONE if files.exists(path, follow=False)] == []
        assert files.names("/mnt/docker") == []
        assert "/mnt/docker" in on(operator, host, "findmnt -rno TARGET")
        assert on(operator, host, "find /dev/.volumes -name claimed") != ""
        rules = on(operator, host, "for t in filter nat mangle raw security; do iptables -t $t -S; done").splitlines()
        assert {line.split()[0] for line in rules} == {"-P"} and all(line.endswith(" ACCEPT") for line in rules)
        assert {words for words in did(operator, host) if did(operator, host).count(words) > 1} <= {"rke2-killall.sh"}
        assert [words for words in did(operator, host) if words in (*ONCE, "reboot")] == ONCE
    names = [one["name"] for one in operator("cluster", "list", "-o", "json").json["clusters"]]
    assert names == ["base"]


@pytest.fixture
def opened(monkeypatch):
    """How often each file of a virtual cluster was read from the store."""
    counted: Counter[str] = Counter()
    real = LocalStore.open

    def counting(self, name):
        counted.update([name] if "/objects/" in name else [])
        return real(self, name)

    monkeypatch.setattr(LocalStore, "open", counting)
    return counted


def test_the_hosts_are_cleaned_between_stop_and_delete_nothing_else_is_touched_and_firewall_rules_come_back(
    loaded, opened
):
    rules = {host: on(loaded, host, "iptables -F KUBE-SERVICES; iptables-save") for host in (ONE, TWO)}
    for host in (ONE, TWO):
        loaded.lab.break_(host, "banner-junk")  # what a login script prints is none of them, and nothing that is left
    on(loaded, ONE, "mkdir -p /mnt2/ecs/neighbour /var/lib/dockerd; echo kept > /mnt2/ecs/neighbour/file")
    before, stored = trees(loaded), loaded.lab.folder / "backups" / SITE
    kept: list[int] = []
    when_told(machine(loaded, ONE), "docker stop", lambda: kept.append(len(list(stored.glob("*/manifest.json")))))
    said = retire(loaded, "-o", "json")
    assert said.code == 0, said.err
    assert set(opened.values()) == {2}, "each file of a virtual cluster is read once for the plan and once for the run"
    for host in (ONE, TWO):
        on(loaded, host, "cd /opt/cloudera/parcels/ECS/bin && ls rke2-killall.sh rke2-uninstall.sh")
    assert (kept, purposes(loaded)[:2]) == ([2], ["backup", "safety"]), (
        "the state before is kept before a host is touched"
    )
    assert [(one["kind"], one["outcome"]) for one in said.json["actions"]] == [(kind, "done") for kind in KINDS]
    assert loaded.sent == [STOP, DELETE]
    is_clean(loaded)
    after = trees(loaded)
    for host, was in before.items():
        changed = {path for path in was | after[host] if was.get(path) != after[host].get(path)}
        allowed = [*GONE, *BESIDE, "/mnt/docker"] if host in (ONE, TWO) else []
        assert [path for path in sorted(changed) if not within(path, allowed)] == []
    come_back(loaded, rules)


def come_back(operator, before):
    """Assert that the firewall rules that went come back, and then those that stand there by now."""
    kept = b"".join(path.read_bytes() for path in operator.state.rglob("*") if path.is_file())
    assert b"cali-INPUT" not in kept
    rules = "*filter\\n:INPUT ACCEPT [0:0]\\n-A INPUT -s 192.0.2.7 -j DROP\\nCOMMIT\\n"
    on(operator, ONE, f"printf '{rules}' | iptables-restore")
    theirs = on(operator, ONE, "iptables-save")
    restore = ("playbook", "run", "restore-firewall")
    assert f"1 on {ONE}) are sealed and REPLACED" in operator(*restore, "--dry-run").out
    said = operator(*restore, "--yes")
    assert said.code == 0, said.err
    assert {host: on(operator, host, "iptables-save") for host in (ONE, TWO)} == before
    again = operator(*restore, "--yes", "-o", "json")
    assert [one["outcome"] for one in again.json["actions"]] == ["unchanged"]
    said = operator(*restore, "--set", f"hosts={ONE}", "--set", "replaced=true", "--yes")
    assert said.code == 0, said.err
    assert on(operator, ONE, "iptables-save") == theirs


def odd_containers(operator):
    """Let the registry of one host have another name and address, and that of the other be no registry."""
    for host, image in ((ONE, "private.example.internal:5000/thirdparty/registry:2.8.1"), (TWO, "postgres:14")):
        files = machine(operator, host).files
        held = json.loads(files.read("/mnt/docker/lab.json"))
        held["containers"][0] |= {"name": "odd-name", "image": image}
        held["images"][0]["name"] = image
        files.write("/mnt/docker/lab.json", json.dumps(held).encode())


def test_the_plan_names_every_path_and_container_on_every_host_and_the_virtual_clusters_that_go_and_touches_none(
    loaded, opened
):
    odd_containers(loaded)
    on(loaded, TWO, "mkdir -p /data/k3s/containerd; umount /run/k3s/*/*/k8s.io/1/rootfs; rm -rf /run/k3s")
    on(loaded, TWO, "ln -s /data/k3s /run/k3s")
    with loaded.lab.world.lock:
        base, ecs = loaded.lab.world.deployment["clusters"]
        base["services"][0]["roles"][0]["hostRef"] = ecs["services"][0]["roles"][0]["hostRef"]
    before = trees(loaded)
    (backup,) = [one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]]
    (one,) = yaml.safe_load((loaded.lab.folder / "config.yaml").read_text())["sites"][SITE]["virtual_clusters"]
    for words in ((), ("--api-only",)):
        opened.clear()
        said = loaded("cluster", "delete", "ecs-01", "--dry-run", "-o", "json", *words)
        assert set(opened.values()) == {1}, "each file of a virtual cluster is read once"
        assert f"where it runs there, goes too and comes back from snapshot {backup}" in said.out, said.err
        assert "virtual cluster Default-VC-abc12345 (8 jobs, " in said.out
        if words:
            break
        plan = {action["kind"]: action for action in said.json["plan"]["actions"]}
        listed = plan["ecs.clean"]["arguments"]["hosts"]
        shown = {host: {one["path"]: one for one in removals} for host, removals in listed.items()}
        assert set(shown[ONE]) == set(shown[TWO]) == {*GONE, "/mnt/docker"}
        assert shown[ONE]["/mnt/docker"]["volume"] == "xfs"
        assert shown[TWO]["/run/k3s"] == {"path": "/run/k3s", "form": "link", "real": "/data/k3s", "volume": ""}
        summary = plan["ecs.clean"]["summary"]
        assert "/run/k3s -> /data/k3s" in summary and "/mnt/docker (a volume of its own, xfs: emptied)" in summary
        assert f"WARNING: {TWO} carries roles of base too" in summary
        assert [action["confirm"] for action in plan.values() if action["effect"] == "DESTROY"] == ["ecs-01"] * 4
        assert f"odd-name (private.example.internal:5000/thirdparty/registry:2.8.1) on {ONE}" in said.out
        warned = f"WARNING: docker's folders go later, and with them the data of odd-name (postgres:14) on {TWO}"
        assert warned in said.out
        namespace = one["base_url"].removeprefix("https://").partition(".")[0]
        assert f"virtual clusters: {namespace} (Default-VC-abc12345)" in said.out
    assert trees(loaded) == before
    assert loaded.sent == []
    loaded.lab.break_("", "vc-kubectl-down")
    said = retire(loaded, "--dry-run", "--api-only")
    assert said.code == 0, said.err
    assert "virtual clusters that the config does not name cannot be seen: ds-01.example.internal: The conn" in said.out


def test_nothing_starts_unless_all_hosts_are_named_and_answer_to_the_plan_and_the_run(loaded):
    for name, *words in (("ecs-01", "--api-only", "--reboot"), ("base", "--reboot")):  # of hosts that are not touched
        said = loaded("cluster", "delete", name, "--confirm", name, *words)
        assert said.code == 2, said.err
        assert loaded.sent == [], name
    said = loaded("playbook", "run", "restore-firewall", "--yes")
    assert said.code == 5 and "no firewall rules are kept" in said.err
    path = loaded.lab.folder / "config.yaml"
    text = path.read_text()
    path.write_text(text.replace(f'"{TWO}"', '"elsewhere"'))
    said = retire(loaded)
    assert said.code == 5, said.err
    assert f"host {TWO} (192.0.2.22) is not in the config" in said.err
    assert loaded.sent == []
    path.write_text(text)
    host, before = machine(loaded, TWO), trees(loaded)
    docker, asked = host.docker, []

    def lost_then():  # asked while planning, then never again
        asked.append(setattr(host, "fault", "unreachable"))
        return True

    host.docker = lost_then
    said = retire(loaded)
    assert said.code in (1, 4) and asked, said.err
    assert (loaded.sent, trees(loaded), purposes(loaded)) == ([], before, ["backup"])
    host.docker = docker
    said = retire(loaded)  # no host that is away is planned with
    assert said.code == 4, said.err
    assert TWO in said.err
    assert (loaded.sent, trees(loaded)) == ([], before)
    typed = re.findall(r"`maint (cluster delete [^`]*)`", said.err)
    assert typed == ["cluster delete ecs-01 --api-only"]
    assert loaded(*typed[0].split(), "--confirm", "ecs-01").code == 0
    assert loaded.sent == [STOP, DELETE]
    assert trees(loaded) == before, "only the API is called where the operator says so"


def purposes(operator):
    return [item["purpose"] for item in operator("backup", "list", "-o", "json").json["snapshots"]]


def test_a_host_that_has_changed_is_lost_midway_or_holds_what_is_mounted_stops_the_run_before_any_folder_goes(
    loaded,
):
    when_told(machine(loaded, ONE), "docker rmi", lambda: on(loaded, TWO, "rm -rf /etc/iscsi; ln -s /usr /etc/iscsi"))
    said = retire(loaded)
    assert said.code in (1, 5), said.err
    assert f"{TWO}: /etc/iscsi leads to /usr" in said.err
    assert machine(loaded, TWO).files.exists("/usr/bin") and machine(loaded, ONE).files.exists("/etc/iscsi")
    assert loaded.sent == [STOP]
    on(loaded, TWO, "rm /etc/iscsi; mkdir /etc/iscsi")
    host, place = machine(loaded, TWO), "/opt/containerd/left"
    on(loaded, TWO, f"mkdir -p {place}; echo precious > {place}/file")
    table = host.files.read("/proc/mounts") + f"overlay {place} overlay rw 0 0\n".encode()
    host.files.write("/proc/mounts", table)
    host.facts["mounts_in_use"] = place  # a container left it, and a program still holds it
    when_told(host, "dnf remove", lambda: setattr(host, "fault", "unreachable"))
    said = loaded("playbook", "resume")
    assert said.code == 1, said.err
    assert TWO in said.err
    assert loaded.sent == [STOP]
    assert machine(loaded, ONE).files.exists("/var/lib/kubelet"), "no folder goes while a host is away"
    again = loaded("playbook", "resume")
    assert (again.code, loaded.sent) == (1, [STOP]), again.err
    assert "then `maint playbook resume " in again.err and "--api-only" not in again.err, "other hosts are half clean"
    loaded.lab.repair()
    said = loaded("playbook", "resume")
    assert said.code == 1 and f"{TWO}: umount: {place}: target is busy" in said.err, said.err
    assert host.files.read(f"{place}/file") == b"precious\n"
    for one in (ONE, TWO):
        assert machine(loaded, one).files.exists("/var/lib/calico") and machine(loaded, one).files.exists("/etc/docker")
    assert loaded.sent == [STOP]
    host.facts["mounts_in_use"] = ""
    assert loaded("playbook", "resume").code == 0
    assert loaded.sent == [STOP, DELETE]
    is_clean(loaded)


def test_a_cluster_at_rest_whose_docker_is_down_and_whose_scripts_are_gone_is_cleaned_all_the_same(loaded):
    assert loaded("cluster", "stop", "ecs-01", "--yes").code == 0
    for host in (ONE, TWO):
        on(loaded, host, "rm -rf /opt/cloudera/parcels/ECS /run/k3s/.busy /etc/docker /var/lib/calico")
        on(loaded, host, "dnf -y remove iscsi-initiator-utils")
    said = retire(loaded, "--reboot", "-o", "json")
    assert said.code == 0, said.err
    assert [one["outcome"] for one in said.json["actions"]] == ["unchanged", "unchanged", *["done"] * 5]
    assert loaded.sent == [DELETE]
    assert [did(loaded, host).count("reboot") for host in (ONE, TWO)] == [1, 1]


@pytest.mark.parametrize("lines", sample(range(1, 32), [14]))
def test_a_run_killed_at_any_line_of_its_journal_ends_as_if_undisturbed(loaded, lines):
    if kill_at(loaded, start(loaded, *RETIRE), lines):
        finish(loaded, RETIRE)
    is_clean(loaded)
    assert (repeated(loaded), sorted(set(loaded.sent))) == ([], [DELETE, STOP])


DONE = ("docker stop", "docker rm", "docker rmi", "dnf remove")


@pytest.mark.parametrize(("words", "call"), sample(zip(DONE * 5, range(1, 18), strict=False), [("docker rm", 7)]))
def test_a_run_killed_just_after_a_host_did_something_and_while_folders_go_does_the_rest_and_nothing_again(
    loaded, words, call
):
    process, calls = start(loaded, *RETIRE), []
    when_told(machine(loaded, TWO), words, process.kill)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    again = loaded.fork("playbook", "resume")
    files = machine(loaded, ONE).files
    remove = files.remove_folder

    def counted(path, *, all_below=False):
        calls.append(path)
        if len(calls) == call:
            again.kill()
        remove(path, all_below=all_below)

    if any(done.startswith("dnf remove") for done in did(loaded, ONE)):
        files.remove_folder = counted
    else:
        when_told(machine(loaded, ONE), "dnf remove", lambda: setattr(files, "remove_folder", counted))
    again.communicate()
    assert (again.returncode == -signal.SIGKILL) is (len(calls) >= call), "later points end before they strike"
    if again.returncode:
        finish(loaded, RETIRE)
    is_clean(loaded)
    assert repeated(loaded) == []


def test_without_a_proof_also_of_each_virtual_cluster_that_is_there_nothing_starts_unless_a_reason_is_given(loaded):
    config = loaded.lab.folder / "config.yaml"
    text, before = config.read_text(), trees(loaded)
    (named,) = yaml.safe_load(text)["sites"][SITE]["virtual_clusters"]
    shown = named["base_url"].removeprefix("https://").partition(".")[0]
    for clusters, told, waived in (
        (
            [],  # it is seen, though the config does not name it
            (f"virtual cluster {shown} (namespace dex-app-{shown})",),
            f"WARNING: without a backup: {shown}",
        ),
        (
            [named, {**json.loads(json.dumps(named)), "name": "another-vc"}],
            ("no backup proves that virtual cluster another-vc can come back", "maint vc backup --vc another-vc"),
            "without a proof that virtual clusters come back: Default-VC-abc12345, another-vc (it is empty)",
        ),
    ):
        content = yaml.safe_load(text)
        content["sites"][SITE]["virtual_clusters"] = clusters
        config.write_text(yaml.safe_dump(content))
        for words in ((), ("--api-only",)):
            said = retire(loaded, *words)
            assert said.code == 5, said.err
            assert [one for one in told if one not in said.err] == [], (words, said.err)
            assert (trees(loaded), loaded.sent) == (before, []), words
        said = retire(loaded, "--dry-run", "--no-safety-net", "it is empty")
        assert said.code == 0 and waived in said.out, said.err
    config.write_text(text)
    shutil.rmtree(loaded.lab.folder / "backups" / SITE)
    said = retire(loaded)
    assert said.code == 5, said.err
    assert "nothing is destroyed" in said.err
    assert (loaded.sent, trees(loaded)) == ([], before)
    said = retire(loaded, "--no-safety-net", "a lab that nobody needs")
    assert said.code == 0, said.err
    assert "NO SAFETY NET" in said.err
    is_clean(loaded)


def test_what_is_no_longer_proven_or_lacks_dnf_and_yum_when_the_hosts_turn_comes_stops_it_until_it_is_put_back(
    loaded,
):
    """Also where the backup of the manager stays sound, and only that of the virtual cluster does not."""
    assert loaded("vc", "backup", "--yes").code == 0
    odd_containers(loaded)  # which are those that docker shows
    machine(loaded, ONE).facts["lacks"] = "dnf"
    machine(loaded, TWO).facts["lacks"] = "dnf yum"
    store = loaded.lab.folder / "backups" / SITE
    newest = max(store.glob("2*"))
    (part,) = newest.glob("vc/*")
    content = {path: path.read_bytes() for path in [part, *(store / "objects").iterdir()]}

    def rot():
        for path in content:
            if path != part:
                path.write_bytes(b"rotten")

    when_told(machine(loaded, ONE), "docker rmi", rot)
    said = retire(loaded)
    assert said.code == 5, said.err
    told = f"snapshot {newest.name}, which was to bring virtual cluster"
    assert told in said.err or "is not proven restorable" in said.err
    assert "rke2-killall.sh" not in did(loaded, ONE)
    for path, whole in content.items():
        path.write_bytes(whole)
    part.write_bytes(b"rotten")
    said = loaded("playbook", "resume", *RETIRE[-2:])
    assert (said.code, told in said.err) == (5, True), said.err
    assert "rke2-killall.sh" not in did(loaded, ONE)
    part.write_bytes(content[part])
    said = loaded("playbook", "resume", *RETIRE[-2:])
    assert said.code == 1, said.err
    assert f"{TWO}: neither dnf nor yum is there" in said.err
    assert machine(loaded, ONE).files.exists("/var/lib/kubelet")
    machine(loaded, TWO).facts["lacks"] = ""
    said = loaded("playbook", "resume", *RETIRE[-2:])
    assert said.code == 0, said.err
    assert "yum remove iscsi-initiator-utils" in did(loaded, ONE)
    assert "docker rmi private.example.internal:5000/thirdparty/registry:2.8.1" in did(loaded, ONE)
    assert not any(words.startswith("docker") for words in did(loaded, TWO))
