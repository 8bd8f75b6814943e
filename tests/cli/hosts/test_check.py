"""`maint host check` against the lab: clean hosts, planted problems, bad hosts, outputs and exit codes."""

import json
import re
import signal
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from maint.cli.hosts import check as hosts_check
from maint.config.precedence import ConfigFlags, load_settings
from maint.config.schema import SiteSettings
from maint.errors import Invalid
from maint.lab.faults import AILMENTS
from maint.lab.manager.simulator import PlainUnit
from maint.model.fleet import HostReply
from maint.steps.hosts.check import authorities
from tests.cli.hosts.conftest import ON_SOME, SOME
from tests.steps.operator import Operator, environment, maint

FIRST = "base-01.example.internal"
SHORT = {"base-01", "base-02", "base-03", "ds-01", "ds-02"}


def site_of(config: Path | str) -> SiteSettings:
    return load_settings(ConfigFlags(config=str(config)), {}).site()


def loud(said) -> dict[str, str]:
    unreached = {host["name"]: host["reason"] for host in said.json["hosts"] if not host["reached"]}
    found = {f["check"]: f["state"] for f in said.json["findings"] if f["state"] in ("fail", "warn", "error")}
    return unreached or found


def test_a_clean_lab_has_nothing_to_complain_about(operator: Operator) -> None:
    said = operator("host", "check", "-o", "json")
    assert (said.code, loud(said)) == (0, {})
    assert {host["reached"] for host in said.json["hosts"]} == {True}
    assert set(said.json["findings"][0]) == {
        "check", "severity", "state", "observed", "expected", "source", "remedy", "hosts",
    }  # fmt: skip


def test_a_dry_run_does_not_try_what_writes(operator: Operator) -> None:
    words = ("--check", "ldap.ad_rights", "--check", "os.umask", "--ldap-ou", "OU=x", "--ldap-url", "ldap://x.invalid")
    said = operator("host", "check", *words, "--dry-run", "-v")
    assert said.code == 0 and "ldap.ad_rights" not in said.out
    assert "would try ldap.ad_rights, which writes" in said.err


# What is planted on a host: the checks that find it.
PLANTED = {
    "disk-97": {"disk.space": "fail"},
    "clock-7s": {"time.skew": "warn"},
    "clock-skew": {"time.sync": "fail", "time.skew": "fail"},
    "swappiness-60": {"os.swappiness": "fail", "os.swappiness.persist": "warn"},
    "huge-pages": {"os.thp": "fail"},
    "expired-host-certificate": {"tls.expiry": "fail"},
    "wrong-dns": {"net.dns.fwd": "fail", "net.dns.peers": "fail"},
    "redaction-twice": {"cm.redaction": "fail"},
    "keytab-wrong-principal": {"krb.kinit": "fail"},
    "keytab-rc4": {"krb.keytab": "fail", "krb.kinit": "fail"},
    "keytab-stale": {"krb.kinit": "fail"},
    "keytab-truncated": {"krb.keytab": "fail", "krb.kinit": "fail"},
    "keytab-readable": {"krb.keytab": "fail"},
    "kdc-silent": {"krb.kdc": "fail", "krb.kinit": "fail"},
}
# Those of one kind follow each other, or are on a host each, beside those of others, which have checks of their own.
KINDS = ["clock", "disk", "swappiness", "huge", "expired", "wrong-dns", "redaction"]
KEYTABS = [one for one in PLANTED if one.startswith(("keytab", "kdc"))]
BASE = (FIRST, "base-02.example.internal", "base-03.example.internal")
ROUNDS = [
    [*((FIRST, fault) for fault in others if fault), *zip(BASE, keytabs, strict=True)]
    for others, keytabs in zip(
        zip_longest(*([one for one in PLANTED if one.startswith(kind)] for kind in KINDS)),
        (KEYTABS[:3], KEYTABS[3:]),
        strict=True,
    )
]
ON_MASTER = {  # the same, where users' keytabs lie and the service's endpoints are asked for
    "keytab-wrong-principal": "'cde/elsewhere.invalid@EXAMPLE.INTERNAL' not found in Kerberos database",
    "keytab-rc4": "No key table entry found for cde@EXAMPLE.INTERNAL",
    "keytab-stale": "Preauthentication failed",
    "keytab-truncated": "no principal of EXAMPLE.INTERNAL",
    "untrusted-chain": "the configured `ca` vouches for the chain, this host does not",
}


