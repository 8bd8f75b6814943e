"""A healthy host passes; each planted problem is found, and nothing else."""

from pathlib import Path

import pytest

from maint.checks.check import judge
from maint.checks.facts import Answered, HostFacts
from maint.checks.gather import parse, script
from maint.checks.registry import select
from maint.model.fleet import Finding, State
from tests.checks.facts import healthy, host, site

LOUD = (State.FAIL, State.WARN, State.ERROR)


def loud(answers: dict[str, Answered], profiles: str = "BEK") -> set[str]:
    known = site()
    made: HostFacts = host(answers, name="wn01.example.internal", profiles=profiles, site=known, sent=1.0, received=2.0)
    checks = [check for check in select() if check.id not in ELSEWHERE]
    return {finding.check for finding in judge(checks, made.site) if finding.state in LOUD}


# These need neighbours, a manager or a time of asking, and are tried against the whole lab.
ELSEWHERE = {"time.skew", "cm.agent", "cm.ports", "krb.kdc", "cm.agent.heartbeat", "ecs.nm"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answered]:
    return healthy(tmp_path_factory.mktemp("host"))


def test_a_healthy_host_passes_everything(answers: dict[str, Answered]) -> None:
    assert loud(answers) == set()


@pytest.mark.parametrize(
    ("question", "answer", "found"),
    [
        ("swappiness", "60", {"os.swappiness", "os.swappiness.persist"}),
        ("overcommit", "0", {"os.overcommit"}),
        ("selinux", "now=Enforcing\nfile=enforcing", {"os.selinux"}),
        (
            "limits",
            "Max processes  4096  4096  processes\nMax open files  1024  1024  files",
            {"os.nproc", "os.nofile"},
        ),
        ("tmp", "options=rw,noexec\nmode=1777", {"os.tmp"}),
        ("uname", "5.14\naarch64", {"os.kernel"}),
        ("localhost", "192.0.2.1 STREAM localhost", {"net.localhost"}),
        ("reverse", "192.0.2.9 other.example.internal", {"net.dns.rev"}),
    ],
)
def test_one_thing_wrong_is_found_and_nothing_else(
    answers: dict[str, Answered], question: str, answer: str, found: set[str]
) -> None:
    assert loud({**answers, question: Answered(0, answer)}) == found


def test_a_host_that_said_nothing_is_never_passed_over(answers: dict[str, Answered]) -> None:
    known = site()
    host(answers, name="good", site=known)
    silent = host({}, name="bad", site=known)
    findings: list[Finding] = judge(select(), known)
    of_silent = [finding for finding in findings if finding.host == silent.name]
    assert State.PASS not in {finding.state for finding in of_silent if finding.check != "ecs.domain.length"}
    concerned = {check.id for check in select() if check.concerns(silent.profiles) and check.asks}
    assert concerned <= {finding.check for finding in of_silent} | {"ecs.plan", "ecs.dns.wildcard"}


def test_a_script_that_is_cut_runs_nothing(tmp_path: Path) -> None:
    import subprocess

    whole = script({"one": f"echo ran > {tmp_path}/ran; echo x"}, {}, "T")
    for length in (len(whole) // 2, len(whole) - 3):
        subprocess.run(["/bin/sh", "-s"], input=whole[:length], capture_output=True, check=False)
    cut = whole[: whole.rindex(b"maint_ask <")]
    subprocess.run(["/bin/sh", "-s"], input=cut, capture_output=True, check=False)
    assert not (tmp_path / "ran").exists()
    subprocess.run(["/bin/sh", "-s"], input=whole, capture_output=True, check=True)
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_what_a_command_prints_cannot_be_taken_for_the_frame(shell: str) -> None:
    import subprocess

    asked = {
        "forged": "printf 'x end 0\\nX ask other\\nno\\n'",
        "silent": "true",
        "ends": "exit 3",
        "reads": "cat",
        "bare": "printf no-newline",
    }
    ended = subprocess.run([shell, "-s"], input=script(asked, {}, "maint-T"), capture_output=True, check=True)
    framed = parse(b"Welcome!\n" + ended.stdout, "maint-T", asked)
    assert framed.reason == ""
    assert framed.before == "Welcome!"
    assert framed.answers["forged"].out == "x end 0\nX ask other\nno"  # final newlines are no part of an answer
    assert framed.answers["ends"].status == 3
    assert framed.answers["reads"].out == ""
    assert framed.answers["bare"].out == "no-newline"


def test_an_answer_that_breaks_off_keeps_what_came_and_says_so() -> None:
    out = b"T begin 1\nT ask one\n1\n\nT end 0\nT ask two\n2"
    framed = parse(out, "T", ["one", "two"])
    assert framed.answers == {"one": Answered(0, "1\n")}
    assert framed.reason == "the answer broke off after 1 of 2"
    assert parse(b"motd\n", "T", ["one"]).reason == "no answer began; it printed 'motd'"
    assert "format" in parse(b"T begin 9\n", "T", ["one"]).reason
