"""What nobody can make a lab from is told at once, in words, and leaves no lab behind."""

import socket
import subprocess
import sys
import time

import msgspec
import pytest

from maint.lab import control
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.steps.operator import environment, maint

NAMELESS = '{"versionInfo": {"version": "7.6.5"}, "users": [], "clusters": [], "hosts": [{"hostname": "/"}]}'


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--switch", "foo=bar"), "there is no switch 'foo'"),
        (("--switch", "put-second=1"), "did you mean 'put-seconds'?"),
        (("--switch", "put-seconds=²"), "takes a number, not '²'"),
        (("--switch", "announced-api=soon"), "takes a number, not 'soon'"),
        (("--switch", "foo"), "NAME=VALUE"),
        (("--switch", "put-seconds=soon"), "takes a number, not 'soon'"),
        (("--virtual-cluster", "9x"), "3 to 30 letters, digits and hyphens"),
        (("--plain-port", "70000"), "--plain-port"),
    ],
)
def test_a_wish_that_makes_no_sense_is_wrong_usage(tmp_path, words, told):
    said = maint("lab", "up", "--folder", str(tmp_path / "lab"), *words)
    assert (said.code, said.out) == (2, "") and told in said.err
    assert not (tmp_path / "lab").exists()


@pytest.mark.parametrize(("place", "words"), [("file", ()), ("file/lab", ()), ("file", ("--new", "--yes"))])
def test_a_place_that_can_be_no_folder_is_told_and_stays_as_it_is(tmp_path, place, words):
    (tmp_path / "file").write_text("mine")
    said = maint("lab", "up", "--folder", str(tmp_path / place), *words)
    assert (said.code, "name another folder" in said.err) == (1 if "/" in place else 5, True), said.err
    assert (tmp_path / "file").read_text() == "mine"