@pytest.mark.parametrize("planted", ROUNDS, ids=lambda planted: "+".join(fault for _, fault in planted))
def test_a_planted_problem_is_found_and_no_other(sick: Operator, planted: list[tuple[str, str]]) -> None:
    for host, fault in planted:
        sick.lab.break_(host, fault)
    said = sick("host", "check", "-o", "json", *(word for host in BASE for word in ("--host", host)))
    wrong = [one for one in said.json["findings"] if one["state"] in ("fail", "warn", "error")]
    found = {(host, one["check"]): one["state"] for one in wrong for host in one["hosts"]}
    assert found == {(host, check): state for host, fault in planted for check, state in PLANTED[fault].items()}
    assert (said.code, [host for host in said.json["hosts"] if not host["reached"]]) == (1, [])


def test_every_problem_is_planted_and_a_warning_alone_is_no_failure(sick: Operator) -> None:
    assert sorted(fault for planted in ROUNDS for _, fault in planted) == sorted(PLANTED)
    sick.lab.break_(FIRST, "clock-7s")
    said = sick("host", "check", "--check", "time.skew", "-o", "json")
    assert (said.code, loud(said)) == (0, {"time.skew": "warn"})


def test_what_ails_the_master_of_the_data_services_is_found_and_told_why(sick: Operator) -> None:
    for fault, words in ON_MASTER.items():
        sick.lab.break_("ds-01.example.internal", fault)
        said = sick("host", "check", "--group", "virtual-cluster", "-o", "json")
        # What had stayed of the fault before would be found beside this one.
        (found,) = [f for f in said.json["findings"] if f["state"] in ("fail", "warn", "error")]
        # The configured `ca` vouches for the chain, so that this host's own lack of trust bends the rule alone.
        assert (found["check"], found["state"]) == (
            ("cde.endpoint", "warn") if "chain" in fault else ("cde.keytab", "fail")
        ), fault
        assert words in found["observed"], fault
        assert sick.lab.repair("ds-01.example.internal") == 1
    assert loud(sick("host", "check", "--group", "virtual-cluster", "-o", "json")) == {}


def test_authorities_among_comments_in_any_encoding_are_believed_and_no_key_beside_them_leaves_this_machine(
    sick: Operator,
) -> None:
    path = sick.lab._manager.bundle
    before, key = path.read_bytes(), Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    sick.lab.break_("ds-01.example.internal", "untrusted-chain")
    try:
        # As Red Hat's bundle has it, and as an editor with another encoding.
        path.write_bytes("# NetLock Arany (Class Gold) Főtanúsítvány\n# Z".encode() + b"\xfcrich\n" + pem + before)
        said = sick("host", "check", "--check", "cde.endpoint", "-o", "json")
        sent = authorities(site_of(sick.config))
    finally:
        path.write_bytes(before)
    (found,) = [f for f in said.json["findings"] if f["state"] == "warn"]
    assert "the configured `ca` vouches for the chain" in found["observed"]
    assert (sent.count("BEGIN CERTIFICATE"), "PRIVATE" in sent) == (before.count(b"BEGIN CERTIFICATE"), False)


