"""Smoke test and one-off runs: what they make, what they find out, and that nothing is left behind."""

import json
import re
import signal
import time
from collections.abc import Callable

import pytest

from maint.adapters.virtual_clusters.client import VirtualClusterClient
from maint.errors import CannotReach
from tests.adapters.virtual_clusters.operator import VcOperator, written


def left(vc: VcOperator) -> list[str]:
    """What is there of jobs and resources."""
    return [*vc.api.jobs, *vc.api.resources]


def killed_when(vc: VcOperator, ready: Callable[[], bool], *words: str, how: int = signal.SIGKILL) -> int:
    """Start a command, kill it once something is so, and return its exit code; what it hears ends it in order."""
    process = vc.fork(*words)
    deadline = time.monotonic() + 200
    while not ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()
    process.send_signal(how)
    told = process.communicate(timeout=200)
    assert process.returncode == (-how if how == signal.SIGKILL else 128 + how), told
    return process.returncode


def test_a_smoke_test_runs_a_job_of_its_own_and_leaves_nothing(vc):
    vc.api.jobs["theirs"] = {"name": "theirs", "type": "spark"}
    vc.api.add_file("theirs-too", "x", b"")
    said = vc("smoke", "--yes")
    assert said.code == 0, said.err
    assert left(vc) == ["theirs", "theirs-too"]
    assert len(vc.api.runs) == 1 and vc.api.runs[0]["job"].startswith("maint-")


def test_a_smoke_test_waits_for_a_log_that_is_late(vc):
    vc.api.switches.log_late = 1
    assert vc("smoke", "--yes").code == 0


def test_a_run_that_succeeds_without_a_marker_is_no_success(vc, monkeypatch):
    from maint.steps.virtual_clusters import smoke

    monkeypatch.setattr(smoke, "_SOURCE", 'print("something else")\n')
    from maint.steps.virtual_clusters import runs

    monkeypatch.setattr(runs, "_LATE", 0.0)
    said = vc("smoke", "--yes")
    assert (said.code, "does not hold" in said.err, left(vc)) == (1, True, [])


def test_a_run_that_did_not_print_what_it_should_is_not_taken_for_done_when_it_is_taken_up(vc, monkeypatch):
    from maint.steps.virtual_clusters import runs, smoke

    with monkeypatch.context() as wrong:
        wrong.setattr(smoke, "_SOURCE", 'print("something else")\n')
        wrong.setattr(runs, "_LATE", 0.0)
        assert vc("smoke", "--yes").code == 1
    said = taken_up(vc)
    assert (said.code, len(vc.api.runs), left(vc)) == (0, 2, []), said.err


@pytest.mark.parametrize("answers_id", [True, False])
def test_a_killed_smoke_test_is_taken_up_without_a_second_run(vc, answers_id):
    vc.api.switches.run_answers_id = answers_id
    vc.api.switches.states = ("running",)
    assert killed_when(vc, lambda: bool(vc.api.runs) and bool(vc.api.polls), "vc", "smoke", "--yes") == -signal.SIGKILL
    assert left(vc) != []
    vc.api.switches.states = ("running", "succeeded")
    said = vc.maint("playbook", "resume")
    assert said.code == 0, said.err
    assert (len(vc.api.runs), left(vc)) == (1, [])


def test_the_next_smoke_test_removes_what_a_killed_one_left(vc):
    vc.api.switches.states = ("running",)
    killed_when(vc, lambda: bool(vc.api.polls), "vc", "smoke", "--yes")
    assert left(vc) != []
    vc.api.switches.states = ("starting", "succeeded")
    vc.api.polls.clear()
    said = vc("smoke", "--yes")
    assert said.code == 0, said.err
    assert left(vc) == []


def test_an_interrupted_smoke_test_cleans_up(vc):
    vc.api.switches.states = ("running",)
    code = killed_when(vc, lambda: bool(vc.api.polls), "vc", "smoke", "--yes", how=signal.SIGTERM)
    assert (code, left(vc), vc.api.runs[0]["status"]) == (143, [], "killed")


def test_a_user_without_kerberos_secrets_is_told_how_to_get_them(vc):
    vc.api.switches.kerberos = False
    said = vc("smoke", "--yes", "-o", "json")
    assert said.code == 1
    assert "init-user-in-virtual-cluster" in said.error["hint"] and "etl_user" in said.error["hint"]
    assert any("krb5" in line for line in said.error["detail"])
    assert left(vc) == []


def test_pages_of_a_proxy_after_every_write_do_not_disturb_a_smoke_test(vc):
    vc.api.switches.write_fails = -1
    said = vc("smoke", "--yes")
    assert (said.code, len(vc.api.runs), left(vc)) == (0, 1, []), said.err


