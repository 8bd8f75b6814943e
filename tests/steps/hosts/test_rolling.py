"""Hosts a few at a time, only some of them, and on without one that fails."""

import json

import pytest

from maint.errors import WorkFailed
from maint.lab.hosts.shell.call import Failed
from maint.model.plan import Plan
from maint.steps.hosts.run import Touched
from tests.steps.hosts.conftest import run

THREE = ["base-01.example.internal", "base-02.example.internal", "ds-01.example.internal"]


@pytest.fixture
def lab(lab_hosts, tmp_path):
    lab_hosts.local, lab_hosts.folder = tmp_path, f"{tmp_path}/host"
    for name in THREE:
        (lab_hosts.lab.machines[name].root / lab_hosts.folder.lstrip("/")).mkdir(parents=True)
    return lab_hosts


def touch(lab, file, hosts=THREE, **keys):
    step = run(hosts[0], f"test ! -e {lab.folder}/bad && touch {lab.folder}/{file}", repeatable=True)
    step["with"]["hosts"] = hosts
    return {**step, **keys}


def spoil(lab, *names):
    for name in names:
        (lab.lab.machines[name].root / lab.folder.lstrip("/") / "bad").touch()


def touched(lab, file):
    return [name for name in THREE if (lab.lab.machines[name].root / f"{lab.folder}/{file}".lstrip("/")).exists()]


def book(lab, *steps, **blocks):
    path = lab.local / "mine.yaml"
    named = [{"name": f"step {number}", **step} for number, step in enumerate(steps)]
    path.write_text(json.dumps({"name": "mine", "summary": "Mine.", "parameters": {}, "steps": named, **blocks}))
    return str(path)


def test_a_step_is_planned_for_so_many_hosts_at_a_time(lab):
    for serial, sizes in ((1, [1, 1, 1]), (2, [2, 1]), ("67%", [2, 1]), ("1%", [1, 1, 1])):
        said = lab("playbook", "plan", book(lab, touch(lab, "a", serial=serial)), "-o", "json")
        actions = said.json["plan"]["actions"]
        assert [len(action["arguments"]["hosts"]) for action in actions] == sizes
    assert actions[0]["name"] == "step 0 (1/3)"


def test_the_first_batch_that_fails_keeps_the_others_from_beginning(lab):
    spoil(lab, THREE[0])
    assert lab.play(touch(lab, "a", serial=1)).code == 1
    assert touched(lab, "a") == []


def test_a_run_goes_on_without_as_many_hosts_as_may_fail_and_says_so(lab):
    spoil(lab, THREE[0])
    said = lab.play(touch(lab, "a", serial=1, max_fail=1), touch(lab, "b"))
    assert said.code == 7, said.err
    assert (touched(lab, "a"), touched(lab, "b")) == (THREE[1:], THREE[1:])
    assert f"--limit {THREE[0]}" in said.err


def test_why_a_host_was_left_out_is_told_with_all_that_was_said_of_it(lab):
    lab.lab.break_(THREE[1], "disk-full")
    (lab.local / "file").write_text("new\n")
    put = {"do": "host.put", "with": {"hosts": THREE, "file": f"{lab.local}/file", "path": f"{lab.folder}/file"}}
    said = lab.play({**put, "max_fail": 1})
    lab.lab.repair("disk-full")
    assert said.code == 7, said.err
    assert said.json["actions"][0]["detail"].endswith(": No space left on device"), said.json
    assert touched(lab, "file") == [THREE[0], THREE[2]]


def test_a_host_that_does_not_answer_the_plan_may_be_left_out_as_its_refusal_says(lab):
    lab.lab.break_(THREE[1], "unreachable")
    (lab.local / "file").write_text("new\n")
    put = {"do": "host.put", "with": {"hosts": THREE, "file": f"{lab.local}/file", "path": f"{lab.folder}/file"}}
    said = lab.play({**put, "max_fail": 1})
    assert (said.code, "a playbook's --limit leaves them out" in said.err) == (4, True), said.err
    said = lab("playbook", "run", str(lab.local / "mine.yaml"), "--limit", f"{THREE[0]},{THREE[2]}", "--yes")
    lab.lab.repair("unreachable")
    assert (said.code, touched(lab, "file")) == (0, [THREE[0], THREE[2]]), said.err


