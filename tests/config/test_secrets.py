"""Secret references: each kind, and every way in which one is refused without being repeated."""

import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.adapters.notices import LocalPrograms
from maint.config.programs import run_program
from maint.config.secrets import ReferencedSecrets, check_reference, in_one_line
from maint.errors import Invalid, MaintError, Refused, WorkFailed
from maint.model.secret import Secret
from maint.ports import Secrets


def secrets(folder: Path, **environ: str) -> ReferencedSecrets:
    return ReferencedSecrets(folder, {"PATH": os.environ["PATH"], **environ}, command_timeout=20)


def private(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def script(folder: Path, body: str) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return f"command:{path}"


@pytest.mark.parametrize(
    ("content", "value"), [(b"s", "s"), (b"s\n", "s"), (b"s\r\n", "s"), (b"s\n\n", "s\n"), (b" s ", " s ")]
)
def test_a_file_loses_one_final_newline_and_nothing_else(tmp_path: Path, content: bytes, value: str) -> None:
    private(tmp_path / "p", content)
    resolver: Secrets = secrets(tmp_path)
    assert resolver.resolve("file:p") == Secret(value)
    assert resolver.resolve(f"file:{tmp_path / 'p'}") == Secret(value)


def test_a_path_may_start_in_the_home_folder(tmp_path: Path) -> None:
    private(tmp_path / "p", b"s")
    assert secrets(Path("/"), HOME=str(tmp_path)).resolve("file:~/p") == Secret("s")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o777])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    private(tmp_path / "p", b"hunter2").chmod(mode)
    with pytest.raises(Invalid, match="open to others") as caught:
        secrets(tmp_path).resolve("file:p")
    assert caught.value.exit_code == 3
    assert "chmod 600" in str(caught.value.hint)


def test_a_link_is_followed_and_its_target_judged(tmp_path: Path) -> None:
    target = private(tmp_path / "target", b"s")
    (tmp_path / "link").symlink_to(target)
    assert secrets(tmp_path).resolve("file:link") == Secret("s")
    target.chmod(0o644)
    with pytest.raises(Invalid, match="open to others"):
        secrets(tmp_path).resolve("file:link")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_or_link_of_somebody_else_is_refused(tmp_path: Path) -> None:
    os.chown(private(tmp_path / "p", b"s"), 12345, 12345)
    with pytest.raises(Invalid, match="belongs to somebody else") as caught:
        secrets(tmp_path).resolve("file:p")
    assert "chown" not in (caught.value.hint or "")  # which would take it from its owner, or believe a stranger
    (tmp_path / "link").symlink_to(private(tmp_path / "q", b"s"))
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    with pytest.raises(Invalid, match="a link that somebody else made"):
        secrets(tmp_path).resolve("file:link")


def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Invalid, match="not a regular file"):
        secrets(tmp_path).resolve("file:pipe")
    with pytest.raises(Invalid, match="not a regular file"):
        secrets(tmp_path).resolve("file:.")


@pytest.mark.parametrize("reference", ["file:token", "env:TOKEN", "command:printf 's3cret\\nrest'"])
def test_a_password_of_several_lines_is_named_and_not_shown(tmp_path: Path, reference: str) -> None:
    private(tmp_path / "token", b"s3cret\n\n")
    known = secrets(tmp_path, TOKEN="s3cret\rrest")
    with pytest.raises(Invalid) as caught:
        in_one_line(known.resolve(reference), reference)
    assert "holds a line break" in caught.value.message
    assert "s3cret" not in caught.value.in_a_line
    assert in_one_line(Secret("s3cret"), reference) == Secret("s3cret")


@pytest.mark.parametrize(("content", "words"), [(b"", "is empty"), (b"\n", "is empty"), (b"\xff\xfe", "not UTF-8")])
def test_a_file_without_a_usable_text_is_refused_with_a_way_out(tmp_path: Path, content: bytes, words: str) -> None:
    private(tmp_path / "p", content)
    with pytest.raises(Invalid, match=words) as refused:
        secrets(tmp_path).resolve("file:p")
    assert refused.value.hint


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="No such file"):
        secrets(tmp_path).resolve("file:none")


def test_a_variable_is_read_from_the_environment_that_was_given(tmp_path: Path) -> None:
    assert secrets(tmp_path, PW="s").resolve("env:PW") == Secret("s")
    with pytest.raises(Invalid, match="PW is not set"):
        secrets(tmp_path).resolve("env:PW")


