"""The first hour: `maint config init` tries each answer, and five commands lead from nothing to a verified backup."""

import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from maint.adapters.stores.local import LocalStore
from maint.cli.config import trials
from maint.cli.config.init import Draft
from maint.cli.screen import Screen
from maint.errors import Interrupted, UsageError, WorkFailed
from maint.lab.running import Lab
from tests.cli.test_typed import typed_at
from tests.house.source import ROOT
from tests.servers import ConnectProxy
from tests.steps.conftest import copy
from tests.steps.operator import Said, environment, maint


@pytest.fixture(scope="module")
def lab(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(copy(backed_up, tmp_path_factory.mktemp("first") / "lab")) as lab:
        yield lab


def flags(lab: Lab, **more: str) -> list[str]:
    """Return flags that answer all questions; `more` replaces answers, an empty one leaves a flag out."""
    at, ssh = lab.status()["manager"], lab.status()["ssh"]
    plain, tls = (at[name].rpartition(":")[2] for name in ("plain", "tls"))
    answers = {
        "manager": f"127.0.0.1:{plain}:{tls}",
        "ca": str(at["ca"]),
        "password": f"file:{lab.folder}/password",
        "ssh": f"root@127.0.0.1:{ssh['port']}",
        "ssh-key": str(ssh["key"]),
        "host-key": fingerprint(lab),
        "store": "backups",
        "recipient": "new:recovery.key",
    } | {name.replace("_", "-"): value for name, value in more.items()}
    return [word for name, value in answers.items() if value for word in (f"--{name}", value)]


def fingerprint(lab: Lab) -> str:
    words = ["ssh-keygen", "-l", "-f", str(lab.folder / "ssh/known_hosts")]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    port = lab.status()["ssh"]["port"]
    return next(line.split()[1] for line in lines if f":{port} " in line)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def states(config: Path) -> dict[str, str]:
    return {one["label"]: one["state"] for one in maint("doctor", "--config", str(config), "-o", "json").json["checks"]}


def test_five_commands_of_the_readme_lead_to_a_verified_restorable_backup(tmp_path):
    readme = (ROOT / "README.md").read_text()
    block = readme.partition("## The first backup, in five commands")[2].partition("\n\n    ")[2].partition("\n\n")[0]
    lines = [line.strip() for line in block.splitlines()]
    assert len(lines) == 5
    (tmp_path / "work").mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = environment(HOME=str(tmp_path), PATH=path, XDG_STATE_HOME=str(tmp_path / "state"))
    shell = ["bash", "-e", "-c", "\n".join(lines)]
    try:
        ran = subprocess.run(
            shell, cwd=tmp_path / "work", env=env, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL
        )
    finally:
        subprocess.run([f"{Path(sys.executable).parent}/maint", "lab", "down"], env=env, check=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"backup +yes +verified, level 3", ran.stdout)
    assert "maint backup drill --config" in ran.stderr
    assert "kdc:" in (tmp_path / "work/maint.yaml").read_text()  # so that what is restored starts
    assert (tmp_path / "work/recovery.key").stat().st_mode & 0o777 == 0o600


def test_flags_answer_and_what_they_make_is_accepted_by_doctor(lab, here):
    said = maint("config", "init", "site.yaml", *flags(lab))
    assert (said.code, said.out) == (0, f"{here / 'site.yaml'}\n"), said.err
    found = states(here / "site.yaml")
    assert {label for label, state in found.items() if state == "FAIL"} == {"backup"}  # nobody has taken one yet
    assert "# name or address of the manager" in (here / "site.yaml").read_text()
    assert [line.strip().partition(" --config")[0] for line in said.err.splitlines()[-3:]] == [
        "maint doctor", "maint backup create", "maint backup drill",
    ]  # fmt: skip
    assert not (here / "backups").exists()


def test_a_host_key_is_recorded_below_a_line_that_nobody_ended(lab, here):
    other = f"other.example ssh-ed25519 {(lab.folder / 'ssh/known_hosts').read_text().split()[2]}"
    (here / "everybodys").write_text(other)
    (here / "everybodys").chmod(0o644)
    (here / "known_hosts").symlink_to(here / "everybodys")
    said = maint("config", "init", "site.yaml", *flags(lab))
    assert said.code == 0, said.err
    first, *others = (here / "everybodys").read_text().splitlines()
    assert (first, len(others), (here / "known_hosts").is_symlink()) == (other, 1, True)
    assert (here / "everybodys").stat().st_mode & 0o777 == 0o644


def test_a_host_key_that_is_recorded_is_not_believed_where_the_flag_names_another_one(lab, here):
    assert maint("config", "init", "site.yaml", *flags(lab)).code == 0
    said = maint("config", "init", "other.yaml", *flags(lab, host_key="SHA256:other", recipient="new:other.key"))
    assert (said.code, "nobody believes the host key" in said.err) == (5, True), said.err
    assert not (here / "other.yaml").exists()
    assert maint("config", "init", "same.yaml", *flags(lab, recipient="new:same.key")).code == 0


def test_without_a_terminal_the_missing_flags_are_named_and_nothing_is_written(lab, here):
    said = maint("config", "init", "site.yaml", "--manager", "127.0.0.1", "-o", "json")
    assert said.code == 2
    assert all(flag in said.error["message"] for flag in ("--password", "--store", "--ssh", "--recipient"))
    assert list(here.iterdir()) == []


def test_a_dry_run_tries_everything_and_writes_nothing(lab, here):
    said = maint("config", "init", "site.yaml", *flags(lab), "--dry-run")
    assert (said.code, "let in as admin" in said.err) == (0, True), said.err
    assert f"that {here / 'backups'} takes a file was not tried" in said.err
    assert "key pair made" not in said.err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        ({"manager": "127.0.0.1:1:2"}, 4, "no port of 127.0.0.1"),
        ({"manager": "127.0.0.1:\u00b2:2"}, 2, "is not an address"),  # a digit, and no number
        ({"manager": f"127.0.0.1:{'9' * 5000}"}, 2, "is not an address"),
        ({"ca": ""}, 5, "nobody believes the certificate"),
        ({"ca": "y"}, 4, "y cannot be used"),
        ({"ca": "", "fingerprint": "SHA256:00"}, 4, "another certificate than --fingerprint"),
        ({"ca": "", "fingerprint": "yes"}, 4, "another certificate than --fingerprint"),
        ({"fingerprint": "0" * 64}, 4, "another certificate than --fingerprint"),
        ({"password": "file:absent"}, 3, "absent"),
        ({"password": "Tops3cret"}, 2, "must be a reference"),
        ({"on_redacted": "never"}, 2, "none of window, problem, accept"),
        ({"host_key": ""}, 5, "nobody believes the host key"),
        ({"host_key": "SHA256:other"}, 5, "nobody believes the host key"),
        ({"store": "/dev/null/store"}, 4, "cannot be written to"),
        ({"store": "/proc/nope"}, 4, "cannot be written to"),
        ({"recipient": "new:/proc/nope/key"}, 1, "cannot be written"),
        ({"recipient": f"new:{'a' * 300}"}, 1, "File name too long"),
        ({"recipient": "new:absent/../backups/recovery.key"}, 5, "lies in the store"),
        ({"recipient": "age1short"}, 2, "age1"),
    ],
)
def test_an_answer_that_fails_is_refused_and_leaves_nothing(lab, here, answer, code, words):
    said = maint("config", "init", "site.yaml", *flags(lab, **answer), "-o", "json")
    assert said.code == code, said.err
    assert words in said.err
    assert "Tops3cret" not in said.err
    assert "tried.yaml" not in said.err
    assert list(here.iterdir()) == []


