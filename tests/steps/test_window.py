"""The redaction window: opened for an export, closed whatever happens, the options file as it was."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import termios
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from maint.adapters.seal import AgeSeal
from maint.adapters.undo_store import SealedUndo
from maint.cli import run_playbook
from maint.config.schema import HostSettings
from maint.errors import Refused, WorkFailed
from maint.lab.create import SITE
from maint.lab.manager.host_files import redaction_property
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.model import java_options
from maint.model.manager import Instance
from maint.steps.manager import window
from maint.steps.manager.server import server_hosts
from tests.steps.conftest import FAST, PASSWORD, copy
from tests.steps.operator import Operator

FILES = {
    "with a heap": b'export CMF_JAVA_OPTS="-Xmx4G -XX:MaxPermSize=256m"\n',
    "with comments and quotes": b'# it\'s "here"\nexport CMF_JAVA_OPTS=\'-Da="b c" -Dd=$HOME\'  # end\n\n\n',
    "with a continued line": b'export CMF_JAVA_OPTS="-Xmx4G \\\n  -Da=b"\nOTHER=1\n',
    "with the value true": b'export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=true -Xmx2G"\n',
    "without a final newline": b'export CMF_JAVA_OPTS="-Xmx4G"',
    "with DOS line ends": b'export CMF_JAVA_OPTS="-Xmx4G"\r\nOTHER=1\r\n',
    "with bytes of no encoding": b'# \xff\xfe\nexport CMF_JAVA_OPTS="-Xmx4G"\n',
    "with false in a comment": b'# export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false"\n',
    "empty": b"",
    "ending in a backslash": b'export CMF_JAVA_OPTS="-Xmx4G"\nOTHER=1 \\\n',
}
THROUGH = ("with comments and quotes", "with bytes of no encoding", "ending in a backslash")
WINDOW = """name: window
summary: Open the window, and close it.
steps:
  - {name: Open, do: window.open}
finally:
  - {name: Close, do: window.close}
"""


def export(operator, *words, **env):
    return operator("backup", "create", "--open-window", "--yes", *words, **env)


def through(operator, *words):
    """Open the window, and close it again, for nothing."""
    path = operator.lab.folder / "window.yaml"
    path.write_text(WINDOW)
    return operator("playbook", "run", str(path), "--yes", *words)


def redacts(operator):
    """Whether the running server redacts: it is up again, and has read its options since."""
    return operator.lab.world.redaction and operator.lab.server.ready


def when_started(operator, monkeypatch, act):
    """Do something after each start of the manager's server, told whether it redacts."""
    world = operator.lab.world
    start_up = world.start_up

    def acting(**told):
        start_up(**told)
        act(world.redaction)

    monkeypatch.setattr(world, "start_up", acting)


def test_whatever_is_in_the_options_file_the_line_that_is_added_counts_and_goes_again():
    for name, content in FILES.items():
        open_ = java_options.opened(content)
        assert redaction_property(open_.decode(errors="replace")) is False, name
        assert java_options.redaction_is_off(open_), name
        assert content in java_options.closings(open_), name
        assert redaction_property(java_options.closed(open_).decode(errors="replace")) is not False, name


def test_the_options_file_is_byte_for_byte_as_it_was_also_where_there_was_none_and_whatever_a_login_script_prints(
    loaded, monkeypatch
):
    seen, left = [], SealedUndo(loaded.state, AgeSeal())
    files = loaded.lab.machines[loaded.lab.manager_host].files
    when_started(loaded, monkeypatch, seen.append)
    contents = {name: FILES[name] for name in THROUGH}
    for name, content in {**contents, "with what a login script prints": FILES["with a heap"], "none": None}.items():
        if "login script" in name:
            loaded.lab.break_(loaded.lab.manager_host, "banner-junk")
        elif name == "ending in a backslash":  # what a run kept that was killed before it opened anything is swept
            left.keep(loaded.options.read_bytes(), window._name(loaded.lab.manager_host))
        if content is None:
            loaded.options.unlink()
        else:
            loaded.options.write_bytes(content)
            files.own(java_options.PATH, 0o640, "hdfs", "cloudera-scm")
        seen.clear()
        said = through(loaded)
        assert (said.code, "edited by somebody else" in said.err) == (0, False), (name, said.err)
        assert seen == [False, True], name
        assert (loaded.options.read_bytes() if loaded.options.exists() else None) == content, name
        if content is not None:
            there = files.entry(java_options.PATH)
            assert (oct(there.mode), there.user, there.group) == ("0o640", "hdfs", "cloudera-scm"), name
        assert (loaded.window, loaded.kept) == (False, []), name
    left.keep(b"", window._name(loaded.lab.manager_host))
    assert loaded("manager", "export", "--close-window", "--yes").code == 0
    assert loaded.kept == []
    assert loaded("site", "status", "-o", "json").json["redaction"] == "on"


