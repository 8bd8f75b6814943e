"""What a host says about a failure, as plans and errors quote it."""

import pytest

from maint.ports import Ran
from maint.steps.hosts.fan_out import error_text

LOGGED = 'E1129 15:37:1{0}.745424      {0} memcache.go:265] "Unhandled Error" err="connection refused"\n'
LAST = "The connection to the server localhost:8080 was refused - did you specify the right host or port?\n"


@pytest.mark.parametrize("said", [LOGGED + LOGGED + LAST, LOGGED], ids=["with more", "alone"])
def test_what_kubectl_says_is_quoted_without_times_so_that_a_plan_is_the_same_when_it_is_made_again(said: str) -> None:
    first, second = (error_text(Ran(1, b"", said.format(number).encode())) for number in (7, 8))
    assert first == second == (LAST.strip() if LAST in said else '"Unhandled Error" err="connection refused"')


def test_what_a_command_says_otherwise_is_quoted_as_it_stands_on_one_line() -> None:
    assert error_text(Ran(1, b"", b"E5 is no device\n  E1129 neither\n")) == "E5 is no device E1129 neither"
    assert error_text(Ran(3, b"", b"")) == "it ended with status 3, and said nothing"