def test_a_ca_without_a_certificate_is_told(sick: Operator, tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nothing\n")
    text = Path(sick.config).read_text()
    (tmp_path / "config.yaml").write_text(re.sub(r"( ca: ).*", rf'\g<1>"{tmp_path}/ca"', text))
    with pytest.raises(Invalid, match=r"ca`, .*/ca, holds no certificate in PEM form"):
        authorities(site_of(tmp_path / "config.yaml"))


# What is at work while Python takes itself down may die of it.
WATCHED = """
import atexit, sys, threading
from maint.cli.start import main
atexit.register(lambda: sys.stderr.write(f"goes down beside {threading.enumerate()[1:]}"))
main()
"""


def test_a_manager_that_never_answers_is_waited_for_no_longer_than_allowed(sick: Operator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as another:
        ports = {"plain": one.getsockname()[1], "tls": another.getsockname()[1]}
        text = re.sub(
            r"(plain|tls)_port: \d+", lambda found: f"{found[1]}_port: {ports[found[1]]}", Path(sick.config).read_text()
        )
        config = Path(sick.config).with_name("silent.yaml")
        config.write_text(text)
        words = ("host", "check", "--host", FIRST, "--timeout", "2s", "-o", "json", "--config", str(config))
        ended = subprocess.run(
            [sys.executable, "-c", WATCHED, *words], env=environment(), capture_output=True, check=False
        )
    assert b"goes down beside [<" not in ended.stderr
    (found,) = [f for f in json.loads(ended.stdout)["findings"] if f["check"] == "cm.agent.heartbeat"]
    assert (found["state"], found["observed"]) == (
        "error",
        "the manager's API did not answer: no answer within 2s",
    )


def test_whatever_ails_one_host_at_once_is_found_and_gone_when_repaired(sick: Operator) -> None:
    for ailment in AILMENTS:
        sick.lab.break_(FIRST, ailment)
    found = loud(sick("host", "check", "-o", "json", *ON_SOME))
    assert found.keys() == {check for ailment in AILMENTS if ailment in PLANTED for check in PLANTED[ailment]}
    sick.lab.repair("wrong-dns")
    assert loud(sick("host", "check", "-o", "json", *ON_SOME)).keys() == found.keys() - PLANTED["wrong-dns"].keys()
    assert sick.lab.repair() == len(AILMENTS) - 1
    assert loud(sick("host", "check", "-o", "json", *ON_SOME)) == {}


def test_two_hosts_whose_names_resolve_wrongly_are_both_named(sick: Operator) -> None:
    second = "base-02.example.internal"
    for name in (FIRST, second):
        sick.lab.break_(name, "wrong-dns")
    said = sick("host", "check", "--group", "base", "-o", "json")
    assert said.code == 1
    assert [f["hosts"] for f in said.json["findings"] if (f["check"], f["state"]) == ("net.dns.fwd", "fail")] in (
        [[FIRST, second]],
        [[FIRST], [second]],
    )


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("unreachable", "refused"),
        ("wrong-key", "HOST KEY HAS CHANGED"),
        ("login-refused", "not let in"),
        ("dies-mid-command", "lost"),
    ],
)
def test_a_bad_host_is_named_with_its_reason_and_hides_nobody(sick: Operator, fault: str, words: str) -> None:
    sick.lab.break_("base-02.example.internal", fault)
    sick.lab.break_(FIRST, "swappiness-60")
    said = sick("host", "check", "--check", "os.swappiness", "-o", "json")
    assert said.code == 1
    hosts = {host["name"]: host for host in said.json["hosts"]}
    assert words in hosts["base-02.example.internal"]["reason"]
    states = {f["state"]: f["hosts"] for f in said.json["findings"]}
    assert states["fail"] == [FIRST]
    assert states["error"] == ["base-02.example.internal"]
    assert len(states["pass"]) == 3


def test_a_host_that_could_not_tell_alone_is_exit_7(sick: Operator) -> None:
    sick.lab.break_("ds-02.example.internal", "unreachable")
    said = sick("host", "check", "--check", "os.swappiness")
    assert said.code == 7
    assert "NOT REACHED  ds-02.example.internal" in said.out


