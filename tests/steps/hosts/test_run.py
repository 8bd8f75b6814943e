"""Commands run on hosts once, whatever becomes of the run; units are stopped, started and waited for."""

import json
import signal
import time

import pytest

from tests.forked import Command
from tests.steps.hosts.conftest import run
from tests.steps.operator import environment


def values(said):
    return [action["value"] for action in said.json["actions"]]


def outcomes(said):
    return [action["outcome"] for action in said.json["actions"]]


def count(hosts):
    path = hosts.file(f"{hosts.folder}/log")
    return path.read_text().count("x") if path.exists() else 0


def test_a_command_that_reads_needs_no_yes_and_gives_its_output(hosts):
    path = hosts.local / "mine.yaml"
    step = {"name": "look", **run(hosts.names[0], "echo 'a  b'; echo $((1+1))", reads=True, output=True)}
    path.write_text(json.dumps({"name": "mine", "summary": "Mine.", "parameters": {}, "steps": [step]}))
    said = hosts("playbook", "run", str(path), "-o", "json")
    assert said.code == 0, said.err
    assert values(said) == [{hosts.names[0]: "a  b\n2"}]
    assert "CHANGE" in hosts("playbook", "plan", str(changing(hosts, path))).out


def changing(hosts, path, command="true"):
    step = {"name": "do", **run(hosts.names[0], command)}
    path.write_text(json.dumps({"name": "mine", "summary": "Mine.", "parameters": {}, "steps": [step]}))
    return path


def test_a_plan_tells_the_lines_of_a_command_apart(hosts):
    path = changing(hosts, hosts.local / "mine.yaml", "# tidy up\nrm -rf  /srv/x\n")
    assert "run `# tidy up ⏎ rm -rf /srv/x` on" in hosts("playbook", "plan", str(path)).out


def test_a_command_that_reads_looks_again_until_it_says_so(hosts):
    log = f"{hosts.folder}/tries"
    step = run(hosts.names[0], f"echo x >> {log}; wc -l < {log}", reads=True, output=True)
    again = {"until": f"result['{hosts.names[0]}'] | int > 2", "timeout": "1m", "retry": {"pause": "10ms"}}
    said = hosts.play({**step, **again})
    assert (said.code, values(said)) == (0, [{hosts.names[0]: "3"}]), said.err
    said = hosts.play({**run(hosts.names[0], "true"), **again})
    assert (said.code, "say `reads: true`" in said.err) == (3, True)


def test_output_is_not_kept_unless_asked_for(hosts):
    said = hosts.play(run(hosts.names[0], "echo a-secret-word", reads=True))
    assert (said.code, values(said)) == (0, [None])
    kept = b"".join(path.read_bytes() for path in (hosts.state / "reports").glob("*.html"))
    assert kept.count(b"a-secret-word") == kept.count(b"echo a-secret-word")


def test_unless_tells_where_nothing_is_to_be_done(hosts):
    log = f"{hosts.folder}/log"
    step = run(hosts.names[0], f"echo x >> {log}", unless=f"grep -q x {log}")
    assert outcomes(hosts.play(step)) == ["done"]
    assert outcomes(hosts.play(step)) == ["unchanged"]
    assert count(hosts) == 1


def test_a_command_that_fails_tells_why_and_resume_runs_it_again(hosts):
    log = f"{hosts.folder}/log"
    said = hosts.play(run(hosts.names[0], f"echo x >> {log}; echo 'no such luck' >&2; test -e {hosts.folder}/ok"))
    assert said.code == 1
    assert f"{hosts.names[0]}: status 1: no such luck" in said.err
    hosts.file(f"{hosts.folder}/ok").touch()
    assert hosts("playbook", "resume").code == 0
    assert count(hosts) == 2


@pytest.mark.parametrize(
    ("more", "code", "times"), [({}, 1, 1), ({"repeatable": True}, 0, 2), ({"unless": "grep -q x {folder}/log"}, 0, 1)]
)
def test_a_command_whose_end_nobody_saw_is_decided_by_looking_or_not_at_all(hosts, more, code, times):
    log = f"{hosts.folder}/log"
    given = {key: value.format(folder=hosts.folder) if isinstance(value, str) else value for key, value in more.items()}
    going = f"test -e {hosts.folder}/go"
    step = {
        "name": "do",
        # Where the folder goes before it has looked, it must not go on for good.
        **run(hosts.names[0], f"echo x >> {log}; while test -e {log} && ! {going}; do sleep 0.05; done", **given),
    }
    path = hosts.local / "mine.yaml"
    path.write_text(json.dumps({"name": "mine", "summary": "Mine.", "parameters": {}, "steps": [step]}))
    process = started(hosts, "playbook", "run", str(path), "--yes")
    while not count(hosts) and process.poll() is None:
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    hosts.file(f"{hosts.folder}/go").touch()
    newest = max(one["id"] for one in hosts("playbook", "history", "-o", "json").json["runs"])
    said = hosts("playbook", "resume", newest)
    assert said.code == code, said.err
    assert count(hosts) == times
    if code:
        assert "nobody saw whether" in said.err and f"then `maint playbook dismiss {newest} --reason WORDS`" in said.err
        path.write_text(path.read_text().replace('"command"', '"repeatable": true, "command"'))
        again = hosts("playbook", "resume", newest)  # it keeps its plan, and says so
        assert (again.code, count(hosts), "keeps its plan" in again.err) == (1, times, True), again.err
        assert hosts("playbook", "dismiss", newest, "--reason", "not done there").code == 0
        assert hosts("playbook", "run", str(path), "--limit", hosts.names[0], "--yes").code == 0
        assert count(hosts) == times + 1