def test_a_password_may_stand_in_a_variable_whose_name_begins_as_ours_do(lab, here):
    words = (*flags(lab, password="env:MAINT_CM_PW"), "--dry-run")
    said = maint("config", "init", "site.yaml", *words, MAINT_CM_PW=(lab.folder / "password").read_text().strip())
    assert (said.code, "let in as admin" in said.err) == (0, True), said.err


def test_a_lab_whose_host_keys_are_gone_is_told_and_is_no_bug(here):
    (here / "config.yaml").write_text(
        "sites: {lab: {manager: {host: 127.0.0.1, plain_port: 1, tls_port: 2, password: 'env:X'},"
        " ssh: {known_hosts: gone, key: gone}}}\n"
    )
    said = maint("config", "init", "n.yaml", "--lab", "--keep-failing", "--dry-run", MAINT_LAB=str(here))
    assert (said.code, f"{here}/gone, cannot be read" in said.err, "maint lab up" in said.err) == (3, True, True), (
        said.err
    )


def test_an_answer_that_fails_may_be_kept_with_a_warning(lab, here):
    said = maint("config", "init", "site.yaml", *flags(lab, ssh="root@127.0.0.1:1"), "--keep-failing")
    assert said.code == 0, said.err
    assert "warning: 127.0.0.1 shows no host key" in said.err
    assert "port: 1 " in (here / "site.yaml").read_text()