def test_an_interruption_shows_the_answers_that_had_come(sick: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    sick.lab.break_(FIRST, "swappiness-60")

    class Interrupting(hosts_check.Teller):
        def __call__(self, reply: HostReply) -> None:
            super().__call__(reply)
            if reply.host == FIRST:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(hosts_check, "Teller", Interrupting)
    said = sick("host", "check", "--check", "os.swappiness", "-o", "json")
    assert said.code == 130, said.err
    told, _ = json.JSONDecoder().raw_decode(said.out)
    assert [one["hosts"] for one in told["findings"] if one["state"] == "fail"] == [[FIRST]]


def test_equal_findings_are_shown_once_with_hosts_folded(operator: Operator) -> None:
    said = operator("host", "check", "-v", "--check", "os.swappiness")
    assert "base-[01-03].example.internal" in said.out
    assert operator("host", "check", "--check", "os.swappiness").out.count("os.swappiness") == 0


def test_kept_facts_give_the_same_findings_and_exit_code_without_any_host(sick: Operator, tmp_path: Path) -> None:
    sick.lab.break_(FIRST, "disk-97")
    live = sick("host", "check", "-o", "json", *ON_SOME, "--save-facts", str(tmp_path / "facts.json"))
    assert (tmp_path / "facts.json").stat().st_mode & 0o777 == 0o600
    later = maint("host", "check", "-o", "json", "--facts", str(tmp_path / "facts.json"))
    assert later.json == live.json
    assert later.code == live.code == 1
    for secret in ("password", "identity"):
        assert (sick.lab.folder / secret).read_text().strip() not in (tmp_path / "facts.json").read_text()


def test_more_facts_than_can_be_read_back_are_not_kept(
    operator: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "facts.json"
    monkeypatch.setattr(hosts_check, "LARGEST", 1000)
    said = operator("host", "check", "--check", "os.tz", "--save-facts", str(kept))
    assert (said.code, "--facts reads 1000 at most" in said.err, kept.exists()) == (1, True, False)


@pytest.mark.parametrize("option", ["--save-facts", "--report"])
@pytest.mark.parametrize("place", ["/proc/facts", "missing/facts"])
def test_a_file_that_cannot_be_written_is_work_that_failed_and_no_mistake_of_the_config(
    operator: Operator, tmp_path: Path, option: str, place: str
) -> None:
    said = operator("host", "check", "--host", FIRST, "--check", "os.tz", option, str(tmp_path / place))
    assert (said.code, "cannot be written" in said.err) == (1, True), said.err


@pytest.fixture(scope="module")
def facts(operator: Operator, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("facts") / "facts.json"
    operator("host", "check", "--check", "os.tz", "--save-facts", str(path))
    return json.loads(path.read_text())


def test_kept_facts_answer_neither_for_strange_hosts_nor_for_what_hosts_alone_could_tell(
    operator: Operator, tmp_path: Path
) -> None:
    kept = str(tmp_path / "facts.json")
    operator("host", "check", "--check", "os.tz", "--save-facts", kept)
    assert maint("host", "check", "--facts", kept, "--host", FIRST).code == 0
    for more in (("--host", "nobody"), ("--hosts-in", "base"), ("--hosts-from", "manager"), ("--plan", kept)):
        assert maint("host", "check", "--facts", kept, *more).code == 2
    unknown = maint("host", "check", "-o", "nagios", "--facts", kept, "--host", "no|body")
    assert (unknown.code, "'no/body'" in unknown.out) == (3, True)  # after a | a monitor reads figures


def test_what_is_no_text_on_the_command_line_goes_to_the_hosts_as_it_came(operator: Operator) -> None:
    said = operator(
        "host", "check", "--check", "ldap.ad_rights", "--ldap-ou", "ou=\udcff", "--ldap-url", "ldaps://\udcff"
    )
    assert said.code == 7, said.err


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        ("setting", {"matrix": {"os": 5}}),
        ("setting", {"plan": "x"}),
        ("manager", {"clusters": [1]}),
        ("hosts", {"name": 5}),
        ("hosts", {"sent": True}),
        ("", {"taken_at": "2026-01-01T00:00:00"}),
        ("", {"checks": []}),
        ("", {"accepted": [{"check": "os.tz", "until": "soon"}]}),
        ("", {"checks": ["of.tomorrow"]}),
    ],
)
def test_damaged_facts_are_refused_and_never_pass(
    facts: dict[str, Any], tmp_path: Path, part: str, damage: dict[str, object]
) -> None:
    damaged = json.loads(json.dumps(facts))
    for place in damaged["hosts"] if part == "hosts" else [damaged[part] if part else damaged]:
        place.update(damage)
    (tmp_path / "facts.json").write_text(json.dumps(damaged))
    assert maint("host", "check", "--facts", str(tmp_path / "facts.json")).code == 3


def test_a_file_that_holds_no_facts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"format": "maint-facts/1"}')
    assert maint("host", "check", "--facts", str(tmp_path / "x")).code == 3
    assert maint("host", "check", "--facts", str(tmp_path / "gone")).code == 3


