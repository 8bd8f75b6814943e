"""`--timeout` holds for every command that looks: nothing answers, and each ends and says that its limit has passed."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.adapters.seal import AgeSeal
from tests.steps.operator import maint

IDENTITY, RECIPIENT = AgeSeal().new_identity()
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


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The config of a site whose manager, store and virtual cluster take connections and never say a word."""
    folder = tmp_path_factory.mktemp("silent")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        plain, port = server.getsockname()[1], other.getsockname()[1]
        (folder / "word").write_text("password\n")
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
        base_url: "https://127.0.0.1:{port}/v"
        auth_url: "https://127.0.0.1:{port}"
        username: u
        password: "file:{folder}/word"
"""
        )
        yield folder


@pytest.mark.parametrize("words", LOOKING)
def test_the_limit_ends_whatever_waits_for_somebody_who_never_answers(words: str, silent: Path) -> None:
    said = maint(*words.split(), "--timeout", "300ms", "--allow-plain", "--config", str(silent / "config.yaml"))
    # A read that gets what is left of the limit may end by itself at that very moment.
    assert said.code in (1, 4), said.err + said.out
    assert "the limit of 0.3s has passed" in said.err or "no answer" in said.err, said.err


def test_a_doctor_that_is_out_of_time_still_tells_what_it_has_seen(silent: Path) -> None:
    said = maint("doctor", "--timeout", "300ms", "--config", str(silent / "config.yaml"), "-o", "json")
    states = {line["label"]: (line["state"], line["words"]) for line in said.json["checks"]}
    assert (said.code, states["config"][0]) == (1, "ok")
    assert ("FAIL", "the limit of 0.3s has passed") in states.values()
