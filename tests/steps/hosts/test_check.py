"""Hosts are judged within a run; what is wrong stops it, is told, or decides what follows."""

import json

import pytest

from tests.steps.hosts.conftest import run

FIRST = "base-01.example.internal"


def check(**more):
    return {"do": "host.check", "with": {"groups": ["base"], "checks": ["os.swappiness"], **more}, "register": "found"}


BEHIND = {"do": "assert", "with": {"that": "found.failed == ['os.swappiness'] or found.ok"}}


@pytest.fixture(scope="module")
def ailing(lab_hosts):
    """A lab, the first of whose hosts swaps as it does out of the box."""
    lab_hosts.lab.break_(FIRST, "swappiness-60")
    return lab_hosts


@pytest.fixture
def lab(ailing, tmp_path):
    ailing.local = tmp_path
    return ailing


def test_what_is_wrong_stops_the_run_and_names_check_and_host(lab):
    said = lab.play(check(), BEHIND)
    assert said.code == 1
    assert len(said.error["detail"]) == 1
    assert said.error["detail"][0].startswith(f"os.swappiness {FIRST}: 60; expected: ")
    way, rest = said.error["hint"].removeprefix("`").split("` ")
    assert rest == "tells how to mend it; then the same command"  # nothing of it can be taken up
    assert "sysctl -w vm.swappiness=1" in lab(*way.split()[1:]).out


def test_a_warning_goes_on_and_the_run_ends_partly_done(lab):
    said = lab.play(check(on_failure="warn"), BEHIND)
    assert said.code == 7, said.err
    assert [action["outcome"] for action in said.json["actions"]] == ["done", "done"]
    assert FIRST in said.err


def test_registered_findings_decide_what_follows(lab):
    said = lab.play(check(on_failure="register"), BEHIND)
    assert said.code == 0, said.err
    found = said.json["actions"][0]["value"]
    assert (found["ok"], found["failed"], found["hosts"]) == (False, ["os.swappiness"], [FIRST])


def test_hosts_that_are_well_go_on(lab):
    said = lab.play(check(hosts=["base-02.example.internal"], groups=[]), BEHIND)
    assert said.code == 0, said.err
    assert said.json["actions"][0]["detail"] == "1 check of 1 host: nothing is wrong"


def test_where_no_host_is_named_all_are_asked_and_a_phase_chooses_the_checks(lab):
    said = lab("host", "check", "--phase", "before-backup", "-o", "json", "--allow-plain")
    wrong = {one["check"] for one in said.json["findings"] if one["state"] in ("fail", "error")}
    step = {"do": "host.check", "with": {"phase": "before-backup", "on_failure": "register"}}
    found = lab.play(step).json["actions"][0]["value"]
    assert {*found["failed"], *found["unclear"]} == wrong


@pytest.mark.parametrize("wrong", [{"checks": ["os.swapiness"]}, {"phase": "before"}, {"checks_in": ["esc"]}])
def test_a_check_that_does_not_exist_is_a_mistake_of_the_playbook(lab, wrong):
    said = lab.play(check(**wrong))
    assert said.code == 3
    assert "there is no" in said.error["message"]


def test_a_host_that_is_not_reached_is_one_line(lab):
    lab.lab.break_("base-02.example.internal", "unreachable")
    said = lab.play({"do": "host.check", "with": {"hosts": ["base-02.example.internal"]}})
    way = said.error["hint"].removeprefix("`").split("` ")[0]
    told = lab(*way.split()[1:]).err
    lab.lab.repair("unreachable")
    assert said.code == 1
    assert len(said.error["detail"]) == 1
    assert "was not reached" in said.error["detail"][0]
    assert "base-02.example.internal: Connection refused; try: ssh -p " in told


def test_a_host_that_has_left_the_config_is_named_when_the_run_is_taken_up(lab):
    lab.lab.break_(FIRST, "swappiness-60")
    other = "base-02.example.internal"
    said = lab.play(run(other, "true"), check(hosts=[FIRST], groups=[]))
    assert said.code == 1, said.err
    before = lab.config.read_text()
    lab.config.write_text(before.replace(f'"{FIRST}"', '"elsewhere"'))
    try:
        said = lab("playbook", "resume", json.loads(said.out)["run"])
    finally:
        lab.config.write_text(before)
    assert said.code not in (0, 70), said.err
    assert f"there is no host '{FIRST}'" in said.err


def test_what_no_check_had_anything_to_say_about_is_no_pass(lab):
    step = check(checks=["cm.server"], hosts=["base-02.example.internal"], groups=[])
    said = lab.play(step)
    assert said.code == 1 and "none of these hosts is in manager" in str(said.error["detail"]), said.err
    step["with"]["on_failure"] = "register"
    found = lab.play(step).json["actions"][0]["value"]
    assert (found["ok"], found["unclear"]) == (False, ["cm.server"])
