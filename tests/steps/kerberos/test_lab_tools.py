"""klist and kinit of a lab host answer as MIT's own do, for the same bytes and the same keys."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from maint.lab.hosts import kerberos as realms
from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.kerberos import Entry, Realm, keytab_of, read_keytab
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.executor import run
from tests.steps.kerberos.kdc import AHEAD, Kdc

ROLE, OTHER, NOBODY = "hdfs/wn01.example.com@EXAMPLE.COM", "hive/wn01@EXAMPLE.COM", "nobody@EXAMPLE.COM"
Both = Callable[[bytes | None, str], tuple[tuple[int, str, str], tuple[int, str, str]]]


@pytest.fixture(scope="module")
def role(kdc: Kdc) -> bytes:
    """A keytab of a role that the KDC knows, by its second keys."""
    for principal in (ROLE, OTHER):
        kdc.add(principal)
    return kdc.keytab(ROLE)


@pytest.fixture
def machine(kdc: Kdc, role: bytes, tmp_path: Path) -> Machine:
    """A lab host of the same realm."""
    machine = Machine("wn01.example.com", tmp_path / "root", {})
    furnish_host(machine)
    known = {}
    for principal, content in ((ROLE, role), (OTHER, kdc.keytab(OTHER))):
        entries = read_keytab(content)
        keys = {str(entry.kind): entry.key.hex() for entry in entries}
        known[principal] = {"version": entries[0].version, "keys": keys}
    (tmp_path / "realm.json").write_text(json.dumps(known))
    machine.login = Realm(tmp_path / "realm.json").login
    machine.reaches = lambda host, port: (host, port) == ("kdc.example.com", 88)
    return machine


@pytest.fixture
def both(kdc: Kdc, machine: Machine, tmp_path: Path) -> Both:
    """Runs a command line with a keytab, by the real tools and on the lab host; {} is the file."""

    def ran(content: bytes | None, words: str) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
        path = tmp_path / "role.keytab"
        if content is not None:
            path.write_bytes(content)
            machine.files.write(str(path), content, 0o600)
        line = words.format(path)
        environ = {**os.environ, **kdc.environment, "LC_ALL": "C", "TZ": "UTC", "KRB5CCNAME": "MEMORY:maint"}
        real = subprocess.run(["sh", "-c", line], env=environ, capture_output=True, text=True, check=False)
        ours = run(machine, f"export KRB5CCNAME=MEMORY:maint; {line}", b"")
        return (
            (real.returncode, real.stdout, real.stderr),
            (ours.status, ours.out.decode(), ours.err.decode()),
        )

    return ran


def spoilt(role: bytes) -> dict[str, bytes | None]:
    """Return keytabs that are good, spoilt, or none at all."""
    sizes = {17: 16, 18: 32, 23: 16, 16: 24, 20: 32, 99: 8}
    made = [Entry(ROLE, 300, kind, b"k" * size, 1800000000) for kind, size in sizes.items()]
    return {
        "good": role,
        "many kinds": keytab_of(made),
        "another's": realms.with_wrong_principal(role),
        "rc4": realms.with_rc4_alone(role),
        "old": realms.with_old_keys(role),
        "cut off": realms.cut_off(role),
        "cut off in its second key": role[:-9],
        "a gap in front": role[:2] + (-8).to_bytes(4, "big", signed=True) + b"\0" * 8 + role[2:],
        "head alone": role[:2],
        "junk": b"hello world",
        "empty": b"",
        "old head": b"\5\1" + role[2:],
        "absent": None,
    }


CASES = [
    "good", "many kinds", "another's", "rc4", "old", "cut off", "cut off in its second key", "a gap in front",
    "head alone", "junk", "empty", "old head", "absent",
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_klist_shows_and_refuses_what_the_real_one_does(both: Both, role: bytes, case: str) -> None:
    for words in ("klist -kte {}", "klist -kt {}", "klist -k {}"):
        real, ours = both(spoilt(role)[case], words)
        assert ours == real


@pytest.mark.parametrize("case", CASES)
def test_kinit_gets_a_ticket_or_the_real_ones_words(both: Both, role: bytes, case: str) -> None:
    for principal in (ROLE, ROLE.partition("@")[0], OTHER, NOBODY, "x@ELSEWHERE.INVALID"):
        real, ours = both(spoilt(role)[case], f"kinit -r 1d -kt {{}} {principal}")
        assert ours == real
    stranger = "hdfs/elsewhere.invalid@EXAMPLE.COM"
    real, ours = both(spoilt(role)[case], f"kinit -kt {{}} {stranger}")
    assert ours == real


@pytest.mark.parametrize("taken", ["", " kdc_timesync = 0\n"], ids=["the KDC's time", "its own time"])
@pytest.mark.parametrize("ahead", [290, 420, -420])
def test_kinit_bears_a_clock_that_is_off_as_the_real_one_does(
    kdc: Kdc, machine: Machine, role: bytes, tmp_path: Path, ahead: int, taken: str
) -> None:
    """By default it takes the KDC's time for its own; where that is switched off, five minutes are too much."""
    keytab, config, head = tmp_path / "role.keytab", tmp_path / "krb5.conf", "[libdefaults]\n"
    config.write_text((kdc.folder / "krb5.conf").read_text().replace(head, head + taken))
    there = machine.files.read("/etc/krb5.conf").decode().replace(head, head + taken)
    machine.files.write("/etc/krb5.conf", there.encode())
    machine.facts["clock_drift"] = str(ahead)
    answers = []
    for content in (role, realms.with_old_keys(role)):
        keytab.write_bytes(content)
        machine.files.write(str(keytab), content, 0o600)
        words = [sys.executable, "-c", AHEAD, ROLE, f"FILE:{keytab}", str(ahead)]
        real = subprocess.run(
            words, env={**os.environ, "KRB5_CONFIG": str(config), "LC_ALL": "C"}, capture_output=True, text=True
        )
        ours = run(machine, f"KRB5CCNAME=MEMORY:maint kinit -kt {keytab} {ROLE}", b"")
        assert (ours.status, ours.err.decode()) == (real.returncode, real.stderr)
        answers.append(real.stderr)
    refused = "Clock skew too great" if taken and ahead != 290 else ""
    assert refused in answers[0] and bool(refused) == bool(answers[0]) and "Preauthentication failed" in answers[1]


def test_a_realm_keeps_its_keys_and_its_file_to_itself(tmp_path: Path) -> None:
    realm = Realm(tmp_path / "realm.json")
    keytab = realm.keytab("hdfs/a@R")
    again = Realm(tmp_path / "realm.json")
    assert [entry.key for entry in read_keytab(again.keytab("hdfs/a@R"))] == [e.key for e in read_keytab(keytab)]
    assert again.login("hdfs/a@R", keytab) == ""
    assert (tmp_path / "realm.json").stat().st_mode & 0o777 == 0o600