def test_a_submission_prints_what_it_printed_leaves_nothing_and_seals_nothing_of_its_own(vc):
    app = written(vc.folder, "app.py", b'print("hello from the run")\n')
    data = written(vc.folder, "data.csv", b"1\n")
    words = ("--conf", "a=b", "--file", data, "--yes", "--", "--flag", "10")
    said = vc("spark", "submit", app, *words)
    assert (said.code, said.out, left(vc)) == (0, "hello from the run\n", []), said.err
    sent = vc.api.bodies("POST /jobs")[0]
    assert (sent["spark"]["file"], sent["spark"]["args"], sent["spark"]["conf"]) == (
        "app.py",
        ["--flag", "10"],
        {"a": "b"},
    )
    uploads = [path.split("/")[-1] for method, path, _ in vc.api.sent if method == "PUT"]
    assert uploads == ["app.py", "data.csv"]
    assert vc.sealed == []


def test_a_remote_application_needs_no_resource(vc):
    words = ("--class", "org.example.Pi", "https://example.com/pi.jar", "22", "--yes")
    assert vc("spark", "submit", *words).code == 0
    assert vc.api.bodies("POST /resources") == []
    assert vc.api.bodies("POST /jobs")[0]["spark"]["className"] == "org.example.Pi"


def test_a_remote_archive_may_be_named_by_an_address_with_a_signature(vc):
    words = ("--class", "org.example.Pi", "https://example.com/pi.jar?X-Signature=abc", "--yes")
    assert vc("spark", "submit", *words).code == 0


def taken_up(vc):
    """Take up the newest run by its name: one that changed no site is taken up by no other way."""
    newest = json.loads(vc.maint("playbook", "history", "-o", "json").out)["runs"][-1]["id"]
    return vc.maint("playbook", "resume", newest)


def test_a_submission_that_fails_is_exit_1_and_leaves_nothing(vc):
    vc.api.switches.states = ("failed",)
    said = vc("spark", "submit", written(vc.folder, "app.py", b'print("before it failed")\n'), "--yes")
    assert (said.code, said.out, left(vc), vc.sealed) == (1, "before it failed\n", [], [])


@pytest.mark.parametrize("words", [("smoke",), ("spark", "submit", "app.py")])
def test_what_failed_runs_anew_when_it_is_taken_up_once_its_cause_is_mended(vc, monkeypatch, words):
    monkeypatch.chdir(vc.folder)
    written(vc.folder, "app.py", b'print("mended")\n')
    vc.api.switches.states = ("failed",)
    assert (vc(*words, "--yes").code, taken_up(vc).code, left(vc)) == (1, 1, [])
    vc.api.switches.states = ("succeeded",)
    said = taken_up(vc)
    assert (said.code, len(vc.api.runs), left(vc), vc.sealed) == (0, 3, [], []), said.err
    assert said.out == ("mended\n" if "submit" in words else "")


@pytest.mark.parametrize("words", [("smoke",), ("spark", "submit", "app.py")])
def test_what_failed_runs_anew_though_its_job_could_not_be_removed(vc, monkeypatch, words):
    def away(*_: object) -> None:
        raise CannotReach("nobody answers", hint="look whether it is up")

    monkeypatch.chdir(vc.folder)
    written(vc.folder, "app.py", b'print("mended")\n')
    vc.api.switches.states = ("failed",)
    with monkeypatch.context() as broken:
        broken.setattr(VirtualClusterClient, "delete_job", away)
        assert vc(*words, "--yes").code == 1
    assert len(vc.api.jobs) == 1
    vc.api.switches.states = ("succeeded",)
    said = taken_up(vc)
    assert (said.code, len(vc.api.runs), left(vc), vc.sealed) == (0, 2, [], []), said.err


def test_a_run_of_a_job_that_failed_is_started_anew_when_it_is_taken_up(vc):
    vc.api.jobs["etl"] = {"name": "etl", "type": "spark"}
    vc.api.switches.states = ("failed",)
    assert vc("job", "run", "--name", "etl", "--wait", "--yes").code == 1
    vc.api.switches.states = ("succeeded",)
    said = taken_up(vc)
    assert (said.code, len(vc.api.runs)) == (0, 2), said.err


