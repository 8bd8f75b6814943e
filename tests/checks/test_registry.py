"""The registry as a whole: complete, documented, read-only, and honest about what is accepted."""

import re
import subprocess
from datetime import date

import pytest

from maint.checks.check import PHASES, SOURCES, acceptances, judge
from maint.checks.gather import script
from maint.checks.registry import CHECKS, QUESTIONS, select
from maint.checks.thresholds import THRESHOLDS, threshold
from maint.config.schema import Accepted
from maint.errors import UsageError
from maint.model.fleet import State
from tests.checks.facts import host, site

PROMISED = [
    "os.release", "os.kernel", "os.swappiness", "os.swappiness.persist", "os.overcommit", "os.thp",
    "os.thp.persist", "os.tuned", "os.selinux", "os.firewalld", "os.fapolicyd", "os.unneeded", "os.somaxconn",
    "os.entropy", "os.rngd", "os.nproc", "os.nofile", "os.umask", "os.32bit", "os.tz", "os.tmp",
    "os.uptime_reboot", "os.python", "os.users", "cpu.virt", "jdk.present", "jdk.jce", "jdk.krb_referrals",
    "jdbc.driver", "net.hostname", "net.hosts", "net.localhost", "net.dns.fwd", "net.dns.rev", "net.dns.peers",
    "net.ipv6", "net.multihome", "net.nscd", "net.mtu", "net.speed", "net.ports.free", "time.sync", "time.skew",
    "disk.space", "disk.inodes", "disk.data.mount", "disk.ro", "disk.ecs", "ecs.packages", "ecs.iptables.rules",
    "ecs.iptables.backend", "ecs.nm", "ecs.nm_cloud_setup", "ecs.dns.wildcard", "ecs.domain.length",
    "ecs.port53", "ecs.leftovers", "ecs.resolv", "ecs.kubelet.nodes", "ecs.vault", "cde.ozone", "cde.capacity",
    "cde.endpoint", "cde.keytab", "cm.server", "cm.agent", "cm.agent.heartbeat", "cm.ports", "cm.redaction",
    "cm.uuid", "cm.heap", "cm.procdir", "cm.version", "cm.parcels", "cm.certmanager", "tls.files", "tls.expiry",
    "tls.match", "db.conf", "db.reach", "db.pg", "db.oracle", "db.mysql", "krb.conf", "krb.keytab", "krb.kinit",
    "krb.kdc", "ldap.ad_rights", "ecs.plan",
    "tls.truststore",
]  # fmt: skip


def test_every_check_that_was_promised_is_there() -> None:
    assert set(PROMISED) - set(CHECKS) == set()


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_a_check_tells_why_and_what_to_do_and_asks_what_there_is(check) -> None:
    assert all(text for text in (check.expected, check.why, check.remedy))
    assert all(key in SOURCES for key in check.source.split())
    assert set(check.asks) <= set(QUESTIONS)
    assert set(check.phases) <= set(PHASES)
    assert (check.rule is None) != (check.site_rule is None)
    assert check.groups


def test_every_question_is_asked_by_somebody() -> None:
    assert set(QUESTIONS) == {name for check in CHECKS.values() for name in check.asks}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_whole_script_is_valid_shell(shell: str) -> None:
    ended = subprocess.run([shell, "-n"], input=script(QUESTIONS, {}, "T"), capture_output=True, check=False)
    assert ended.stderr == b""


def test_nothing_that_runs_by_itself_writes() -> None:
    written = re.compile(
        r"(?<![0-9&<])>{1,2}\s*(?!/dev/null|&)[^\s]|\b(rm|mv|cp|tee|touch|mkdir|sed -i|systemctl (re)?start)\b"
    )
    free = {name for check in select() for name in check.asks}
    assert [name for name in free if written.search(QUESTIONS[name].replace("<>", ""))] == []


def test_what_writes_runs_only_when_it_is_named() -> None:
    assert "ldap.ad_rights" not in {check.id for phase in PHASES for check in select(phase=phase)}
    assert [check.id for check in select(["ldap.ad_rights"])] == ["ldap.ad_rights"]


def test_phases_and_groups_choose() -> None:
    assert "ecs.leftovers" not in {check.id for check in select()}
    assert "ecs.leftovers" in {check.id for check in select(phase="before-install")}
    assert {"kerberos"} <= set(CHECKS["krb.conf"].groups)
    assert all("ecs" in check.groups for check in select(groups=["ecs"]))
    for words in ({"ids": ["os.swapiness"]}, {"groups": ["all"]}, {"phase": "later"}):
        with pytest.raises(UsageError):
            select(**words)


def test_thresholds_follow_the_release() -> None:
    assert [threshold("nscd.wanted", release) for release in ("8", "9.4", "10.1")] == [1, 1, 0]
    assert all(entries[0][0] == (0,) for entries in THRESHOLDS.values())


def accepted(until: date, hosts: tuple[str, ...] = ()) -> State:
    known = site()
    host({"swappiness": "60"}, name="a", site=known)
    rule = Accepted(check="os.swappiness", hosts=hosts, reason="agreed", owner="ops", until=until)
    (finding,) = judge([CHECKS["os.swappiness"]], known, [rule])
    return finding.state


def test_an_accepted_deviation_passes_until_its_last_day_and_fails_after_it() -> None:
    assert accepted(date(2026, 11, 21)) == State.PASS
    assert accepted(date(2026, 11, 20)) == State.FAIL
    assert accepted(date(2026, 11, 21), ("b",)) == State.FAIL


def test_an_expired_acceptance_turns_a_warning_into_a_failure() -> None:
    known = site()
    host({"swappiness": "5"}, name="a", site=known)
    listed = [{"check": "os.swappiness", "hosts": ("a",), "reason": "r", "owner": "ops", "until": "2026-01-01"}]
    (finding,) = judge([CHECKS["os.swappiness"]], known, acceptances(listed))
    assert finding.state == State.FAIL
    assert "2026-01-01" in finding.observed


@pytest.mark.parametrize(
    "lacking", [{"owner": None}, {"owner": " "}, {"reason": ""}, {"until": None}, {"until": "soon"}, {"hosts": "a"}]
)
def test_nothing_is_accepted_for_which_nobody_answers_until_a_day(lacking: dict[str, object]) -> None:
    whole = {"check": "os.swappiness", "hosts": ["a"], "reason": "r", "owner": "ops", "until": "2026-12-01"}
    assert len(acceptances([whole])) == 1
    with pytest.raises(ValueError):
        acceptances([{**whole, **lacking}])
