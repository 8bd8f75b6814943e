"""Checks of hosts: Kerberos' questions put to a real KDC by a real shell, Kubernetes' to the lab's master."""

import os
import subprocess

import pytest

from maint.checks.facts import Answered
from maint.checks.registry import CHECKS, QUESTIONS
from tests.checks.facts import host
from tests.steps.kerberos.conftest import FIRST, MASTER, PRINCIPAL

STATES = {"krb.conf": "krb5_conf", "krb.keytab": "keytab", "krb.kinit": "kinit", "krb.kdc": "kdc"}
STATES["cde.keytab"] = "service_keytabs"


@pytest.fixture
def judged(kdc, tmp_path):
    """Puts Kerberos' questions to this machine, as if keytab and krb5.conf were where hosts have them."""

    def verdicts(keytab, mode=0o600):
        path = tmp_path / "process" / "1-role" / "role.keytab"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(keytab)
        path.chmod(mode)
        answers = {}
        for name in STATES.values():
            text = QUESTIONS[name].replace("/var/run/cloudera-scm-agent", str(tmp_path))
            text = text.replace("/opt/cloudera/cde", str(path.parent))
            text = text.replace("/etc/krb5.conf", str(kdc.folder / "krb5.conf"))
            environ = {**os.environ, **kdc.environment, "LC_ALL": "C", "maint_limit": "timeout 20"}
            ended = subprocess.run(["sh", "-c", text], env=environ, capture_output=True, text=True, check=False)
            answers[name] = Answered(ended.returncode, ended.stdout.rstrip("\n"))
        there = host(answers, profiles="KC")
        return {name: CHECKS[name].judge(there) for name in STATES}

    return verdicts


def states(verdicts):
    return {name: verdict.state.value if verdict.state else None for name, verdict in verdicts.items()}


def test_a_good_keytab_gets_a_ticket_and_the_kdc_answers(kdc, judged):
    found = judged(kdc.keytab(PRINCIPAL))
    assert states(found) == dict.fromkeys(STATES, "pass"), found


def test_a_stale_keytab_one_with_rc4_alone_and_an_open_one_fail(kdc, judged):
    old = kdc.keytab(PRINCIPAL)
    kdc.keytab(PRINCIPAL)
    stale = states(judged(old))
    assert (stale["krb.kinit"], stale["cde.keytab"]) == ("fail", "fail")
    weak = states(judged(kdc.ktutil(PRINCIPAL, [(2, "arcfour-hmac")])))
    assert weak["krb.keytab"] == "fail"
    assert states(judged(kdc.keytab(PRINCIPAL), 0o644))["krb.keytab"] == "fail"


ASKED = ("ecs.kubelet.nodes", "ecs.vault", "cde.capacity", "cde.endpoint")


def checked(keeper):
    words = [word for check in ASKED for word in ("--check", check)]
    said = keeper("host", "check", "--host", MASTER, *words, "-o", "json")
    return {finding["check"]: finding["state"] for finding in said.json["findings"]}


def test_an_ecs_master_of_the_lab_answers_for_kubernetes_vault_room_and_certificates(keeper):
    assert checked(keeper)["cde.endpoint"] == "fail", "nobody has initialised the virtual cluster"
    del keeper.settings["sites"]["lab"]["virtual_clusters"][1]
    assert keeper("vc", "init", FIRST, "--yes").code == 0
    assert checked(keeper) == dict.fromkeys(ASKED, "pass")
    for fault in ("vc-node-not-ready", "vc-vault-sealed", "vc-expired-certificate"):
        keeper.lab.break_("", fault)
    machine = keeper.lab.machines[MASTER]
    machine.facts["cpus"] = "4"  # enough, but for what pods have asked for
    keeper.lab.machines["ds-02.example.internal"].facts["cpus"] = "4"
    try:
        assert checked(keeper) == {**dict.fromkeys(ASKED, "fail"), "cde.capacity": "warn"}
    finally:
        for name in (MASTER, "ds-02.example.internal"):
            del keeper.lab.machines[name].facts["cpus"]