def test_no_window_is_opened_for_an_api_that_the_manager_does_not_speak(make):
    operator = make(announced_api="45")
    said = export(operator)
    assert (said.code, "speaks the API up to v45" in said.err) == (1, True), said.err
    assert (operator.lab.world.redaction, operator.window, "restarting" in said.err) == (True, False, False)


def weaken(operator):
    """Make every administrator a Cluster Administrator, on a manager that has Navigator."""
    world = operator.lab.world
    with world.lock:
        service = world.deployment["managementService"]
        navigator = {**service["roles"][0], "name": "mgmt-NAVIGATOR-1", "type": "NAVIGATOR"}
        secret = {"name": "navigator_password", "value": "a-secret-of-navigator", "sensitive": True}
        service["roles"].append({**navigator, "config": {"items": [secret]}})
        for user in world.login_users:
            user["authRoles"] = [{"name": "ROLE_CLUSTER_ADMIN", "displayName": "Cluster Administrator"}]


def test_no_window_is_opened_for_an_account_from_which_navigators_settings_are_hidden(loaded):
    weaken(loaded)
    said = export(loaded)
    assert (said.code, "hides Navigator's settings" in said.err, "Full Administrator" in said.err) == (5, True, True)
    assert (loaded.lab.world.redaction, loaded.window) == (True, False)


def test_where_somebody_switched_redaction_off_for_good_it_stays_so(loaded):
    content = b'export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false"\n'
    loaded.options.write_bytes(content)
    loaded.lab.server.restart()
    loaded.lab.server.wait()
    said = export(loaded, "-o", "json")
    assert said.code == 0, said.err
    assert [action["outcome"] for action in said.json["actions"]] == ["unchanged", "done", "unchanged"]
    assert (loaded.options.read_bytes(), loaded.window) == (content, False)


def test_whatever_fails_closes_the_window_says_why_and_a_resume_opens_and_closes_it_once_more(loaded, monkeypatch):
    before, world = loaded.options.read_bytes(), loaded.lab.world
    commands = loaded.lab.folder / "hosts" / loaded.lab.manager_host / "commands.jsonl"

    def restarts():
        return commands.read_text().count("systemctl restart") if commands.exists() else 0

    def closed(said):
        assert said.code == 1, said.err
        assert (loaded.options.read_bytes(), loaded.window, loaded.kept) == (before, False, [])
        assert redacts(loaded)

    begun = restarts()
    loaded.lab.break_(loaded.lab.manager_host, "disk-full")
    said = export(loaded)
    loaded.lab.repair("disk-full")
    closed(said)
    assert "No space left on device" in said.err, said.err
    assert restarts() == begun, "a window that could not be opened costs the manager no restart"
    loaded.lab.break_("export", "error-500")
    closed(loaded("playbook", "resume"))
    loaded.lab.repair()
    with monkeypatch.context() as patched:
        patched.setattr("maint.steps.manager.server.restart_servers", lambda site, hosts, limit: iter(()))
        said = loaded("playbook", "resume")
    closed(said)
    assert "still runs with redaction: it has not read its options since" in said.err
    assert "systemctl restart cloudera-scm-server" in said.err
    assert "another" not in said.err
    with world.lock:
        lost = world.deployment["hosts"].pop()
        world.changed()
    said = loaded("playbook", "resume")
    closed(said)
    assert "does not hang together" in said.err, said.err
    assert "maint backup show" in said.err and "another server" not in said.err
    with world.lock:
        world.deployment["hosts"].append(lost)
        world.changed()
    said = loaded("playbook", "resume")
    assert said.code == 0, said.err
    assert (loaded.options.read_bytes(), loaded.window, loaded.kept) == (before, False, [])
    listed = loaded("backup", "list", "-o", "json").json["snapshots"]
    assert [one["restorable"] for one in listed][-2:] == [False, True]


