"""A host that quotes a secret, as a login script or sudo may: it is shown nowhere."""

import pytest

from maint.adapters.ssh.runner import BEGUN
from maint.lab.hosts import ssh_server
from tests.cli.hosts.conftest import ON_FIRST, ON_SOME
from tests.steps.conftest import PASSWORD
from tests.steps.operator import Operator


@pytest.mark.parametrize("greeting", ["", f"{BEGUN}\n"], ids=["in place of it", "as the answer"])
@pytest.mark.parametrize(
    "words",
    [["doctor"], ["host", "check", *ON_FIRST], ["host", "check", *ON_SOME, "--check", "os.tz"], ["backup", "create"]],
)
def test_what_a_host_says_instead_of_an_answer_holds_no_secret(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, words: list[str], greeting: str
) -> None:
    honest = ssh_server._Work._send
    quoting = f"{greeting}{PASSWORD} is invalid\n".encode()
    monkeypatch.setattr(ssh_server._Work, "_send", lambda work, data: honest(work, quoting))
    for form in [["-o", "json"]] if words[-1] == ON_FIRST[-1] else [[], ["-o", "json"]]:
        said = operator(*words, *form)
        shown = said.out + said.err
        if words[0] != "backup" or not form:  # a backup is taken without the host: only its words on the way tell why
            assert "•••" in shown or r"\u2022" in shown, shown
        assert PASSWORD.lower() not in shown.lower()
