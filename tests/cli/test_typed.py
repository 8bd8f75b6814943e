"""What is typed at a prompt of a real terminal to leave it, or by mistake: nothing is done, and the echo is back."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
import time

import pytest

from tests.steps.operator import environment

QUESTIONS = {
    "carry this out? [y/N]": ("cluster", "stop", "base"),
    "type base to go on": ("cluster", "delete", "base", "--api-only"),
    "Password: ": ("cluster", "list", "--config", "typed.yaml"),
    "; go on? [y/N]": ("lab", "up", "--new", "--folder"),
}
CTRL_C, CTRL_D = b"\x03", b"\x04"
HALF = "ü".encode()[:1] + b"\n"  # as Backspace leaves it where the terminal does not know of UTF-8
LIMIT = 60.0  # seconds


@pytest.mark.parametrize(("keys", "codes"), [(CTRL_C, {130}), (CTRL_D, {5}), (HALF, {3, 5})])
@pytest.mark.parametrize("question", QUESTIONS)
def test_who_leaves_a_question_or_mistypes_has_done_nothing(loaded, tmp_path, question, keys, codes):
    words = [*QUESTIONS[question], *([str(loaded.lab.folder)] if "--folder" in QUESTIONS[question] else [])]
    text = (loaded.lab.folder / "config.yaml").read_text()
    (tmp_path / "typed.yaml").write_text(re.sub(r"(?m)^      password: .*$", "      password: prompt", text, count=1))
    asked = loaded.sent
    code, told, echoes = typed_at(question, keys, words, tmp_path, MAINT_CONFIG=loaded.config)
    assert (code in codes, echoes, loaded.sent[len(asked) :]) == (True, True, []), told
    assert "error:" in told and "hint:" in told


def typed_at(question, keys, words, folder, **env):
    """Press keys once a question is asked; return the exit code, all that was shown, and whether keys are echoed."""
    ours, theirs = pty.openpty()
    program = ["setsid", "--ctty", sys.executable, "-c", "from maint.cli.start import main; main()", *words]
    env = environment(PYTHONIOENCODING="utf-8:strict", COLUMNS="200", **env)  # as in most locales
    process = subprocess.Popen(program, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=folder)
    told, end = b"", time.monotonic() + LIMIT
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        assert time.monotonic() < end, told
        if select.select([ours], [], [], 0.1)[0]:
            told += os.read(ours, 4096)
            if keys and question.encode() in told:
                os.write(ours, keys)
                keys = b""
    echoes = bool(termios.tcgetattr(ours)[3] & termios.ECHO)
    os.close(theirs)
    os.close(ours)
    return process.returncode, told.decode(errors="replace"), echoes
