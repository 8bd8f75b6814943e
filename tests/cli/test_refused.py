"""Commands that do nothing: a name, config or plan is wrong, nobody is there or answers, another run is at work."""

import json
import subprocess
import sys

import pytest

from maint.adapters.clock import SystemClock
from maint.engine.lock import site_lock
from maint.lab.create import SITE
from tests.steps.operator import environment, maint


def test_without_an_answer_a_change_is_refused_and_the_flag_is_named(still):
    still.forget_requests()
    said = still("cluster", "stop", "base", given="")
    assert (said.code, "--yes" in said.err) == (5, True)
    assert still.sent == []


def test_where_nothing_is_to_be_done_nobody_is_asked(still):
    still.forget_requests()
    for words in (("cluster", "start", "base"), ("service", "start", "hdfs")):
        said = still(*words)
        assert (said.code, still.sent) == (0, []), said.err
        assert "nothing is to be done, and nothing was done" in said.err
        said = still(*words, "-o", "json")
        assert (said.code, still.sent) == (0, []), said.err
        assert said.json["plan"]["actions"]


def test_any_other_answer_is_a_refusal_and_what_is_piped_never_names_what_is_to_be_destroyed(still):
    still.forget_requests()
    for answer in ("no\n", "\n", "yess\n", "base\n"):
        assert (still("cluster", "stop", "base", given=answer).code, still.sent) == (5, []), answer
    for words in (("--yes",), ()):
        said = still("cluster", "delete", "base", *words, given="base\nbase\n")
        assert (said.code, still.sent) == (5, []), words


def test_a_mistake_in_the_configuration_is_exit_3_with_its_place(still):
    text = (still.lab.folder / "config.yaml").read_text()
    (still.lab.folder / "config.yaml").write_text(text.replace("plain_port", "plainport"))
    said = still("cluster", "list")
    assert said.code == 3
    assert "config.yaml:" in said.err and "plain_port" in said.err


def test_an_unknown_site_is_exit_2(still):
    said = still("cluster", "list", "--site", "lba")
    assert (said.code, "lab" in said.err) == (2, True)


def test_an_unknown_cluster_that_a_command_names_is_exit_2_with_the_nearest_name(still):
    still.forget_requests()
    for words in (
        "cluster stop bsae",
        "cluster start bsae",
        "cluster delete bsae --confirm bsae",
        "manager start --cluster bsae --yes",
        "playbook run start-cluster --set cluster=bsae --yes",
        "restore plan --cluster bsae",
    ):
        said = still(*words.split())
        assert (said.code, "did you mean 'base'?" in said.err) == (2, True), (words, said.err)
        assert still.sent == [], words


def test_an_age_that_is_none_is_told_with_the_option_that_gave_it(still):
    for words in (("cluster", "stop", "base"), ("cluster", "delete", "base"), ("doctor",)):
        said = still(*words, "--max-age", "\N{ARABIC-INDIC DIGIT THREE}h", "--dry-run", "-o", "json")
        assert (said.code, said.error["message"].partition(" ")[0]) == (2, "--max-age:"), said.err


def test_a_store_that_holds_nothing_is_named_where_its_snapshots_are_listed(still, tmp_path):
    said = still("backup", "list", "--store", str(tmp_path / "mistyped"))
    assert (said.code, f"no snapshot of lab in {tmp_path / 'mistyped'}" in said.out) == (0, True), said.err


def test_an_unknown_host_that_a_command_names_is_exit_2(still):
    said = still("restore", "plan", "--map-host", "nowhere=base-01.example.internal")
    assert (said.code, "has no host 'nowhere'" in said.err) == (2, True), said.err


def test_an_unknown_name_that_a_playbook_holds_is_exit_3_with_its_place(still, tmp_path):
    book = tmp_path / "book.yaml"
    for step in ("cluster.start, with: {cluster: bsae}", "agents.start, with: {hosts: [bsae]}"):
        book.write_text(f"name: b\nsummary: B.\nsteps:\n  - {{name: A, do: {step}}}\n")
        said = still("playbook", "plan", str(book))
        assert (said.code, "book.yaml:4:" in said.err, "'bsae'" in said.err) == (3, True, True), (step, said.err)


def test_a_secret_that_others_can_read_is_exit_3(still):
    (still.lab.folder / "password").chmod(0o644)
    before = still.lab.log.path.read_text()
    said = still("cluster", "list")
    (still.lab.folder / "password").chmod(0o600)
    assert said.code == 3
    assert "password" in said.err
    assert still.lab.log.path.read_text() == before  # nothing was asked, by nobody in particular either


