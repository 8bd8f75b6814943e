"""A host that quotes a secret, as a login script or sudo may: it is shown nowhere."""

import pytest

from maint.lab.hosts import ssh_server
from tests.steps.conftest import PASSWORD
from tests.steps.operator import Operator


@pytest.mark.parametrize("words", [["doctor"], ["host", "check"], ["backup", "create"]])
def test_what_a_host_says_instead_of_an_answer_holds_no_secret(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    honest = ssh_server._Work._send
    quoting = f"{PASSWORD} is invalid\n".encode()
    monkeypatch.setattr(ssh_server._Work, "_send", lambda work, data: honest(work, quoting))
    for form in ([], ["-o", "json"]):
        said = operator(*words, *form)
        shown = said.out + said.err
        if words[0] != "backup" or not form:  # a backup is taken without the host: only its words on the way tell why
            assert "••• is invalid" in shown or r"\u2022 is invalid" in shown, shown
        assert PASSWORD not in shown
