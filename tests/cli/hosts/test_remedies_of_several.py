"""What `maint host check` says of several hosts, the manager or a plan mends it when it is done to the letter."""

# ruff: noqa: E501 - tables of cases are read by their columns

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from maint.checks.ecs_plan import KEYS
from maint.lab.manager import jks
from maint.lab.manager.simulator import PlainUnit
from maint.lab.running import Lab
from maint.lab.virtual_clusters import kubernetes
from tests.cli.hosts.test_remedies import shown, typed
from tests.steps.conftest import copy
from tests.steps.operator import Operator

MANAGER, OTHER, THIRD = (f"base-0{n}.example.internal" for n in (1, 2, 3))
ECS = ("ds-01.example.internal", "ds-02.example.internal")
TRUSTSTORE = "/var/lib/cloudera-scm-agent/agent-cert/cm-auto-global_truststore.jks"


@pytest.fixture(scope="module")
def operator(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """A lab for all of them: each leaves what it has looked at mended."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("several") / "lab")) as lab:
        yield Operator(lab)


def broken(operator: Operator, check: str, *more: str) -> list[dict[str, Any]]:
    """Return what a check finds wrong."""
    findings = operator("host", "check", "--check", check, "-o", "json", *more).json["findings"]
    return [one for one in findings if one["state"] not in ("pass", "skip")]


def on(finding: Mapping[str, Any]) -> str:
    """Return the one host of a finding."""
    (host,) = finding["hosts"]
    return str(host)


def commands(words: str) -> list[str]:
    return re.findall("`([^`]*)`", words)


def a_zone(operator: Operator, _: pytest.MonkeyPatch) -> None:
    operator.lab.machines[OTHER].facts["timezone"] = "CET+0100"
    (found,) = broken(operator, "os.tz")
    assert (on(found), found["observed"]) == (OTHER, "CET+0100, others UTC+0000")
    change, ask = commands(found["remedy"])
    said = re.search(r"Time zone: (\S+)", shown(operator, found["remedy"].rpartition(" on ")[2], ask))
    assert said and typed(operator, OTHER, f"{change} {said[1]}") == ""


def accounts(operator: Operator, _: pytest.MonkeyPatch) -> None:
    files = operator.lab.machines[OTHER].files
    for path in ("/etc/passwd", "/etc/group"):
        lines = files.read(path).decode().splitlines()
        kept = [re.sub(r"^hive:x:\d+(:\d+)?", r"hive:x:5\1", one) for one in lines if not one.startswith("hdfs:")]
        files.write(path, "".join(f"{one}\n" for one in kept).encode())
    assert typed(operator, OTHER, "touch /srv/table; chown hive:hive /srv/table") == ""
    (found,) = broken(operator, "os.users")
    assert (on(found), "hdfs missing" in found["observed"]) == (OTHER, True)
    assert typed(operator, OTHER, found["remedy"]) == ""
    for line in commands(found["remedy"].partition(" # ")[2]):
        assert typed(operator, OTHER, line) == ""
    numbers = "stat -c '%u %g' /srv/table; id hive"
    assert shown(operator, OTHER, numbers).split()[0] in shown(operator, MANAGER, "id hive")
    assert shown(operator, OTHER, "id hdfs hive") == shown(operator, MANAGER, "id hdfs hive")


def packages(operator: Operator, _: pytest.MonkeyPatch) -> None:
    facts = operator.lab.machines[OTHER].facts
    facts["packages"] = facts["packages"].replace("7.6.5", "7.4.4")
    (found,) = broken(operator, "cm.version")
    assert (on(found), found["observed"]) == (OTHER, "7.4.4, others 7.6.5")
    assert typed(operator, OTHER, found["remedy"]) == ""


def parcels(operator: Operator, _: pytest.MonkeyPatch) -> None:
    folder = "/opt/cloudera/parcels"
    for host in (MANAGER, THIRD):
        typed(operator, host, f"mkdir -p {folder}/CDH-7")
    typed(operator, OTHER, f"mkdir -p {folder}/CDH-6/lib {folder}/.flood/CDH-6")
    (found,) = broken(operator, "cm.parcels")
    assert (on(found), found["observed"]) == (OTHER, "CDH-6, others CDH-7; left in .flood: CDH-6")
    (distributed,) = re.findall(r"distribute (\S+) to this host", found["remedy"])
    typed(operator, OTHER, f"mkdir {folder}/{distributed}")  # as the manager's agent does
    for line in commands(found["remedy"]):
        assert typed(operator, OTHER, line) == ""


def an_agent(operator: Operator, _: pytest.MonkeyPatch) -> None:
    typed(operator, OTHER, "systemctl stop cloudera-scm-agent")
    unit = operator.lab.machines[OTHER].units["cloudera-scm-agent"]
    assert isinstance(unit, PlainUnit)
    unit.stopped_at -= timedelta(seconds=300)
    (found,) = broken(operator, "cm.agent.heartbeat")
    assert on(found) == OTHER and re.fullmatch(r"(299|30\d) s ago", found["observed"])
    assert typed(operator, OTHER, found["remedy"]) == ""


def a_truststore(operator: Operator, _: pytest.MonkeyPatch) -> None:
    operator.lab.machines[MANAGER].files.write(TRUSTSTORE, jks.write([], "of last year"))
    (found,) = broken(operator, "tls.truststore")
    assert found["observed"] == f"the password does not open {TRUSTSTORE} on {MANAGER}"
    assert typed(operator, MANAGER, commands(found["remedy"])[0]) == ""


def a_stranger(operator: Operator, _: pytest.MonkeyPatch) -> None:
    config, ports = Path(operator.config), json.loads((operator.lab.folder / "lab.json").read_bytes())["ssh_ports"]
    right = config.read_text()
    config.write_text(right.replace(f"port: {ports[MANAGER]}\n", f"port: {ports[OTHER]}\n"))
    (found,) = broken(operator, "cm.identity")
    assert (on(found), f"calls itself {OTHER}" in found["observed"]) == (MANAGER, True)
    assert "`hosts:`" in found["remedy"] and "the right address" in found["remedy"]
    config.write_text(right)


def a_domain(operator: Operator, _: pytest.MonkeyPatch) -> None:
    config = Path(operator.config)

    def name(domain: str) -> None:
        text = re.sub(r"(?m)^    app_domain: .*\n", "", config.read_text())
        config.write_text(text.replace("    backup:\n", f"    app_domain: {domain}\n    backup:\n"))

    name(f"apps.{'a' * 26}.org")
    (found,) = broken(operator, "ecs.domain.length")
    assert found["observed"] == f"{'a' * 26}.org: 30"
    most, place = re.findall(r"of (\d+) characters .* `app_domain: (.*)…`", found["remedy"])[0]
    name(f"{place}{'a' * (int(most) - 4)}.org")


def ozone(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    world = operator.lab.world
    (base,) = (one for one in world.deployment["clusters"] if one["name"] == "base")
    (hive,) = (one for one in base["services"] if one["name"] == "hive")
    added = json.loads(json.dumps({**hive, "type": "OZONE"}).replace("hive", "ozone"))
    monkeypatch.setitem(base, "services", [*base["services"], added])
    assert operator("service", "stop", "ozone", "--yes").code == 0
    (found,) = broken(operator, "cde.ozone")
    assert found["observed"] == "Ozone: DISABLED"
    assert operator(*shlex.split(found["remedy"])[1:], "--yes").code == 0


def capacity(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    size = {"allowScheduling": True, "storageReserved": 0}
    there = {"default": {"storageAvailable": 50_000_000_000}}
    monkeypatch.setattr(
        kubernetes,
        "_disks",
        lambda node: {**node, "spec": {"disks": {"default": size}}, "status": {"diskStatus": there}},
    )
    for host in ECS:
        for fact, value in (("cpus", "4"), ("memory_kb", "8000000")):
            monkeypatch.setitem(operator.lab.machines[host].facts, fact, value)
    found = broken(operator, "cde.capacity")[0]
    assert found["observed"] == "free: 6.3 of 8 processors, 12 of 15 GiB; 100 GB of volumes".replace(";", ",")
    for words in ("0.7 processors and 2.74 GiB more: add hosts to the ECS cluster", "10 GB of volumes more: give"):
        assert words in found["remedy"], found["remedy"]
    groups = operator.lab._facts["hosts"]
    monkeypatch.setitem(groups, THIRD, [*groups[THIRD], "ecs"])  # as the manager does it: it becomes a node
    there["default"]["storageAvailable"] += 10_000_000_000


GOOD = {
    "type": "ecs", "install": "internet", "name": "ecs-02", "base_cluster": "base", "hosts": [*ECS], "docker_server": ECS[0],
    "server": ECS[0], "agents": [ECS[1]], "image_repository": "embedded", "docker_dir": "/d", "data_dir": "/l",
    "local_path_dir": "/p", "docker_size": "100G", "app_domain": "x.example", "database": "embedded",
}  # fmt: skip
# Each plan has as many mistakes as can stand beside each other.
PLANS: list[dict[str, object]] = [
    {"extra": 1, "type": "base", "install": "ftp://x", "name": "", "docker_size": "much", "database": "oracle", "data_dir": "l"},
    {"image_repository": {"a": 1}, "hosts": [*ECS, ECS[0]], "server": [*ECS], "agents": [], "local_path_dir": "/d/x"},
    {"hosts": [ECS[1]], "agents": [ECS[1]], "base_cluster": "nobody", "data_dir": "/d", "app_domain": "x" * 32},
    {"name": "base", "docker_size": "2T", "install": "http://nowhere.invalid/x"},
]  # fmt: skip


class Person:
    """Somebody who has a plan, and does what the check says, word for word."""

    def __init__(self, operator: Operator, plan: dict[str, Any]) -> None:
        self._operator, self.plan = operator, plan

    def follow(self, words: str) -> None:
        found = [(does, said) for pattern, does in self._WAYS if (said := re.fullmatch(pattern, words))]
        assert len(found) == 1, words
        found[0][0](self, *found[0][1].groups())

    def _change(self, key: str, value: object = None) -> None:
        self.plan[key] = GOOD[key] if value is None else value

    def _drop(self, key: str) -> None:
        del self.plan[key]

    def _name_host(self, host: str) -> None:
        self.plan["hosts"] = [*dict.fromkeys([*self.plan["hosts"], host])]

    def _move(self, folder: str) -> None:
        key = next(key for key in ("local_path_dir", "data_dir", "docker_dir") if self.plan[key] == folder)
        self.plan[key] = GOOD[key]

    def _leave(self, host: str, cluster: str) -> None:
        deployment = self._operator.lab.world.deployment
        deployment["clusters"] = [one for one in deployment["clusters"] if one["name"] != cluster]
        assert host in self.plan["hosts"]

    def _make(self, host: str, line: str) -> None:
        assert typed(self._operator, host, line) == ""
        self._mount(host, line.split()[-1])

    def _mount(self, host: str, *folders: str) -> None:
        for folder in folders:
            row = f"/dev/{folder[1:]} {folder} xfs rw,noatime 0 0"
            assert typed(self._operator, host, f"echo '{row}' >> /proc/mounts") == ""

    def _record(self, host: str, domain: str) -> None:
        self._operator.lab.machines[host].facts["dns"] += f";192.0.2.44 *.{domain}"

    _WAYS: ClassVar[list[tuple[str, Callable[..., None]]]] = [
        (r"take (\w+) out of the plan", _drop),
        (rf"name ({'|'.join(KEYS)}) in the plan \(.*\)", _change),
        (r"write `(\w+): (\w+)`(?:, or .*)?", _change),
        (r"write (\w+) as (?:one text|a number with G or T)", _change),
        (r"name (\S+) (?:once under hosts|under hosts, too)", _name_host),
        (r"name one host as (\w+)", _change),
        (r"name hosts under (agents)", _change),
        (r"give (\w+) an absolute path .*", _change),
        (r"choose a folder outside \S+ for (\S+)", _move),
        (r"choose another folder for one use of (\S+)", _move),
        (r"choose an (app_domain) of \d+ characters at most", _change),
        (r"name one of (?:.*) as (base_cluster)", _change),
        (r"choose another (name)", _change),
        (r"name another host than (\S+), or take it out of (\S+) .*", _leave),
        (r"on (\S+): `(mkdir -p \S+)`, and mount a volume of its own there", _make),
        (r"on (\S+): mount a volume of its own on each of the three folders", lambda me, host: me._mount(host, "/d", "/l", "/p")),
        (r"on \S+: mount a volume of \w+ on \S+, or lower (\w+)", _change),
        (r"open the way from \S+ to nowhere.invalid:80, or correct (install)", _change),
        (r"give the DNS that (\S+) asks a record \*\.(\S+) that leads to .*", _record),
    ]  # fmt: skip


def a_plan(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = operator.lab.world.deployment
    monkeypatch.setitem(deployment, "clusters", deployment["clusters"])  # one of which goes on the way
    file = operator.lab.folder / "plan.json"
    options = ("--host", ECS[0], "--host", ECS[1], "--plan", str(file))
    followed = 0
    for mistakes in PLANS:
        person = Person(operator, {**GOOD, **mistakes})
        for _again in range(4):  # some mistakes hide others
            file.write_text(json.dumps(person.plan))
            if not (wrong := broken(operator, "ecs.plan", *options)):
                break
            for found in wrong:
                followed += len(found["remedy"].split("; "))
                for words in found["remedy"].split("; "):
                    person.follow(words)
        assert wrong == []
    assert followed > 20


# By check: what is broken, found for the right reason, and done as the check says.
ACTED: dict[str, Callable[[Operator, pytest.MonkeyPatch], None]] = {
    "os.tz": a_zone,
    "os.users": accounts,
    "cm.version": packages,
    "cm.parcels": parcels,
    "cm.agent.heartbeat": an_agent,
    "tls.truststore": a_truststore,
    "cm.identity": a_stranger,
    "ecs.domain.length": a_domain,
    "ecs.plan": a_plan,
    "cde.ozone": ozone,
    "cde.capacity": capacity,
}


@pytest.mark.parametrize("check", ACTED)
def test_what_a_check_of_several_says_mends_it(operator: Operator, monkeypatch: pytest.MonkeyPatch, check: str) -> None:
    ACTED[check](operator, monkeypatch)  # of a lab that `test_a_clean_lab_has_nothing_to_complain_about` finds clean
    assert broken(operator, check) == []