def test_a_mistake_in_a_playbook_is_exit_3_with_its_place(still, tmp_path):
    book = tmp_path / "book.yaml"
    book.write_text("name: b\nsummary: B.\nsteps:\n  - name: A\n    do: cluster.stpo\n")
    still.forget_requests()
    for verb in ("run", "lint", "plan", "show"):
        said = still("playbook", verb, str(book))
        assert said.code == 3, verb
        assert f"{book}:5:9" in said.err and "cluster.stop" in said.err
    assert still.sent == []


def test_an_unknown_playbook_is_exit_2(still):
    assert still("playbook", "run", "stop-clustr").code == 2


def test_nobody_there_is_exit_4(still):
    still.lab.server.stop()
    said = still("cluster", "list", "-o", "json")
    still.lab.server.start()
    assert (said.code, said.error["exit"]) == (4, 4)


def test_nobody_let_in_is_exit_4(still):
    still.lab.break_("manager", "unauthorised")
    assert still("cluster", "list").code == 4


def test_another_run_on_the_site_is_exit_6(still):
    with site_lock(still.state, SITE, "playbook something", SystemClock()):
        said = still("cluster", "stop", "base", "--yes", "-o", "json")
        assert still("cluster", "list").code == 0
    assert said.code == 6
    assert "playbook something" in said.error["detail"][0]


def test_a_manager_that_another_run_restarts_is_exit_6_and_told_as_that_run(still):
    still.lab.server.stop()
    stop = ("cluster", "stop", "base", "--yes", "-o", "json")
    with site_lock(still.state, SITE, "playbook tls-switch", SystemClock()):
        for words in (stop, ("setting", "set", "dfs_replication", "3", "--service", "hdfs", "--yes", "-o", "json")):
            said = still(*words)
            assert said.code == 6, said.err
            assert "playbook tls-switch" in said.error["detail"][0]
            assert "meanwhile: " in said.error["detail"][1]
        assert still(*stop, "--dry-run").code == 4  # which waits for no lock, as what only reads
        assert still("cluster", "list").code == 4
    assert still(*stop).code == 4
    still.lab.server.start()


def test_in_a_locale_that_cannot_spell_a_name_of_the_config_that_is_told_and_no_bug(still, tmp_path):
    config = tmp_path / "config.yaml"
    known = (still.lab.folder / "config.yaml").read_text()
    config.write_text(known.replace(str(still.lab.folder), f"{tmp_path}/über"))
    poor = environment(LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    words = [sys.executable, "-c", "from maint.cli.start import main; main()", "backup", "list", "--config", config]
    ended = subprocess.run(words, env=poor, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "whose encoding is ascii" in ended.stderr and "LC_ALL=C.UTF-8" in ended.stderr


def test_a_site_that_is_not_there_is_wrong_usage_also_where_all_are_shown_or_a_mistake_is_a_line_or_nothing_done(
    still,
):
    for words in (("site", "list"), ("config", "show"), ("config", "validate"), ("backup", "list")):
        said = still(*words, "--site", "lbb")
        assert (said.code, said.out, "there is no site 'lbb'" in said.err) == (2, "", True), said.err
        said = maint(*words, "--config", still.config, MAINT_SITE="lbb")
        assert (said.code, "MAINT_SITE names it" in said.err) == (2, True), said.err
        assert still(*words, "--site", "lab").code == 0, words
    for words in (("doctor",), ("site", "report", "--to", "/nowhere", "--dry-run")):
        said = still(*words, "--site", "lbb", "-o", "json")
        assert (said.code, said.out, "there is no site 'lbb'" in said.err) == (2, "", True), said.err


@pytest.mark.parametrize("text", ["a" * 300, {"digest": "", "plan": {}}], ids=["a long name", "without a digest"])
def test_what_is_no_saved_plan_is_refused(still, tmp_path, text):
    path = tmp_path / "plan.json"
    if isinstance(text, dict):
        saved = still("restore", "plan", "--manager-only", "-o", "json").json
        path.write_text(json.dumps({**saved, "digest": ""}))
    said = still.restore("--plan", text if isinstance(text, str) else str(path), "--dry-run")
    assert said.code == (5 if isinstance(text, str) else 3), said.err


def test_a_plan_file_that_is_nested_too_deeply_is_refused(still, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text("[" * 100_000)
    assert still("restore", "run", "--plan", str(plan), "--yes").code == 3


def test_a_timeout_that_is_none_is_wrong_usage(still):
    for limit in ("soon", "0s", "0ms"):
        assert still("cluster", "stop", "base", "--yes", "--timeout", limit).code == 2, limit


def test_a_mistake_of_the_config_is_not_blamed_on_a_shipped_playbook(still):
    key = still.lab.folder / "ssh/id_ed25519"
    key.rename(key.with_name("elsewhere"))
    said = still("backup", "create", "--open-window", "--yes")
    key.with_name("elsewhere").rename(key)
    assert (said.code, f"the SSH key {key} is not there" in said.err, ".yaml:" in said.err) == (3, True, False), (
        said.err
    )