def test_a_lost_terminal_closes_the_window(loaded):
    before = loaded.options.read_bytes()
    master, slave = pty.openpty()

    def lead() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = stopped_in_the_window(loaded, stdin=slave, stdout=slave, stderr=slave, preexec_fn=lead)
    os.close(slave)
    os.close(master)  # the kernel sends SIGHUP, and whoever writes gets EIO
    assert process.wait() == 129
    assert (loaded.options.read_bytes(), loaded.window, loaded.kept) == (before, False, [])
    assert loaded("playbook", "history", "-o", "json").json["runs"][-1]["state"] == "interrupted"


def test_the_limit_of_the_command_does_not_keep_the_window_open(loaded):
    before = loaded.options.read_bytes()
    loaded.lab.switch("get-seconds", "4")
    said = export(loaded, "--timeout", "3s")
    assert said.code == 1, said.err
    assert (loaded.options.read_bytes(), loaded.window) == (before, False)


def stopped_in_the_window(operator, seconds="600", **more):
    """Start an export that takes so long, and return once it has begun within the open window."""
    operator.lab.switch("get-seconds", seconds)
    known = journals(operator)
    words = ("backup", "create", "--open-window", "--yes")
    process = operator.start(*words, **more) if more else operator.fork(*words)
    while not exporting(journals(operator) - known):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def journals(operator):
    return set((operator.state / "runs").glob("*.jsonl"))


def exporting(begun):
    """Whether a run has begun to export within the window that it opened by a step of its own."""
    for path in begun:
        lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
        actions = lines[0]["plan"]["actions"] if lines else []
        if any(line["what"] == "intent" and actions[line["index"]]["kind"] == "snapshot.take" for line in lines):
            return True
    return False


def begun_last(path):
    """The kind of the action that a run has begun last."""
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    actions = lines[0]["plan"]["actions"]
    return [actions[line["index"]]["kind"] for line in lines if line["what"] == "intent"][-1]


@pytest.fixture
def hanging(loaded):
    """An operator, and an export that hangs within the window."""
    loaded.before = loaded.options.read_bytes()
    process = stopped_in_the_window(loaded)
    assert loaded.window
    yield loaded, process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_works_keeps_its_window_until_a_signal_closes_it_and_what_somebody_edited_meanwhile(
    hanging, number, code
):
    operator, process = hanging
    theirs = b""
    if number == signal.SIGINT:
        assert "warning" not in operator("cluster", "list").err
        assert operator("cluster", "stop", "base", "--yes").code == 6
        assert operator.window and process.poll() is None
        theirs = b"# new\n"
        operator.options.write_bytes(theirs + operator.options.read_bytes())
    process.send_signal(number)
    assert process.wait() == code
    assert (operator.options.read_bytes(), operator.window, operator.kept) == (theirs + operator.before, False, [])
    assert java_options.LINE.encode() not in operator.options.read_bytes()
    assert redacts(operator)


def test_a_key_that_is_held_down_counts_once_and_the_window_closes(loaded):
    before = loaded.options.read_bytes()
    process = stopped_in_the_window(loaded)
    loaded.lab.switch("starting-seconds", "1.5")  # of which the closing waits for one
    process.send_signal(signal.SIGINT)
    time.sleep(0.66)  # until a key repeats, as X has it
    end = time.monotonic() + 2
    while time.monotonic() < end and process.poll() is None:
        process.send_signal(signal.SIGINT)
        time.sleep(0.03)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert (loaded.options.read_bytes(), loaded.window) == (before, False), said
    assert said.count("error: interrupted") == 1, said


