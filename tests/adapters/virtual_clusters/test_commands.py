"""The documented client's commands, as `maint vc …`."""

import json
import os
import re
import subprocess
import sys

import pytest

from maint.errors import Invalid
from tests.adapters.virtual_clusters.operator import VcOperator, written
from tests.adapters.virtual_clusters.server import PASSWORD, Api
from tests.steps.operator import maint

UNSCHEDULED = {
    "enabled": False,
    "paused": True,
    "catchup": False,
    "dependsOnPast": False,
    "cronExpression": "",
    "start": "",
    "end": "",
}


def created(vc: VcOperator, *words: str) -> dict:
    """Create a job, and return what was sent."""
    said = vc("job", "create", "--name", "j", *words, "--yes")
    assert said.code == 0, said.err
    return vc.api.bodies("POST /jobs")[-1]


def test_lists_are_the_bare_json_of_the_documented_client(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark", "future": 1}
    api.add_file("r", "a.py", b"")
    api.switches.expires_in = 1_900_000_000_000
    assert vc("job", "list").json == [{"name": "j", "type": "spark", "future": 1}]
    assert [one["name"] for one in vc("resource", "list").json] == ["r"]
    assert vc("run", "list").json == []
    assert vc("job", "describe", "--name", "j").json == {"name": "j", "type": "spark", "future": 1}


def test_lists_carry_the_schema_where_json_is_asked_for(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark", "future": 1}
    api.add_file("r", "a.py", b"")
    assert vc("job", "list", "-o", "json").json == {"schema": "maint/1", "jobs": [api.jobs["j"]]}
    assert vc("resource", "describe", "--name", "r", "-o", "json").json["resource"]["files"][0]["path"] == "a.py"
    assert vc("job", "describe", "--name", "j", "-o", "json").json == {"schema": "maint/1", "job": api.jobs["j"]}
    assert "NAME" in vc("job", "list", "-o", "table").out


@pytest.mark.parametrize(
    "words",
    [
        ["resource", "create", "--name", "r"],
        ["job", "create", "--name", "j", "--application-file", "https://h/a.py"],
        ["spark", "submit", "https://h/a.py"],
    ],
)
def test_who_is_not_let_in_has_begun_nothing(vc, api, words):
    (vc.folder / "password").write_text("another\n")
    said = vc(*words, "--yes")
    assert said.code == 4, said.err
    assert "does not let etl_user in" in said.err
    assert "playbook resume" not in said.err


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (UNSCHEDULED, "none"),
        ({"paused": True}, "on (paused)"),
        ({"enabled": True, "paused": True, "cronExpression": "0 2 * * *"}, "0 2 * * * (paused)"),
    ],
)
def test_a_list_of_jobs_calls_no_schedule_on_that_is_not_enabled(vc, api, schedule, told):
    api.jobs["d"] = {"name": "d", "type": "airflow", "airflow": {"dagFile": "d.py"}, "schedule": schedule}
    (line,) = vc("job", "list", "-o", "table").out.splitlines()[1:]
    assert line.partition("d.py")[2].strip() == told


@pytest.mark.parametrize("name", ["", "..", "."])
def test_what_is_no_name_reaches_nothing_else(vc, api, name):
    api.add_file("r", "etl", b"")
    local = written(vc.folder, "etl")
    for words in (
        ("job", "delete"),
        ("job", "run"),
        ("resource", "delete"),
        ("resource", "delete-file", "--resource-path", "r/etl"),
        ("resource", "upload", "--resource-path", "r/etl", "--local-path", local),
    ):
        said = vc(*words, "--name", name, "--yes")
        assert (said.code, "there is no" in said.err) == (5, True), said.err
    assert api.writes() == []


