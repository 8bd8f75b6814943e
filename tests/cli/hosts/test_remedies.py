"""What `maint host check` says mends what it found: typed on the lab's host over its SSH, word for word."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from paramiko import Ed25519Key, RejectPolicy, SSHClient

from maint.lab.faults import AILMENTS
from maint.lab.running import Lab
from tests.steps.conftest import copy
from tests.steps.operator import Operator

MANAGER, MASTER = "base-01.example.internal", "ds-01.example.internal"
_CERTIFICATES = "/var/lib/cloudera-scm-agent/agent-cert"


@pytest.fixture(scope="module")
def operator(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """A lab of its own: what is mended stays mended."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("remedies") / "lab")) as lab:
        yield Operator(lab)


def typed(operator: Operator, host: str, line: str) -> str:
    """Type a line at a host's shell, and return what it says against it."""
    return _typed(operator, host, line)[1]


def shown(operator: Operator, host: str, line: str) -> str:
    """Type a line at a host's shell, and return what it shows."""
    return _typed(operator, host, line)[0].rstrip("\n")


def _typed(operator: Operator, host: str, line: str) -> tuple[str, str]:
    assert operator.lab._ssh is not None
    place, port = operator.lab._ssh.endpoints[host]
    with SSHClient() as client:
        client.load_host_keys(str(operator.lab._ssh.known_hosts_file))
        client.set_missing_host_key_policy(RejectPolicy())
        client.connect(place, port, "root", pkey=Ed25519Key.from_private_key_file(str(operator.lab._ssh.key_file)))
        _, out, err = client.exec_command(line)
        return out.read().decode(), err.read().decode()


def looked(operator: Operator, host: str, check: str) -> tuple[str, str]:
    """Return state and remedy of a check on a host."""
    said = operator("host", "check", "--host", host, "--check", check, "-o", "json")
    (found,) = said.json["findings"]
    return found["state"], found["remedy"]


def mended(operator: Operator, check: str) -> None:
    """See a check break, type what it says, and see it pass."""
    state, remedy = looked(operator, MANAGER, check)
    assert state in ("warn", "fail")
    assert typed(operator, MANAGER, remedy) == ""
    assert looked(operator, MANAGER, check)[0] == "pass", remedy


# Ailments, each with a check that breaks and is mended by typing what it says.
TYPED = [
    ("swappiness-60", "os.swappiness"),
    ("swappiness-60", "os.swappiness.persist"),
    ("huge-pages", "os.thp"),
    ("clock-7s", "time.skew"),
    ("clock-skew", "time.skew"),
    ("clock-skew", "time.sync"),
    ("redaction-twice", "cm.redaction"),
    ("keytab-readable", "krb.keytab"),
]
# The others need a person: whose remedy names what, and where.
TOLD = {
    "disk-97": ("disk.space", MANAGER, "make room there: `du -xk / /var"),
    "wrong-dns": ("net.dns.fwd", MANAGER, f"let {MANAGER} lead to 192.0.2."),
    "expired-host-certificate": ("tls.expiry", MANAGER, "let the manager make the certificate anew (Hosts, Generate"),
    "kdc-silent": ("krb.kdc", MANAGER, "start the KDC on kdc.example.internal:88, and open the way there"),
    "keytab-wrong-principal": ("krb.kinit", MANAGER, "let the manager generate the credentials anew"),
    "keytab-rc4": ("krb.keytab", MANAGER, "let the manager generate the credentials anew"),
    "keytab-stale": ("krb.kinit", MANAGER, "let the manager generate the credentials anew"),
    "keytab-truncated": ("krb.keytab", MANAGER, "let the manager generate the credentials anew"),
    "untrusted-chain": (
        "cde.endpoint",
        MASTER,
        "put the authority of the certificate (the virtual cluster's `ca`) into",
    ),
}


def test_every_ailment_is_typed_away_or_told_to_a_person() -> None:
    assert {*dict(TYPED), *TOLD} == {*AILMENTS}


@pytest.mark.parametrize(("ailment", "check"), TYPED)
def test_what_the_remedy_of_an_ailment_says_mends_it_when_typed(operator: Operator, ailment: str, check: str) -> None:
    operator.lab.break_(MANAGER, ailment)
    mended(operator, check)
    operator.lab.repair()


def test_a_clock_that_keeps_a_host_from_its_tickets_is_set_when_the_remedy_is_typed(operator: Operator) -> None:
    assert typed(operator, MANAGER, "sed -i 's/^ forwardable = .*/ kdc_timesync = 0/' /etc/krb5.conf") == ""
    operator.lab.break_(MANAGER, "clock-skew")
    said = operator("host", "check", "--host", MANAGER, "--check", "krb.kinit", "-o", "json")
    (found,) = said.json["findings"]
    assert found["observed"] == "kinit: Clock skew too great while getting initial credentials"
    mended(operator, "krb.kinit")
    assert looked(operator, MANAGER, "time.skew")[0] == "pass"
    operator.lab.repair()
    assert typed(operator, MANAGER, "sed -i 's/^ kdc_timesync = .*/ forwardable = true/' /etc/krb5.conf") == ""


@pytest.mark.parametrize("ailment", TOLD)
def test_a_remedy_for_a_person_names_what_and_where(operator: Operator, ailment: str) -> None:
    check, host, words = TOLD[ailment]
    operator.lab.break_(host, ailment)
    assert looked(operator, host, check)[1].startswith(words)
    operator.lab.repair()


# What an operator may have done to a host, and the check that finds it.
DONE = [
    ("echo 10 > /proc/sys/vm/swappiness", "os.swappiness"),
    ("echo 10 > /proc/sys/vm/swappiness; echo vm.swappiness=10 >> /etc/sysctl.conf", "os.swappiness"),
    ("echo vm.swappiness=60 >> /etc/sysctl.conf", "os.swappiness.persist"),
    ("echo 60 > /proc/sys/vm/swappiness; echo vm.swappiness=30 >> /etc/sysctl.conf", "os.swappiness.persist"),
    ("echo 0 > /proc/sys/vm/overcommit_memory", "os.overcommit"),
    ("echo 128 > /proc/sys/net/core/somaxconn", "os.somaxconn"),
    ("echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6", "net.ipv6"),
    ("chmod 755 /tmp", "os.tmp"),
    ("sed -i 's/^SELINUX=.*/SELINUX=enforcing/' /etc/selinux/config", "os.selinux"),
    (f"chmod 644 {_CERTIFICATES}/cm-auto-host_key.pem; chown root {_CERTIFICATES}/cm-auto-host_key.pem", "tls.files"),
    ("systemctl stop cloudera-scm-agent", "cm.agent"),
]


@pytest.mark.parametrize(("done", "check"), DONE)
def test_what_the_remedy_of_a_setting_says_mends_it_when_typed(operator: Operator, done: str, check: str) -> None:
    assert typed(operator, MANAGER, done) == ""
    mended(operator, check)