def test_a_certificate_that_is_believed_by_its_fingerprint_is_pinned(lab, here):
    shown = maint("config", "init", "site.yaml", *flags(lab, ca=""))
    print_ = re.search(r"fingerprint: (SHA256:[0-9a-f]{64})", shown.err)
    assert print_ is not None
    other = print_[1].removeprefix("SHA256:").upper()
    tried = maint("config", "init", "site.yaml", *flags(lab, ca="", fingerprint=other), "--dry-run")
    assert (tried.code, "its certificate is pinned" in tried.err) == (0, True), tried.err
    said = maint("config", "init", "site.yaml", *flags(lab, ca="", fingerprint=print_[1]))
    assert said.code == 0, said.err
    assert states(here / "site.yaml")["manager"] == "ok"


@pytest.mark.parametrize("trying", [False, True])
def test_ctrl_c_ends_the_questions_and_says_that_nothing_was_written(here, trying):
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", "from maint.cli.start import main; main()", "config", "init", "site.yaml"]
    piped = {"stdout": theirs, "stderr": subprocess.PIPE, "text": True}
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        process = subprocess.Popen(words, stdin=theirs, env=environment(), cwd=here, **piped)
        os.close(theirs)
        lines = iter(process.stderr.readline, "")
        assert any("its address" in line for line in lines)
        if trying:
            port = silent.getsockname()[1]
            os.write(ours, f"127.0.0.1:{port}:1\n".encode())
            silent.accept()
        process.send_signal(signal.SIGINT)
        rest = "".join(lines)
        assert (process.wait(), "hint: nothing was written" in rest) == (130, True), rest
    os.close(ours)
    assert list(here.iterdir()) == []


def test_what_was_written_into_the_store_for_a_trial_goes_with_a_signal_too(tmp_path):
    class Struck(LocalStore):
        @contextmanager
        def create(self, name: str) -> Iterator[BinaryIO]:
            with super().create(name) as file:
                yield file
            raise Interrupted(signal.SIGTERM)

    store = Struck(tmp_path)
    with pytest.raises(Interrupted):
        trials._write(store, "prod/trial")
    assert list(store.names()) == []


@pytest.mark.parametrize("taken", ["site.yaml", "recovery.key"])
def test_where_a_file_appeared_meanwhile_nothing_of_ours_stays_and_nothing_of_others_goes(here, taken):
    (here / "known_hosts").write_text("one\n")
    draft = Draft(here / "site.yaml", "prod", here / "staging", Screen(), dry_run=False)
    for name, content in (("known_hosts", b"one\ntwo\n"), ("prod-ca.pem", b"ca"), ("recovery.key", b"ours")):
        draft.values[name] = draft.keep(here / name, content)
    (here / taken).write_text("theirs")
    with pytest.raises(WorkFailed, match=f"{taken} is there by now"):
        draft.write()
    assert {path.name for path in here.iterdir()} == {"staging", "known_hosts", taken}
    assert (here / taken).read_text() == "theirs"


