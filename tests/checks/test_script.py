"""What a question's command says on its error output is kept apart from its answer."""

import subprocess

import pytest

from maint.checks.facts import Answered, CouldNotTell, HostFacts, SiteFacts
from maint.checks.gather import parse, script

QUESTIONS = {
    "plain": "echo fine",
    "refused": "echo 'connect: refused' >&2; exit 3",
    "both": "printf 'one\\ntwo\\n'; echo aside >&2; false",
    "leaves": "exit 4",
}


@pytest.mark.parametrize("shell", [["sh"], ["bash", "--posix"]])
def test_errors_are_kept_beside_the_answer(shell: list[str]) -> None:
    said = subprocess.run([*shell, "-s"], input=script(QUESTIONS, {}, "token"), capture_output=True, check=True)
    framed = parse(said.stdout, "token", QUESTIONS)
    assert framed.reason == ""
    assert framed.answers == {
        "plain": Answered(0, "fine"),
        "refused": Answered(3, "", "connect: refused"),
        "both": Answered(1, "one\ntwo\n", "aside"),
        "leaves": Answered(4, ""),
    }


def test_a_command_that_printed_nothing_is_told_in_its_own_words() -> None:
    import datetime

    site = SiteFacts(datetime.datetime.now(datetime.UTC))
    host = HostFacts("h", "h", "B", {"kinit": Answered(3, "", "connect: refused")}, site)
    with pytest.raises(CouldNotTell, match=r"connect: refused \(exit status 3\)"):
        host.text("kinit")
