"""`--timeout` holds for every command that looks: nothing answers, and each ends and says that its limit has passed."""

import json
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from maint.adapters.clock import SystemClock
from maint.adapters.seal import AgeSeal
from maint.adapters.stores.local import LocalStore
from maint.cli import after_run
from maint.engine.lease import Lease, Terms, newest
from tests.forked import Command
from tests.steps.operator import environment, maint

IDENTITY, RECIPIENT = AgeSeal().new_identity()
MARGIN = 25  # seconds that a busy machine may need beside a limit; what drips would take hours
SNAPSHOT = "20260102T030405.000000Z-aaaaaaaa"
LOOKING = [
    "cluster list",
    "manager version",
    "service list",
    "setting list --manager",
    "setting set a 1 --manager --yes",
    "site status",
    "host list --hosts-from manager",
    "host check --hosts-from manager",
    "host trust --hosts-from manager",
    "playbook plan start-platform",
    "vc status",
    "vc job list",
    "backup list",
    "backup list --rebuild",
    f"backup show {SNAPSHOT}",
    f"backup verify {SNAPSHOT}",
    f"backup diff {SNAPSHOT} {SNAPSHOT}",
    f"backup files {SNAPSHOT}",
    "backup prune --yes",
    "backup drill",
    f"backup rekey --snapshot {SNAPSHOT} --yes",
    f"backup heal {SNAPSHOT} --from {SNAPSHOT}",
    f"restore plan --snapshot {SNAPSHOT}",
    "restore config --manager --dry-run",
    "schedule show",
]


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The config of a site whose manager, store and virtual cluster take connections and never say a word."""
    folder = tmp_path_factory.mktemp("silent")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        plain, port = server.getsockname()[1], other.getsockname()[1]
        (folder / "word").write_text("No-0ne.says-it\n")
        (folder / "word").chmod(0o600)
        (folder / "identity").write_text(IDENTITY.reveal())
        (folder / "identity").chmod(0o600)
        (folder / "config.yaml").write_text(
            f"""\
state: {folder}/state
sites:
  silent:
    manager: {{host: 127.0.0.1, plain_port: {plain}, tls_port: {port}, password: "file:{folder}/word"}}
    hosts: [{{name: a, address: 127.0.0.1, groups: [manager]}}]
    backup:
      store: s3://bucket/x
      recipients: [{RECIPIENT}]
      identity: "file:{folder}/identity"
      s3: {{endpoint: "http://127.0.0.1:{port}", access_key: "file:{folder}/word", secret_key: "file:{folder}/word"}}
    virtual_clusters:
      - name: etl
        base_url: "https://127.0.0.1:{port}/dex/api/v1"
        auth_url: "https://127.0.0.1:{port}"
        username: u
        password: "file:{folder}/word"
"""
        )
        yield folder


@pytest.fixture(autouse=True)
def silent_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was silent is asked once more, for half a second, before a command that failed ends."""
    monkeypatch.setattr(after_run, "BRIEFLY", 0.5)


@pytest.mark.parametrize("words", LOOKING)
def test_the_limit_ends_whatever_waits_for_somebody_who_never_answers(words: str, silent: Path) -> None:
    said = maint(*words.split(), "--timeout", "300ms", "--allow-plain", "--config", str(silent / "config.yaml"))
    # A read that gets what is left of the limit may end by itself at that very moment.
    if said.code == 0:
        assert (words, "cannot tell" in said.out) == ("schedule show", True), said.out
        return
    assert said.code in (1, 4), said.err + said.out
    assert "the limit of 0.3s has passed" in said.err or "no answer" in said.err, said.err


def test_a_store_that_is_away_says_nothing_of_a_snapshot_that_it_may_hold(silent: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        re.sub(r'endpoint: "[^"]*"', 'endpoint: "http://127.0.0.1:1"', (silent / "config.yaml").read_text())
    )
    said = maint(
        "restore", "plan", "--snapshot", "20260102T030405.000000Z-aaaaaaaa", "--allow-plain", "--config", str(config)
    )
    assert (said.code, "cannot list in s3://bucket/x" in said.err) in ((1, True), (4, True)), said.err


def drip(server: socket.socket) -> None:
    """Answer whoever comes with the beginning of an answer, and then a byte now and then, for as long as it listens."""

    def serve(near: socket.socket) -> None:
        with near, suppress(OSError):
            near.recv(1 << 16)
            near.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                time.sleep(0.1)
                near.sendall(b" ")

    with suppress(OSError):
        while True:
            threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


