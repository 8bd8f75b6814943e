"""Whatever is broken: the right line of doctor says so and why, no other does, and its hint makes it well again."""

# ruff: noqa: E501 - tables of cases are read by their columns

import json
import re
import shlex
import shutil
import socket
import subprocess
import time

import pytest
import yaml

from maint.cli.site import doctor, doctor_lines
from maint.lab.faults import FAULTS, HOST_FAULTS
from maint.lab.running import Lab
from tests.cli.hosts.test_remedies import shown, typed
from tests.steps.conftest import copy
from tests.steps.operator import Operator, maint

HOST, OTHER, MASTER = "base-01.example.internal", "base-02.example.internal", "ds-01.example.internal"
VC = "virtual cluster Default-VC-abc12345"


@pytest.fixture(scope="module")
def operator(backed_up, tmp_path_factory):
    """A lab whose snapshot this machine has verified; each test leaves it well, by what doctor says."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("doctor") / "lab")) as lab:
        operator = Operator(lab)
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
    "unauthorised": ("manager", "account admin: 401"),
    "unauthorised-once": ("manager", "account admin: 401"),
    "error-500": ("manager", "answers 500"),
    "unavailable": ("manager", "answers 503"),
    "redirect-everything": ("manager", "302 Found"),
    "wrong-truststore-password": ("truststore", "does not open"),
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
    "disk-97": ("manager's disks", "97 % full"),
    "disk-full": ("manager's disks", "100 % full"),
    "vc-vault-sealed": ("kubernetes", "ecs.vault: sealed"),
}
# Why a fault is none of doctor's: it is planted all the same, and then every line is well, within a time.
# Faults of calls that doctor does not make.
UNMET = """slow-body cut-body cut-body-cleanly put-answer-lost put-slow put-fails
    delete-answer-lost config-refused config-answer-lost command-rejected command-fails-in-child
    command-fails-in-parent command-never-ends command-answer-lost vc-answer-lost vc-502-after-write vc-pages-repeat
    vc-pages-skip vc-bad-signature vc-cut-download vc-log-missing vc-run-fails vc-run-stuck vc-run-unknown
    vc-odd-state vc-build-fails"""
QUIET = {
    "one answer, which is asked for again": """bad-request-once error-500-once unavailable-once proxy-502 html-error html-200
        connection-dropped vc-unauthorised-once vc-throttled vc-proxy-502 vc-error-500 vc-connection-dropped""",
    "a state that `host check` looks at": """clock-7s clock-skew swappiness-60 huge-pages
        expired-host-certificate wrong-dns untrusted-chain keytab-wrong-principal keytab-rc4 keytab-stale
        keytab-truncated keytab-readable kdc-silent""",
    "nothing that stops a backup": "slow banner-junk vc-kubectl-slow",
}


def test_every_fault_of_the_lab_has_its_line_or_the_reason_why_it_has_none():
    quiet = [name for names in QUIET.values() for name in names.split()]
    assert sorted([*quiet, *UNMET.split(), *SEEN]) == sorted(FAULTS)


@pytest.mark.parametrize("fault", [name for names in QUIET.values() for name in names.split()])
def test_what_is_none_of_doctors_neither_fails_a_line_nor_holds_it_up(operator, fault):
    begun = time.monotonic()
    for host in (HOST, OTHER, MASTER) if fault in HOST_FAULTS else ("",):
        operator.lab.break_(host, fault)
    found = lines(operator)
    operator.lab.repair()
    assert found == {}
    assert time.monotonic() - begun < 30  # on `slow`, where each command on each host waits two seconds


def test_faults_of_calls_that_doctor_does_not_make_fail_no_line_and_are_all_still_there(operator):
    for fault in UNMET.split():
        operator.lab.break_("", fault)
    found, left = lines(operator), {each["fault"] for each in operator.lab.status()["faults"]}
    operator.lab.repair()
    assert (found, left) == ({}, {*UNMET.split()})


@pytest.mark.parametrize("fault", SEEN)
def test_the_line_of_what_a_fault_breaks_fails_and_says_why_and_no_other(operator, monkeypatch, fault):
    if fault in ("vc-unavailable", "vc-gateway-down", "hangs-after-login", "vc-kubectl-hangs"):  # which are waited for
        for room in (doctor, doctor_lines):
            monkeypatch.setattr(room, "REACH", 3.0)
    label, words = SEEN[fault]
    host = OTHER if label.startswith("host ") else HOST  # on the manager's, doctor looks at more than its door
    operator.lab.break_(host if fault in HOST_FAULTS else "", fault)
    if FAULTS[fault].target == "server":
        restarted(operator, plain="tls-never" in fault, up=fault != "never-comes-up")
    found = lines(operator)
    operator.lab.repair()
    if FAULTS[fault].target == "server":
        restarted(operator)
    assert [*found] == [label] and words in found[label]["words"], found


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
    for path, asked in ((changed, False), (operator.lab.folder / "config.yaml", True)):
        said = maint("doctor", "-o", "json", "--config", str(path))
        assert ("kubernetes" in [one["label"] for one in said.json["checks"]]) == asked


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
# What breaks it, and the lines that then are not well; the hint of the first is followed, and all are well again.
MENDED = [
    (open_key, {"keys": "can be read by others"}),
    (open_secret, {"secret backup.identity": "open to others", "recipient": "for the reason of `secret backup.identity`"}),
    (open_ssh_key, {"keys": "can be read by others", "hosts": "can be read by others"}),
    (open_state, {"state": "open to others"}),
    (left_window, {"redaction window": "left open at 2026-11-21T00:00:00Z"}),
    (damaged_window, {"redaction window": "cannot be read"}),
    (switched_off_by_hand, {"redaction window": "has redaction switched off"}),
    (lost_host_keys, {"known hosts": "names no hosts", f"host {HOST}": "its host key is not known"}),
    (failed_run, {"runs": "has failed"}),
    (lost_records, {"snapshots": "is lost", "backup": "no verified restorable backup"}),
    (lost_store, {"store": "holds nothing of lab any more", **AWAY}),
    (new_copy, {"copy": "it lacks 1 of the first store"}),
]  # fmt: skip


@pytest.mark.parametrize(("break_it", "broken"), MENDED, ids=lambda one: getattr(one, "__name__", ""))
def test_what_the_hint_says_makes_what_is_broken_well_again(operator, break_it, broken):
    break_it(operator)
    found = lines(operator)
    named = {label: next((one for one in found if one.startswith(label)), "") for label in broken}
    assert [label for label, one in named.items() if not one or broken[label] not in found[one]["words"]] == [], found
    assert [one for one in found if not one.startswith((*broken, "host "))] == []
    typed_in(operator, found[next(iter(named.values()))]["hint"])
    if break_it is lost_store:
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
def test_what_is_gone_is_named_where_it_must_be_put_back_and_then_all_is_well(operator, lost):
    path, broken = lost(operator)
    kept = path.rename(path.with_name("kept-elsewhere"))
    found = lines(operator)
    kept.rename(path)
    named = [next((one for one in found if one.startswith(label)), "") for label in broken]
    assert named == [*found], found
    assert [one for one, words in zip(named, broken.values(), strict=True) if words not in found[one]["words"]] == []
    assert lines(operator) == {}


@pytest.mark.parametrize("licence", ["none", "expired", "not yet"])
def test_a_licence_that_does_not_count_is_told_before_a_restore_needs_it(operator, licence):
    ended = {"name": "Old", "uuid": "0", "expirationDate": "2026-01-01"}
    later = {"name": "New", "uuid": "0", "startDate": "2998-01-01", "expirationDate": "2999-01-01"}
    operator.lab.world.license = {"none": None, "expired": ended, "not yet": later}[licence]
    line = lines(operator)["licence"]
    assert line["state"] == ("warn" if licence == "none" else "FAIL")
    assert operator("manager", "license", str(operator.lab.folder / "license.txt"), "--yes").code == 0
    assert lines(operator) == {}
