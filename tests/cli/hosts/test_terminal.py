"""`maint host check` on a terminal: what passes by is gone before the result stands there."""

import re

from tests.cli.test_typed import typed_at
from tests.steps.operator import Operator


def test_progress_makes_room_for_the_result(operator: Operator) -> None:
    words = ("host", "check", "--check", "os.swappiness")
    code, told, _ = typed_at({}, words, operator.lab.folder, MAINT_CONFIG=operator.config, COLUMNS="80")
    assert code == 0, told
    assert "answered in" in told
    lines = [re.split(r"\r\x1b\[2K", line)[-1] for line in told.replace("\r\n", "\n").split("\n")]
    assert [line for line in lines if line] == ["5 of 5 hosts answered: 0 fail, 0 error, 0 warn, 0 skip, 5 pass"]