def test_monitoring_gets_one_line_and_its_own_exit_codes(sick: Operator) -> None:
    some = ("--check", "time.skew", "--check", "disk.space")
    fine = sick("host", "check", *some, "-o", "nagios")
    assert (fine.code, fine.out.startswith("HOSTS OK - ")) == (0, True)
    sick.lab.break_(FIRST, "clock-7s")
    assert sick("host", "check", *some, "-o", "nagios").code == 1
    sick.lab.break_(FIRST, "disk-97")
    assert sick("host", "check", *some, "-o", "nagios").code == 2
    sick.lab.break_(FIRST, "unreachable")
    assert sick("host", "check", *some, "-o", "nagios").code == 3
    unknown = maint("host", "check", "-o", "nagios", "--config", "/nowhere")
    assert (unknown.code, unknown.out.startswith("HOSTS UNKNOWN - ")) == (3, True)


def test_a_build_server_gets_a_case_for_each_check_and_host_and_a_person_a_page_that_names_what_was_found(
    sick: Operator, tmp_path: Path
) -> None:
    sick.lab.break_(FIRST, "swappiness-60")
    said = sick("host", "check", "-o", "junit", *ON_SOME, "--report", str(tmp_path / "hosts.html"))
    assert said.code == 1, said.err
    tree = ET.fromstring(said.out)
    assert {*SOME} <= {suite.get("name") for suite in tree.findall("testsuite")}
    assert [case.get("name") for case in tree.iter("testcase") if case.find("failure") is not None] == ["os.swappiness"]
    page = (tmp_path / "hosts.html").read_text()
    assert "os.swappiness" in page and FIRST in page and "sysctl -w vm.swappiness=1" in page


def test_hosts_and_checks_can_be_chosen(operator: Operator) -> None:
    said = operator("host", "check", "--hosts-in", "ecs", "--group", "ecs", "-o", "json")
    assert [host["name"] for host in said.json["hosts"]] == ["ds-01.example.internal", "ds-02.example.internal"]
    assert "os.overcommit" not in {f["check"] for f in said.json["findings"]}
    assert operator("host", "check", "--phase", "before-restore", "-q").code == 1  # agents run


@pytest.mark.parametrize(
    ("option", "name"),
    [("--host", "nobody"), ("--hosts-in", "bsae"), ("--check", "os.swapiness"), ("--group", "bsae"), ("--phase", "x")],
)
def test_a_name_that_matches_nothing_is_wrong_usage(operator: Operator, option: str, name: str) -> None:
    said = operator("host", "check", option, name)
    assert (said.code, repr(name) in said.err) == (2, True), said.err


def test_a_chosen_host_does_not_fail_for_the_silence_of_another_ones_agent(operator: Operator) -> None:
    other = "base-03.example.internal"
    unit = operator.lab.machines[other].units["cloudera-scm-agent"]
    assert isinstance(unit, PlainUnit)
    unit.stop()
    unit.stopped_at -= timedelta(seconds=300)
    check = ("host", "check", "--check", "cm.agent.heartbeat", "-o", "json")
    try:
        codes = [operator(*check, *chosen).code for chosen in ((), ("--host", other), ("--host", FIRST))]
    finally:
        unit.start()
    assert codes == [1, 1, 0]


def test_hosts_that_the_config_calls_by_their_short_names_are_known_to_the_manager(
    operator: Operator, tmp_path: Path
) -> None:
    short = tmp_path / "config.yaml"
    short.write_text(re.sub(r'(- name: "\w+-\d\d)\.example\.internal"', r'\1"', Path(operator.config).read_text()))
    other = operator.lab.machines["base-03.example.internal"].units["cloudera-scm-agent"]
    assert isinstance(other, PlainUnit)
    check = ("host", "check", "--check", "cm.agent.heartbeat", "-o", "json")
    for where in ("config", "manager"):
        said = operator(*check, "--hosts-from", where, MAINT_CONFIG=str(short))
        assert (said.code, {one["name"] for one in said.json["hosts"] if one["reached"]}) == (0, SHORT), said.out
    other.stop()
    other.stopped_at -= timedelta(seconds=300)
    try:
        one, another = (operator(*check, "--host", name, MAINT_CONFIG=str(short)) for name in ("base-01", "base-03"))
    finally:
        other.start()
    assert (one.code, another.code) == (0, 1)
    assert [(f["state"], f["hosts"]) for f in another.json["findings"]] == [("fail", ["base-03"])]