def test_who_interrupts_what_follows_a_run_is_told_all_the_same_that_its_window_is_open(loaded, monkeypatch):
    seen = run_playbook.remembered

    def strike(*given):
        signal.raise_signal(signal.SIGINT)
        return seen(*given)  # of what is asked last, the window, an answer is needed

    def fail(*_given):
        raise WorkFailed("the server does not come back")
        yield

    for place in ("remembered", "after_run", "_show", "tell_left"):
        with monkeypatch.context() as patched:
            patched.setattr(window, "close_own", fail)
            patched.setattr(run_playbook, place, strike)
            said = through(loaded)
        words = " ".join(said.err.split())
        assert (said.code, loaded.window) == (130, True), place
        assert "the server does not come back the redaction window is still open" in words, place
        assert "`maint manager export --close-window` closes it alone" in words, place
        assert loaded("manager", "export", "--close-window", "--yes").code == 0


def test_an_operator_who_stops_the_closing_too_is_told_that_the_window_is_open(loaded):
    known = journals(loaded)
    process = stopped_in_the_window(loaded)
    (run,) = journals(loaded) - known
    loaded.lab.switch("starting-seconds", "60")
    process.send_signal(signal.SIGINT)
    while begun_last(run) != "window.close":
        time.sleep(0.02)
    while process.poll() is None:  # the closing is begun once more after the first
        process.send_signal(signal.SIGINT)
        time.sleep(0.6)
    _, said = process.communicate()
    assert process.returncode == 130
    assert loaded.window
    assert "the redaction window is still open: everyone who may read the API sees passwords" in " ".join(said.split())
    assert "`maint manager export --close-window` closes it alone" in " ".join(said.split())
    loaded.lab.switch("starting-seconds", "0.2")
    assert loaded("manager", "export", "--close-window", "--yes").code == 0
    assert not loaded.window


@pytest.fixture(scope="module")
def open_window(backed_up, tmp_path_factory):
    """The folder of a lab, now down, whose export was killed within the window; the next one does not hang."""
    with Lab(copy(backed_up, tmp_path_factory.mktemp("window") / "lab")) as lab:
        process = stopped_in_the_window(Operator(lab))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        lab.switch("get-seconds", "0")
    return lab.folder


@pytest.fixture
def left(make, open_window, backed_up):
    """An operator at a manager whose window was left open by an export that was killed."""
    operator = make(template=open_window)
    root = backed_up / "hosts" / operator.lab.manager_host / "root"
    operator.before = (root / operator.options.relative_to(operator.root)).read_bytes()
    assert operator.window and operator.options.read_bytes() != operator.before
    return operator


def test_after_a_kill_what_only_reads_warns_and_the_very_run_takes_the_window_over_and_closes_it_at_its_end(left):
    operator, options = left, left.options.read_bytes()
    for words in (("cluster", "list"), ("backup", "create", "--open-window", "--dry-run"), ("site", "status")):
        said = operator(*words)
        assert said.code == 0
        assert "left the redaction window open" in said.err
        assert "maint manager export --close-window" in said.err
    lock, record = left.state / "lock", json.loads((left.state / "window.json").read_text())
    free = lock.read_bytes()
    lock.write_text(json.dumps({**json.loads(free), "run": record["run"], "pid": os.getpid()}))  # used again
    said = left("cluster", "list")
    assert (said.code, "left the redaction window open" in said.err) == (0, True), said.err
    lock.write_bytes(free)
    journal, lines = left.state / "runs" / f"{record['run']}.jsonl", left.journal()
    told = f"run {record['run']} left the redaction window open"
    left.forget_requests()
    shown = left("playbook", "resume", "--dry-run", "-o", "json")
    assert (shown.code, [one["kind"] for one in shown.json["left"]][-1]) == (0, "window.close"), shown.err
    assert (left.options.read_bytes(), left.journal(), left.window, left.sent) == (options, lines, True, [])
    assert not redacts(left), "the server was not restarted"
    assert told in left("playbook", "resume", "--dry-run").err
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"window.open", b"window.Open"))
    said = left("playbook", "resume", journal.stem)  # takes nothing up
    assert (said.code, left.window) == (5, True) and told in said.err
    journal.write_bytes(whole)
    left.lab.break_(left.lab.manager_host, "unreachable")
    assert left("playbook", "resume").code != 0
    assert left.window
    left.lab.repair()
    said = left("playbook", "resume", "-o", "json")
    assert said.code == 0, said.err
    assert "closing the redaction window that" not in said.err and told not in said.err
    assert [action["kind"] for action in said.json["actions"]] == ["snapshot.take", "window.close"]
    assert (left.options.read_bytes(), left.window, left.kept) == (left.before, False, [])