def test_a_systemd_credential_is_read_from_its_folder(tmp_path: Path) -> None:
    private(tmp_path / "etl", b"s\n")
    assert secrets(Path("/"), CREDENTIALS_DIRECTORY=str(tmp_path)).resolve("credential:etl") == Secret("s")
    with pytest.raises(Invalid, match="CREDENTIALS_DIRECTORY is not set"):
        secrets(tmp_path).resolve("credential:etl")


def test_a_command_gives_what_it_prints_and_no_shell_is_involved(tmp_path: Path) -> None:
    assert secrets(tmp_path).resolve("command:printf '%s\\n' 'a b; echo c'") == Secret("a b; echo c")


def test_a_command_does_not_inherit_other_secrets(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "PW": "hunter2", "OTHER": "x"}
    resolver = ReferencedSecrets(tmp_path, environ, hidden={"PW"})
    assert resolver.resolve(script(tmp_path, 'echo "${PW:-none} $OTHER"')) == Secret("none x")


def test_a_command_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="ended with status 3") as caught:
        secrets(tmp_path).resolve(script(tmp_path, "echo locked >&2; exit 3"))
    assert caught.value.detail == ("locked",)


def test_words_of_a_failed_command_that_hold_the_value_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        secrets(tmp_path).resolve(script(tmp_path, "echo hunter2; echo 'bad: hunter2' >&2; exit 1"))
    assert "hunter2" not in caught.value.message + "".join(caught.value.detail)


@pytest.mark.parametrize("end", ["sleep 600", "exit 0"])
def test_a_command_that_never_ends_is_ended_with_all_it_started(tmp_path: Path, end: str) -> None:
    own = f"{os.getpid()}{len(end)}"  # by which its processes are told from others
    reference = script(tmp_path, f"sleep 600.{own} & {end.replace('600', f'600.{own}')}")
    with pytest.raises(Invalid, match="did not end within 1 s"):
        ReferencedSecrets(tmp_path, dict(os.environ), command_timeout=1).resolve(reference)
    # What was killed may take a moment to end; the limit of the test says when this is too long.
    while not subprocess.run(["pgrep", "-f", f"sleep 600.{own}"], capture_output=True, check=False).returncode:
        time.sleep(0.02)


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"no-such-program.* cannot be started"):
        secrets(tmp_path).resolve("command:no-such-program x")


def test_a_keyring_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(Invalid, match="needs the Python package") as caught:
        secrets(tmp_path).resolve("keyring:maint/admin")
    assert caught.value.hint == "pip install keyring"


def test_a_keyring_is_asked_for_service_and_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("keyring")
    known = {("maint", "a/b"): "s"}
    library.__dict__["get_password"] = lambda service, user: known.get((service, user))
    monkeypatch.setitem(sys.modules, "keyring", library)
    assert secrets(tmp_path).resolve("keyring:maint/a/b") == Secret("s")
    with pytest.raises(Invalid, match="has no password for maint/x"):
        secrets(tmp_path).resolve("keyring:maint/x")


def test_a_prompt_asks_once_for_each_thing(tmp_path: Path) -> None:
    asked: list[str] = []
    resolver = ReferencedSecrets(tmp_path, {}, ask=lambda words: asked.append(words) or f"s{len(asked)}")
    assert [resolver.resolve(text) for text in ("prompt", "prompt", "prompt:sudo")] == [
        Secret("s1"),
        Secret("s1"),
        Secret("s2"),
    ]
    assert asked == ["Password: ", "sudo: "]


def test_a_prompt_without_a_terminal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no terminal"):
        secrets(tmp_path).resolve("prompt")


def test_an_end_of_input_where_a_password_is_to_be_typed_is_refused(tmp_path: Path) -> None:
    resolver = ReferencedSecrets(tmp_path, {}, ask=_ended)
    with pytest.raises(Refused, match="no password was typed"):
        resolver.resolve("prompt")


@pytest.mark.parametrize("typed", ["\udcc3", UnicodeDecodeError("utf-8", b"hunter\xc3", 6, 7, "unexpected end")])
def test_half_a_character_in_a_typed_password_is_refused_without_being_repeated(
    tmp_path: Path, typed: str | UnicodeDecodeError
) -> None:
    def ask(_: str) -> str:
        if isinstance(typed, UnicodeDecodeError):
            raise typed
        return typed

    with pytest.raises(Invalid, match="what was typed is not UTF-8 text") as caught:
        ReferencedSecrets(tmp_path, {}, ask=ask).resolve("prompt")
    assert caught.value.__suppress_context__ and "hunter" not in str(caught.value.hint)


