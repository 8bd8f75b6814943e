"""What a question's command says on its error output is kept apart from its answer."""

import os
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from maint.checks import gather
from maint.checks.check import Verdict
from maint.checks.facts import Answered, CouldNotTell, HostFacts, SiteFacts
from maint.checks.gather import parse, script
from maint.checks.registry import CHECKS
from maint.checks.registry import QUESTIONS as ALL
from maint.model.fleet import State

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


@pytest.mark.parametrize("status", ["²", "9" * 5000, "", "-1", "0x0"])
def test_an_answer_whose_status_is_no_number_is_none(status: str) -> None:
    frames = "token ask {}\n\nfine\ntoken end {}\n"
    out = "token begin 1\n" + frames.format("plain", 0) + frames.format("both", status) + "token done 2\n"
    framed = parse(out.encode(), "token", ("plain", "both"))
    assert ([*framed.answers], framed.reason) == (["plain"], "the answer broke off after 1 of 2")


def test_what_hangs_takes_no_question_after_it_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server of Kubernetes that does not answer is asked five times: four of them are cut short."""
    monkeypatch.setattr(gather, "_LIMIT", 4)
    asked = {**dict.fromkeys("abcde", "$maint_limit sleep 60"), "last": "echo here"}
    begun = time.monotonic()
    said = subprocess.run(["sh", "-s"], input=script(asked, {}, "token"), capture_output=True, check=True)
    answers = parse(said.stdout, "token", asked).answers
    assert [one.status for one in answers.values()] == [124] * 5 + [0]
    assert time.monotonic() - begun < 14  # of 20


def test_a_command_that_printed_nothing_is_told_in_its_own_words() -> None:
    site = SiteFacts(datetime.now(UTC))
    host = HostFacts("h", "h", "B", {"kinit": Answered(3, "", "connect: refused")}, site)
    with pytest.raises(CouldNotTell, match=r"connect: refused \(exit status 3\)"):
        host.text("kinit")


LDAPADD = """#!/bin/sh
cn=$(sed -n 's/^cn: //p'); [ ! -e {0}/$cn ] || exit 68
touch {0}/$cn; [ ! -e {0}/cut ] || mv {0}/cut {0}/down
"""
LDAPDELETE = """#!/bin/sh
[ ! -e {0}/down ] || exit 255
for name do :; done; name=${{name#CN=}}; rm {0}/${{name%%,*}} 2> /dev/null || exit 32
"""


@pytest.mark.parametrize(
    ("status", "words"), [("254", "its ticket has ended"), ("255", "not reached"), ("124", "in time")]
)
def test_a_directory_that_could_not_be_asked_says_nothing_of_rights(status: str, words: str) -> None:
    def judged(answer: str) -> Verdict:
        answers = {"ad_rights": Answered(0, answer)}
        return CHECKS["ldap.ad_rights"].judge(HostFacts("h", "h", "B", answers, SiteFacts(datetime.now(UTC))))

    nothing = judged(f"name=CN=x\nadd={status}\ndelete={status}")
    assert nothing.state is State.ERROR and words in nothing.remedy
    half = judged(f"name=CN=x\nadd=0\ndelete={status}")
    assert half.state is not State.PASS and words in half.remedy and "let the account delete" not in half.remedy


def test_an_account_that_a_check_left_in_the_directory_is_named_and_goes_with_the_next(tmp_path: Path) -> None:
    tools, directory = tmp_path / "bin", tmp_path / "directory"
    for folder in (tools, directory):
        folder.mkdir()
    for name, body in (("ldapadd", LDAPADD), ("ldapdelete", LDAPDELETE)):
        (tools / name).write_text(body.format(directory))
        (tools / name).chmod(0o755)
    asked = {"ad_rights": ALL["ad_rights"]}
    environment = {"PATH": f"{tools}:{os.environ['PATH']}"}

    def judged() -> Verdict:
        text = script(asked, {"ou": "OU=roles,DC=x", "ldap": "ldap://x"}, "token")
        said = subprocess.run(["sh", "-s"], input=text, capture_output=True, check=True, env=environment)
        site = SiteFacts(datetime.now(UTC))
        answers = parse(said.stdout, "token", asked).answers
        return CHECKS["ldap.ad_rights"].judge(HostFacts("h", "h", "B", answers, site))

    assert judged().state is State.PASS and not list(directory.iterdir())
    (directory / "cut").touch()
    left = judged()
    (account,) = (path.name for path in directory.iterdir() if path.name != "down")
    assert left.state is not State.PASS and f"CN={account},OU=roles,DC=x is left there" in left.observed
    (directory / "down").unlink()
    assert judged().state is State.PASS and not list(directory.iterdir())