@pytest.fixture(scope="module")
def dripping(silent: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The config of that site where everybody answers, and with no end."""
    folder = tmp_path_factory.mktemp("dripping")
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        port, text = server.getsockname()[1], (silent / "config.yaml").read_text()
        text = re.sub(r"(127\.0\.0\.1:|plain_port: )\d+", rf"\g<1>{port}", text)
        text = text.replace("https://", "http://").replace(f"state: {silent}/state", f"state: {folder}/state")
        text = text.replace("address: 127.0.0.1,", f"address: 127.0.0.1, port: {port},")
        (folder / "config.yaml").write_text(text + "    ssh: {user: root}\n")
        yield folder
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("words", ["cluster list", "vc job list", "backup list", "host check", "doctor"])
def test_the_limit_ends_answers_that_come_drop_by_drop(words: str, dripping: Path) -> None:
    begun = time.monotonic()
    said = maint(*words.split(), "--timeout", "1s", "--allow-plain", "--config", str(dripping / "config.yaml"))
    took = time.monotonic() - begun
    assert said.code in (1, 4, 7), said.err + said.out
    assert took < 1 + MARGIN, (took, said.err)


def came(server: socket.socket) -> int:
    """Return how many have connected to a port that nobody serves."""
    server.setblocking(False)
    found = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            found += 1
    return found


@pytest.mark.parametrize("words", [f"backup verify {SNAPSHOT} --level 1", "backup verify"])
def test_a_limit_that_passes_is_told_measured_and_keeps_no_other_machine_waiting(
    words: str, silent: Path, taken: socket.socket, tmp_path: Path
) -> None:
    told, verb = tmp_path / "told", " ".join(words.split()[:2])
    keep = json.dumps([sys.executable, "-c", f"import sys; open({str(told)!r}, 'a').write(sys.stdin.read())"])
    text = (silent / "config.yaml").read_text().replace(f"state: {silent}/state", f"state: {tmp_path}/state")
    (tmp_path / "config.yaml").write_text(
        re.sub(r"http://127\.0\.0\.1:\d+", f"http://127.0.0.1:{taken.getsockname()[1]}", text)
        + f"    shared_state: {tmp_path}/shared\n    metrics: {tmp_path}/maint.prom\n"
        f"    notify: [{{name: pager, on: [failure, stale], exec: {{command: {keep}}}}}]\n"
    )
    said = maint(*words.split(), "--timeout", "1s", "--allow-plain", "--config", str(tmp_path / "config.yaml"))
    assert said.code in (1, 4), said.err
    events = [json.loads(line) for line in told.read_text().splitlines()]
    assert [(one["event"], one["verb"], one["exit"]) for one in events] == [("failure", verb, said.code)]
    measured = f'maint_verb_exit_code{{site="silent",verb="{verb}"}} {said.code}'
    assert measured in (tmp_path / "maint.prom").read_text()
    row = newest(LocalStore(tmp_path / "shared"), "silent")
    assert row is None or not row.claim.token, row
    assert came(taken) <= 2  # of what tells of the failure, the first finds the store silent still; no other waits


def test_a_doctor_that_is_out_of_time_still_tells_what_it_has_seen(silent: Path) -> None:
    said = maint("doctor", "--timeout", "300ms", "--config", str(silent / "config.yaml"), "-o", "json")
    states = {line["label"]: (line["state"], line["words"]) for line in said.json["checks"]}
    assert (said.code, states["config"][0]) == (1, "ok")
    assert ("FAIL", "the limit of 0.3s has passed") in states.values()


@pytest.mark.parametrize("words", ["doctor", "site report --to pages", "backup prune --yes"])
def test_ctrl_c_ends_what_looks_at_one_thing_after_another(
    words: str, silent: Path, taken: socket.socket, tmp_path: Path
) -> None:
    far = f"http://127.0.0.1:{taken.getsockname()[1]}"
    config = (silent / "config.yaml").read_text().replace(f"state: {silent}/state", f"state: {tmp_path}/state")
    # Whatever is looked at before the store refuses connections, which is seen at once.
    away = re.sub(r"https://127\.0\.0\.1:\d+", "https://127.0.0.1:1", config)
    away = re.sub(r"plain_port: \d+, tls_port: \d+", "plain_port: 1, tls_port: 2", away)
    (tmp_path / "config.yaml").write_text(re.sub(r"http://127\.0\.0\.1:\d+", far, away))
    command = (*words.split(), "--timeout", "1m", "--config", "config.yaml")
    at_work = Command(command, environment(), folder=str(tmp_path))
    asked, _ = taken.accept()
    with asked:
        at_work.send_signal(signal.SIGINT)
        out, err = at_work.communicate()
    assert at_work.returncode == 130, err
    assert "interrupted" not in out and "error: interrupted" in err
    assert not (tmp_path / "pages").exists()


def test_the_limit_ends_what_waits_for_the_act_of_another_machine(silent: Path, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        (silent / "config.yaml").read_text().replace(f"state: {silent}/state", f"state: {tmp_path}/state")
        + f'    shared_state: {tmp_path}/shared\n    shared_state_key: "file:{tmp_path}/key"\n'
    )
    (tmp_path / "key").write_text(AgeSeal().new_identity()[0].reveal())
    (tmp_path / "key").chmod(0o600)
    store = LocalStore(tmp_path / "shared")
    dead = Lease(store, "silent", SystemClock(), "another", "playbook x", Terms(lapses=-10, beat=0))
    list(dead.take())
    dead.renew("restarting the server")
    said = maint("playbook", "resume", "--timeout", "1s", "--config", str(tmp_path / "config.yaml"))
    assert (said.code, "the limit of 1s has passed" in said.err) == (1, True), said.err
    assert "it passed during: learning of runs" in said.err
