"""Exit codes, confirmations, and what a command does when nobody is there to ask."""

import errno
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import pytest

from maint.adapters.clock import SystemClock
from maint.cli import boundary
from maint.cli.open_site import limited
from maint.cli.options import Flags
from maint.cli.screen import Screen, confirm
from maint.errors import DeadlinePassed, Refused, WorkFailed
from maint.lab.create import SITE
from maint.lab.hosts.ssh_server import COMMANDS
from maint.model.plan import Action, Effect, Plan
from maint.snapshots.writer import SnapshotWriter
from tests.cli.conftest import with_few_hosts
from tests.steps.operator import environment, maint


def states(operator):
    """The services' states of the base cluster."""
    return operator("cluster", "list", "-o", "json").json["clusters"][0]["states"]


def test_where_something_is_to_be_looked_at_it_is_though_nothing_is_to_be_changed(loaded, tmp_path):
    book = tmp_path / "looks.yaml"
    start = "{name: Start, do: service.start, with: {service: hdfs}}"
    look = "{name: Look, do: assert, with: {that: 'false'}}"
    book.write_text(f"name: looks\nsummary: Looks.\nsteps:\n  - {start}\n  - {look}\n")
    assert loaded("playbook", "run", str(book)).code == 5  # nobody to ask
    assert loaded("playbook", "run", str(book), "--yes").code == 1


def test_a_piped_yes_answers_a_change(few):
    for answer, verb in (("yes\n", "stop"), ("y\n", "start"), ("Y\n", "stop"), ("YES", "start")):
        few.forget_requests()
        said = few("cluster", verb, "base", given=answer)
        assert said.code == 0, (answer, said.err)
        assert few.sent == [f"POST /api/v45/clusters/base/commands/{verb}"], answer


def test_a_destruction_names_the_flag_that_confirms_it_and_a_wrong_name_confirms_nothing(lost):
    with_few_hosts(lost).forget_requests()
    said = lost("restore", "run", "--yes", "-o", "json", given=f"{SITE}\n")
    assert said.code == 5
    assert said.error["hint"] == f"give --confirm {SITE}"
    assert lost("restore", "run", "--confirm", "other").code == 5
    assert lost.sent == []


def test_a_name_with_blanks_is_confirmed_by_what_can_be_typed():
    action = Action("Delete it", "cluster.delete", "cluster Cluster 1", Effect.DESTROY, "x", confirm="Cluster 1")
    with pytest.raises(Refused) as refused:
        confirm(Plan("retire-cluster", SITE, {}, [action]), Screen(), yes=True, name="Cluster")
    assert refused.value.hint == "give --confirm 'Cluster 1'"


def test_a_dry_run_shows_a_plan_and_changes_nothing(lost, loaded_files):
    """An empty manager has no such cluster; and it has no TLS yet, so that nothing is asked of it in clear."""
    before = loaded_files(with_few_hosts(lost))
    lost.forget_requests()
    for words, code in (
        ("cluster stop base", 2),
        ("cluster start base", 2),
        ("backup create --open-window", 0),
        ("backup create", 0),
        ("manager export", 0),
        ("manager start", 5),
        ("manager tls-switch", 0),
        ("manager license", 0),
        ("restore run", 0),
    ):
        said = lost(*words.split(), "--dry-run", "-o", "json", "--yes", "--confirm", SITE)
        assert said.code == code, (words, said.err)
        assert code or said.json["plan"]["actions"] is not None, words
        assert lost.sent == [], words
        assert loaded_files(lost) == before, words


@pytest.fixture
def loaded_files():
    """Return the contents of all that a command could change: hosts, state, backups."""

    def files(operator):
        folders = ("hosts", "state", "backups")
        paths = [path for name in folders for path in (operator.lab.folder / name).rglob("*") if path.is_file()]
        logs = ("/var/log/", f"/{COMMANDS}")  # the hosts' own, and the lab's of what was asked
        return {str(path): path.read_bytes() for path in paths if not any(log in str(path) for log in logs)}

    return files


