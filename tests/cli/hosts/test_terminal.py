"""`maint host check` on a terminal: what passes by is gone before the result stands there."""

import os
import pty
import re
from contextlib import suppress

from tests.steps.operator import Operator


def shown(operator: Operator, *words: str) -> tuple[int, str]:
    """Run a command whose output and words both go to one terminal; return its exit code and what stood there."""
    ours, theirs = pty.openpty()
    process = operator.start(*words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    told = b""
    with suppress(OSError):  # how Linux says that nobody is at the other end any more
        while block := os.read(ours, 4096):
            told += block
    os.close(ours)
    return process.wait(), told.decode()


def test_progress_makes_room_for_the_result(operator: Operator) -> None:
    code, told = shown(operator, "host", "check", "--check", "os.swappiness")
    assert code == 0, told
    assert "answered in" in told
    lines = [re.split(r"\r\x1b\[2K", line)[-1] for line in told.replace("\r\n", "\n").split("\n")]
    assert [line for line in lines if line] == ["5 of 5 hosts answered: 0 fail, 0 error, 0 warn, 0 skip, 5 pass"]
