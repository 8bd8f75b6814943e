"""What doctor says of a Kubernetes that the account which asks may not look into."""

from msgspec.structs import replace

from maint.checks.check import judge
from maint.checks.facts import Answered
from maint.checks.registry import named
from maint.cli.site.doctor import _KUBERNETES
from maint.cli.site.doctor_lines import SKIP, WARN, Line, line_of
from tests.checks.facts import host


def line(answer: str | Answered) -> Line:
    one = host(dict.fromkeys(("nodes", "vault"), answer))
    return line_of("kubernetes", one, judge(named(_KUBERNETES), one.site, ()), _KUBERNETES)


def test_what_the_account_may_not_look_into_is_not_known_and_is_no_warning_for_good() -> None:
    found = line("closed /etc/rancher/rke2/rke2.yaml")
    assert (found.state, "may not look into /etc/rancher/rke2/rke2.yaml" in found.words) == (SKIP, True), found
    assert "`ssh.sudo`" in found.hint and "`user`" in found.hint


def test_a_kubernetes_that_does_not_answer_is_a_warning_all_the_same() -> None:
    refused = Answered(0, "refused", "The connection to the server was refused")
    assert line(refused).state == WARN


def test_a_host_that_refuses_at_once_is_not_said_to_have_taken_all_the_time() -> None:
    one = replace(host({}), reached=False, reason="Connection refused")
    found = line_of("manager's disks", one, judge(named(_KUBERNETES), one.site, ()), _KUBERNETES)
    assert (found.state, found.words) == (WARN, f"{one.name}: Connection refused")
    late = replace(one, reason="its answer did not end within 60 s")
    told = line_of("manager's disks", late, judge(named(_KUBERNETES), one.site, ()), _KUBERNETES)
    assert told.words == f"{one.name}: no whole answer about it within 20 s"
