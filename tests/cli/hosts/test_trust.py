"""`maint host trust`: keys are shown, recorded on a yes, and never replaced by a yes alone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.config import yaml
from maint.lab.create import SITE
from tests.steps.operator import Operator

FIRST = "base-01.example.internal"


@pytest.fixture
def known(operator: Operator) -> Iterator[Path]:
    path = operator.lab.folder / "ssh/known_hosts"
    before = path.read_bytes()
    yield path
    path.write_bytes(before)
    operator.lab.repair()


def test_known_hosts_need_nothing(operator: Operator, known: Path) -> None:
    before = known.read_bytes()
    said = operator("host", "trust", "-o", "json")
    assert said.code == 0
    assert {host["standing"] for host in said.json["hosts"]} == {"known"}
    assert known.read_bytes() == before
    assert "no key recorded: each is known already" in operator("host", "trust").out


def test_an_unknown_key_is_shown_and_recorded_on_a_yes(operator: Operator, known: Path) -> None:
    whole = sorted(known.read_text().splitlines())
    known.write_text("# mine\n")
    assert operator("host", "check", "--check", "os.swappiness").code == 7
    said = operator("host", "trust", given="yes\n")
    assert said.code == 0, said.err
    assert "SHA256:" in said.err
    assert sorted(known.read_text().splitlines()) == ["# mine", *whole]
    assert operator("host", "check", "--check", "os.swappiness").code == 0


def test_without_a_yes_nothing_is_recorded(operator: Operator, known: Path) -> None:
    known.write_text("")
    assert operator("host", "trust", given="").code == 5
    assert operator("host", "trust", given="n\n").code == 5
    assert operator("host", "trust", "--dry-run").code == 0
    assert known.read_text() == ""


def test_a_key_that_differs_is_replaced_only_when_told_so(operator: Operator, known: Path) -> None:
    before = known.read_text()
    operator.lab.break_(FIRST, "wrong-key")
    said = operator("host", "trust", FIRST, "--yes")
    assert said.code == 5
    assert "--replace" in said.err
    assert known.read_text() == before
    assert operator("host", "trust", FIRST, "--yes", "--replace").code == 0
    assert known.read_text() != before
    assert len(known.read_text().splitlines()) == len(before.splitlines())
    assert operator("host", "check", "--host", FIRST, "--check", "os.swappiness").code == 0


def test_an_older_key_that_a_pattern_still_believes_is_told_where_one_is_replaced(
    operator: Operator, known: Path
) -> None:
    old = next(line for line in known.read_text().splitlines() if line.startswith("[127.0.0.1]"))
    known.write_text(f"[127.0.0.?]:* {old.partition(' ')[2]}\n")
    operator.lab.break_(FIRST, "wrong-key")
    said = operator("host", "trust", FIRST, "--yes", "--replace")
    assert said.code == 0, said.err
    assert f"{FIRST}: 1 other key of it still believed" in said.err and str(known) in said.err


def test_a_host_that_does_not_answer_is_named_and_the_others_are_recorded(operator: Operator, known: Path) -> None:
    lines = known.read_text().splitlines()
    known.write_text("")
    operator.lab.break_(FIRST, "unreachable")
    said = operator("host", "trust", "--yes")
    assert said.code == 7
    assert "refused" in said.err
    assert len(known.read_text().splitlines()) == len(lines) - 1


def test_the_key_of_the_jump_host_is_shown_and_recorded_first(operator: Operator, known: Path) -> None:
    config, lines = Path(operator.config), known.read_text().splitlines()
    before = config.read_text()
    document = yaml.load(before, "config").data
    site = document["sites"][SITE]
    jump, *behind = site["hosts"]
    site["hosts"] = behind
    site["ssh"]["jump"] = {"host": jump["address"], "port": jump["port"]}
    config.write_text(json.dumps(document))
    known.write_text("")
    try:
        unknown = operator("host", "check", "--check", "os.swappiness")
        assert f"maint host trust {jump['address']}" in unknown.out + unknown.err
        shown = operator("host", "trust", "--dry-run", "-o", "json").json["hosts"]
        assert [(one["name"], bool(one["fingerprint"])) for one in shown[:2]] == [
            (jump["address"], True), (behind[0]["name"], False),
        ]  # fmt: skip
        assert operator("host", "trust", jump["address"], "--yes").code == 0
        assert len(known.read_text().splitlines()) == 1
        assert operator("host", "trust", "--yes").code == 0
        assert operator("host", "check", "--check", "os.swappiness").code == 0
    finally:
        config.write_text(before)
    assert sorted(known.read_text().splitlines()) == sorted(lines)


def test_a_jump_host_that_is_one_of_the_hosts_is_shown_once_whatever_port_is_the_usual_one(operator: Operator) -> None:
    config = Path(operator.config)
    before = config.read_text()
    document = yaml.load(before, "config").data
    site = document["sites"][SITE]
    jump = site["hosts"][0]
    site["ssh"] |= {"port": jump["port"], "jump": {"host": jump["address"], "port": jump.pop("port")}}
    config.write_text(json.dumps(document))
    try:
        shown = operator("host", "trust", "--dry-run", "-o", "json").json["hosts"]
    finally:
        config.write_text(before)
    assert [one["name"] for one in shown] == [one["name"] for one in site["hosts"]]