_UPLOAD, _LONG = ("resource", "upload", "--name", "r", "--local-path"), 300 * "x"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((*_UPLOAD, "/tmp/**b"), 5),
        ((*_UPLOAD, _LONG), 3),
        ((*_UPLOAD, f"{_LONG}/*"), 3),
        ((*_UPLOAD, "caf\udce9", "--resource-path", "a/"), 3),  # a file of a system that spelt in Latin-1
        ((*_UPLOAD, "etl", "--resource-path", "../s/a.py"), 5),
        ((*_UPLOAD, "etl", "--resource-path", "a//b"), 5),
        (("resource", "download", "--name", "r", "--resource-path", "a.py", "--local-path", _LONG), 1),
        (("job", "create", "--name", "j", "--application-file", "a", "--for-minutes-of-hour", 5000 * "9"), 2),
        (("job", "create", "--name", "j", "--application-file", "a", "--mount-N-resource", "\u00b2=r"), 2),
    ],
)
def test_what_names_no_file_and_no_time_is_refused_before_a_run_begins(vc, api, words, code, monkeypatch):
    monkeypatch.chdir(vc.folder)
    api.add_file("r", "a.py", b"")
    written(vc.folder, "etl")
    written(vc.folder, "caf\udce9")
    said = vc(*words, "--yes")
    assert (said.code, "hint: " in said.err) == (code, True), said.err
    assert vc.maint("playbook", "history", "-o", "json").json["runs"] == []


def test_two_stars_stand_for_what_one_stands_for(vc, api):
    api.add_file("r", "a.py", b"")
    pattern = written(vc.folder, "etl.py").replace("etl.py", "**.py")
    assert vc("resource", "upload", "--name", "r", "--local-path", pattern, "--yes").code == 0
    assert sorted(api.files["r"]) == ["a.py", "etl.py"]


@pytest.mark.parametrize("name", ["", "..", "."])
def test_no_address_leads_from_what_is_no_name_to_another_object(client, api, name):
    for act in (client.delete_job, client.delete_resource, client.pause):
        with pytest.raises(Invalid, match="is not the name of anything"):
            act(name)
    assert api.writes() == []


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_nothing_is_made_under_a_name_that_no_address_can_hold(vc, api, name):
    for words in (["job", "create", "--application-file", "https://h/a.py"], ["resource", "create"]):
        said = vc(*words, "--name", name, "--yes")
        assert (said.code, api.jobs, api.resources) == (5, {}, {}), said.err


def test_a_file_to_delete_that_is_empty_in_a_playbook_is_not_the_whole_resource(vc, api):
    api.add_file("code", "app.py", b"1")
    step = '{name: Delete, do: resource.delete, with: {resource: code, file: "{{ file }}"}}'
    head = "name: tidy\nsummary: Delete a file.\nparameters: {file: {type: string}}\n"
    (vc.folder / "tidy.yaml").write_text(f"{head}steps: [{step}]\n")
    said = vc.maint("playbook", "run", str(vc.folder / "tidy.yaml"), "--set", "file=", "--yes")
    assert said.code == 3, said.err
    assert "code" in api.resources