def test_what_puts_things_back_is_done_on_the_hosts_that_were_lost_too(lab):
    spoil(lab, THREE[0])
    back = {"name": "back", **touch(lab, "back")}
    back["with"]["command"] = f"touch {lab.folder}/back"
    said = lab("playbook", "run", book(lab, touch(lab, "a", max_fail=1), **{"finally": [back]}), "--yes")
    assert said.code == 7, said.err
    assert (touched(lab, "a"), touched(lab, "back")) == (THREE[1:], THREE)


@pytest.mark.parametrize("reads", [True, False])
def test_what_the_others_printed_is_kept_where_a_host_is_lost(lab, reads):
    spoil(lab, THREE[0])
    step = {**run(THREE[0], f"test ! -e {lab.folder}/bad && echo x", reads=reads, output=True), "max_fail": 1}
    step["with"]["hosts"] = THREE
    said = lab.play(step)
    assert said.code == 7, said.err
    assert said.json["actions"][0]["value"] == dict.fromkeys(THREE[1:], "x")


def test_one_more_failure_than_may_be_stops_it(lab):
    spoil(lab, *THREE[:2])
    assert lab.play(touch(lab, "a", serial=1, max_fail=1), touch(lab, "b")).code == 1
    assert (touched(lab, "a"), touched(lab, "b")) == ([], [])


def test_hosts_that_cannot_be_reached_count_and_the_others_are_done(lab):
    lab.lab.break_(THREE[1], "unreachable")
    said = lab.play(touch(lab, "a", max_fail="50%"), touch(lab, "b"))
    lab.lab.repair("unreachable")
    assert said.code == 7, said.err
    assert touched(lab, "b") == [THREE[0], THREE[2]]


def test_a_run_that_is_killed_once_it_has_lost_a_host_says_so_when_it_is_taken_up(lab):
    spoil(lab, THREE[0])
    assert lab.play(touch(lab, "a", max_fail=1), touch(lab, "b")).code == 7
    journal = max((lab.state / "runs").glob("*.jsonl"))
    before, lost, after = journal.read_bytes().partition(b'"key": "lost"')
    journal.write_bytes(before + lost + after.partition(b"\n")[0] + b"\n")
    said = lab("playbook", "resume", journal.stem)
    assert (said.code, f"--limit {THREE[0]}" in said.err) == (7, True), said.err
    assert touched(lab, "b") == THREE[1:]


def test_what_is_done_again_is_tried_on_the_host_that_was_lost_at_the_first_time(lab):
    spoil(lab, THREE[0])
    (lab.local / "motd").write_text("x\n")
    file = f"{lab.folder}/sub/motd"
    put = {"do": "host.put", "with": {"hosts": THREE, "file": str(lab.local / "motd"), "path": file}, "max_fail": 1}
    back = {"do": "host.put_back", "with": {"hosts": THREE, "path": file}}
    for name in THREE[1:]:
        (lab.lab.machines[name].root / f"{lab.folder}/sub".lstrip("/")).mkdir()
    blocked = run(THREE[1], f"test -e {lab.folder}/go")
    assert lab.play(put, blocked, failing=[back]).code == 1
    (lab.lab.machines[THREE[0]].root / f"{lab.folder}/sub".lstrip("/")).mkdir()
    (lab.lab.machines[THREE[1]].root / f"{lab.folder}/go".lstrip("/")).touch()
    said = lab("playbook", "resume", lab("playbook", "history", "-o", "json").json["runs"][-1]["id"])
    assert (said.code, touched(lab, "sub/motd")) == (0, THREE), said.err


class Stuck:
    """A unit whose first restart fails."""

    def __init__(self, unit):
        self.unit, self.fails = unit, True

    def __getattr__(self, name):
        return getattr(self.unit, name)

    def restart(self):
        if self.fails:
            self.fails = False
            raise Failed("Job for cloudera-scm-agent.service failed.")
        self.unit.restart()