def test_a_port_that_another_process_has_is_told_without_a_traceback(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ("--folder", str(tmp_path / "lab"), "--plain-port", str(taken.getsockname()[1]))
        said = maint("lab", "up", *words)
    assert said.code == 1 and "in use" in said.err and "File" not in said.err
    assert not control.status(tmp_path / "lab")["running"]


def test_a_lab_that_did_not_come_up_leaves_nothing_and_another_can_be_made_in_its_place(tmp_path):
    folder, broken = tmp_path / "lab", tmp_path / "broken.json"
    broken.write_text(NAMELESS)
    said = maint("lab", "up", "--folder", str(folder), "--deployment", str(broken))
    assert said.code == 1 and "no usable name" in said.err and "Traceback" not in said.err
    assert not folder.exists()
    folder.mkdir()
    (folder / "options.json").write_bytes(msgspec.json.encode(Options()))  # as a kill in the middle leaves it
    try:
        again = maint("lab", "up", "--folder", str(folder), "--new", "--fresh")
        assert again.code == 0, again.err
    finally:
        control.down(folder)


@pytest.mark.parametrize("words", [(), ("--new", "--yes")])
@pytest.mark.parametrize("name", ["thesis.txt", "options.json"])
def test_a_folder_that_holds_something_else_stays_as_it_is(tmp_path, name, words):
    folder, broken = tmp_path / "mine", tmp_path / "broken.json"
    folder.mkdir()
    (folder / name).write_text('{"mine": true}')
    broken.write_text(NAMELESS)
    said = maint("lab", "up", "--folder", str(folder), "--deployment", str(broken), *words)
    assert (said.code, "holds no lab" in said.err) == (5, True), said.err
    assert [each.name for each in folder.iterdir()] == [name]


def test_a_lab_is_thrown_away_only_when_the_operator_agrees(tmp_path):
    folder = tmp_path / "lab"
    Lab(folder, Options(fresh=True, ssh=False))
    (folder / "backups/lab").mkdir(parents=True)
    said = maint("lab", "up", "--folder", str(folder), "--new", given="n\n")
    assert said.code == 5 and "with the snapshots in its store" in said.err
    assert (folder / "backups/lab").exists()


def test_a_lab_is_thrown_away_only_once_the_new_one_is_up(tmp_path):
    folder, broken = tmp_path / "lab", tmp_path / "broken.json"
    Lab(folder, Options(fresh=True, ssh=False))
    broken.write_text(NAMELESS)
    said = maint("lab", "up", "--folder", str(folder), "--new", "--yes", "--deployment", str(broken))
    assert (said.code, f"is down, and kept in {folder}" in said.err) == (1, True), said.err
    assert [one.name for one in tmp_path.iterdir() if "lab" in one.name] == ["lab"]
    assert control.is_lab(folder)
    try:
        assert maint("lab", "up", "--folder", str(folder)).code == 0
    finally:
        control.down(folder)


def test_a_lab_behind_a_link_is_thrown_away_and_another_one_made_in_its_place(tmp_path):
    folder, real = tmp_path / "lab", tmp_path / "real"
    Lab(real, Options(fresh=True, ssh=False))
    (real / "of-before").write_text("x")
    folder.symlink_to(real)
    try:
        said = maint("lab", "up", "--folder", str(folder), "--new", "--fresh", "--yes")
        assert said.code == 0, said.err
        assert folder.is_symlink() and not (real / "of-before").exists()
    finally:
        control.down(folder)


def test_a_lab_that_cannot_be_written_is_told_by_its_folder(tmp_path):
    folder = tmp_path / "lab"
    Lab(folder, Options(fresh=True, ssh=False))
    (folder / control.OUTPUT).unlink(missing_ok=True)
    (folder / control.OUTPUT).mkdir()
    said = maint("lab", "up", "--folder", str(folder))
    assert (said.code, f"{folder} cannot be written" in said.err) == (1, True), said.err


def test_a_folder_named_as_the_package_is_not_imported_by_a_labs_process(tmp_path, monkeypatch):
    (tmp_path / "maint").mkdir()
    (tmp_path / "maint/__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    try:
        assert maint("lab", "up", "--folder", str(tmp_path / "lab"), "--fresh").code == 0
    finally:
        control.down(tmp_path / "lab")
    assert not (tmp_path / "ran").exists()


def test_a_demo_that_fails_names_nothing_that_it_removed(tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text(NAMELESS)
    said = maint("lab", "demo", "--deployment", str(broken), XDG_STATE_HOME=str(tmp_path / "state"))
    assert said.code == 1 and "maint-demo-" not in said.err


def test_a_demo_that_is_killed_takes_its_lab_with_it(tmp_path):
    words = [sys.executable, "-m", "maint", "lab", "demo"]
    env = environment(TMPDIR=str(tmp_path), XDG_STATE_HOME=str(tmp_path / "state"))
    with subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as demo:
        while not (found := [*tmp_path.glob("maint-demo-*/control.json")]):
            assert demo.poll() is None
            time.sleep(0.05)
        demo.kill()
    while found[0].parent.exists():  # it goes when the lab is down; the limit of all tests ends this
        time.sleep(0.05)


def test_what_would_be_done_with_a_lab_depends_on_what_is_there(tmp_path):
    folder, strange = tmp_path / "my lab", tmp_path / "strange"
    at = ("--folder", str(folder))
    strange.mkdir()
    (strange / "mine").touch()
    assert maint("lab", "up", "--folder", str(strange), "--dry-run").code == 5
    assert "would bring a lab up" in maint("lab", "up", *at, "--new", "--dry-run").out
    assert maint("lab", "down", *at, "--dry-run").out == "no lab is up\n"
    assert (
        f"there is no lab in {folder}: `maint lab up --folder '{folder}'` makes one" in maint("lab", "status", *at).out
    )
    Lab(folder, Options(ssh=False))
    assert "and throw away the one that is there" in maint("lab", "up", *at, "--new", "--dry-run").out
    assert "would bring the lab in" in maint("lab", "up", *at, "--dry-run").out
    other = maint("lab", "up", *at, "--fresh", "--dry-run")
    assert (other.code, f"`maint lab up --folder '{folder}'` alone" in other.err) == (5, True)
    try:
        # What it prints is typed as it stands, by a shell.
        said = maint("lab", "up", *at)
        typed = subprocess.run(["sh", "-c", f'{said.out} printf %s "$MAINT_CONFIG"'], capture_output=True, text=True)
        assert (typed.stdout, typed.stderr) == (str(folder / "config.yaml"), "")
        assert maint("lab", "up", *at, "--dry-run").out == f"the lab in {folder} is up already\n"
        twice = maint("lab", "up", *at, "--virtual-cluster", "etl-1", "--virtual-cluster", "etl-1")
        assert (twice.code, twice.err.count("virtual cluster etl-1")) == (0, 1), twice.err
        assert "would make etl-2 in it" in maint("lab", "up", *at, "--virtual-cluster", "etl-2", "--dry-run").out
        assert "would take the lab" in maint("lab", "down", *at, "--dry-run").out
    finally:
        control.down(folder)


def test_a_fault_that_is_none_would_not_be_set_and_those_that_are_set_are_shown(tmp_path):
    folder = tmp_path / "lab"
    at = ("--folder", str(folder))
    none = maint("lab", "break", "manager", "eror-500", *at, "--dry-run")
    assert (none.code, "did you mean 'error-500'" in none.err) == (2, True)
    down = maint("lab", "break", "manager", "error-500", *at)
    assert (down.code, f"maint lab up --folder {folder}" in down.err) == (4, True)
    try:
        control.up(folder, Options(fresh=True, ssh=False))
        assert maint("lab", "break", "export", "error-500", *at).code == 0
        assert "error-500, at export" in maint("lab", "status", *at).out
    finally:
        control.down(folder)
