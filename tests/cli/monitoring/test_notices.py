"""Who is told of what, after whatever worked on a site: a real program writes it down."""

import fcntl
import json
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from maint.adapters.clock import SystemClock
from maint.adapters.stores.local import LocalStore
from maint.engine.lease import Lease, Terms
from maint.engine.lock import site_lock
from tests.steps.conftest import PASSWORD
from tests.steps.operator import SITE, Operator

TOLD = """
import json, os, sys
with open({path!r}, "a") as file:
    file.write(json.dumps({{**json.load(sys.stdin), "environment": dict(os.environ)}}) + "\\n")
"""


def configured(operator: Operator, text: str) -> None:
    """Add keys to the site."""
    path = operator.lab.folder / "config.yaml"
    path.write_text(path.read_text().rstrip() + "\n" + text)


def listening(operator: Operator, name: str = "pager", more: str = "on: [failure, success, stale, recovered]") -> Path:
    """Have a program told; return the file of what it was told, a line each."""
    told, program = operator.lab.folder / f"{name}.jsonl", operator.lab.folder / f"{name}.py"
    program.write_text(TOLD.format(path=str(told)))
    command = json.dumps([sys.executable, str(program)])
    configured(operator, f"    notify:\n      - {{name: {name}, {more}, exec: {{command: {command}}}}}\n")
    return told


def events(told: Path) -> list[tuple[str, str, int]]:
    """Return what was told: event, verb and exit code."""
    lines = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    return [(line["event"], line["verb"], line["exit"]) for line in lines]


def test_a_failure_is_told_then_what_recovered_then_each_success(loaded: Operator) -> None:
    told = listening(loaded)
    loaded.lab.break_("export", "error-500")
    failed = loaded("backup", "create")
    loaded.lab.repair()
    assert failed.code not in (0, 7)
    assert loaded("backup", "verify", "--level", "1").code == 0
    assert loaded("backup", "create", "--open-window", "--yes").code == 0
    assert events(told) == [
        ("failure", "backup create", failed.code),
        ("success", "backup verify", 0),
        ("recovered", "backup create", 0),
    ]
    first = json.loads(told.read_text().splitlines()[0])
    assert first["words"].startswith("backup create failed: ")
    assert first["run"] == loaded("playbook", "history", "-o", "json").json["runs"][-2]["id"]
    assert first["seconds"] >= 0 and f"--site {SITE}" in first["hint"]
    assert PASSWORD not in told.read_text()


def test_a_program_that_is_told_inherits_no_secret(alone: Operator) -> None:
    told = listening(alone)
    assert alone("backup", "verify", "--level", "1", AWS_SECRET_ACCESS_KEY="s3cr3t-of-the-store").code == 0
    (line,) = told.read_text().splitlines()
    assert "s3cr3t-of-the-store" not in line
    assert set(json.loads(line)["environment"]) <= {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
    }


def test_a_run_that_cannot_begin_is_told_and_a_dismissed_one_raises_nothing(alone: Operator) -> None:
    told = listening(alone)
    configured(alone, "    metrics: m/maint.prom\n")
    metrics = alone.lab.folder / "m/maint.prom"
    alone.lab.break_("export", "error-500")
    alone("backup", "create")
    assert re.search(r'maint_verb_exit_code\{site="lab",verb="backup create"\} [1-9]', metrics.read_text())
    run = alone("playbook", "history", "-o", "json").json["runs"][-1]["id"]
    assert alone("playbook", "dismiss", run, "--reason", "looked at").code == 0
    assert 'maint_verb_exit_code{site="lab",verb="backup create"' not in metrics.read_text()
    alone.lab.stop()
    refused = alone("backup", "create", "--open-window", "--yes")
    assert refused.code == 4
    assert events(told)[-1] == ("failure", "backup create", 4)


def test_another_run_at_work_and_wrong_usage_are_not_told(alone: Operator) -> None:
    told = listening(alone)
    with site_lock(alone.state, SITE, "something", SystemClock()):
        assert alone("backup", "create").code == 6
        assert alone("backup", "verify").code == 6
    assert alone("cluster", "stop", "nowhere", "--yes").code == 2
    assert events(told) == []