def test_a_host_that_was_lost_and_is_found_again_is_restarted_with_those_that_an_attempt_had_begun_on(lab):
    (lab.local / "motd").write_text("x\n")
    file = f"{lab.folder}/sub/motd"
    put = {"do": "host.put", "with": {"hosts": THREE, "file": str(lab.local / "motd"), "path": file}, "max_fail": 1}
    back = {"do": "host.put_back", "with": {"hosts": THREE, "path": file}}
    roots = {name: lab.lab.machines[name].root / f"{lab.folder}/sub".lstrip("/") for name in THREE}
    for name in THREE[1:]:
        roots[name].mkdir()
    units = {name: lab.lab.machines[name].units["cloudera-scm-agent"] for name in THREE}
    before = {name: unit.properties()["InvocationID"] for name, unit in units.items()}
    lab.lab.machines[THREE[1]].units["cloudera-scm-agent"] = Stuck(units[THREE[1]])
    try:
        assert lab.play(put, {"do": "agents.restart", "with": {"hosts": THREE}}, failing=[back]).code == 1
        roots[THREE[0]].mkdir()
        said = lab("playbook", "resume", lab("playbook", "history", "-o", "json").json["runs"][-1]["id"])
    finally:
        lab.lab.machines[THREE[1]].units["cloudera-scm-agent"] = units[THREE[1]]
    assert (said.code, touched(lab, "sub/motd")) == (0, THREE), said.err
    assert all(unit.properties()["InvocationID"] != before[name] for name, unit in units.items())


def test_what_was_lost_stays_lost_when_the_run_is_taken_up(lab):
    spoil(lab, THREE[0])
    blocked = run(THREE[1], f"test -e {lab.folder}/go")
    assert lab.play(touch(lab, "a", max_fail=1), blocked, touch(lab, "b")).code == 1
    (lab.lab.machines[THREE[0]].root / lab.folder.lstrip("/") / "bad").unlink()
    (lab.lab.machines[THREE[1]].root / lab.folder.lstrip("/") / "go").touch()
    said = lab("playbook", "resume", lab("playbook", "history", "-o", "json").json["runs"][-1]["id"])
    assert said.code == 7, said.err
    assert touched(lab, "b") == THREE[1:]


def test_members_of_each_come_so_many_at_a_time(lab):
    step = run("{{ item[0] }}", "true")
    step["with"]["hosts"] = "{{ item }}"
    said = lab("playbook", "plan", book(lab, {**step, "each": THREE, "serial": 2}), "-o", "json")
    assert [action["arguments"]["hosts"] for action in said.json["plan"]["actions"]] == [THREE[:2], THREE[2:]]


def test_a_limit_leaves_out_all_other_hosts_and_steps_without_one(lab):
    fetch = [
        {"do": "host.fetch", "with": {"host": one, "path": "/etc/hosts", "to": str(lab.local / one)}} for one in THREE
    ]
    steps = [
        touch(lab, "a"),
        touch(lab, "b", hosts=[THREE[2]]),
        {"do": "assert", "with": {"that": "true"}},
        fetch[1],
        fetch[2],
    ]
    said = lab("playbook", "run", book(lab, *steps), "--limit", f"{THREE[0]},{THREE[1]}", "--yes", "-o", "json")
    assert said.code == 0, said.err
    assert (touched(lab, "a"), touched(lab, "b")) == (THREE[:2], [])
    assert [action["kind"] for action in said.json["actions"]] == ["host.run", "assert", "host.fetch"]
    assert [one for one in THREE if (lab.local / one).exists()] == [THREE[1]]