def test_no_configuration_is_exit_3(tmp_path):
    said = maint("cluster", "list", HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert said.code == 3
    assert "config init" in said.err


def test_a_job_that_no_schedule_starts_is_not_said_to_be_awake(loaded):
    assert loaded("vc", "job", "pause", "--name", "order-report", "--yes").code == 0
    said = loaded("vc", "job", "unpause", "--name", "order-report", "--yes")
    assert (said.code, said.err.count("no schedule of it is on, so it does not start by itself")) == (0, 2), said.err


def test_a_playbook_of_ones_own_that_is_named_without_its_ending_is_found_in_the_hint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert maint("playbook", "new", "patch-hosts").code == 0
    said = maint("playbook", "show", "patch-hosts", "-o", "json")
    assert (said.code, said.error["hint"]) == (2, "a file is named with its ending: patch-hosts.yaml")
    assert maint("playbook", "show", "patch-hosts.yaml").code == 0


def test_a_redacted_backup_is_only_partly_what_was_asked_for(alone):
    said = alone("backup", "create", "-o", "json")
    assert (said.code, said.error["exit"]) == (7, 7)
    assert said.json["actions"][0]["value"]["restorable"] is False


def test_a_redacted_backup_is_fine_where_the_site_accepts_it(alone):
    config = alone.lab.folder / "config.yaml"
    config.write_text(config.read_text().replace("    backup:\n", '    backup:\n      on_redacted: "accept"\n'))
    assert alone("backup", "create").code == 0


def test_what_is_redacted_and_broken_besides_is_never_accepted_nor_sent_through_a_window(alone):
    config = alone.lab.folder / "config.yaml"
    config.write_text(config.read_text().replace("    backup:\n", '    backup:\n      on_redacted: "accept"\n'))
    world = alone.lab.world
    with world.lock:
        world.deployment["hosts"].append(world.deployment["hosts"][0])
        world.changed()
    said = alone("backup", "create", "-o", "json")
    assert (said.code, said.json["actions"][0]["value"]["restorable"]) == (7, False)
    assert ("--open-window" in said.err, "maint backup show" in said.error["hint"]) == (False, True)
    for old in (alone.lab.folder / "backups").glob("*/*/manifest.json"):
        if said.json["actions"][0]["value"]["id"] != old.parent.name:
            old.unlink()
    (line,) = [one for one in alone("doctor", "-o", "json").json["checks"] if one["label"] == "backup"]
    assert (line["state"], "--open-window" in line["hint"]) == ("FAIL", False)


def test_a_site_that_wants_the_window_gets_it(loaded):
    config = loaded.lab.folder / "config.yaml"
    config.write_text(config.read_text().replace("    backup:\n", '    backup:\n      on_redacted: "window"\n'))
    said = loaded("backup", "create", "--yes", "-o", "json")
    assert said.code == 0, said.err
    assert said.json["playbook"] == "export-unredacted"


def test_a_bug_is_exit_70_and_its_report_holds_no_values(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def broken():
        secret = "hunter2-in-a-variable"
        raise KeyError(secret)

    assert boundary.guarded(lambda: Screen("json"), broken) == 70
    reports = list(tmp_path.glob("maint-crash-*"))
    assert len(reports) == 1
    text = reports[0].read_text()
    assert "KeyError" in text and "broken" in text and "hunter2" not in text
    shown = capsys.readouterr().err
    assert str(reports[0]) in shown and "hunter2" not in shown


def test_a_bug_is_exit_70_where_its_report_has_no_place_too(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    assert boundary.guarded(lambda: Screen("json"), lambda: int("hunter2")) == 70
    shown = json.loads(capsys.readouterr().err)["error"]
    assert "no report could be written (No such file or directory)" in shown["hint"]
    assert "ValueError" in shown["detail"] and "hunter2" not in str(shown)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_waiting_command_and_says_how_to_go_on(loaded, number, code):
    loaded.lab.break_("commands", "command-never-ends")
    process = loaded.fork("cluster", "stop", "base", "--yes", "-o", "json")
    while loaded.lab.counts().get("POST /api/v45/clusters/base/commands/stop", 0) == 0:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    run = loaded("playbook", "history", "-o", "json").json["runs"][-1]
    assert run["state"] == "interrupted"
    assert f"maint playbook resume {run['id']}" in err


def a_class():
    class Signal:
        def __set_name__(self, *_):
            os.kill(os.getpid(), signal.SIGINT)

    type("Made", (), {"one": Signal()})


def an_enum():
    class Made(Enum):
        ONE = 1

        def __init__(self, *_):
            os.kill(os.getpid(), signal.SIGINT)


def a_thread():
    limbo = {}
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except Exception:
        del limbo["thread"]  # as `threading` does with one that has begun already
        raise


# As modules do that are imported when they are first needed, and what begins a thread.
@pytest.mark.parametrize("make", [a_class, an_enum, a_thread])
def test_a_signal_while_something_is_made_is_no_bug(make, capsys):
    assert boundary.guarded(Screen, make) == 130
    assert "error: interrupted" in capsys.readouterr().err


def end_commands(operator):
    """Let the commands end that are active on the lab's manager."""
    with operator.lab.world.lock:
        for command in operator.lab.world.commands.values():
            command.seconds = 0.0


def test_under_nohup_a_lost_connection_ends_nothing(loaded):
    loaded.lab.switch("command-seconds", "600")
    words = ("cluster", "stop", "base", "--yes")
    process = loaded.start(*words, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    while loaded.lab.counts().get("POST /api/v45/clusters/base/commands/stop", 0) == 0:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGHUP)
    end_commands(loaded)
    _, err = process.communicate()
    assert process.returncode == 0, err


def test_under_nohup_a_lost_terminal_ends_nothing_and_is_no_bug(loaded, tmp_path):
    loaded.lab.switch("command-seconds", "600")
    master, slave = pty.openpty()
    process = loaded.start(
        *("cluster", "stop", "base", "--yes"), stdin=slave, stdout=slave, stderr=slave,
        env=environment(TMPDIR=str(tmp_path)), start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    while loaded.lab.counts().get("POST /api/v45/clusters/base/commands/stop", 0) == 0:
        assert process.poll() is None
        time.sleep(0.02)
    os.close(master)  # nobody is told: whoever writes gets EIO
    end_commands(loaded)
    assert process.wait() == 0
    assert loaded("playbook", "history", "-o", "json").json["runs"][-1]["state"] == "done"
    assert list(tmp_path.glob("maint-crash-*")) == []


def test_ctrl_c_while_a_command_loads_leaves_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    words = [sys.executable, "-c", "from maint.cli.start import main; main()", "version"]
    ended = subprocess.run(words, env=environment(PYTHONPATH=str(tmp_path)), capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize(("library", "words"), [("typer", "maint cannot be loaded"), ("jinja2", "a part of maint")])
def test_a_broken_installation_is_exit_70_and_says_what_mends_it(tmp_path, library, words):
    (tmp_path / f"{library}.py").write_text("import gone_with_an_update\n")
    called = [sys.executable, "-c", "from maint.cli.start import main; main()", "playbook", "list", "-o", "json"]
    poor = environment(PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path))
    ended = subprocess.run(called, env=poor, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, "Traceback" in ended.stderr) == (70, "", False), ended.stderr
    said = json.loads(ended.stderr)["error"]
    assert said["message"].startswith(words) and "gone_with_an_update" in said["message"]
    assert "install it anew" in said["hint"] and "with what you did" in said["hint"]


def test_where_nothing_temporary_can_be_made_a_command_says_so_and_is_no_bug(tmp_path, monkeypatch):
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"  # as where the disk of /tmp is full
    words = ["generate", "bundle", "--to", "bundle.tar.gz"]
    called = [sys.executable, "-c", f"{full}; from maint.cli.start import main; main()", *words]
    ended = subprocess.run(called, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=False)
    told = "error: nothing temporary can be made: No usable temporary"
    assert (ended.returncode, ended.stdout) == (1, ""), ended.stderr
    assert told in ended.stderr and "TMPDIR" in ended.stderr
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    said = maint("lab", "demo")
    assert (said.code, said.out, told in said.err, "TMPDIR" in said.err) == (1, "", True, True), said.err


def test_in_a_folder_that_is_gone_a_command_says_so_and_is_no_bug(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    program = Path(sys.executable).with_name("maint")  # as with `python -m`, Python 3.13.0 itself fails there
    called = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", program, "config", "init", "x.yaml", "--sample"]
    ended = subprocess.run(called, env=environment(), cwd=folder, capture_output=True, text=True, check=False)
    assert (ended.returncode, "is gone" in ended.stderr, "hint: cd " in ended.stderr) == (2, True, True), ended.stderr
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    said = maint("generate", "bundle", "--dry-run")
    assert (said.code, "is gone" in said.err, "hint: cd " in said.err) == (2, True, True), said.err


LACKING = (MemoryError(), RuntimeError("can't start new thread"), OSError(errno.EMFILE, "Too many open files"))


@pytest.mark.parametrize("error", LACKING)
def test_where_the_system_gives_nothing_more_a_command_says_so_and_is_no_bug(error, capsys):
    def lacking():
        raise error

    assert boundary.guarded(Screen, lacking) == 1
    shown = capsys.readouterr().err
    assert "raise the limits" in shown and "bug" not in shown


def test_a_path_that_is_closed_to_the_account_is_told_and_no_bug(tmp_path, capsys):
    folder = tmp_path / "closed"
    folder.mkdir(0o600)

    def look():
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            (folder / "named.yaml").exists()
        finally:
            os.seteuid(os.getuid())

    assert boundary.guarded(Screen, look) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert "closed/named.yaml cannot be used: Permission denied" in shown and "account that may look" in shown


def test_a_run_that_the_system_gives_nothing_more_ends_in_order_and_is_taken_up(alone, monkeypatch):
    def lacking(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(SnapshotWriter, "__enter__", lacking)
        said = alone("backup", "create", "--yes")
    assert (said.code, "bug" in said.err) == (1, False), said.err
    run = alone("playbook", "history", "-o", "json").json["runs"][-1]
    assert run["state"] == "failed" and f"maint playbook resume {run['id']}" in said.err
    assert alone("playbook", "resume", run["id"]).code == 7  # redacted


def test_in_a_locale_without_our_characters_a_program_still_reads_utf_8():
    words = [sys.executable, "-c", "from maint.cli.start import main; main()", "help", "airflow"]
    poor = environment(LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    ended = subprocess.run(words, env=poor, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "backup → verify → copy".encode() in ended.stdout


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("cluster", "list"), "nagios"),
        (("backup", "list"), "junit"),
        (("backup", "diff", "a", "b"), "nagios"),
        (("host", "check"), "text"),
        (("version",), "text"),
    ],
)
def test_an_output_that_a_command_does_not_have_is_wrong_usage(words, output):
    said = maint(*words, "-o", output, "--config", "/nowhere")
    assert (said.code, said.out) == (2, ""), said.err
    assert f"no output '{output}'" in said.err and "table, json" in said.err


def test_an_output_that_a_variable_asks_for_in_vain_is_told_with_the_variable():
    said = maint("version", MAINT_OUTPUT="junk")
    assert (said.code, "MAINT_OUTPUT" in said.err, "table, json" in said.err) == (2, True, True), said.err


@pytest.mark.parametrize(
    "words",
    [("playbook", "lint"), ("playbook", "test"), ("lab", "up", "--folder"), ("playbook", "new", "tried", "--folder")],
)
def test_a_path_that_is_too_long_for_any_file_is_wrong_usage(words):
    said = maint(*words, "/tmp/" + "9" * 300)
    assert (said.code, said.out, "too long" in said.err) == (2, "", True), said.err


def test_without_a_configuration_the_list_of_sites_is_not_empty_but_wrong(tmp_path):
    said = maint("site", "list", "-o", "json", HOME=str(tmp_path))
    assert (said.code, said.out, "there is no configuration" in said.err) == (3, "", True), said.err


@pytest.mark.parametrize("words", [("version",), ("lab", "break", "--list"), ("playbook", "list"), ("generate", "man")])
@pytest.mark.parametrize("limit", ["soon", "-5s", "0s", "9" * 400 + "d"])
def test_a_limit_that_makes_no_sense_is_wrong_usage_also_where_nothing_is_limited(words, limit):
    said = maint(*words, f"--timeout={limit}")
    assert (said.code, said.out, "--timeout" in said.err) == (2, "", True), said.err


def test_insecure_warns_every_time_and_stands_in_the_journal(loaded):
    for _ in range(2):
        assert "warning:" in loaded("cluster", "list", "--insecure", "-q").err
    said = loaded("cluster", "stop", "base", "--yes", "--insecure")
    assert (said.code, "warning:" in said.err) == (0, True)
    assert loaded.journal()[0]["options"]["insecure"] is True


def test_without_insecure_a_certificate_of_another_authority_is_exit_4_and_its_reason_is_told_once(loaded):
    loaded.lab.break_("server", "unknown-ca-certificate")
    loaded.lab.server.restart()
    loaded.lab.server.wait()
    said = loaded("cluster", "list")
    assert (said.code, "no authority that is believed has issued it" in said.err) == (4, True)
    assert loaded("cluster", "list", "--insecure").code == 0
    said = loaded("backup", "create", "--yes")
    assert (said.code, said.err.count("no authority that is believed has issued it")) == (4, 1), said.err


def test_resume_without_anything_unfinished_says_so(loaded):
    said = loaded("playbook", "resume")
    assert (said.code, "no run of this site stopped before its end" in said.err) == (0, True)


def test_resume_after_a_command_that_was_killed_before_its_run_began_is_no_success(loaded):
    for path in (loaded.state / "runs").iterdir():
        path.unlink()
    said = loaded("playbook", "resume", "--yes")
    assert (said.code, "type that command again" in said.err) == (5, True), said.err


def test_what_ended_before_its_run_began_is_not_taken_for_the_work_of_the_run_before_it(loaded):
    assert loaded("cluster", "stop", "base", "--yes").code == 0
    assert loaded("playbook", "resume").code == 0
    assert loaded("cluster", "delete", "base").code == 5  # nobody is there to confirm it
    said = loaded("playbook", "resume")
    assert (said.code, "`maint cluster delete`, given" in said.err) == (5, True), said.err
    assert loaded("cluster", "start", "base", "--yes").code == 0
    assert loaded("restore", "run", "--snapshot", "19990101", "--confirm", "lab").code == 2
    said = loaded("playbook", "resume")
    assert (said.code, "`maint restore run`, given" in said.err) == (5, True), said.err
    assert loaded("cluster", "start", "base", "--yes").code == 0
    assert loaded("playbook", "resume").code == 0


@contextmanager
def asking(operator, *words):
    """Begin a command in a process of its own, and yield it once it asks; whoever would answer stays silent."""
    silent = operator.lab.folder / "nothing"
    os.mkfifo(silent)
    held = os.open(silent, os.O_RDWR)
    try:
        with operator.fork(*words, stdin=str(silent)) as begun:
            seen = ""
            while "[y/N]" not in seen:
                seen += (read := begun.stderr.read(1))
                assert read, seen
            yield begun
    finally:
        os.close(held)
        silent.unlink()


def test_ctrl_c_at_the_question_says_that_nothing_was_done(few):
    with asking(few, "cluster", "stop", "base") as begun:
        begun.send_signal(signal.SIGINT)
        assert "hint: nothing of it was done" in begun.stderr.read()
    assert (begun.returncode, few.sent) == (130, [])


def test_a_command_that_was_killed_while_it_asked_is_not_taken_for_the_backup_before_it(few):
    assert [run["state"] for run in few("playbook", "history", "-o", "json").json["runs"]] == ["done"]
    for words in (("restore", "run", "--confirm", "lab", "--then-start"), ("cluster", "stop", "base")):
        with asking(few, *words) as begun:
            begun.kill()
        said = few("playbook", "resume")
        assert (said.code, f"`maint {' '.join(words[:2])}`, given" in said.err) == (5, True), said.err
        assert few.sent == []


def test_a_restore_that_finds_no_snapshot_is_not_taken_for_the_work_of_the_run_before_it(loaded):
    assert loaded("cluster", "stop", "base", "--yes").code == 0
    shutil.rmtree(loaded.lab.folder / "backups" / "lab")
    assert loaded("restore", "run", "--confirm", "lab").code == 5
    assert loaded("playbook", "resume").code == 5


def test_a_state_file_that_cannot_be_written_is_no_bug_and_says_which(alone):
    (alone.state / "begun").rmdir()
    (alone.state / "begun").write_text("a file where a folder belongs")
    said = alone("backup", "create")
    assert (said.code, f"{alone.state}/begun/" in said.err, "cannot be written" in said.err) == (1, True, True), (
        said.err
    )


def test_what_nobody_reads_to_its_end_hides_no_failure(monkeypatch):
    def failing(screen):
        screen.emit({}, "a table")
        raise WorkFailed("it is not sound")

    for work, code in ((failing, 1), (lambda screen: screen.emit({}, "a table"), 0)):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as out:
            monkeypatch.setattr(sys, "stdout", out)
            assert boundary.guarded(lambda: Screen(), lambda work=work: work(Screen())) == code


@pytest.mark.parametrize("limit", [("--timeout", "1s"), ("--timeout=1s",)])
def test_a_pipe_that_gives_nothing_is_waited_for_no_longer_than_the_limit(loaded, limit):
    reading, writing = os.pipe()
    said = loaded("playbook", "run", f"/dev/fd/{reading}", *limit)
    os.close(reading)
    os.close(writing)
    assert (said.code, "nothing came through it for 1 s" in said.err) == (3, True), said.err


def test_the_timeout_bounds_a_whole_command(loaded):
    loaded.lab.break_("commands", "command-never-ends")
    said = loaded("cluster", "stop", "base", "--yes", "--timeout", "1s")
    assert said.code == 1
    assert "the limit of 1s has passed" in said.err
    assert states(loaded) != ["STOPPED"]


def test_a_limit_that_passes_while_something_is_read_says_during_what():
    site = SimpleNamespace(clock=(clock := SystemClock()), begun=clock.monotonic())
    with pytest.raises(DeadlinePassed) as caught, limited(Flags(timeout="1s"), site, "reading virtual cluster etl"):
        time.sleep(5)
    assert "it passed during: reading virtual cluster etl" in caught.value.detail
    assert "--timeout" in caught.value.way_on


def test_a_limit_is_told_as_it_was_given_and_not_as_what_was_left_of_it():
    site = SimpleNamespace(clock=(clock := SystemClock()), begun=clock.monotonic() - 4.7)
    with pytest.raises(DeadlinePassed, match=r"^the limit of 5s has passed$"), limited(Flags(timeout="5s"), site, "x"):
        time.sleep(5)