def test_what_a_host_could_not_tell_is_shown_and_is_neither_well_nor_wrong(sick: Operator) -> None:
    sick.lab.break_("", "vc-kubectl-down")
    said = sick("host", "check", "--check", "ecs.vault")
    assert (said.code, re.findall(r"ERROR +ecs\.vault", said.out) != []) == (7, True), said.out


@pytest.mark.parametrize(
    "choice",
    [
        ("--host", "base-02.example.internal", "--check", "cm.server"),
        ("--hosts-in", "ecs", "--phase", "before-backup"),
    ],
)
def test_a_choice_that_asks_nothing_is_unknown_and_no_pass(operator: Operator, choice: tuple[str, ...]) -> None:
    said = operator("host", "check", *choice)
    assert said.code == 7
    assert "SKIP" in said.out and "none of these hosts is in manager" in said.out
    assert operator("host", "check", *choice, "-o", "nagios").code == 3


def test_a_group_that_there_is_not_is_refused_in_the_list_too(operator: Operator) -> None:
    assert operator("host", "check", "--list", "--group", "nobody").code == 2
    hint = operator("host", "check", "--group", "disks", "-o", "json").error["hint"]
    assert hint == "there are base, ecs, manager, database, kerberos, virtual-cluster"  # nothing like a name of these
    assert operator("host", "check", "--check", "cm.server", "--group", "ecs").code == 2


def test_all_checks_are_documented_without_a_config(tmp_path: Path) -> None:
    said = maint("host", "check", "--list", "-o", "json", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert said.code == 0
    assert len(said.json["checks"]) > 80
    assert all(check["why"] and check["remedy"] and check["source"] for check in said.json["checks"])


@pytest.mark.parametrize("source", ["config", "manager", "snapshot"])
def test_the_hosts_may_come_from_the_manager_or_a_snapshot(operator: Operator, source: str) -> None:
    said = operator("host", "list", "--hosts-from", source, "-o", "json")
    assert said.code == 0, said.err
    assert [host["name"] for host in said.json["hosts"]] == list(operator.lab.machines)
    checked = operator("host", "check", "--hosts-from", source, "--check", "os.swappiness", "-o", "json")
    assert {host["reached"] for host in checked.json["hosts"]} == {True}


def test_a_snapshots_hosts_are_checked_while_the_manager_is_dead(sick: Operator) -> None:
    sick.lab.server.stop()
    try:
        assert sick("host", "check", "--hosts-from", "manager", "--check", "os.swappiness").code == 4
        said = sick("host", "check", "--hosts-from", "snapshot", "--check", "os.swappiness", "-o", "json")
    finally:
        sick.lab.server.start()
    assert said.code == 0, said.err
    assert [host["name"] for host in said.json["hosts"]] == list(sick.lab.machines)


def test_a_support_matrix_decides_which_releases_pass(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "matrix.yaml").write_text('os: ["rhel 7.9"]\n')
    (tmp_path / "numbers.yaml").write_text("os: [7.9]\n")
    choice = ("host", "check", "--check", "os.release", "-o", "json")
    without = operator(*choice, "--save-facts", str(tmp_path / "facts.json"))
    assert (without.code, [f for f in without.json["findings"] if f["state"] != "skip"]) == (7, [])
    said = operator(*choice, "--matrix", str(tmp_path / "matrix.yaml"))
    assert (said.code, {f["state"] for f in said.json["findings"]}) == (1, {"fail"})
    later = maint(*choice, "--matrix", str(tmp_path / "matrix.yaml"), "--facts", str(tmp_path / "facts.json"))
    assert later.json["findings"] == said.json["findings"]
    assert operator(*choice, "--matrix", str(tmp_path / "numbers.yaml")).code == 3


PLAN = {
    "type": "ecs",
    "install": "internet",
    "name": "ecs-02",
    "base_cluster": "base",
    "hosts": [FIRST],
    "docker_server": FIRST,
    "server": FIRST,
    "agents": [FIRST],
    "image_repository": "embedded",
    "docker_dir": "/docker",
    "data_dir": "/longhorn",
    "local_path_dir": "/docker/local",
    "app_domain": "a-very-long-name-of-a-domain.example.internal",
    "database": "oracle",
}


def test_the_input_of_the_wizard_is_judged(operator: Operator, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(json.dumps(PLAN))
    said = operator("host", "check", "--plan", str(tmp_path / "plan.yaml"), "-o", "json")
    assert said.code == 1
    (finding,) = [f for f in said.json["findings"] if f["check"] == "ecs.plan"]
    for words in (
        "/docker/local lies inside /docker",
        "belongs to the cluster base",
        "oracle database is not supported",
        "45 characters",
        "/longhorn is not there",
    ):
        assert words in finding["observed"], finding["observed"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"install": "http://repository.invalid:8080/x"}, f"{FIRST}: the repository http://repository.invalid"),
        ({"install": "ftp://x; rm -rf /"}, "neither `internet` nor the URL of a repository"),
        ({"app_domain": {"a": 1}}, "app_domain is not a text"),
        ({"database": "postgresql"}, "an external postgresql database is not supported"),
        ({"data_size": "much"}, "data_size 'much' is not a size such as 300G"),
        ({"docker_dir": "/var/tmp", "docker_size": "2T"}, f"{FIRST}: /var/tmp has 200 GiB, and docker_size is 2T"),
        ({"app_domain": "nowhere.invalid"}, "names below apps.nowhere.invalid do not resolve"),
    ],
)
def test_a_repository_that_does_not_answer_and_what_is_no_text_are_found(
    operator: Operator, tmp_path: Path, changed: dict[str, object], words: str
) -> None:
    (tmp_path / "plan.yaml").write_text(json.dumps(PLAN | changed))
    said = operator("host", "check", "--plan", str(tmp_path / "plan.yaml"), "-o", "json")
    (finding,) = [f for f in said.json["findings"] if f["check"] == "ecs.plan"]
    assert words in finding["observed"], finding["observed"]