def test_a_resume_that_a_hook_refuses_closes_the_window_that_the_run_had_opened(left):
    before, config = left.before, left.lab.folder / "config.yaml"
    text = config.read_text().rstrip()
    config.write_text(f"{text}\n    hooks: {{before_run: [[/bin/false]]}}\n")
    left.lab.break_(left.lab.manager_host, "unreachable")
    said = left("playbook", "resume")
    assert (said.code, left.window) == (5, True), said.err
    assert "closing the redaction window" in said.err
    left.lab.repair()
    said = left("playbook", "resume")
    assert (said.code, left.window, left.options.read_bytes(), redacts(left)) == (5, False, before, True)
    config.write_text(text)
    said = left("playbook", "resume")
    assert (said.code, left.window, left.options.read_bytes()) == (0, False, before), said.err


def test_after_a_kill_the_next_verb_that_takes_the_lock_closes_the_window_first(left):
    operator = left
    said = operator("cluster", "stop", "base", "--yes")
    assert said.code == 0, said.err
    assert "closing the redaction window" in said.err
    assert (operator.options.read_bytes(), operator.window, operator.kept) == (operator.before, False, [])
    assert redacts(operator)


@pytest.mark.parametrize("record", ["whole", "cut short"])
def test_a_disk_that_takes_no_byte_keeps_no_window_open(left, record):
    if record != "whole":
        path = left.state / "window.json"
        path.write_bytes(path.read_bytes()[:50])
    with full(left.state):
        said = left("manager", "export", "--close-window", "--yes")
        assert (said.code, left.options.read_bytes(), left.window) == (0, left.before, False), said.err
    assert redacts(left)


@contextmanager
def full(folder):
    """A folder on a disk of its own that is full."""
    kept = folder.with_name("kept")
    folder.rename(kept)
    folder.mkdir(mode=0o700)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", folder]).returncode:
        pytest.skip("this account may not mount a file system")
    try:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        with (folder / "filler").open("wb", 0) as file, pytest.raises(OSError, match="No space left"):
            while True:
                file.write(bytes(4096))
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("more", [b"", b"# somebody else's line\n"])
def test_a_window_whose_options_were_put_back_by_hand_is_opened_again_by_the_run_that_is_taken_up(left, more):
    left.options.write_bytes(left.before + more)
    said = left("playbook", "resume", "-o", "json")
    assert said.code == 0, said.err
    assert [action["kind"] for action in said.json["actions"]] == ["window.open", "snapshot.take", "window.close"]
    assert said.json["actions"][1]["value"]["restorable"] is True
    assert (left.options.read_bytes(), left.window, left.kept) == (left.before + more, False, [])


def test_a_restore_closes_the_window_first_though_the_manager_has_lost_its_database_and_serves_no_tls(left):
    left.lab.lose_database()
    said = left("restore", "run", "--confirm", SITE, "--manager-only", "--timeout", "60s")
    assert said.code == 0, said.err
    assert (left.window, left.puts) == (False, 1)


def test_a_window_closes_though_the_manager_answers_without_tls_and_lets_nobody_in(left):
    left.lab.lose_database()
    said = left("manager", "export", "--close-window", "--yes", "--timeout", "60s")
    assert said.code == 0, said.err
    assert (left.options.read_bytes(), left.window, left.kept) == (left.before, False, [])
    assert "the restarted manager answers, and tells no more: no password is sent in clear" in said.err


def test_a_window_closes_though_the_password_cannot_be_had_any_more(loaded, tmp_path):
    before = loaded.options.read_bytes()
    gone, program = tmp_path / "gone", tmp_path / "password.sh"
    password = loaded.lab.folder / "password"
    program.write_text(
        f"test -e {gone} && exit 1\n"
        f"if grep -q redaction=false {loaded.options}; then touch {gone}; exit 1; fi\n"
        f"cat {password}\n"
    )
    said = export(loaded, MAINT_MANAGER_PASSWORD=f"command:/bin/sh {program}")
    assert gone.exists()
    assert said.code == 1, said.err  # not 3: something was changed
    assert "the restarted manager answers, and tells no more: the command /bin/sh that gives a secret" in said.err
    assert (loaded.options.read_bytes(), loaded.window, loaded.kept, redacts(loaded)) == (before, False, [], True)