def test_what_failed_and_why_on_a_host_is_one_line_without_the_blanks_of_its_rows(lab_hosts, tmp_path):
    lab_hosts.local = tmp_path
    lab_hosts.lab.break_(lab_hosts.names[0], "login-refused")
    said = lab_hosts.play(run(lab_hosts.names[0], "true"))
    lab_hosts.lab.repair("login-refused")
    assert said.code == 1
    told = json.loads(said.out)["actions"][0]["detail"]
    assert told.endswith("root was not let in; Authentication failed."), told


def started(hosts, *words):
    return Command([*words, "--config", str(hosts.config)], environment())


def test_the_manager_server_and_agents_stop_start_and_are_waited_for(lab_hosts, tmp_path):
    lab_hosts.local = tmp_path
    units = {name: machine.units["cloudera-scm-agent"] for name, machine in lab_hosts.lab.machines.items()}
    server = lab_hosts.lab.server
    assert outcomes(lab_hosts.play({"do": "server.stop"}, {"do": "server.stop"})) == ["done", "unchanged"]
    assert not server.active()
    said = lab_hosts.play({"do": "server.start"}, {"do": "server.start"}, {"do": "server.wait"})
    assert outcomes(said) == ["done", "unchanged", "done"]
    some = {"with": {"hosts": list(lab_hosts.names)}}
    said = lab_hosts.play({"do": "agents.stop", **some}, {"do": "agents.stop", **some}, {"do": "agents.stop"})
    assert outcomes(said) == ["done", "unchanged", "done"]
    assert not any(unit.active() for unit in units.values())
    missing = lab_hosts.play({"do": "agents.wait", **some, "timeout": "3s"})
    assert missing.code == 1 and "its agent does not run" in str(missing.error["detail"])
    before = {name: unit.properties()["InvocationID"] for name, unit in units.items()}
    kinds = ["agents.start", "agents.wait", "agents.restart", "agents.wait"]
    said = lab_hosts.play(*({"do": kind} for kind in kinds))
    assert said.code == 0, said.err
    assert outcomes(said) == ["done"] * 4
    assert all(unit.active() and unit.properties()["InvocationID"] != before[name] for name, unit in units.items())


class Flapping:
    """A unit whose process ends at once, and that systemd starts again and again until it is stopped."""

    stopped = False

    def stop(self):
        self.stopped = True

    def active(self):
        return False

    def properties(self):
        return {"ActiveState": "inactive" if self.stopped else "activating"}


def test_a_unit_that_systemd_starts_again_and_again_is_stopped_and_one_of_which_it_says_nothing_is_no_stopped_one(
    lab_hosts, tmp_path
):
    lab_hosts.local = tmp_path
    machine = lab_hosts.lab.machines[lab_hosts.names[0]]
    stop = {"do": "agents.stop", "with": {"hosts": [lab_hosts.names[0]]}}
    before = dict(machine.units)
    machine.units["cloudera-scm-agent"] = flapping = Flapping()
    try:
        assert outcomes(lab_hosts.play(stop, stop)) == ["done", "unchanged"]
        assert flapping.stopped
        machine.facts["lacks"] = "systemctl"
        said = lab_hosts.play(stop)
        assert said.code == 1 and "does not say whether cloudera-scm-agent runs" in said.err, said.err
    finally:
        machine.facts["lacks"] = ""
        machine.units.update(before)


def test_a_secret_that_a_host_prints_is_kept_and_shown_nowhere(lab_hosts, tmp_path):
    hosts, (host, _) = lab_hosts, lab_hosts.names
    hosts.local, secret = tmp_path, (lab_hosts.lab.folder / "password").read_text().strip()
    known = {"do": "server.probe"}  # the password has been used by then
    place = hosts.file("/tmp/said")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"password={secret}\n{'x' * (64 * 1024 - 16 - len(secret))}{secret}")
    for reads in (True, False):
        said = hosts.play(known, run(host, "cat /tmp/said", reads=reads, output=True))
        assert said.code == 0, said.err
        assert values(said)[1][host].startswith("password=•••\nxxx")
        failing = hosts.play(known, run(host, "cat /tmp/said /tmp/said >&2; false", reads=reads))
        assert failing.code == 1 and "•••" in failing.err
        assert "sesa" not in said.out + said.err + failing.out + failing.err
    place.unlink()
    kept = {path: path.read_bytes() for path in hosts.state.rglob("*") if path.is_file()}
    assert [path for path, content in kept.items() if b"sesa" in content] == []


def test_what_a_file_of_a_host_holds_is_planned_without_known_secrets(lab_hosts, tmp_path):
    hosts, (host, _) = lab_hosts, lab_hosts.names
    hosts.local, secret = tmp_path, (lab_hosts.lab.folder / "password").read_text().strip()
    place = hosts.file("/etc/mine")
    place.write_text(f"one\nadmin {secret}\n")
    (tmp_path / "mine").write_text("one\n")
    put = {"do": "host.put", "with": {"hosts": [host], "file": str(tmp_path / "mine"), "path": "/etc/mine"}}
    said = hosts.plan({"do": "cluster.start", "with": {"cluster": "base"}}, put)
    place.unlink()
    assert (secret in said.out, "-admin •••" in said.out) == (False, True), said.out + said.err
