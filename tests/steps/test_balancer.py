"""A manager behind a balancer, whose TLS port takes connections whether or not the server is up."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from maint.steps.manager import server
from tests.steps.conftest import MakeLab
from tests.steps.operator import Operator, maint

RESTART = "name: again\nsummary: Restart.\nsteps:\n  - {name: Restart, do: server.restart}\n"


def pump(source: socket.socket, target: socket.socket) -> None:
    with closing(target):
        try:
            while block := source.recv(65536):
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


def balance(listener: socket.socket, target: int) -> None:
    """Pass each connection on; close it where nobody is behind."""
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        try:
            far = socket.create_connection(("127.0.0.1", target))
        except OSError:
            near.close()
            continue
        for pair in ((near, far), (far, near)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


@pytest.fixture
def balanced(make: MakeLab) -> Iterator[Operator]:
    """A manager that takes a moment to come up, and is reached by a balancer."""
    operator = make(down_seconds="0.2", starting_seconds="0.3")
    port, config = operator.lab.server.tls_port, Path(operator.config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=balance, args=(listener, port), daemon=True).start()
        text = config.read_text()
        assert f"tls_port: {port}\n" in text
        config.write_text(text.replace(f"tls_port: {port}\n", f"tls_port: {listener.getsockname()[1]}\n"))
        yield operator
        listener.shutdown(socket.SHUT_RDWR)  # or accept would go on


@pytest.fixture
def again(tmp_path: Path) -> str:
    path = tmp_path / "again.yaml"
    path.write_text(RESTART)
    return str(path)


def test_a_port_that_closes_connections_while_the_server_starts_is_waited_for(balanced: Operator, again: str) -> None:
    said = balanced("playbook", "run", again, "--yes", "-o", "json")
    assert said.code == 0, said.err
    assert re.fullmatch(r"restarted; API v\d+ answers", said.json["actions"][0]["detail"])
    said = balanced("backup", "create", "--open-window", "--yes")
    assert (said.code, balanced.window) == (0, False), said.err


def test_a_port_that_goes_on_closing_connections_serves_nobody_and_no_certificate_is_blamed(
    balanced: Operator, again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    balanced.lab.break_("server", "tls-never-comes-up")
    monkeypatch.setattr(server, "START_LIMIT", 2.0)
    said = balanced("playbook", "run", again, "--yes")
    monkeypatch.undo()
    assert (said.code, "its TLS port does not answer" in said.err) == (1, True), said.err
    assert "closed the connection without an answer" in said.err and "certificate" not in said.err
    balanced.lab.repair()
    said = balanced("playbook", "resume")  # which restarts it again
    assert said.code == 0, said.err


def test_the_first_question_blames_no_certificate_where_none_is_shown(balanced: Operator, tmp_path: Path) -> None:
    config, folder = Path(balanced.config).read_text(), balanced.lab.folder
    ports, ca = re.findall(r"(?:plain|tls)_port: (\d+)", config), re.findall(r'ca: "(.*)"', config)[0]
    balanced.lab.server.stop()
    flags = ("--manager", ":".join(["127.0.0.1", *ports]), "--ca", ca, "--password", f"file:{folder}/password")
    others = ("--store", str(tmp_path / "store"), "--ssh", "none", "--recipient", f"new:{tmp_path / 'key'}")
    said = maint("config", "init", "--config", str(tmp_path / "new.yaml"), *flags, *others)
    assert (said.code, "closed the connection without an answer" in said.err) == (4, True), said.err
    assert "certificate is not accepted" not in said.err
