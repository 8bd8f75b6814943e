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


def test_the_hosts_are_cleaned_between_stop_and_delete_and_nothing_else_is_touched(loaded, opened):
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


def test_the_plan_lists_every_path_on_every_host_and_touches_none(loaded):
    on(loaded, TWO, "mkdir -p /data/k3s/containerd; umount /run/k3s/*/*/k8s.io/1/rootfs; rm -rf /run/k3s")
    on(loaded, TWO, "ln -s /data/k3s /run/k3s")
    with loaded.lab.world.lock:
        base, ecs = loaded.lab.world.deployment["clusters"]
        base["services"][0]["roles"][0]["hostRef"] = ecs["services"][0]["roles"][0]["hostRef"]
    before = trees(loaded)
    said = loaded("cluster", "delete", "ecs-01", "--dry-run", "-o", "json")
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
    assert trees(loaded) == before
    assert loaded.sent == []


def test_a_reboot_of_hosts_that_are_not_touched_is_a_mistake(loaded):
    for name, *words in (("ecs-01", "--api-only", "--reboot"), ("base", "--reboot")):
        said = loaded("cluster", "delete", name, "--confirm", name, *words)
        assert said.code == 2, said.err
        assert loaded.sent == [], name


def test_without_a_proof_nothing_starts_unless_the_operator_goes_without(loaded):
    shutil.rmtree(loaded.lab.folder / "backups" / SITE)
    before = trees(loaded)
    said = retire(loaded)
    assert said.code == 5, said.err
    assert "nothing is destroyed" in said.err
    assert (loaded.sent, trees(loaded)) == ([], before)
    said = retire(loaded, "--no-safety-net", "a lab that nobody needs")
    assert said.code == 0, said.err
    assert "NO SAFETY NET" in said.err
    is_clean(loaded)


def purposes(operator):
    return [item["purpose"] for item in operator("backup", "list", "-o", "json").json["snapshots"]]


def test_nothing_starts_unless_all_hosts_answer(loaded):
    machine(loaded, TWO).fault = "unreachable"
    before = trees(loaded)
    said = retire(loaded)
    assert said.code == 4, said.err
    assert TWO in said.err
    assert (loaded.sent, trees(loaded)) == ([], before)
    typed = re.findall(r"`maint (cluster delete [^`]*)`", said.err)
    assert typed == ["cluster delete ecs-01 --api-only"]
    assert loaded(*typed[0].split(), "--confirm", "ecs-01").code == 0
    assert loaded.sent == [STOP, DELETE]
    assert trees(loaded) == before, "only the API is called where the operator says so"


def test_nothing_starts_where_a_host_is_lost_once_the_plan_is_made(loaded):
    host = machine(loaded, TWO)
    host.docker = lambda: [setattr(host, "fault", "unreachable")] != []  # asked while planning, then never again
    before = trees(loaded)
    said = retire(loaded)
    assert said.code in (1, 4), said.err
    assert (loaded.sent, trees(loaded), purposes(loaded)) == ([], before, ["backup"])


def test_a_host_that_is_lost_midway_or_holds_what_is_mounted_stops_the_run_before_any_folder_goes(loaded):
    host, place = machine(loaded, TWO), "/opt/containerd/left"
    on(loaded, TWO, f"mkdir -p {place}; echo precious > {place}/file")
    table = host.files.read("/proc/mounts") + f"overlay {place} overlay rw 0 0\n".encode()
    host.files.write("/proc/mounts", table)
    host.facts["mounts_in_use"] = place  # a container left it, and a program still holds it
    when_told(host, "dnf remove", lambda: setattr(host, "fault", "unreachable"))
    said = retire(loaded)
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


def test_a_host_that_the_config_does_not_name_is_asked_for(loaded):
    path = loaded.lab.folder / "config.yaml"
    path.write_text(path.read_text().replace(f'"{TWO}"', '"elsewhere"'))
    said = retire(loaded)
    assert said.code == 5, said.err
    assert f"host {TWO} (192.0.2.22) is not in the config" in said.err
    assert loaded.sent == []