def test_whoever_is_asked_is_told_of_a_limit(lab):
    path = book(lab, touch(lab, "a"), {"do": "approve", "with": {"question": "go on?"}})
    said = lab("playbook", "plan", path, "--limit", "base")
    assert "for site lab, limited to base (" in said.out
    assert "go on? (limited to base)" in said.out
    plan = lab("playbook", "plan", path, "--limit", "base", "-o", "json").json["plan"]
    assert (plan["limit"], Plan.from_json({**plan}).limit) == (["base"], ["base"])
    before = {*(lab.state / "runs").glob("*.jsonl")}  # of tests that had this lab before
    assert lab("playbook", "run", path, "--limit", "base", "--yes").code == 1  # nobody is there to ask
    (journal,) = {*(lab.state / "runs").glob("*.jsonl")} - before
    kept = json.loads(journal.read_text().splitlines()[0])["plan"]
    assert "limit" not in kept  # which the version before would call damaged


def test_a_limit_may_name_a_group_and_refuses_what_nobody_knows(lab):
    path = book(lab, touch(lab, "a"))
    said = lab("playbook", "plan", path, "--limit", "base", "-o", "json")
    assert said.json["plan"]["actions"][0]["arguments"]["hosts"] == THREE[:2]
    said = lab("playbook", "plan", path, "--limit", "bsae")
    assert (said.code, "'base'" in said.err) == (2, True)
    said = lab("playbook", "plan", "probe", "--limit", "base")
    assert (said.code, "leaves nothing" in said.err) == (2, True)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"serial": 0}, "`serial` is at least 1"),
        ({"serial": "few"}, "serial"),
        ({"max_fail": -1}, "max_fail"),
        ({"do": "assert", "with": {"that": "true"}, "max_fail": 1}, "`max_fail` belongs to a step that names hosts"),
        ({"do": "assert", "with": {"that": "true"}, "serial": 1}, "`serial` belongs to a step that names hosts"),
    ],
)
def test_what_makes_no_sense_is_a_mistake_with_its_place(lab, keys, words):
    said = lab("playbook", "lint", book(lab, {**touch(lab, "a"), **keys}))
    assert (said.code, words in said.err) == (3, True)


def test_several_steps_for_each_host_in_turn_are_an_own_playbook_that_another_includes(lab):
    inner = {
        "name": "inner", "summary": "Inner.", "parameters": {"host": {"type": "string"}},
        "steps": [{"name": name, **touch(lab, name, hosts=["{{ host }}"])} for name in ("a", "b")],
    }  # fmt: skip
    (lab.local / "parts").mkdir()
    (lab.local / "parts/inner.yaml").write_text(json.dumps(inner))
    outer = book(lab, {"playbook": "parts/inner.yaml", "each": THREE, "with": {"host": "{{ item }}"}})
    said = lab("playbook", "plan", outer, "-o", "json")
    actions = said.json["plan"]["actions"]
    assert [(one["name"], one["arguments"]["hosts"]) for one in actions] == [
        (name, [host]) for host in THREE for name in ("a", "b")
    ]
    assert lab("playbook", "run", outer, "--yes").code == 0
    assert touched(lab, "b") == THREE


def test_a_step_whose_hosts_are_all_left_out_says_so_once(lab):
    spoil(lab, THREE[0])
    said = lab.play(touch(lab, "a", hosts=THREE[:1], max_fail=1))
    detail = said.json["actions"][0]["detail"]
    assert (said.code, detail.count("left out"), detail.count(THREE[0])) == (7, 1, 1), detail


def test_a_command_is_run_on_resume_where_the_host_was_away_before_it_could_begin(lab):
    step = run(THREE[0], f"echo x >> {lab.folder}/log")
    step["with"]["hosts"] = THREE
    lab.lab.break_(THREE[0], "unreachable")
    try:
        said = lab.play(step)
        assert said.code == 1, said.err
    finally:
        lab.lab.repair()
    said = lab("playbook", "resume", json.loads(said.out)["run"])
    assert said.code == 0, said.err
    assert [(lab.lab.machines[name].root / f"{lab.folder}/log".lstrip("/")).read_text() for name in THREE] == [
        "x\n"
    ] * 3


def test_no_command_begins_on_a_host_once_it_has_been_counted_where_it_may_have_begun():
    touched = Touched()
    touched.add("a")
    touched.add("b")
    touched.remove("b")
    assert touched.close() == {"a"}
    with pytest.raises(WorkFailed):
        touched.add("c")