def test_no_secret_lies_where_answers_are_tried_so_that_a_kill_leaves_none(here):
    draft = Draft(here / "site.yaml", "prod", here / "staging", Screen(), dry_run=True)
    draft.add("manager", host="cm.example.internal")
    trials.recipient(draft, f"new:{here / 'recovery.key'}")
    with pytest.raises(UsageError, match="must be a reference"):
        trials.login(draft, "admin", "Tops3cret")
    staged = b"".join(path.read_bytes() for path in here.rglob("*") if path.is_file())
    assert (b"AGE-SECRET-KEY" in staged, b"Tops3cret" in staged) == (False, False)


def test_through_a_proxy_a_certificate_is_shown_and_pinned_and_what_is_written_goes_that_way(lab, here, monkeypatch):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    config = here / "maint.yaml"
    with closing(ConnectProxy()) as proxy:
        shown = maint("config", "init", str(config), *flags(lab, ca="", proxy=proxy.url, fingerprint="SHA256:00"))
        assert shown.code == 4
        believed = re.search(r"fingerprint: (SHA256:[0-9a-f]{64})", shown.err)
        assert believed is not None
        tls = lab.status()["manager"]["tls"].rpartition(":")[2]
        said = maint("config", "init", str(config), *flags(lab, ca="", proxy=proxy.url, fingerprint=believed[1]))
        assert said.code == 0, said.err
        assert set(proxy.led) >= {f"127.0.0.1:{tls}"}
        assert (
            f"manager 127.0.0.1 goes through {proxy.url.removeprefix('http://')} (proxy)"
            in maint("doctor", "--config", str(config)).out
        )


def test_on_a_terminal_each_answer_that_a_failed_trial_depends_on_is_asked_again(lab, here):
    given = dict(zip(*[iter(flags(lab))] * 2, strict=True))
    typed = [
        "127.0.0.1:1:2", f"{'a' * 300}", given["--manager"], "n", "", "n", "/absent.pem", given["--ca"],
        "nobody", "Tops3cret", "admin", given["--password"],
        "never", "",
        given["--ssh"], "/absent/key", "", given["--ssh-key"], "n", "", "", "", "y",
        "/proc/nope", "a" * 300, "/dev/null/store", "s\x1b[Dtore", "backups",
        "new:site.yaml", "new:known_hosts", "new:backups/key", "age1short", "",
    ]  # fmt: skip
    told = typed_to(here, typed)
    assert told.code == 0, told.out
    for words in (
        "no port of 127.0.0.1 serves", "must be a host name", "fingerprint: SHA256:", "nobody believes",
        "/absent.pem cannot be used", "must be a reference to a secret", "none of window, problem, accept",
        "nobody believes the host key", "/proc/nope cannot be written to", "at most 255 bytes", "Not a directory",
        "no terminal shows", "site.yaml is there already", "known_hosts is there already", "lies in the store",
        "must be an age public key",
    ):  # fmt: skip
        assert words in " ".join(told.out.split())
    assert "in the CA file" not in " ".join(told.out.split())
    assert not (here / "backups").exists()
    assert (here / "recovery.key").stat().st_mode & 0o777 == 0o600
    assert {label for label, state in states(here / "site.yaml").items() if state == "FAIL"} == {"backup"}


def typed_to(folder: Path, lines: list[str]) -> Said:
    """Type answers to the questions on a terminal, then an end of input; return all that was shown."""
    keys = "".join(f"{line}\n" for line in lines).encode() + b"\x04"
    code, told, _ = typed_at({"": keys}, ["config", "init", "site.yaml"], folder)
    return Said(code, told, "")