@pytest.mark.parametrize("tls", [True, False])
def test_a_window_that_was_left_open_is_closed_once_by_who_has_no_password(left, tls):
    if not tls:
        left.lab.lose_database()
    for words in ("closing the redaction window that", "no window is open"):
        said = left("manager", "export", "--close-window", "--yes", MAINT_MANAGER_PASSWORD="command:/bin/false")
        assert (said.code, words in said.err + said.out, left.window) == (0, True, False), said.err
    assert left.options.read_bytes() == left.before


def test_a_window_that_was_put_back_is_not_opened_again_on_a_manager_that_lets_the_run_in_no_more(left):
    left.options.write_bytes(left.before)  # as by a command that closed it, and was killed before it forgot it
    left.lab.lose_database()
    commands = left.lab.folder / "hosts" / left.lab.manager_host / "commands.jsonl"
    before = commands.read_text().count("systemctl restart")
    said = left("playbook", "resume", "--timeout", "60s")
    assert (said.code, "no password is sent in clear" in said.err) == (5, True), said.err
    assert (left.options.read_bytes(), left.window) == (left.before, False)
    assert commands.read_text().count("systemctl restart") == before  # who lost its database has started anew since


def test_no_window_is_opened_by_a_run_that_is_taken_up_and_that_the_manager_lets_in_no_more(loaded, monkeypatch):
    real, asked = window.refuse_full, []

    def full_in_the_end(sight):
        asked.append(sight)
        if len(asked) > 1:  # the plan has asked
            raise WorkFailed("the disk is full", hint="make room")
        real(sight)

    with monkeypatch.context() as patched:
        patched.setattr(window, "refuse_full", full_in_the_end)
        assert export(loaded).code == 1
    before = loaded.options.read_bytes()
    loaded.lab.lose_database()
    said = loaded("playbook", "resume", "--timeout", "60s")
    assert (said.code, "no password is sent in clear" in said.err) == (5, True), said.err
    assert (loaded.options.read_bytes(), loaded.window) == (before, False)


def test_a_window_on_a_host_that_the_config_names_no_more_is_told_with_a_way_out(left):
    path = left.state / "window.json"
    path.write_text(path.read_text().replace(left.lab.manager_host, "old-cm"))
    said = left("cluster", "stop", "base", "--yes")
    assert (said.code, "window on old-cm" in said.err) == (5, True), said.err
    assert f"gone for good, its window is, too: delete {path}" in said.err
    path.unlink()
    assert left("cluster", "stop", "base", "--yes").code == 0


def test_every_server_that_the_config_names_is_edited_and_put_back_and_none_while_it_does_not_name_all(tmp_path):
    with Lab(tmp_path / "lab", Options(new_password=PASSWORD, switches={**FAST, "server-instances": "2"})) as lab:
        operator, config, second = Operator(lab), lab.folder / "config.yaml", list(lab.machines)[1]
        contents = [operator.options.read_bytes(), operator.options_on(second).read_bytes()]
        said = through(operator)
        assert said.code == 5, said.err
        assert second in said.err and "groups: [manager]" in said.err
        assert [operator.options.read_bytes(), operator.options_on(second).read_bytes()] == contents
        lines = config.read_text().splitlines()
        at = next(number for number, line in enumerate(lines) if f'name: "{second}"' in line)
        groups = next(number for number in range(at, at + 6) if lines[number].strip() == "groups:")
        lines.insert(groups + 1, lines[groups].replace("groups:", '  - "manager"'))
        text = "\n".join(lines) + "\n"
        for called in (second, second.partition(".")[0]):
            config.write_text(text.replace(f'name: "{second}"', f'name: "{called}"'))
            said = through(operator, "-v")
            assert f"{java_options.PROPERTY}=false to {java_options.PATH} on {called}" in said.err, said.err
            assert f"restarting cloudera-scm-server on {called}" in said.err
            assert [operator.options.read_bytes(), operator.options_on(second).read_bytes()] == contents