def test_a_run_that_is_gone_is_told_and_waited_for_by_nobody_who_takes_it_up(vc, monkeypatch):
    look = VirtualClusterClient.run
    monkeypatch.setattr(VirtualClusterClient, "run", lambda self, run: None if run == 41 else look(self, run))
    vc.api.jobs["etl"] = {"name": "etl", "type": "spark"}
    said = vc("job", "run", "--name", "etl", "--wait", "--yes")
    assert (said.code, "run 41 is gone" in said.err) == (1, True), said.err
    said = taken_up(vc)
    assert (said.code, len(vc.api.runs)) == (0, 2), said.err


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_submission_that_is_killed_leaves_nothing_in_the_end(vc, how):
    vc.api.switches.states = ("running",)
    app = written(vc.folder, "app.py", b'print("hello")\n')
    killed_when(vc, lambda: bool(vc.api.polls), "vc", "spark", "submit", app, "--yes", how=how)
    if how is signal.SIGKILL:
        assert left(vc) != []
        vc.api.switches.states = ("running", "succeeded")
        said = taken_up(vc)
        assert (said.code, said.out) == (0, "hello\n"), said.err
    assert (left(vc), len(vc.api.runs), vc.sealed) == ([], 1, [])
    if how is signal.SIGTERM:
        vc.api.switches.states = ("running", "succeeded")
        assert (taken_up(vc).code, left(vc), len(vc.api.runs)) == (0, [], 2)


def test_a_submission_that_was_killed_is_named_where_no_run_is_taken_up_by_itself(vc):
    vc.api.switches.states = ("running",)
    app = written(vc.folder, "app.py", b'print("hello")\n')
    killed_when(vc, lambda: bool(vc.api.polls), "vc", "spark", "submit", app, "--yes")
    first = vc.maint("playbook", "resume")  # it is the last run, which is told once
    assert (first.code, "was killed" in first.err, "` takes it up" in first.err) == (5, False, True), first.err
    assert vc("resource", "create", "--name", "later", "--yes").code == 0
    said = vc.maint("playbook", "resume")
    (told,) = re.findall("was killed: `maint (.+?)`", said.err)
    assert (said.code, "no other run of this site" in said.err) == (0, True), said.err
    vc.api.switches.states = ("running", "succeeded")
    again = vc.maint(*told.split())
    assert (again.code, again.out) == (0, "hello\n"), again.err
    assert "was killed" not in vc.maint("playbook", "resume").err


def test_what_a_killed_submission_left_is_deleted_by_hand_as_the_plan_says(vc):
    vc.api.switches.states = ("running",)
    app = written(vc.folder, "app.py", b'print("hello")\n')
    killed_when(vc, lambda: bool(vc.api.polls), "vc", "spark", "submit", app, "--yes")
    assert vc.sealed == []
    (job,), (resource,) = vc.api.jobs, vc.api.resources
    for what, name in (("job", job), ("resource", resource)):
        said = vc(what, "delete", "--name", name, "--yes")
        told = "; sealed first" in said.err, "brings it back until" in said.err
        assert (said.code, told) == (0, (True, True)), said.err
    assert (left(vc), vc.sealed != []) == ([], True)


def test_a_submission_that_is_interrupted_once_it_has_run_does_not_run_twice(vc):
    vc.api.switches.log_late = 10**6
    app = written(vc.folder, "app.py", b'print("hello")\n')
    asked = len(vc.api.sent)

    def reads_the_log() -> bool:
        return any(path.endswith("/logs") for _, path, _ in vc.api.sent[asked:])

    code = killed_when(vc, reads_the_log, "vc", "spark", "submit", app, "--yes", how=signal.SIGTERM)
    assert (code, left(vc)) == (143, [])
    vc.api.switches.log_late = 0
    said = taken_up(vc)
    assert (said.code, said.out, len(vc.api.runs), left(vc)) == (0, "hello\n", 1, []), said.err


def test_a_virtual_cluster_without_its_certificate_is_told_how_to_get_it(vc, tls_server, authority):
    server = tls_server(authority.issue_cert("elsewhere.invalid"))
    vc.api.serve(server)
    path = vc.folder / "config.yaml"
    lines = [
        f"{line.split('http')[0]}https://k7m2q9xz.cde-abc12345.apps.invalid{'/dex/api/v1' if 'base' in line else ''}"
        if "_url" in line
        else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join([*lines, f'        connect_to: "127.0.0.1:{server.port}"', ""]))
    for words in (("smoke", "--yes"), ("status",)):
        said = vc(*words, "-o", "json")
        assert said.code == 4, said.err
        assert "init-virtual-cluster -h k7m2q9xz.cde-abc12345.apps.invalid" in said.error["hint"]
    made = vc.state / "certificates" / "default-vc.pem"
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_bytes(authority.cert_pem.bytes())
    assert f"name {made} under `ca`" in vc("status", "-o", "json").error["hint"]
    assert vc.api.headers == []