def test_a_user_who_sees_nothing_is_told_of_the_role(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark"}
    api.switches.role = False
    for words in (("job", "list"), ("resource", "list"), ("run", "list"), ("status",)):
        said = vc(*words)
        assert said.code == 0
        assert "DEUser" in said.err


def test_a_spark_job_without_a_schedule_sends_exactly_what_the_contract_says(vc):
    sent = created(vc, "--type", "spark", "--application-file", "app.py")
    assert sent["schedule"] == UNSCHEDULED
    assert (sent["name"], sent["type"], sent["spark"]["file"], sent["mounts"]) == ("j", "spark", "app.py", [])


@pytest.mark.parametrize(("file", "warned"), [("nope.py", True), ("app.py", False), ("in/app.py", False)])
def test_an_application_that_no_mounted_resource_has_is_warned_of(vc, api, file, warned):
    api.add_file("r1", "app.py", b"")
    words = ("--name", "j", "--application-file", file, "--mount-1-resource", "r1", "--mount-1-prefix", "in")
    said = vc("job", "create", *words, "--yes")
    assert (said.code, f"no resource that the job mounts has {file}" in said.err) == (0, warned), said.err


def test_an_airflow_job_sends_no_schedule(vc):
    sent = created(vc, "--type", "airflow", "--dag-file", "dag.py")
    assert sent == {"name": "j", "type": "airflow", "mounts": [], "airflow": {"dagFile": "dag.py"}}


def test_options_of_a_job_become_the_fields_of_its_definition(vc, api):
    api.add_file("files", "app.jar", b"")
    api.add_file("data", "x", b"")
    words = ["--application-file", "app.jar", "--class", "org.example.Main", "--arg", "--mount-1-resource", "--arg=22"]
    words += ["--conf", "a.b=1", "--conf", "c=d=e", "--num-executors", "3"]
    words += ["--mount-2-resource", "data", "--mount-2-prefix", "/data", "--mount-1-resource=files"]
    sent = created(vc, *words)
    assert sent["mounts"] == [
        {"resourceName": "files", "dirPrefix": ""},
        {"resourceName": "data", "dirPrefix": "data"},
    ]
    spark = sent["spark"]
    assert (spark["className"], spark["args"]) == ("org.example.Main", ["--mount-1-resource", "22"])
    assert (spark["conf"], spark["numExecutors"]) == ({"a.b": "1", "c": "d=e"}, 3)


def test_what_a_user_types_is_never_a_template(vc):
    assert created(vc, "--application-file", "app.py", "--arg", "{{{ds}}} {{ 1 + 1 }}")["spark"]["args"] == [
        "{{{ds}}} {{ 1 + 1 }}"
    ]


def test_a_hundred_mounts_are_as_good_as_one(vc, api):
    words = [word for n in range(1, 101) for word in (f"--mount-{n}-resource", "r")]
    api.add_file("r", "x", b"")
    assert len(created(vc, "--application-file", "app.py", *words)["mounts"]) == 100


def test_a_mount_that_is_no_resource_is_a_warning(vc, api):
    said = vc("job", "create", "--name", "j", "--application-file", "a", "--mount-1-resource", "repo", "--yes")
    assert (said.code, "git" in said.err, list(api.jobs)) == (0, True, ["j"])


@pytest.mark.parametrize(
    "words",
    [
        ("--type", "airflow", "--dag-file", "d.py", "--every-days", "1"),
        ("--type", "airflow"),
        ("--type", "spark"),
        ("--type", "flink", "--application-file", "x"),
        ("--application-file", "x", "--conf", "novalue"),
        ("--application-file", "x", "--mount-1-prefix", "p"),
        ("--application-file", "x", "--mount-1-resource", "p", "--mount-01-resource", "q"),
        ("--application-file", "x", "--schedule-enabled=perhaps"),
        ("--application-file", "x", "--for-hours-of-day", "24"),
        ("--application-file", "x", "--nmae", "y"),
        ("--application-file", "x", "--every-days", "1", "--cron-expression", "* * * * *"),
    ],
)
def test_words_that_make_no_sense_are_wrong_usage(vc, api, words):
    assert vc("job", "create", "--name", "j", *words, "--yes").code == 2
    assert api.writes() == []


def test_a_schedule_is_set_and_awake(vc, api):
    created(vc, "--application-file", "app.py")
    words = ("--schedule-start", "2026-01-01T00:00:00Z", "--every-days", "1", "--for-minutes-of-hour", "5")
    said = vc("job", "update", "--name", "j", "--schedule-enabled", *words, "--for-hours-of-day", "3", "--yes")
    assert said.code == 0, said.err
    sent = api.bodies("PATCH /jobs/j")[0]
    assert sent["schedule"] == {
        "enabled": True,
        "paused": False,
        "cronExpression": "5 3 */1 * *",
        "start": "2026-01-01T00:00:00Z",
    }
    assert sent["spark"]["file"] == "app.py", "the whole definition goes along"
    assert "created" not in sent
    assert vc("job", "update", "--name", "j", "--schedule-enabled=false", "--yes").code == 0
    assert api.jobs["j"]["schedule"]["enabled"] is False


def test_an_update_keeps_a_paused_schedule_paused(vc, api):
    created(vc, "--application-file", "app.py", "--schedule-enabled", "--cron-expression", "1 2 * * *")
    assert vc("job", "pause", "--name", "j", "--yes").code == 0
    assert vc("job", "update", "--name", "j", "--schedule-enabled", "true", "--every-days", "2", "--yes").code == 0
    assert api.jobs["j"]["schedule"]["paused"] is True
    assert vc("job", "unpause", "--name", "j", "--yes").code == 0
    assert api.jobs["j"]["schedule"]["paused"] is False


@pytest.mark.parametrize("answer", ["yes\n", "y\n"])
def test_a_piped_yes_confirms(vc, api, answer):
    assert vc("job", "delete", "--name", "j", given=answer).code == 5  # there is none
    api.jobs["j"] = {"name": "j", "type": "spark"}
    assert vc("job", "delete", "--name", "j", given=answer).code == 0
    assert api.jobs == {}


@pytest.mark.parametrize("answer", ["", "no\n"])
def test_without_a_yes_nothing_is_sent(vc, api, answer):
    api.jobs["j"] = {"name": "j", "type": "spark"}
    assert vc("job", "delete", "--name", "j", given=answer).code == 5
    assert vc("job", "delete", "--name", "j", "--dry-run").code == 0
    assert api.writes() == []


def test_a_run_is_started_and_its_number_printed(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark"}
    said = vc("job", "run", "--name", "j", "--variable", "day=1", "--yes")
    assert said.json == {"id": 41}
    assert api.bodies("POST /jobs/j/run")[0]["variables"] == {"day": "1"}


def test_waiting_ends_with_the_run(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark"}
    api.switches.states = ("starting", "waiting-for-scale-up", "succeeded")
    said = vc("job", "run", "--name", "j", "--wait", "--yes", "--verbose")
    assert (said.code, said.json) == (0, {"id": 41})
    assert "waiting-for-scale-up" in said.err


def test_a_run_that_fails_is_told_with_its_log(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark"}
    api.switches.states = ("failed",)
    said = vc("job", "run", "--name", "j", "--wait", "--yes")
    assert said.code == 1
    assert "failed" in said.err and "some output" in said.err
    assert said.json == {"id": 41}
    (told,) = set(re.findall("`maint (vc run logs .+?)`", said.err))
    shown = vc.maint(*told.split())
    assert (shown.code, "some output" in shown.out) == (0, True), (told, shown.err)


def test_running_an_unknown_job_is_refused(vc):
    said = vc("job", "run", "--name", "nothing", "--yes")
    assert (said.code, "there is no job 'nothing'" in said.err) == (5, True)


def test_a_taken_name_fails_with_the_servers_words(vc, api):
    api.jobs["j"] = {"name": "j", "type": "airflow"}
    said = vc("job", "create", "--name", "j", "--application-file", "x", "--yes")
    assert (said.code, "already exists" in said.err, api.writes()) == (1, True, ["POST /jobs"])


@pytest.mark.parametrize("what", ["job", "resource"])
def test_the_plan_says_that_a_name_is_taken(vc, api, what):
    api.jobs["j"] = {"name": "j", "type": "airflow"}
    api.add_file("j", "a.py", b"")
    words = ["--application-file", "x"] if what == "job" else []
    taken = vc(what, "create", "--name", "j", *words, "--dry-run")
    assert f"a {what} of that name is there" in taken.out
    free = vc(what, "create", "--name", "k", *words, "--dry-run")
    assert (free.code, "of that name" in free.out) == (0, False)


def test_resources_and_files_come_and_go(vc, api):
    assert vc("resource", "create", "--name", "r", "--yes").code == 0
    assert api.bodies("POST /resources") == [{"name": "r", "hidden": False, "type": "files"}]
    paths = [written(vc.folder, name, name.encode()) for name in ("a.py", "b.py", "c.txt")]
    pattern = str(vc.folder / "*.py")
    assert vc("resource", "upload", "--name", "r", "--local-path", pattern, "--local-path", paths[2], "--yes").code == 0
    assert api.files["r"] == {"a.py": b"a.py", "b.py": b"b.py", "c.txt": b"c.txt"}
    one = ("--local-path", paths[0], "--resource-path", "lib/x.py")
    assert vc("resource", "upload", "--name", "r", *one, "--yes").code == 0
    target = vc.folder / "down.py"
    got = vc("resource", "download", "--name", "r", "--resource-path", "lib/x.py", "--local-path", str(target))
    assert (got.code, target.read_bytes()) == (0, b"a.py")
    assert vc("resource", "download", "--name", "r", "--resource-path", "x", "--local-path", "y").code == 5
    assert vc("resource", "delete-file", "--name", "r", "--resource-path", "lib/x.py", "--yes").code == 0
    assert "lib/x.py" not in api.files["r"]
    assert vc("resource", "delete", "--name", "r", "--yes").code == 0
    assert api.resources == {}


def test_a_python_environment_is_made_with_its_version(vc, api):
    words = ("--type", "python-env", "--python-version", "python3", "--pypi-mirror", "https://mirror.example")
    assert vc("resource", "create", "--name", "e", *words, "--yes").code == 0
    assert api.bodies("POST /resources")[0]["pythonEnv"] == {
        "pythonVersion": "python3",
        "pyPiMirror": "https://mirror.example",
    }


def test_a_file_that_is_not_there_is_not_uploaded(vc, api):
    assert vc("resource", "upload", "--name", "r", "--local-path", "/nowhere", "--yes").code == 5
    assert api.writes() == []


def test_logs_are_printed_as_they_are(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark"}
    assert vc("job", "run", "--name", "j", "--yes").code == 0
    assert vc("run", "logs", "--id", "41", "--type", "driver/stdout").out == "some output\n"
    said = vc("run", "logs", "--id", "41", "--type", "driver/stdout", MAINT_OUTPUT="json")
    assert said.json["log"] == "some output\n"
    assert vc("run", "logs", "--id", "41", "--show-types").json == ["submitter/jobs_api", "driver/stdout"]
    assert vc("run", "logs", "--id", "41").code == 2
    said = vc("run", "logs", "--id", "41", "--type", "driver/nothing")
    assert (said.code, "driver/stdout" in said.err) == (1, True)
    assert vc("run", "describe", "--id", "41").json["job"] == "j"


def test_the_log_of_a_run_cannot_drive_the_terminal_that_it_is_shown_on(vc, api):
    api.logs[(41, "driver/stdout")] = "one\x1b]0;title\x07two\n"
    api.runs.append({"id": 41, "job": "j", "status": "succeeded", "ended": "2026-01-01T00:00:00Z"})
    words = ["vc", "run", "logs", "--id", "41", "--type", "driver/stdout", "--config", vc.config]
    master, slave = os.openpty()
    ended = subprocess.run([sys.executable, "-m", "maint", *words], stdout=slave, stderr=subprocess.PIPE, check=False)
    os.close(slave)
    assert ended.returncode == 0, ended.stderr
    assert os.read(master, 1000).decode().strip() == r"one\x1b]0;title\x07two"
    os.close(master)


def test_a_log_is_waited_for_where_the_kinds_of_log_are_late_too(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark"}
    assert vc("job", "run", "--name", "j", "--yes").code == 0
    while vc("run", "describe", "--id", "41").json["status"] != "succeeded":
        pass
    api.switches.log_types, api.switches.log_late = "none", 2
    assert vc("run", "logs", "--id", "41", "--type", "driver/stdout").out == "some output\n"


def test_a_run_is_killed(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark"}
    api.switches.states = ("running",)
    assert vc("job", "run", "--name", "j", "--yes").code == 0
    assert vc("run", "kill", "--id", "41", "--yes").code == 0
    assert api.runs[0]["status"] == "killed"
    assert vc("run", "kill", "--id", "99", "--yes").code == 5


@pytest.mark.parametrize("name", ["a", "1abc", "with_underscore", "x" * 31])
def test_a_name_that_no_virtual_cluster_can_have_is_wrong_usage(vc, name):
    assert vc("--vc", name, "job", "list").code == 2
    assert vc("job", "list", "--vc", name).code == 2


def test_the_virtual_cluster_may_be_named_before_or_after_the_verb(vc):
    assert vc("--vc", "default-vc", "job", "list").code == 0
    assert vc("job", "list", "--vc", "default-vc").code == 0
    assert vc("job", "list", "--vc", "other-vc").code == 2
    assert vc("job", "run", "--name", "j", "--vc", "other-vc", "--yes").code == 2
    assert "did you mean 'default-vc'" in vc("job", "list", "--vc", "defualt-vc").err
    assert vc("job", "list").code == 0


def test_status_tells_who_and_what(vc, api):
    api.jobs["j"] = {"name": "j", "type": "spark", "schedule": {"enabled": True}}
    found = vc("status", "-o", "json").json["virtual_cluster"]
    assert (found["info"]["appName"], found["user"]) == ("Default-VC-abc12345", "etl_user")
    assert (found["jobs"], found["schedules_awake"], found["resources"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("user", "strange"), [("", False), ("etl_user", False), ("ETL_User@EXAMPLE.INTERNAL", False), ("admin", True)]
)
def test_a_token_that_says_it_is_another_users_is_told(vc, api, user, strange):
    api.switches.token_user = user
    for words in (("status",), ("smoke", "--dry-run")):
        said = vc(*words)
        assert (said.code, "token is of admin, not of etl_user" in said.err) == (0, strange), said.err


def test_insecure_is_not_for_virtual_clusters(vc):
    assert vc("job", "list", "--insecure").code == 2


class TestVendor:
    """Machines with the documented client's configuration alone."""

    @pytest.fixture
    def home(self, api: Api, server, tmp_path):
        folder = tmp_path / "home"
        (folder / ".cde").mkdir(parents=True)
        address = f"http://127.0.0.1:{server.port}/dex/api/v1"
        (folder / ".cde/config.yaml").write_text(f"user: etl_user\nvcluster-endpoint: {address}\nother-key: [1]\n")
        (folder / "pass").write_text(PASSWORD + "\n")
        (folder / "pass").chmod(0o600)
        return folder

    def say(self, home, *words, **more):
        paths = {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home)}
        return maint(*words, **{**paths, "CDE_AUTH_PASS_FILE": str(home / "pass"), **more})

    def test_it_is_used_where_no_site_is_configured(self, home, api):
        api.jobs["j"] = {"name": "j", "type": "spark"}
        assert self.say(home, "vc", "job", "list").json == [{"name": "j", "type": "spark"}]
        assert self.say(home, "vc", "job", "delete", "--name", "j", given="yes\n").code == 0
        assert api.jobs == {}
        assert "job delete" in (home / "state").rglob("*.jsonl").__next__().read_text()

    def test_it_may_say_where_to_connect(self, home):
        from maint.cli.configless import client_site

        with (home / ".cde/config.yaml").open("a") as file:
            file.write("connect_to: 10.0.0.7:443\n")
        site = client_site({"HOME": str(home)})
        assert site and site.virtual_clusters[0].connect_to == "10.0.0.7:443"
        assert self.say(home, "vc", "job", "list", CDE_CONNECT_TO="10.0.0.7").code == 3

    def test_the_profile_that_its_variable_names_says_which_virtual_cluster_is_meant(self, home, api):
        api.jobs["j"] = {"name": "j", "type": "spark"}
        file = home / ".cde/config.yaml"
        address = re.search(r"vcluster-endpoint: (\S+)", file.read_text())[1]
        elsewhere = "https://vc.cde-x.invalid/dex/api/v1"
        profiles = f"profiles:\n- name: dev\n  vcluster-endpoint: {address}\n- {{name: test, user: tester}}\n"
        file.write_text(f"user: etl_user\nvcluster-endpoint: {elsewhere}\n{profiles}")
        assert self.say(home, "vc", "job", "list", CDE_CONFIG_PROFILE="dev").json == [{"name": "j", "type": "spark"}]
        said = self.say(home, "vc", "job", "list", CDE_CONFIG_PROFILE="test")
        assert (said.code, "cde-x.invalid" in said.err) == (4, True)
        said = self.say(home, "vc", "job", "list", CDE_CONFIG_PROFILE="prod")
        assert (said.code, "no profile 'prod'" in said.err, "it has dev, test" in said.err) == (3, True, True)
        file.write_text(f"user: etl_user\n{profiles}")
        said = self.say(home, "vc", "job", "list")
        assert (said.code, "export CDE_CONFIG_PROFILE" in said.err) == (3, True)

    def test_it_is_no_configuration_for_anything_else(self, home):
        assert self.say(home, "cluster", "list").code == 3

    def test_a_password_file_that_others_can_read_is_refused(self, home):
        (home / "pass").chmod(0o644)
        assert self.say(home, "vc", "job", "list").code == 3

    def test_without_a_password_file_nothing_is_asked_without_a_terminal(self, home):
        assert self.say(home, "vc", "job", "list", CDE_AUTH_PASS_FILE="").code == 5

    def test_the_environment_comes_before_the_file(self, home):
        said = self.say(home, "vc", "job", "list", CDE_USER="somebody")
        assert (said.code, "somebody" in said.err) == (4, True)

    def test_insecure_is_warned_of_every_time(self, home):
        for _ in range(2):
            said = self.say(home, "vc", "job", "list", CDE_TLS_INSECURE="true")
            assert (said.code, "not verified" in said.err) == (0, True)
            assert json.loads(said.out) == []

    def test_an_address_that_makes_no_sense_is_told(self, home):
        said = self.say(home, "vc", "job", "list", CDE_VCLUSTER_ENDPOINT="http://vc.example/dex/api/v1")
        assert (said.code, "https" in said.err) == (3, True)


def test_a_gateway_is_found_from_the_endpoint():
    from maint.cli.configless import gateway_of

    assert (
        gateway_of("https://abcd.cde-efgh.apps.example:8443/dex/api/v1") == "https://service.cde-efgh.apps.example:8443"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("job", "delete", "--name", "none"),
        ("resource", "delete", "--name", "none"),
        ("resource", "delete-file", "--name", "r", "--resource-path", "none.py"),
    ],
)
def test_deleting_what_is_not_there_is_refused_and_is_well_with_if_exists(vc, api, words):
    api.add_file("r", "a.py", b"")
    refused = vc(*words, "--yes")
    assert (refused.code, "nothing to delete" in refused.err, "--if-exists" in refused.err) == (5, True, True)
    said = vc(*words, "--if-exists", "--yes")
    assert (said.code, "is not there" in said.err) == (0, True)
    said = vc(*words, "--if-exists")
    assert (said.code, "nothing is to be done, and nothing was done" in said.err) == (0, True)


@pytest.mark.parametrize(
    "words",
    [
        "job describe --name etl",
        "resource describe --name code",
        "resource download --name code --resource-path a.py",
        "run describe --id 7",
        "run logs --id 7 --type driver/stdout",
    ],
)
def test_what_is_not_in_the_virtual_cluster_is_refused_whoever_asks_for_it(vc, words):
    said = vc(*words.split())
    assert (said.code, "there is no" in said.err) == (5, True), said.err


def test_a_resource_may_be_left_out_of_lists(vc):
    assert vc("resource", "create", "--name", "code", "--hidden", "--yes").code == 0
    assert vc.api.bodies("POST /resources")[-1]["hidden"] is True


def test_init_takes_the_virtual_cluster_as_its_sisters_do(vc):
    for words in (("init",), ("init", "--vc", "default-vc"), ("init", "default-vc")):
        assert "can be initialised" in vc(*words, "--dry-run").err
    for words in (("init-user", "--vc", "default-vc", "u"), ("init-user", "default-vc", "u"), ("init-user", "u")):
        said = vc(*words, "--dry-run")
        assert (said.code, "has no user 'u'" in said.err) == (2, True)
    said = vc("init", "default-vc", "--vc", "other-vc", "--dry-run")
    assert (said.code, "two virtual clusters are named" in said.err) == (2, True)
    assert vc("init-user").code == 2
