"""Each step kind keeps to its own guards, whatever playbook it stands in."""

import json

import pytest

from maint.lab.hosts.shell.call import Failed
from maint.steps.ecs import firewall
from tests.steps.ecs.hosts import ONE, TWO, did, machine, on, trees


def play(operator, kind, *words, before=()):
    path = operator.lab.folder / "mine.yaml"
    steps = [*before, {"name": "Alone", "do": kind, "with": {"cluster": "ecs-01"}}]
    path.write_text(json.dumps({"name": "mine", "summary": "Mine.", "parameters": {}, "steps": steps}))
    return operator("playbook", "run", str(path), "--yes", "--confirm", "ecs-01", *words)


def test_hosts_of_a_cluster_that_runs_or_is_none_are_left_alone_and_what_is_left_of_one_is_named(loaded):
    before = trees(loaded)
    for kind in ("ecs.clean", "ecs.firewall", "ecs.reboot"):
        said = play(loaded, kind)
        assert said.code in (1, 5), (kind, said.err)
        assert "cluster ecs-01 is not at rest, so its hosts are left alone" in said.err, kind
        assert (trees(loaded), loaded.sent) == (before, []), kind
    said = loaded("playbook", "run", "retire-ecs-cluster", "--set", "cluster=base", "--confirm", "base")
    assert said.code == 5, said.err
    assert "cluster base is not an ECS cluster (BASE_CLUSTER, CDH7)" in said.err
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


def test_hosts_of_a_cluster_that_was_made_anew_since_the_plan_are_left_alone(loaded):
    def made(uuid):
        with loaded.lab.world.lock:
            for cluster in loaded.lab.world.deployment["clusters"]:
                cluster["uuid"] = f"{uuid}-{cluster['name']}"

    assert loaded("cluster", "stop", "ecs-01", "--yes").code == 0
    for kind in ("ecs.registry", "ecs.clean", "ecs.firewall", "ecs.reboot"):
        made("first")
        said = play(loaded, kind, before=[{"name": "Wait", "do": "approve", "with": {"question": "Go on?"}}])
        assert "waits for a person" in said.err, (kind, said.err)
        made("second")
        before, run = trees(loaded), loaded.run_of(said)["id"]
        assert loaded("playbook", "approve", run).code == 0
        loaded.forget_requests()
        said = loaded("playbook", "resume", run)
        told = "cluster ecs-01 is another one than the plan was made for" in said.err
        assert (said.code, told) == (5, True), (kind, said.err)
        assert (trees(loaded), loaded.sent) == (before, []), kind


def cut_off(operator, host, change):
    """Let a host's firewall take no further change from this one on, counted from 1; return what ends that."""
    files, changes = machine(operator, host).files, []
    write = files.write

    def refusing(path, *content):
        changes.extend([path] if path == "/proc/net/.iptables" else [])
        if len(changes) >= change:
            raise Failed("the host went down", 4)
        write(path, *content)

    files.write = refusing
    return lambda: setattr(files, "write", write)


def put_rules(operator, *tables):
    words = "".join(f"*{table}\\n:OUTPUT ACCEPT [0:0]\\n-A OUTPUT -j {rule}\\nCOMMIT\\n" for table, rule in tables)
    on(operator, ONE, f"printf '{words}' | iptables-restore")


@pytest.mark.parametrize("more", [False, True])
def test_a_flush_that_was_cut_off_and_begun_anew_leaves_the_whole_rules_to_come_back(loaded, more):
    assert loaded("cluster", "stop", "ecs-01", "--yes").code == 0
    put_rules(loaded, ("nat", "LOG"), ("raw", "ACCEPT"))
    whole = on(loaded, ONE, "iptables-save")
    mend = cut_off(loaded, ONE, 4)
    assert play(loaded, "ecs.firewall").code == 1
    mend()
    if more:
        put_rules(loaded, ("mangle", "MARK"))
    half = on(loaded, ONE, "iptables-save")
    assert "-A OUTPUT -j LOG" in half and "cali-INPUT" not in half
    said = play(loaded, "ecs.firewall")
    assert said.code == 0, said.err
    assert loaded("playbook", "run", "restore-firewall", "--yes").code == 0
    assert set(whole.splitlines()) <= set(on(loaded, ONE, "iptables-save").splitlines())
    if more:
        said = loaded("playbook", "run", "restore-firewall", "--set", f"hosts={ONE}", "--set", "replaced=true", "--yes")
        assert said.code == 0, said.err
        assert on(loaded, ONE, "iptables-save") == half
    put_rules(loaded, ("nat", "RETURN"))
    later = on(loaded, ONE, "iptables-save")
    for words in (("ecs.firewall",), ()):
        said = play(loaded, *words) if words else loaded("playbook", "run", "restore-firewall", "--yes")
        assert said.code == 0, said.err
    assert on(loaded, ONE, "iptables-save") == later


def test_a_putting_back_that_was_cut_off_and_begun_anew_keeps_what_stood_there_as_the_replaced_rules(loaded):
    assert loaded("cluster", "stop", "ecs-01", "--yes").code == 0
    put_rules(loaded, ("nat", "LOG"))
    assert play(loaded, "ecs.firewall").code == 0
    put_rules(loaded, ("nat", "RETURN"), ("raw", "ACCEPT"))
    theirs = on(loaded, ONE, "iptables-save")
    mend = cut_off(loaded, ONE, 1)
    assert loaded("playbook", "run", "restore-firewall", "--yes").code == 1
    mend()
    put_rules(loaded, ("nat", "LOG"))  # the first of its tables had come back
    assert loaded("playbook", "run", "restore-firewall", "--yes").code == 0
    said = loaded("playbook", "run", "restore-firewall", "--set", f"hosts={ONE}", "--set", "replaced=true", "--yes")
    assert said.code == 0, said.err
    assert {"-A OUTPUT -j RETURN", "-A OUTPUT -j ACCEPT"} <= set(on(loaded, ONE, "iptables-save").splitlines()), theirs


def test_rules_of_the_back_end_that_plain_iptables_hides_go_too_and_come_back(loaded):
    assert loaded("cluster", "stop", "ecs-01", "--yes").code == 0
    put = "printf '*nat\\n:OUTPUT ACCEPT [0:0]\\n-A OUTPUT -j LOG\\nCOMMIT\\n' | iptables-nft-restore"
    on(loaded, TWO, f"iptables -F KUBE-SERVICES; {put}")
    before = on(loaded, TWO, "iptables-save; iptables-nft-save")
    assert "-j LOG" not in on(loaded, TWO, "iptables-save")
    assert play(loaded, "ecs.firewall").code == 0
    assert "-A " not in on(loaded, TWO, "iptables-save; iptables-nft-save")
    assert "no rules on" in play(loaded, "ecs.firewall").err
    assert loaded("playbook", "run", "restore-firewall", "--yes").code == 0
    assert on(loaded, TWO, "iptables-save; iptables-nft-save") == before
    said = loaded("playbook", "run", "restore-firewall", "--yes")
    assert "the kept rules stand" in said.err


def test_rules_that_an_older_version_kept_with_a_line_before_them_can_be_loaded():
    rules = b"# Generated by iptables-save v1.8.10\n*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"
    assert firewall._printed(b"*** This host is watched ***\n" + rules) == rules
    assert firewall._printed(b"*** This host is watched ***\n") == b""
