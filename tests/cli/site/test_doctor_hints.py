"""Whatever is broken: the right line of doctor says so and why, no other does, and its hint makes it well again."""

# ruff: noqa: E501 - tables of cases are read by their columns

import json
import re
import shlex
import shutil
import socket
import subprocess
import time
from itertools import zip_longest

import pytest
import yaml

from maint.cli.site import doctor, doctor_lines
from maint.lab.faults import FAULTS, HOST_FAULTS
from maint.lab.running import Lab
from tests.cli.conftest import with_few_hosts
from tests.cli.hosts.test_remedies import shown, typed
from tests.steps.conftest import copy
from tests.steps.operator import Operator, maint

HOST, OTHER, MASTER = "base-01.example.internal", "base-02.example.internal", "ds-01.example.internal"
VC = "virtual cluster Default-VC-abc12345"


@pytest.fixture(scope="module")
def operator(backed_up, tmp_path_factory):
    """A lab whose snapshot this machine has verified; each test leaves it well, by what doctor says."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("doctor") / "lab")) as lab:
        operator = with_few_hosts(Operator(lab), OTHER)
        assert operator("backup", "verify").code == 0
        yield operator


def lines(operator):
    """Return the lines that are not well, but for the drill that nobody rehearsed, by label."""
    found = operator("doctor", "-o", "json").json["checks"]
    return {one["label"]: one for one in found if one["state"] in ("warn", "FAIL") and one["label"] != "drill"}


def restarted(operator, *, plain=False, up=True):
    """Restart the manager, and wait for its port where one opens."""
    operator.lab.machines[operator.lab.manager_host].units["cloudera-scm-server"].restart()
    port, until = operator.lab.server.plain_port if plain else operator.lab.server.tls_port, time.monotonic() + 10
    while up and not listens(port) and time.monotonic() < until:
        time.sleep(0.01)


def listens(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


# What faults of a lab break of what doctor looks at: the line, and what is in its words.
SEEN = {
    "disk-97": ("manager's disks", "97 % full"),
    "disk-full": ("manager's disks", "100 % full"),
    "unauthorised": ("manager", "account admin: 401"),
    "unauthorised-once": ("manager", "account admin: 401"),
    "error-500": ("manager", "answers 500"),
    "unavailable": ("manager", "answers 503"),
    "redirect-everything": ("manager", "302 Found"),
    "wrong-truststore-password": ("truststore", "does not open /var"),
    "never-comes-up": ("manager", "refused"),
    "tls-never-comes-up": ("manager", "without TLS"),
    "expired-certificate": ("manager", "the certificate has expired"),
    "wrong-host-certificate": ("manager", "for another address"),
    "unknown-ca-certificate": ("manager", "no authority that is believed"),
    "vc-forbidden": (VC, "403 Forbidden"),
    "vc-unavailable": (VC, "503"),
    "vc-html-200": (VC, "not JSON"),
    "vc-token-refused": (VC, "401 Unauthorized"),
    "vc-gateway-down": (VC, "503"),
    "vc-token-nameless": (VC, "no token"),
    "vc-unknown-ca-certificate": (VC, "no authority that is believed"),
    "vc-expired-certificate": (VC, "the certificate has expired"),
    "unreachable": (f"host {OTHER}", "refused"),
    "dies-mid-command": (f"host {OTHER}", "connection was lost"),
    "hangs-after-login": (f"host {OTHER}", "no answer"),
    "wrong-key": (f"host {OTHER}", "HOST KEY HAS CHANGED"),
    "login-refused": (f"host {OTHER}", "was not let in"),
    "redaction-twice": ("redaction window", "redaction switched off"),
    "vc-kubectl-fails": ("kubernetes", "InternalError"),
    "vc-kubectl-down": ("kubernetes", "was refused"),
    "vc-kubectl-hangs": ("kubernetes", "no whole answer about it within 3 s"),
    "vc-node-not-ready": ("kubernetes", f"{MASTER} is not Ready"),
    "vc-vault-sealed": ("kubernetes", "ecs.vault: sealed"),
}
# Those of one kind follow each other, beside those of others: no line hides another. The manager tells where its disks are.
KINDS = [
    ("manager's disks", "manager"),
    ("truststore",),
    (VC,),
    (f"host {OTHER}",),
    ("redaction window",),
    ("kubernetes",),
]
ROUNDS = list(zip_longest(*([fault for fault in SEEN if SEEN[fault][0] in kind] for kind in KINDS)))
# Why a fault is none of doctor's: it is planted all the same, and then every line is well, within a time.
# Faults of calls that doctor does not make.
UNMET = """slow-body cut-body cut-body-cleanly put-answer-lost put-slow put-fails
    delete-answer-lost config-refused config-answer-lost command-rejected command-fails-in-child
    command-fails-in-parent command-never-ends command-answer-lost vc-answer-lost vc-502-after-write vc-pages-repeat
    vc-pages-skip vc-bad-signature vc-cut-download vc-log-missing vc-run-fails vc-run-stuck vc-run-unknown
    vc-odd-state vc-build-fails"""
# One answer, which is asked for again: faults that strike at once, each at a call of its own.
ONCE = [
    {"bad-request-once": "version", "error-500-once": "clusters", "unavailable-once": "license", "proxy-502": "truststore", "vc-unauthorised-once": "virtual-cluster", "vc-throttled": "jobs"},
    {"html-error": "version", "connection-dropped": "clusters", "vc-proxy-502": "virtual-cluster", "vc-error-500": "jobs"},
    {"html-200": "version", "vc-connection-dropped": "virtual-cluster"},
]  # fmt: skip
# A state that `host check` looks at, beside junk; what only takes longer.
QUIET = """clock-7s clock-skew swappiness-60 huge-pages expired-host-certificate wrong-dns untrusted-chain
    keytab-wrong-principal keytab-rc4 keytab-stale keytab-truncated keytab-readable kdc-silent banner-junk"""
SLOW = "slow vc-kubectl-slow"


def test_every_fault_of_the_lab_has_its_line_or_the_reason_why_it_has_none():
    quiet = [*QUIET.split(), *SLOW.split(), *UNMET.split(), *(name for faults in ONCE for name in faults)]
    assert sorted([*quiet, *SEEN]) == sorted(FAULTS)
    assert sorted(name for faults in ROUNDS for name in faults if name) == sorted(SEEN)


@pytest.mark.parametrize("faults", [QUIET, SLOW])
def test_what_is_none_of_doctors_neither_fails_a_line_nor_holds_it_up(operator, faults):
    begun = time.monotonic()
    for fault in faults.split():
        for host in (HOST, OTHER, MASTER) if fault in HOST_FAULTS else ("",):
            operator.lab.break_(host, fault)
    found = lines(operator)
    operator.lab.repair()
    assert found == {}
    assert time.monotonic() - begun < 30  # on `slow`, where each command on each host waits two seconds


@pytest.mark.parametrize("faults", ONCE, ids="+".join)
def test_what_goes_wrong_once_is_asked_for_again_and_fails_no_line(operator, faults):
    for fault, call in faults.items():
        operator.lab.break_(call, fault)
    found, left = lines(operator), operator.lab.status()["faults"]
    operator.lab.repair()
    assert (found, left) == ({}, [])  # each was met


def test_faults_of_calls_that_doctor_does_not_make_fail_no_line_and_are_all_still_there(operator):
    for fault in UNMET.split():
        operator.lab.break_("", fault)
    found, left = lines(operator), {each["fault"] for each in operator.lab.status()["faults"]}
    operator.lab.repair()
    assert (found, left) == ({}, {*UNMET.split()})


@pytest.mark.parametrize("faults", ROUNDS, ids=lambda faults: "+".join(filter(None, faults)))
def test_the_line_of_what_a_fault_breaks_fails_and_says_why_and_no_other(operator, monkeypatch, faults):
    if {"vc-unavailable", "vc-gateway-down", "hangs-after-login", "vc-kubectl-hangs"} & {*faults}:  # are waited for
        for room in (doctor, doctor_lines):
            monkeypatch.setattr(room, "REACH", 3.0)
    told = {SEEN[fault][0]: SEEN[fault][1] for fault in faults if fault}
    for fault in filter(None, faults):
        # On the manager's host, doctor looks at more than its door.
        host = OTHER if SEEN[fault][0].startswith("host ") else HOST
        operator.lab.break_(host if fault in HOST_FAULTS else "", fault)
    at_start = [fault for fault in filter(None, faults) if FAULTS[fault].target == "server"]
    if at_start:
        restarted(operator, plain="tls-never-comes-up" in at_start, up="never-comes-up" not in at_start)
    found = lines(operator)
    operator.lab.repair()
    if at_start:
        restarted(operator)
    assert found.keys() == told.keys(), found
    assert {label: words for label, words in told.items() if words not in found[label]["words"]} == {}, found
    assert "truststore" not in told or "certmanager" in found["truststore"]["hint"]


def test_what_is_wrong_in_kubernetes_is_shown_on_its_master_by_what_the_hint_says_and_then_told_to_be_over(operator):
    operator.lab.break_("", "vc-node-not-ready")
    command = re.search("`([^`]*)`", lines(operator)["kubernetes"]["hint"])[1]
    assert "Ready            Unknown" in shown(operator, MASTER, command)
    operator.lab.repair()
    operator.lab.break_("", "vc-kubectl-down")
    words = shlex.split(lines(operator)["kubernetes"]["hint"])[1:]
    assert operator(*words).code == 7
    operator.lab.repair()
    assert (operator(*words).code, lines(operator)) == (0, {})


@pytest.mark.parametrize("lacking", ["virtual_clusters", "master"])
def test_where_no_virtual_cluster_or_no_master_is_configured_nobody_is_asked_about_kubernetes(operator, lacking):
    config = yaml.safe_load((operator.lab.folder / "config.yaml").read_text())
    config["sites"]["lab"].pop(lacking, None)
    for host in config["sites"]["lab"]["hosts"] if lacking == "master" else ():
        host["groups"] = [name for name in host["groups"] if name != "ecs-master"]
    changed = operator.lab.folder / "lacking.yaml"
    changed.write_text(json.dumps(config))
    said = maint("doctor", "-o", "json", "--config", str(changed))
    assert "kubernetes" not in [one["label"] for one in said.json["checks"]]  # which a fault shows otherwise: SEEN


def typed_in(operator, hint):
    """Do what a hint says, word for word: the command that it is, or the one that stands in it."""
    line = hint if hint.startswith(("maint ", "chmod ")) else re.search("`([^`]*)`", hint)[1]
    if hint.startswith("on "):
        assert typed(operator, hint.split()[1].rstrip(":"), line) == ""
    elif line.startswith("maint "):
        operator(*shlex.split(line)[1:], "--yes")  # how it ends, doctor tells
    else:
        subprocess.run(["sh", "-c", line], check=True)


def open_key(operator):
    (operator.state / "keys/fingerprint").chmod(0o640)


def open_secret(operator):
    (operator.lab.folder / "identity").chmod(0o644)


def open_ssh_key(operator):
    (operator.lab.folder / "ssh/id_ed25519").chmod(0o644)


def open_state(operator):
    operator.state.chmod(0o755)


def left_window(operator):
    window = {"run": "20261121T000000.000Z-0000", "opened_at": "2026-11-21T00:00:00Z", "hosts": {}}
    (operator.state / "window.json").write_text(json.dumps(window))


def damaged_window(operator):
    (operator.state / "window.json").write_text("{")


def switched_off_by_hand(operator):
    operator.options.write_bytes(b'export CMF_JAVA_OPTS="-Xmx4G -Dcom.cloudera.api.redaction=false"\n')


def lost_host_keys(operator):
    (operator.lab.folder / "ssh/known_hosts").unlink()


def failed_run(operator):
    operator.lab.break_("commands", "command-rejected")
    operator("cluster", "stop", "base", "--yes")


def lost_records(operator):
    (records,) = (operator.lab.folder / "backups").glob("*/records")
    for path in records.glob("*-verify-*"):
        path.unlink()


def lost_store(operator):
    shutil.rmtree(operator.lab.folder / "backups")


def new_copy(operator):
    config = operator.lab.folder / "config.yaml"
    config.write_text(config.read_text().replace("    backup:\n", "    backup:\n      copies: [second]\n"))


UNTOLD = ("backup", "snapshots", "clock", "recipient")  # what nobody can tell without the store
AWAY = {**dict.fromkeys(UNTOLD, "for the reason of `store`"), "redaction window": "could not be asked for open windows"}
# What breaks it, and the lines that then are not well, in groups that break beside each other; the hint of each one's first line
# is followed, and all are well again.
MENDED = [
    [
        (lost_host_keys, {"known hosts": "names no hosts", f"host {HOST}": "its host key is not known"}),
        (open_key, {"keys": "can be read by others"}),
        (open_secret, {"secret backup.identity": "open to others", "recipient": "for the reason of `secret backup.identity`"}),
        (open_state, {"state": "open to others"}),
        (left_window, {"redaction window": "left open at 2026-11-21T00:00:00Z"}),
        (new_copy, {"copy": "0 snapshots; it lacks 1 of the first store"}),
    ],
    [
        (open_ssh_key, {"keys": "can be read by others", "hosts": "can be read by others"}),
        (damaged_window, {"redaction window": "cannot be read"}),
        (lost_records, {"snapshots": "is lost", "backup": "no verified restorable backup"}),
    ],
    [
        (failed_run, {"runs": "has failed"}),
        (switched_off_by_hand, {"redaction window": "has redaction switched off"}),
    ],
    [(lost_store, {"store": "holds nothing of lab any more", **AWAY})],
]  # fmt: skip


@pytest.mark.parametrize("group", MENDED, ids=lambda group: "+".join(break_it.__name__ for break_it, _ in group))
def test_what_the_hint_says_makes_what_is_broken_well_again(operator, group):
    for break_it, _ in group:
        break_it(operator)
    found = lines(operator)
    hints = []
    for break_it, broken in group:
        named = {label: next((one for one in found if one.startswith(label)), "") for label in broken}
        wrong = [label for label, one in named.items() if not one or broken[label] not in found[one]["words"]]
        assert wrong == [], (break_it.__name__, found)
        hints.append(found[next(iter(named.values()))]["hint"])
    labels = tuple(label for _, broken in group for label in broken)
    assert [one for one in found if not one.startswith((*labels, "host "))] == []
    for hint in hints:
        typed_in(operator, hint)
    if group[0][0] is lost_store:
        typed_in(operator, lines(operator)["backup"]["hint"])  # now that somebody has said that all is lost
    assert lines(operator) == {}


def lost_signing_key(operator):
    copied = (
        {"copy": "not proven to be sound"} if "copies:" in (operator.lab.folder / "config.yaml").read_text() else {}
    )
    told = {"keys": "no signing key", **copied, "snapshots": "key that is not trusted"}
    return operator.state / "keys/signing", {**told, "backup": "no verified", "redaction window": "cannot be verified"}


def lost_part(operator):
    path = min((operator.lab.folder / "backups").glob("*/*/deployment.json.zst.age"))
    return path, {"snapshots": "deployment.json.zst.age is missing"}


def lost_identity(operator):
    return operator.lab.folder / "identity", {
        "secret backup.identity": "No such file",
        "recipient": "for the reason of",
    }


def lost_authority(operator):
    return operator.lab.folder / "ca/bundle.pem", {"manager": "No such file", VC: "No such file"}


def lost_ssh_key(operator):
    return operator.lab.folder / "ssh/id_ed25519", {"keys": "No such file", "hosts": "is not there"}


@pytest.mark.parametrize("lost", [lost_signing_key, lost_part, lost_identity, lost_authority, lost_ssh_key])
def test_what_is_gone_is_named_where_it_must_be_put_back(operator, lost):
    path, broken = lost(operator)
    kept = path.rename(path.with_name("kept-elsewhere"))
    found = lines(operator)
    kept.rename(path)
    named = [next((one for one in found if one.startswith(label)), "") for label in broken]
    assert named == [*found], found
    assert [one for one, words in zip(named, broken.values(), strict=True) if words not in found[one]["words"]] == []


def test_once_what_was_gone_is_back_all_is_well(operator):
    """Each was put back before the next went: what had stayed broken would have stood among what the next one broke."""
    assert lines(operator) == {}


def test_a_licence_that_does_not_count_is_told_before_a_restore_needs_it(operator):
    ended = {"name": "Old", "uuid": "0", "expirationDate": "2026-01-01"}
    later = {"name": "New", "uuid": "0", "startDate": "2998-01-01", "expirationDate": "2999-01-01"}
    for licence, state in ((ended, "FAIL"), (later, "FAIL"), (None, "warn")):
        operator.lab.world.license = licence
        assert lines(operator)["licence"]["state"] == state, licence
    assert operator("manager", "license", str(operator.lab.folder / "license.txt"), "--yes").code == 0
    assert lines(operator) == {}