def test_containers_are_those_that_docker_shows_and_yum_stands_in_for_dnf_without_both_of_which_no_folder_goes(loaded):
    for host, image in ((ONE, "private.example.internal:5000/thirdparty/registry:2.8.1"), (TWO, "postgres:14")):
        files = machine(loaded, host).files
        held = json.loads(files.read("/mnt/docker/lab.json"))
        held["containers"][0] |= {"name": "odd-name", "image": image}
        held["images"][0]["name"] = image
        files.write("/mnt/docker/lab.json", json.dumps(held).encode())
    said = loaded("cluster", "delete", "ecs-01", "--dry-run")
    assert f"odd-name (private.example.internal:5000/thirdparty/registry:2.8.1) on {ONE}" in said.out
    assert f"WARNING: docker's folders go later, and with them the data of odd-name (postgres:14) on {TWO}" in said.out
    machine(loaded, ONE).facts["lacks"] = "dnf"
    machine(loaded, TWO).facts["lacks"] = "dnf yum"
    said = retire(loaded)
    assert said.code == 1, said.err
    assert f"{TWO}: neither dnf nor yum is there" in said.err
    assert machine(loaded, ONE).files.exists("/var/lib/kubelet")
    machine(loaded, TWO).facts["lacks"] = ""
    assert loaded("playbook", "resume").code == 0
    assert "yum remove iscsi-initiator-utils" in did(loaded, ONE)
    assert "docker rmi private.example.internal:5000/thirdparty/registry:2.8.1" in did(loaded, ONE)
    assert not any(words.startswith("docker") for words in did(loaded, TWO))


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


def test_what_changes_after_the_plan_stops_the_run_before_anything_is_removed(loaded):
    when_told(machine(loaded, ONE), "docker rmi", lambda: on(loaded, TWO, "rm -rf /etc/iscsi; ln -s /usr /etc/iscsi"))
    said = retire(loaded)
    assert said.code in (1, 5), said.err
    assert f"{TWO}: /etc/iscsi leads to /usr" in said.err
    assert machine(loaded, TWO).files.exists("/usr/bin") and machine(loaded, ONE).files.exists("/etc/iscsi")
    assert loaded.sent == [STOP]


def test_no_rules_are_put_back_where_none_are_kept(loaded):
    said = loaded("playbook", "run", "restore-firewall", "--yes")
    assert said.code == 5 and "no firewall rules are kept" in said.err


@pytest.mark.parametrize("lines", sample(range(1, 32), [14]))
def test_a_run_killed_at_any_line_of_its_journal_ends_as_if_undisturbed(loaded, lines):
    if kill_at(loaded, start(loaded, *RETIRE), lines):
        finish(loaded, RETIRE)
    is_clean(loaded)
    assert (repeated(loaded), sorted(set(loaded.sent))) == ([], [DELETE, STOP])


@pytest.mark.parametrize("words", sample(["docker stop", "docker rm", "docker rmi", "dnf remove"], ["docker rm"]))
def test_a_run_killed_just_after_a_host_did_something_does_not_do_it_again(loaded, words):
    process = start(loaded, *RETIRE)
    when_told(machine(loaded, TWO), words, process.kill)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    finish(loaded, RETIRE)
    is_clean(loaded)
    assert repeated(loaded) == []


@pytest.mark.parametrize("call", sample(range(1, 18), [7]))
def test_a_run_killed_while_folders_go_removes_the_rest_when_it_is_taken_up(loaded, call):
    process, calls = start(loaded, *RETIRE), []
    files = machine(loaded, ONE).files
    remove = files.remove_folder

    def counted(path, *, all_below=False):
        calls.append(path)
        if len(calls) == call:
            process.kill()
        remove(path, all_below=all_below)

    when_told(machine(loaded, ONE), "dnf remove", lambda: setattr(files, "remove_folder", counted))
    process.communicate()
    assert (process.returncode == -signal.SIGKILL) is (len(calls) >= call), "later points end before they strike"
    if process.returncode:
        finish(loaded, RETIRE)
    is_clean(loaded)
    assert repeated(loaded) == []


def test_the_plan_names_the_virtual_clusters_that_go_and_what_brings_them_back_each_file_of_which_it_read_once(
    loaded, opened
):
    (backup,) = [one["id"] for one in loaded("backup", "list", "-o", "json").json["snapshots"]]
    for words in ((), ("--api-only",)):
        opened.clear()
        said = retire(loaded, "--dry-run", *words)
        assert set(opened.values()) == {1}, words
        assert f"where it runs there, goes too and comes back from snapshot {backup}" in said.out, said.err
        assert "virtual cluster Default-VC-abc12345 (8 jobs, " in said.out


