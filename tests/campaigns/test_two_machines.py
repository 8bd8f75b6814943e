"""Two machines on one store, without a shared state: whatever meets, no bug, nothing listed that is not whole."""

import os
import random
import shutil
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns.size import SEED, size, tries
from tests.forked import FORKED
from tests.steps.operator import Operator, Said, maint

ROUNDS = tries(3, 60)  # commands of each machine
KINDS = ("local", "sftp", "s3")[: size(1, 3)]
FORESEEN = (0, 1, 2, 5, 7)  # one may remove what the other is about to name; never 70


def machine(config: str, state: str, seed: str, rounds: int, told: Connection) -> None:
    """Type commands at random, and tell what ended in a way that nobody foresaw."""
    chance, found = random.Random(seed), list[Any]()

    def type_(*words: str) -> Said:
        said = maint(*words, "--allow-plain", "--config", config, MAINT_STATE=state)
        if said.code not in FORESEEN or "bug in maint" in said.err or (said.code and "hint:" not in said.err):
            found.append([words, said.code, said.out, said.err])
        return said

    for _ in range(rounds):  # the size of the campaign is not in the environment of this process
        listed = type_("backup", "list", "-o", "json")
        known = [one["id"] for one in listed.json["snapshots"]] if listed.code == 0 else []
        one = chance.choice(known) if known else "latest"
        verb = chance.choice(["create", "create", "prune", "prune", "verify", "hold", "release"])
        more = {
            "create": ("--yes",),
            "prune": ("--yes", "--thaw", "two machines"),
            "verify": (one, "--level", "3"),
            "hold": (one, "--reason", "before the upgrade"),
            "release": (one, "--reason", "done"),
        }
        type_("backup", verb, *more[verb])
    told.send(found)


def local(folder: Path, request: pytest.FixtureRequest) -> str:
    return f"store: '{folder}/one-store'"


def sftp(folder: Path, request: pytest.FixtureRequest) -> str:
    sshd = request.getfixturevalue("sshd")
    (folder / "known").write_text(sshd.known_as())
    place = f"sftp://{sshd.user}@127.0.0.1:{sshd.port}{folder}/one-store"
    return f"store: '{place}'\n      sftp: {{key: '{sshd.key}', known_hosts: '{folder}/known'}}"


def s3(folder: Path, request: pytest.FixtureRequest) -> str:
    endpoint = request.getfixturevalue("object_store")
    for name in ("id", "secret"):
        (folder / f"s3-{name}").write_text(f"some-{name}")
        (folder / f"s3-{name}").chmod(0o600)
    keys = f"access_key: 'file:{folder}/s3-id', secret_key: 'file:{folder}/s3-secret'"
    return f"store: 's3://backups/{os.urandom(4).hex()}'\n      s3: {{endpoint: '{endpoint}', {keys}}}"


STORES: dict[str, Callable[[Path, pytest.FixtureRequest], str]] = {"local": local, "sftp": sftp, "s3": s3}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(60 * ROUNDS + 120)
def test_two_machines_on_one_store_never_meet_a_bug_and_leave_it_whole(
    loaded: Operator, kind: str, request: pytest.FixtureRequest
) -> None:
    loaded.lab.world.redaction = False
    folder, config = loaded.lab.folder, Path(loaded.config)
    text = config.read_text().replace(f'store: "{folder}/backups"', STORES[kind](folder, request))
    config.write_text(text.replace("    backup:\n", "    backup:\n      keep: {last: 2}\n      minimum: 1\n"))
    assert loaded("backup", "create", "--yes").code == 0
    states = [folder / "state-one", folder / "state-two"]
    for state in states:
        shutil.copytree(loaded.state / "keys", state / loaded.state.name / "keys")
    ends = []
    for state in states:
        end, told = FORKED.Pipe(duplex=False)
        given = (str(config), str(state), f"{SEED} {kind} {state.name}", ROUNDS, told)
        FORKED.Process(target=machine, args=given, daemon=True).start()
        told.close()
        ends.append(end)
    assert [end.recv() for end in ends] == [[], []]
    assert loaded("backup", "create", "--yes").code == 0
    left = loaded("backup", "list", "-o", "json").json["snapshots"]
    assert [one for one in left if one.get("problem")] == []
    for one in left:
        assert loaded("backup", "verify", one["id"], "--level", "3").code == 0