def test_a_short_name_stands_for_one_of_two_servers_that_have_it():
    settings = SimpleNamespace(hosts_in=lambda _group: (HostSettings(name="cm"),))
    instances = [Instance("cm.east.example", "192.0.2.1"), Instance("cm.west.example", "192.0.2.2")]
    with pytest.raises(Refused) as refused:
        server_hosts(settings, SimpleNamespace(instances=lambda: instances))
    assert refused.value.detail == ("server cm.west.example at 192.0.2.2",)


@pytest.mark.parametrize("lost", ["undo/*", "keys/undo"])
def test_a_window_whose_sealed_original_is_lost_is_closed_all_the_same(left, lost):
    for path in left.state.glob(lost):
        path.unlink()
    said = left("manager", "export", "--close-window", "--yes")
    assert said.code == 0, said.err
    assert "taking away our line" in said.err
    assert (left.window, redacts(left)) == (False, True)
    assert java_options.PROPERTY.encode() not in left.options.read_bytes()


def test_a_window_whose_sealed_original_is_of_an_earlier_one_is_closed_by_taking_our_line_away(left):
    (kept,) = left.kept
    undo = SealedUndo(left.state, AgeSeal())
    undo.drop(kept)
    undo.keep(b"EARLIER=1\n", kept)  # as where `undo` came back from a copy of the state folder
    said = left("manager", "export", "--close-window", "--yes")
    assert said.code == 0, said.err
    assert "of another time; taking away our line" in said.err
    assert (left.window, redacts(left)) == (False, True)
    assert left.options.read_bytes() == left.before


def test_a_backup_tells_of_a_window_of_this_machine_whose_record_was_lost(left):
    (left.state / "window.json").unlink()
    said = left("backup", "create", "--yes")
    assert (said.code, "a redaction window is open" in said.err) == (0, True), said.err
    assert "`maint manager export --close-window` closes it" in said.err
    assert left("manager", "export", "--close-window", "--yes").code == 0
    assert "window is open" not in left("backup", "create", "--yes").err


def test_a_disk_without_room_for_a_backup_is_told_before_the_window_opens(loaded, monkeypatch):
    before = loaded.options.read_bytes(), len(loaded.sent)
    config = loaded.lab.folder / "config.yaml"
    (store,) = set(re.findall("store: (.+)", config.read_text()))
    config.write_text(config.read_text().replace(f"store: {store}", "store: /proc/maint"))  # which has no room at all
    said = export(loaded)
    assert said.code == 5 and "too full" in said.err and "/proc/maint" in said.err
    assert (loaded.options.read_bytes(), len(loaded.sent), loaded.window) == (*before, False)


EDITED = {  # what somebody does to the file while the window is open → how it ends then → how the run ends
    "an option beside ours": (
        lambda text: text.replace('redaction=false"', 'redaction=false -Xmx9G"'),
        'OPTS} -Xmx9G"\n',
        0,
    ),
    "a line of their own": (
        lambda text: f'{text}CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false"\n',
        'redaction=false"\n',
        7,
    ),
    "our line in their words": (
        lambda text: text.replace("redaction=false", "redaction=FALSE"),
        'redaction=FALSE"\n',
        7,
    ),
}


def test_what_is_said_of_a_window_whose_file_somebody_edited_is_so(loaded, monkeypatch):
    before, adding = loaded.options.read_bytes(), []
    when_started(
        loaded,
        monkeypatch,
        lambda _: adding and loaded.options.write_text(adding.pop()(loaded.options.read_text())),
    )
    for name, (added, left, code) in EDITED.items():
        adding.append(added)
        said = through(loaded)
        assert (said.code, adding) == (code, []), (name, said.err)
        assert (loaded.window, redacts(loaded)) == (False, code == 0), name
        assert loaded.options.read_text().endswith(left), name
        words = "a line of somebody else's in /etc/default/cloudera-scm-server" if code else "the manager redacts again"
        assert words in said.err.partition("! [2/2]" if code else "✓ [2/2]")[2], (name, said.err)
        loaded.options.write_bytes(before)
        loaded.lab.server.restart()
        loaded.lab.server.wait()
