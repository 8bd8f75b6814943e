"""What nobody can make a lab from is told at once, in words, and leaves no lab behind."""

import socket

import pytest

from maint.lab import control
from tests.steps.operator import maint


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--switch", "foo=bar"), "there is no switch 'foo'; known are"),
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


def test_a_port_that_another_process_has_is_told_without_a_traceback(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        words = ("--folder", str(tmp_path / "lab"), "--plain-port", str(taken.getsockname()[1]))
        said = maint("lab", "up", *words)
    assert said.code == 1 and "in use" in said.err and "File" not in said.err
    assert not control.status(tmp_path / "lab")["running"]
