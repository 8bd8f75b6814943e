"""Every fault that the lab has: what `maint host check` finds of it, and why, or that it is none of what is asked."""

# ruff: noqa: E501 - tables of cases are read by their columns

from itertools import zip_longest
from pathlib import Path

import pytest

from maint.lab.faults import FAULTS, HOST_FAULTS
from tests.cli.hosts.conftest import ON_SOME
from tests.cli.hosts.test_check import ON_MASTER, PLANTED, loud
from tests.steps.operator import Operator, maint

OTHER = "ds-01.example.internal"
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
# Of the manager, which tells what the first of each kind need; of its disk; of kubectl and of the virtual cluster's endpoint:
# those of one kind follow each other, beside those of others.
BESIDE = ["disk-full", "vc-kubectl-fails", "vc-kubectl-down", "vc-node-not-ready", "vc-vault-sealed"]
ENDPOINT = ["vc-unknown-ca-certificate", "vc-expired-certificate"]
MANAGER = [fault for fault in ELSEWHERE if fault not in (*BESIDE, *ENDPOINT)]
ROUNDS = [tuple(filter(None, faults)) for faults in zip_longest(MANAGER, BESIDE, ENDPOINT)]
UNREACHED = {  # hosts that do not answer, or not wholly: with the reason
    "unreachable": "refused", "wrong-key": "HOST KEY HAS CHANGED", "login-refused": "not let in",
    "dies-mid-command": "lost", "hangs-after-login": "did not end within", "vc-kubectl-hangs": "did not end within",
}  # fmt: skip
# Of one answer that is asked for again, each at a call of its own; of no harm, where they are planted.
BORNE = [
    {"bad-request-once": "version", "error-500-once": "clusters", "unavailable-once": "truststore", "vc-kubectl-slow": "kubectl", "banner-junk": OTHER},
    {"proxy-502": "version", "html-error": "clusters", "connection-dropped": "truststore", "slow": OTHER},
    {"html-200": "version"},
]  # fmt: skip
# Of calls that no check makes.
UNSEEN = """slow-body
    cut-body cut-body-cleanly put-answer-lost put-slow put-fails delete-answer-lost config-refused config-answer-lost
    command-rejected command-fails-in-child command-fails-in-parent command-never-ends command-answer-lost
    vc-unauthorised-once vc-forbidden vc-throttled vc-unavailable vc-proxy-502 vc-error-500 vc-html-200
    vc-connection-dropped vc-answer-lost vc-502-after-write vc-pages-repeat vc-pages-skip vc-bad-signature
    vc-cut-download vc-log-missing vc-token-refused vc-gateway-down vc-token-nameless vc-run-fails vc-run-stuck
    vc-run-unknown vc-odd-state vc-build-fails"""


def test_every_fault_of_the_lab_has_its_check_or_is_seen_to_be_none_of_theirs() -> None:
    borne = [fault for faults in BORNE for fault in faults]
    assert sorted(fault for faults in ROUNDS for fault in faults) == sorted(ELSEWHERE)
    assert sorted({*PLANTED, *ON_MASTER, *ELSEWHERE, *UNREACHED, *borne, *UNSEEN.split()}) == sorted(FAULTS)


def planted(sick: Operator, *faults: str) -> None:
    for fault in faults:
        sick.lab.break_(OTHER if fault in HOST_FAULTS else "", fault)
    if at_start(faults):
        sick.lab.server.restart()
        assert "never-comes-up" in faults or sick.lab.server.wait()


def at_start(faults: tuple[str, ...]) -> bool:
    """Whether one of them counts from the server's next start."""
    return any(FAULTS[fault].target == "server" for fault in faults)


@pytest.mark.parametrize("faults", ROUNDS, ids="+".join)
def test_what_a_fault_breaks_elsewhere_is_found_and_told_why_and_nothing_else_fails(
    sick: Operator, faults: tuple[str, ...]
) -> None:
    planted(sick, *faults)
    said = sick("host", "check", "-o", "json", *ON_SOME)
    sick.lab.repair()
    if at_start(faults):
        sick.lab.server.restart()
        assert sick.lab.server.wait()
    expected = dict(state for fault in faults for state in ELSEWHERE[fault][0].items())
    assert loud(said) == expected
    for fault in faults:
        checks, words = ELSEWHERE[fault]
        found = [one for one in said.json["findings"] if one["check"] == next(iter(checks)) and one["state"] != "pass"]
        assert words in found[0]["observed"] and found[0]["remedy"], (fault, found)


@pytest.mark.parametrize("faults", BORNE, ids="+".join)
def test_a_fault_that_is_borne_spoils_no_check(sick: Operator, faults: dict[str, str]) -> None:
    for fault, target in faults.items():
        sick.lab.break_(target, fault)
    assert loud(sick("host", "check", "-o", "json", *ON_SOME)) == {}
    assert {each["fault"] for each in sick.lab.status()["faults"]} <= {"slow", "banner-junk"}  # the others were met


def test_faults_of_what_no_check_asks_for_spoil_none_and_are_all_still_there(sick: Operator) -> None:
    planted(sick, *UNSEEN.split())
    assert loud(sick("host", "check", "-o", "json", *ON_SOME)) == {}
    assert {each["fault"] for each in sick.lab.status()["faults"]} == {*UNSEEN.split()}  # nobody met one


def test_hosts_that_hang_are_waited_for_as_long_as_the_config_says(sick: Operator) -> None:
    config = Path(sick.config).with_name("brief.yaml")
    config.write_text(Path(sick.config).read_text().replace("    ssh:\n", "    ssh:\n      command_timeout: 4s\n"))
    third = "base-02.example.internal"
    sick.lab.break_(third, "hangs-after-login")
    planted(sick, "vc-kubectl-hangs")
    said = maint("host", "check", "-o", "json", *ON_SOME, "--host", third, "--config", str(config))
    assert said.code == 7
    wrong = {host["name"]: host["reason"] for host in said.json["hosts"] if not host["reached"]}
    for host, fault in ((third, "hangs-after-login"), (OTHER, "vc-kubectl-hangs")):  # a busy machine may be late, too
        assert UNREACHED[fault] in wrong[host], wrong
    assert {one["state"] for one in said.json["findings"] if one["state"] != "skip"} == {"pass", "error"}