def _ended(_: str) -> str:
    raise EOFError


def test_the_factory_password_is_that_of_a_fresh_manager(tmp_path: Path) -> None:
    assert secrets(tmp_path).resolve("factory:") == Secret("admin")


@pytest.mark.parametrize(
    "text",
    [
        "hunter2",
        "hunter2:x",
        "",
        "file:",
        "env:",
        "env:hunter 2",
        "env:1hunter",
        "command:",
        "command: ",
        "command:'x",
        "credential:",
        "credential:../hunter2",
        "credential:..",
        "keyring:hunter2",
        "keyring:/hunter2",
        "factory:hunter2",
        "File:/hunter2",
        "promptly",
        "file:hunter2\nx",
        "file:hunter2\0",
        "command:hunter2 \0",
        "file:hunter2\udc80",
    ],
)
def test_a_malformed_reference_is_refused_and_never_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(Invalid) as caught:
        secrets(tmp_path).resolve(text)
    assert "hunter" not in caught.value.message + "".join(caught.value.detail) + str(caught.value.hint)


@given(
    st.text()
    | st.sampled_from(["file:", "env:", "credential:", "keyring:", "prompt:"]).flatmap(
        lambda kind: st.text().map(lambda rest: kind + rest)
    )
)
def test_any_text_resolves_or_fails_in_a_foreseen_way(text: str) -> None:
    try:
        assert secrets(Path("/nonexistent")).resolve(text)
    except MaintError as error:
        assert error.message


def test_a_reference_that_is_right_is_given_back() -> None:
    assert check_reference("file:/etc/x") == "file:/etc/x"


def test_a_command_that_prints_without_an_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="a secret failed: it printed more than"):
        secrets(tmp_path).resolve("command:yes")


def test_a_program_whose_words_nobody_needs_may_print_much_and_its_last_ones_are_kept(tmp_path: Path) -> None:
    LocalPrograms().run(["head", "-c", "5000000", "/dev/zero"], b"", 60)
    with pytest.raises(WorkFailed, match="ended with status 3") as failed:
        LocalPrograms().run(["sh", "-c", "head -c 5000000 /dev/zero; echo; pwd; exit 3"], b"", 60, tmp_path)
    assert failed.value.detail[-1] == str(tmp_path)


def test_the_last_words_of_a_program_hold_no_secret(tmp_path: Path) -> None:
    Secret("what-it-was-given")
    with pytest.raises(WorkFailed) as failed:
        LocalPrograms().run(["sh", "-c", "cat >&2; exit 3"], b"what-it-was-given is wrong", 60, tmp_path)
    assert list(failed.value.detail) == ["••• is wrong"]


def test_a_program_may_leave_its_input_unread_and_may_hang(tmp_path: Path) -> None:
    given = {"environ": {}, "folder": tmp_path, "given": b"x" * 300_000}
    assert run_program(["/bin/echo", "well"], timeout=60, **given).out == b"well\n"
    os.mkfifo(tmp_path / "held")
    with os.fdopen(os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK), "rb") as held:
        os.set_blocking(held.fileno(), True)
        for hangs in ("sleep 60", "exec >&- 2>&-; sleep 60", "sleep 60 & echo said"):
            with pytest.raises(TimeoutError):
                run_program(["/bin/sh", "-c", f"exec 3> {tmp_path}/held; {hangs}"], timeout=0.5, **given)
            assert held.read() == b""  # nobody who held it is left


OF_ANOTHER = """
import os, pathlib
from maint.config.programs import run_program
words = ["setpriv", "--reuid", "12345", "--clear-groups", "sleep", "600"]
try:
    run_program(words, environ=os.environ, folder=pathlib.Path("/"), timeout=0.5)
except TimeoutError as error:
    print(*pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text().split(), error)
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root becomes another account")
def test_a_program_of_another_account_which_nobody_here_may_end_is_not_waited_for() -> None:
    """As one that `sudo` began is to an account that is not root."""
    without_the_right = ["setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill", sys.executable, "-c", OF_ANOTHER]
    ended = subprocess.run(without_the_right, capture_output=True, text=True, timeout=60, check=True)
    process, _, words = ended.stdout.strip().partition(" ")
    assert words == "did not end within 0.5 s"
    os.kill(int(process), signal.SIGKILL)
