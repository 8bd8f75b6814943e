"""What is typed at a prompt of a real terminal to leave it, or by mistake: nothing is done, and the echo is back."""

import os
import pty
import re
import select
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.forked import Command
from tests.steps.operator import environment

QUESTIONS = {
    "carry this out? [y/N]": ("cluster", "stop", "base"),
    "type base to go on": ("cluster", "delete", "base", "--api-only"),
    "Password: ": ("cluster", "list", "--config", "typed.yaml"),
    "; go on? [y/N]": ("lab", "up", "--new", "--folder"),
}
CTRL_C, CTRL_D, CTRL_QUIT = b"\x03", b"\x04", b"\x1c"
HALF = "ü".encode()[:1] + b"\n"  # as Backspace leaves it where the terminal does not know of UTF-8
LIMIT = 60.0  # seconds


# The last question is asked by what asks the first: one way of leaving it will do.
LEFT = [(question, CTRL_C, {130}) for question in QUESTIONS]
LEFT += [(question, *left) for question in [*QUESTIONS][:-1] for left in ((CTRL_D, {5}), (HALF, {3, 5}))]


@pytest.mark.parametrize(("question", "keys", "codes"), LEFT)
def test_who_leaves_a_question_or_mistypes_has_done_nothing(loaded, tmp_path, question, keys, codes):
    words = [*QUESTIONS[question], *([str(loaded.lab.folder)] if "--folder" in QUESTIONS[question] else [])]
    asks_password(loaded, tmp_path)
    asked = loaded.sent
    code, told, echoes = typed_at({question: keys}, words, tmp_path, MAINT_CONFIG=loaded.config)
    assert (code in codes, echoes, loaded.sent[len(asked) :]) == (True, True, []), told
    assert "error:" in told and "hint:" in told


def typed_at(answers, words, folder, **env):
    """Press keys after the words in `answers`; return exit code, all that was shown, and whether keys are echoed."""
    ours, theirs = pty.openpty()
    env = environment(**{"COLUMNS": "200", **env})
    told, end = b"", time.monotonic() + LIMIT
    with Command(words, env, folder=str(folder), terminal=os.ttyname(theirs)) as process:
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            assert time.monotonic() < end, told
            if select.select([ours], [], [], 0.1)[0]:
                told += os.read(ours, 4096)
                for question in [one for one in answers if one.encode() in told]:
                    os.write(ours, answers.pop(question))
    echoes = bool(termios.tcgetattr(ours)[3] & termios.ECHO)
    os.close(theirs)
    os.close(ours)
    return process.returncode, told.decode(errors="replace"), echoes


def test_who_quits_at_a_password_gets_the_echo_back(loaded, tmp_path):
    code, told, echoes = typed_at({"Password: ": CTRL_QUIT}, asks_password(loaded, tmp_path), tmp_path)
    assert (code, echoes) == (-signal.SIGQUIT, True), told


def test_a_password_is_not_shown_after_ctrl_z_and_fg(loaded, tmp_path):
    words = [sys.executable, "-c", "'from maint.cli.start import main; main()'", *asks_password(loaded, tmp_path)]
    shell, ours = pty.fork()
    if not shell:
        os.execvpe("bash", ["bash", "--norc", "--noediting", "-i"], environment(PS1="at the shell: "))
    told = b""

    def type_after(question, keys):
        nonlocal told
        shown, end = b"", time.monotonic() + LIMIT
        while question not in shown:
            assert time.monotonic() < end, shown
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 4096)
        told += shown
        os.write(ours, keys)

    try:
        type_after(b"at the shell: ", " ".join(words).encode() + b"\n")
        type_after(b"Password: ", b"\x1a")
        type_after(b"at the shell: ", b"fg\n")
        type_after(b"Password: ", b"Canary-Typed\n")
        type_after(b"at the shell: ", b"exit\n")
    finally:
        os.kill(shell, signal.SIGKILL)
        os.waitpid(shell, 0)
        os.close(ours)
    assert (b"Stopped" in told, b"Canary" in told) == (True, False), told


def asks_password(loaded, folder):
    """Return the words of a command that asks for the manager's password."""
    text = Path(loaded.config).read_text()
    (folder / "typed.yaml").write_text(re.sub(r"(?m)^      password: .*$", "      password: prompt", text, count=1))
    return ["cluster", "list", "--config", str(folder / "typed.yaml")]


BOOK = """
name: agreed
summary: Ask before going on.
steps:
  - {name: Take your time, do: pause, with: {duration: 1s}}
  - {name: Agree, do: approve, with: {question: 'really?'}}
"""


def test_what_was_typed_before_a_run_asks_is_no_answer(loaded, tmp_path):
    (tmp_path / "agreed.yaml").write_text(BOOK)
    answers = {"Take your time": b"y\n", "really? [y/N": b"n\n"}
    words = ["playbook", "run", "agreed.yaml", "--config", loaded.config]
    code, told, _ = typed_at(answers, words, tmp_path)
    assert (code, "said no" in told) == (5, True), told