def test_a_run_of_another_site_at_the_same_manager_holds_this_one_off(alone: Operator) -> None:
    assert alone("backup", "create").code == 7
    (manager,) = (alone.state.parent / ".managers").iterdir()
    with (manager / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = alone("backup", "create", "-o", "json")
        assert (refused.code, refused.out) == (6, "") and "another run works on the manager" in refused.err
        assert alone("backup", "verify", "--level", "1").code == 0  # it asks the manager nothing
    assert alone("backup", "create").code == 7


def test_a_dead_man_s_switch_is_told_no_start_of_what_never_began(alone: Operator, httpserver: HTTPServer) -> None:
    httpserver.expect_request(re.compile("/p.*")).respond_with_data("OK")
    url = httpserver.url_for("/p")
    configured(alone, f"    notify: [{{name: dead-man, ping: {{url: '{url}'}}}}]\n")
    with site_lock(alone.state, SITE, "something", SystemClock()):
        assert alone("backup", "verify").code == 6
        assert alone("backup", "drill").code == 6
        assert httpserver.log == []
    assert alone("backup", "verify", "--level", "1").code == 0
    assert [request.path for request, _ in httpserver.log] == ["/p/start", "/p"]
    assert ["exit code" in request.get_data(as_text=True) for request, _ in httpserver.log] == [False, True]
    assert "dead-man: left alone, since a test would reset" in alone("notify", "test").out
    assert len(httpserver.log) == 2


@pytest.mark.parametrize("words", [("backup", "create"), ("backup", "verify", "--level", "1")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_stopped_while_its_start_is_told_is_told_its_end(
    alone: Operator, words: tuple[str, ...], number: int
) -> None:
    begun, ended = threading.Event(), threading.Event()

    def answer(request: Request) -> Response:
        if request.path == "/p/start":
            begun.set()
            ended.wait(60)
        return Response("OK")

    told = listening(alone)
    with HTTPServer(threaded=True) as server:
        server.expect_request(re.compile("/p.*")).respond_with_handler(answer)
        configured(alone, f"      - {{name: dead-man, ping: {{url: '{server.url_for('/p')}'}}}}\n")
        process = alone.fork(*words, "--allow-plain")
        assert begun.wait(60)
        process.send_signal(number)
        process.communicate(timeout=60)
        ended.set()
    assert process.returncode == 128 + number
    assert f"/p/{128 + number}" in [request.path for request, _ in server.log]
    assert [exit_ for _, _, exit_ in events(told)] == ([143] if number == signal.SIGTERM else [])


def test_doctor_tells_a_stale_backup_once_and_that_it_is_fresh_again(alone: Operator) -> None:
    told = listening(alone)
    path = alone.lab.folder / "config.yaml"
    fresh = path.read_text()
    path.write_text(fresh.replace("    backup:\n", "    backup:\n      max_age: 0s\n", 1))
    assert alone("doctor", "--dry-run").code != 1 and events(told) == []
    for _ in range(2):
        alone("doctor")
    assert events(told) == [("stale", "backup create", 1)]
    path.write_text(fresh)
    alone("doctor")
    assert events(told)[1:] == [("recovered", "backup create", 0)]
    stale, again = map(json.loads, told.read_text().splitlines())
    assert stale["hint"] == f"`maint doctor --site {SITE}` tells what stands in the way"
    assert again["words"].startswith("fresh again: the newest verified restorable backup, ")


def test_that_a_backup_is_stale_is_told_again_where_it_has_reached_nobody(alone: Operator) -> None:
    told, path, program = listening(alone), alone.lab.folder / "config.yaml", alone.lab.folder / "pager.py"
    path.write_text(path.read_text().replace("    backup:\n", "    backup:\n      max_age: 0s\n", 1))
    whole = program.read_text()
    program.write_text("raise SystemExit(1)")
    assert "notice pager was not told" in alone("doctor").err
    program.write_text(whole)
    for _ in range(2):
        alone("doctor")
    assert events(told) == [("stale", "backup create", 1)]


def test_a_notice_that_fails_is_warned_of_listed_and_fails_nothing(alone: Operator) -> None:
    switch = "{name: switch, verbs: [backup dril, mine], ping: {url: 'http://127.0.0.1:1'}}"
    configured(alone, f"    notify: [{switch}, {{name: pager, on: [success], exec: {{command: [/bin/false]}}}}]\n")
    (line,) = [one for one in alone("notify", "list").out.splitlines() if one.startswith("switch")]
    assert "ping: each start and end" in line and "stale" not in line  # whatever `on` says
    wrong = "switch is told of 'backup dril', which is not a verb of maint"
    slip = f"sites.{SITE}.notify: {wrong}; did you mean 'backup drill'?"
    assert [one for one in alone("config", "validate").err.splitlines() if "told of" in one] == [f"warning: {slip}"]
    said = alone("backup", "verify", "--level", "1")
    assert said.code == 0
    assert "notice pager was not told: exec: /bin/false ended with status 1" in said.err
    assert alone("notify", "list", "-o", "json").json["notices"][1]["problem"] == "exec: /bin/false ended with status 1"
    line = next(one for one in alone("doctor", "-o", "json").json["checks"] if one["label"] == "notice pager")
    assert line["state"] == "warn"
    assert alone("notify", "test").code == 7
    assert alone("notify", "test", "nobody").code == 2
    assert alone("notify", "test", "--dry-run").code == 0


def test_a_test_of_notices_that_fails_says_what_helps_each(alone: Operator, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/hook").respond_with_data("", status=500)
    missing = alone.lab.folder / "no-such-file"
    ways = (
        f"{{name: chat, webhook: {{url: '{httpserver.url_for('/hook')}'}}}}",
        f"{{name: file, webhook: {{url: 'file:{missing}'}}}}",
        "{name: away, webhook: {url: 'http://127.0.0.1:1'}}",
    )
    configured(alone, f"    notify: [{', '.join(ways)}]\n")
    hint = alone("notify", "test", "-o", "json").error["hint"]
    assert "chat: look at what that address takes" in hint
    assert "file: put it back there, or correct its path" in hint
    assert "away: correct the notice's `url`" in hint
    assert alone("notify", "test", "file", "-o", "json").error["hint"] == "put it back there, or correct its path"


def test_a_lease_that_was_taken_over_is_told_once_as_a_failure_and_stands_in_the_metrics(alone: Operator) -> None:
    told, shared, figures = listening(alone), alone.lab.folder / "shared", alone.lab.folder / "maint.prom"
    configured(alone, f"    shared_state: {shared}\n    metrics: {figures}\n")
    dead = Lease(LocalStore(shared), SITE, SystemClock(), "dead", "playbook export", Terms(-10.0, 0.0, 0.0))
    list(dead.take())
    assert alone("cluster", "stop", "base", "--yes").code == 0
    assert alone("cluster", "stop", "base", "--yes").code == 0
    assert events(told) == [
        ("failure", "backup create", 1),
        ("success", "stop-cluster", 0),
        ("success", "stop-cluster", 0),
    ]
    assert "held by" in json.loads(told.read_text().splitlines()[0])["words"]
    lines = dict(line.rsplit(" ", 1) for line in figures.read_text().splitlines() if line.startswith("maint_lease"))
    assert float(lines[f'maint_lease_taken_over_timestamp_seconds{{site="{SITE}"}}']) > 0
    assert lines[f'maint_lease_held{{site="{SITE}"}}'] == "0"


def test_a_lease_that_was_taken_over_is_told_by_what_ends_next_where_a_kill_came_in_between(alone: Operator) -> None:
    told, program, shared = listening(alone), alone.lab.folder / "pager.py", alone.lab.folder / "shared"
    configured(alone, f"    shared_state: {shared}\n")
    whole = program.read_text()
    program.write_text("import os\nos.kill(os.getppid(), 9)\n")
    dead = Lease(LocalStore(shared), SITE, SystemClock(), "dead", "playbook export", Terms(-10.0, 0.0, 0.0))
    list(dead.take())
    process = alone.fork("backup", "verify", "--level", "1")
    _, said = process.communicate()
    assert process.returncode == -9, said
    program.write_text(whole)
    for _ in range(2):
        assert alone("backup", "verify", "--level", "1").code == 0
    assert [kind for kind, _, _ in events(told)] == ["failure", "success", "success"]


def test_programs_around_a_run_stand_in_its_report(alone: Operator) -> None:
    configured(
        alone, "    hooks: {before_run: [[/bin/true]], after_run: [[/bin/sh, -c, 'echo \"a | b\" >&2; exit 3']]}\n"
    )
    assert alone("service", "stop", "hive", "--cluster", "base", "--yes").code == 0
    report = alone("playbook", "report", "-o", "json").json["report"]
    ran = [(one["hook"], one["command"], one["problem"]) for one in report["hooks"]]
    assert ran[0] == ("before_run", "/bin/true", "")
    assert (ran[1][0], ran[1][2].endswith("ended with status 3; a | b")) == ("after_run", True)
    folder = alone.state / "reports"
    pages = {kind: (folder / f"{report['id']}.{kind}").read_text() for kind in ("md", "html")}
    assert "| before_run | `/bin/true` | " in pages["md"] and "ended with status 3; a \\| b" in pages["md"]
    assert "Programs around it" in pages["html"] and "ended with status 3; a | b" in pages["html"]


def test_trouble_with_a_program_after_a_run_is_told_to_who_wants_only_errors_and_warnings(alone: Operator) -> None:
    configured(alone, "    hooks: {after_run: [[/bin/sh, -c, 'echo the slot is taken >&2; exit 3']]}\n")
    said = alone("service", "stop", "hive", "--cluster", "base", "--yes", "--quiet")
    assert (said.code, said.err.startswith("warning: `after_run`: ")) == (0, True), said.err
    assert "the slot is taken" in said.err