def test_a_virtual_cluster_that_the_config_does_not_name_is_seen_and_keeps_its_cluster(loaded):
    config = loaded.lab.folder / "config.yaml"
    content = yaml.safe_load(config.read_text())
    (one,) = content["sites"][SITE]["virtual_clusters"]
    shown = one["base_url"].removeprefix("https://").partition(".")[0]
    assert f"virtual clusters: {shown} (Default-VC-abc12345)" in retire(loaded, "--dry-run").out
    content["sites"][SITE]["virtual_clusters"] = []
    config.write_text(yaml.safe_dump(content))
    before = trees(loaded)
    for words in ((), ("--api-only",)):
        said = retire(loaded, *words)
        assert said.code == 5, said.err
        assert f"virtual cluster {shown} (namespace dex-app-{shown})" in said.err, words
        assert (trees(loaded), loaded.sent) == (before, []), words
    said = retire(loaded, "--dry-run", "--no-safety-net", "it is empty")
    assert said.code == 0 and f"WARNING: without a backup: {shown}" in said.out, said.err


def test_a_plan_says_where_nobody_can_see_which_virtual_clusters_there_are(loaded):
    loaded.lab.break_("", "vc-kubectl-down")
    said = retire(loaded, "--dry-run", "--api-only")
    assert said.code == 0, said.err
    assert "virtual clusters that the config does not name cannot be seen: ds-01.example.internal: The conn" in said.out


@pytest.fixture
def another(loaded):
    """An operator whose config names another virtual cluster, of which there is no backup."""
    config = loaded.lab.folder / "config.yaml"
    content = yaml.safe_load(config.read_text())
    clusters = content["sites"][SITE]["virtual_clusters"]
    clusters.append({**json.loads(json.dumps(clusters[0])), "name": "another-vc"})
    config.write_text(yaml.safe_dump(content))
    return loaded


def test_a_virtual_cluster_without_a_backup_keeps_its_cluster_unless_a_reason_is_given(another):
    before = trees(another)
    for words in ((), ("--api-only",)):
        said = retire(another, *words)
        assert said.code == 5, said.err
        assert "no backup proves that virtual cluster another-vc can come back" in said.err, words
        assert "maint vc backup --vc another-vc" in said.err, words
        assert (trees(another), another.sent) == (before, []), words
    said = retire(another, "--dry-run", "--no-safety-net", "it is empty")
    assert said.code == 0, said.err
    assert "without a proof that virtual clusters come back: Default-VC-abc12345, another-vc (it is empty)" in said.out


def test_what_is_no_longer_proven_when_the_hosts_turn_comes_stops_it_until_it_is_put_back(loaded):
    """Also where the backup of the manager stays sound, and only that of the virtual cluster does not."""
    assert loaded("vc", "backup", "--yes").code == 0
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
    assert said.code == 0, said.err


def test_firewall_rules_are_sealed_before_they_go_and_come_back_as_do_those_that_stand_there_then(loaded):
    before = {host: on(loaded, host, "iptables -F KUBE-SERVICES; iptables-save") for host in (ONE, TWO)}
    for host in (ONE, TWO):
        loaded.lab.break_(host, "banner-junk")  # what a login script prints is none of them, and nothing that is left
    assert retire(loaded).code == 0
    is_clean(loaded)
    kept = b"".join(path.read_bytes() for path in loaded.state.rglob("*") if path.is_file())
    assert b"cali-INPUT" not in kept
    rules = "*filter\\n:INPUT ACCEPT [0:0]\\n-A INPUT -s 192.0.2.7 -j DROP\\nCOMMIT\\n"
    on(loaded, ONE, f"printf '{rules}' | iptables-restore")
    theirs = on(loaded, ONE, "iptables-save")
    assert f"1 on {ONE}) are sealed and REPLACED" in loaded("playbook", "run", "restore-firewall", "--dry-run").out
    said = loaded("playbook", "run", "restore-firewall", "--yes")
    assert said.code == 0, said.err
    assert {host: on(loaded, host, "iptables-save") for host in (ONE, TWO)} == before
    again = loaded("playbook", "run", "restore-firewall", "--yes", "-o", "json")
    assert [one["outcome"] for one in again.json["actions"]] == ["unchanged"]
    said = loaded("playbook", "run", "restore-firewall", "--set", f"hosts={ONE}", "--set", "replaced=true", "--yes")
    assert said.code == 0, said.err
    assert on(loaded, ONE, "iptables-save") == theirs
