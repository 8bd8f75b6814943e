"""A command's own limit is its limit, whoever is away or hangs; what tidies up behind a run has as long again."""

import re
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from maint.engine import session
from tests.steps.operator import Operator

LIMIT, SHORT, TIDYING = 1.0, 0.5, 2.0  # seconds
MARGIN = 15  # seconds that a busy machine may need beside them; a ladder of tries takes four minutes

ON_CLUSTERS = (
    "vc status", "vc job list", "vc job describe --name x", "vc job run --name x --wait --yes", "vc run list",
    "vc job delete --name x --yes", "vc smoke --yes", "vc backup --yes", "vc spark submit a.py --yes",
)  # fmt: skip
ON_HOSTS = (
    "host check", "backup create --yes", "backup create --open-window --yes", "manager start --yes", "restore plan",
    "manager truststore-password --command cat --yes", "cluster delete ecs-01 --confirm ecs-01",
)  # fmt: skip
ON_MANAGERS = (
    "site status", "cluster stop base --yes", "manager start --yes", "backup create --yes", "restore plan",
    "manager export --open-window --yes", "backup drift",
)  # fmt: skip


def gateway_away(operator: Operator, _: int) -> None:
    operator.lab.break_("", "vc-unavailable")


def gateway_silent(operator: Operator, port: int) -> None:
    replace(operator, r'(connect_to: "[^"]*:)\d+', port)


def host_hangs(operator: Operator, _: int) -> None:
    operator.lab.break_(operator.lab.manager_host, "hangs-after-login")


def manager_silent(operator: Operator, port: int) -> None:
    replace(operator, r"(tls_port: )\d+", port)


def replace(operator: Operator, place: str, port: int) -> None:
    """Let the config lead to another port."""
    path = Path(operator.config)
    text, found = re.subn(place, rf"\g<1>{port}", path.read_text())
    path.write_text(text)
    assert found


TROUBLES: dict[Callable[[Operator, int], None], tuple[str, ...]] = {
    gateway_away: ON_CLUSTERS,
    gateway_silent: ON_CLUSTERS,
    host_hangs: ON_HOSTS,
    manager_silent: ON_MANAGERS,
}


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    """A port that takes connections and never says a word."""
    monkeypatch.setattr(session, "TIDYING", TIDYING)
    (tmp_path / "a.py").write_text("print(1)\n")
    monkeypatch.chdir(tmp_path)
    server = socket.create_server(("127.0.0.1", 0), backlog=200)
    monkeypatch.setattr(socket, "kept", server, raising=False)  # open until the test is over
    return int(server.getsockname()[1])


@pytest.mark.parametrize("trouble", TROUBLES)
def test_no_command_takes_longer_than_its_limit_and_what_tidies_up(
    loaded: Operator, port: int, trouble: Callable[[Operator, int], None]
) -> None:
    trouble(loaded, port)
    for words in TROUBLES[trouble]:
        begun = time.monotonic()
        said = loaded(*words.split(), "--timeout", f"{SHORT:g}s")
        assert time.monotonic() - begun < SHORT + TIDYING + MARGIN, words
        assert said.code in (1, 4, 7), (words, said.err)


def test_what_tidies_up_has_its_time_told_truly_and_names_what_removes_the_rest(loaded: Operator, port: int) -> None:
    gateway_away(loaded, port)
    begun = time.monotonic()
    said = loaded("vc", "spark", "submit", "a.py", "--yes", "--timeout", f"{LIMIT:g}s")
    assert said.code == 1
    assert time.monotonic() - begun < LIMIT + TIDYING + MARGIN
    assert not re.search(r"for \S*m\S* at the most", said.err), said.err
    assert "the next `maint vc smoke` or `maint vc spark submit` removes them" in said.err, said.err
    loaded.lab.repair()
    assert loaded("vc", "spark", "submit", "a.py", "--yes").code == 0