def test_the_data_services_are_known_by_their_version_where_an_old_api_version_names_no_type(
    operator: Operator, tmp_path: Path
) -> None:
    old = tmp_path / "config.yaml"
    old.write_text(Path(operator.config).read_text().replace('clusters: "v45"', 'clusters: "v30"'))
    words = ("host", "check", "--check", "cde.ozone", "--phase", "before-install", "-o", "json")
    found = [operator(*words, MAINT_CONFIG=str(config)).json["findings"] for config in (operator.config, old)]
    assert found[0] == found[1] and found[0][0]["observed"] == "no base cluster has Ozone"


@pytest.mark.parametrize(("base", "known"), [("base", True), ("Base Cluster 1", True), ("Base Cluster 2", False)])
def test_the_base_cluster_of_a_plan_may_be_named_as_the_wizard_shows_it(
    operator: Operator, tmp_path: Path, base: str, known: bool
) -> None:
    (tmp_path / "plan.yaml").write_text(json.dumps(PLAN | {"base_cluster": base}))
    said = operator("host", "check", "--plan", str(tmp_path / "plan.yaml"), "-o", "json")
    (finding,) = [f for f in said.json["findings"] if f["check"] == "ecs.plan"]
    assert (f"knows no cluster {base}" in finding["observed"]) != known, finding["observed"]


def test_an_accepted_deviation_passes(sick: Operator, tmp_path: Path) -> None:
    sick.lab.break_(FIRST, "swappiness-60")
    text = (sick.lab.folder / "config.yaml").read_text()
    rule = {"reason": "agreed", "owner": "ops", "until": "2999-01-01"}
    rules = [{"check": name, **rule} for name in ("os.swappiness", "os.swappiness.persist", "os.swapiness")]
    entry = f"    accepted: {json.dumps(rules)}\n"
    (sick.lab.folder / "accepting.yaml").write_text(text.rstrip("\n") + "\n" + entry)
    said = maint("host", "check", "--config", str(sick.lab.folder / "accepting.yaml"), "-o", "json", "--host", FIRST)
    assert (said.code, loud(said)) == (0, {})
    assert "no check 'os.swapiness'" in said.err


def test_the_status_of_a_site_says_when_the_managers_certificate_ends(operator: Operator) -> None:
    said = operator("site", "status", "-o", "json")
    assert said.code == 0, said.err
    assert said.json["tls_certificate_ends"].endswith("UTC")
