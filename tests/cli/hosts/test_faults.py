"""Every fault that the lab has: what `maint host check` finds of it, and why, or that it is none of what is asked."""

from pathlib import Path

import pytest

from maint.lab.faults import FAULTS, HOST_FAULTS
from tests.cli.hosts.test_check import ON_MASTER, PLANTED, loud
from tests.steps.operator import Operator, maint

NO_MANAGER = dict.fromkeys(("cm.agent.heartbeat", "tls.truststore", "cde.ozone"), "error")
# What other faults break of what is checked: the checks, and what is in the words of the first.
ELSEWHERE = {
    "unauthorised-once": (NO_MANAGER, "lets in none of the configured accounts"),
    "unauthorised": (NO_MANAGER, "lets in none of the configured accounts"),
    "error-500": (NO_MANAGER, "is not ready"),
    "unavailable": (NO_MANAGER, "is not ready"),
    "redirect-everything": (NO_MANAGER, "302 Found"),
    "wrong-truststore-password": ({"tls.truststore": "fail"}, "does not open"),
    "tls-never-comes-up": ({"cm.ports": "warn", "tls.expiry": "error"}, "listens without TLS"),
    "never-comes-up": (
        {"cm.ports": "fail", "tls.expiry": "error", "cm.redaction": "error", "cm.identity": "error", **NO_MANAGER},
        "listens",
    ),
    "expired-certificate": ({"tls.expiry": "fail", **NO_MANAGER}, "the certificate has expired"),
    "wrong-host-certificate": ({"tls.expiry": "fail", **NO_MANAGER}, "for another address"),
    "unknown-ca-certificate": ({"tls.expiry": "fail", **NO_MANAGER}, "no authority that is believed"),
    "vc-unknown-ca-certificate": ({"cde.endpoint": "fail"}, "does not trust the chain"),
    "vc-expired-certificate": ({"cde.endpoint": "fail"}, "ends in -1 days"),
    "vc-kubectl-fails": (dict.fromkeys(("ecs.kubelet.nodes", "cde.capacity"), "error"), "InternalError"),
    "vc-kubectl-down": (dict.fromkeys(("ecs.kubelet.nodes", "ecs.vault", "cde.capacity"), "error"), "was refused"),
    "vc-node-not-ready": ({"ecs.kubelet.nodes": "fail"}, "ds-01.example.internal is not Ready"),
    "vc-vault-sealed": ({"ecs.vault": "fail"}, "sealed"),
    "disk-full": ({"disk.space": "fail"}, "100 % full"),
}
UNREACHED = {  # hosts that do not answer, or not wholly: with the reason
    "unreachable": "refused", "wrong-key": "HOST KEY HAS CHANGED", "login-refused": "not let in",
    "dies-mid-command": "lost", "hangs-after-login": "did not end within", "vc-kubectl-hangs": "did not end within",
}  # fmt: skip
# Of one answer that is asked for again; of no harm.
BORNE = """bad-request-once error-500-once unavailable-once proxy-502 html-error html-200 connection-dropped
    vc-kubectl-slow slow banner-junk"""
# Of calls that no check makes.
UNSEEN = """slow-body
    cut-body cut-body-cleanly put-answer-lost put-slow put-fails delete-answer-lost config-refused config-answer-lost
    command-rejected command-fails-in-child command-fails-in-parent command-never-ends command-answer-lost
    vc-unauthorised-once vc-forbidden vc-throttled vc-unavailable vc-proxy-502 vc-error-500 vc-html-200
    vc-connection-dropped vc-answer-lost vc-502-after-write vc-pages-repeat vc-pages-skip vc-bad-signature
    vc-cut-download vc-log-missing vc-token-refused vc-gateway-down vc-token-nameless vc-run-fails vc-run-stuck
    vc-run-unknown vc-odd-state vc-build-fails"""


def test_every_fault_of_the_lab_has_its_check_or_is_seen_to_be_none_of_theirs() -> None:
    assert sorted({*PLANTED, *ON_MASTER, *ELSEWHERE, *UNREACHED, *BORNE.split(), *UNSEEN.split()}) == sorted(FAULTS)


def planted(sick: Operator, fault: str) -> None:
    sick.lab.break_("base-02.example.internal" if fault in HOST_FAULTS else "", fault)
    if FAULTS[fault].target == "server":
        sick.lab.server.restart()
        if fault != "never-comes-up":
            assert sick.lab.server.wait()


def well_again(sick: Operator, fault: str) -> None:
    sick.lab.repair()
    if FAULTS[fault].target == "server":
        sick.lab.server.restart()
        assert sick.lab.server.wait()


@pytest.mark.parametrize("fault", ELSEWHERE)
def test_what_a_fault_breaks_elsewhere_is_found_and_told_why_and_nothing_else_fails(sick: Operator, fault: str) -> None:
    checks, words = ELSEWHERE[fault]
    planted(sick, fault)
    said = sick("host", "check", "-o", "json")
    well_again(sick, fault)
    assert loud(said) == checks
    first = [one for one in said.json["findings"] if one["check"] == next(iter(checks)) and one["state"] != "pass"]
    assert words in first[0]["observed"] and first[0]["remedy"], first


@pytest.mark.parametrize("fault", BORNE.split())
def test_a_fault_that_is_borne_spoils_no_check(sick: Operator, fault: str) -> None:
    planted(sick, fault)
    assert loud(sick("host", "check", "-o", "json")) == {}


def test_faults_of_what_no_check_asks_for_spoil_none_and_are_all_still_there(sick: Operator) -> None:
    for fault in UNSEEN.split():
        planted(sick, fault)
    assert loud(sick("host", "check", "-o", "json")) == {}
    assert {each["fault"] for each in sick.lab.status()["faults"]} == {*UNSEEN.split()}  # nobody met one


@pytest.mark.parametrize("fault", ["hangs-after-login", "vc-kubectl-hangs"])
def test_a_host_that_hangs_is_waited_for_as_long_as_the_config_says(sick: Operator, fault: str) -> None:
    config = Path(sick.config).with_name("brief.yaml")
    config.write_text(Path(sick.config).read_text().replace("    ssh:\n", "    ssh:\n      command_timeout: 4s\n"))
    planted(sick, fault)
    said = maint("host", "check", "-o", "json", "--config", str(config))
    assert said.code == 7
    wrong = [host["reason"] for host in said.json["hosts"] if not host["reached"]]  # a busy machine may be late, too
    assert wrong and any(UNREACHED[fault] in reason for reason in wrong)
    assert {one["state"] for one in said.json["findings"] if one["state"] != "skip"} == {"pass", "error"}
