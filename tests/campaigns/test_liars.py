"""Peers that answer differently each time: no hang, no crash, no false success, nothing twice, no secret, a reason.

`MAINT_CAMPAIGN_SEED` chooses other lies, MAINT_CAMPAIGN_TRIES how many commands each liar is asked by.
"""

import resource
import shutil
import time
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from maint.adapters.stores.local import LocalStore
from maint.adapters.stores.s3 import S3Store
from maint.adapters.stores.sftp import SftpStore
from maint.lab.create import SITE
from tests.campaigns.liars import MOST, Liar, behind_http, behind_ssh, behind_store
from tests.campaigns.size import SEED, size, tries
from tests.campaigns.test_two_machines import STORES
from tests.steps.conftest import PASSWORD
from tests.steps.operator import Operator, Said

TRIES = tries(4, 400)  # commands that each liar is asked by
LIMIT = 6  # seconds that a command is given
LATEST = LIMIT + 30  # closing what was opened has limits of its own
MEMORY = 400 << 10  # KiB by which this process, labs and liars included, may grow
FORESEEN = (0, 1, 2, 4, 5, 7, 8)  # never 70; 2: what was named is not listed
STOP = "POST /api/v45/clusters/base/commands/stop"
KINDS = {"local": LocalStore, "sftp": SftpStore, "s3": S3Store}

pytestmark = pytest.mark.timeout((LATEST + 5) * TRIES + 120)


class Victim:
    """An operator whose commands are answered by a liar; whatever comes, it ends in time and says why."""

    def __init__(self, operator: Operator, liar: Liar) -> None:
        self.operator, self.liar = operator, liar

    def __call__(self, *words: str, honest: int = 0) -> Said:
        before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
        self.liar.begin(honest)
        try:
            said = self.operator(*words, "--timeout", f"{LIMIT}s")
        finally:
            self.liar.end()
        took = time.monotonic() - begun
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        what = (words, self.liar.told, said.code, said.out[-2000:], said.err)
        assert said.code in FORESEEN and "Traceback" not in said.err and "bug in maint" not in said.err, what
        assert took < LATEST, (took, what)
        assert grown < MEMORY, (grown, what)
        assert self.liar.swallowed < MOST, what
        if said.code not in (0, 7, 8) and words[0] not in ("host", "doctor"):  # whose remedies stand beside each line
            assert "error:" in said.err and "hint:" in said.err, what
        for secret in self.liar.secrets:
            assert secret not in said.out + said.err, what
        assert "\x1b" not in said.out + said.err, what
        return said


@pytest.fixture
def liar() -> Iterator[Liar]:
    made = Liar(str(SEED), (PASSWORD,))
    yield made
    made.end()


def listed(operator: Operator) -> set[str]:
    return {one["id"] for one in operator("backup", "list", "-o", "json").json["snapshots"]}


def sound_since(operator: Operator, before: set[str], said: Said, *words: object) -> None:
    """What was added is whole, and success means that something was."""
    added = listed(operator) - before
    assert len(added) == 1 if said.code == 0 else len(added) < 2, (said, words)
    for snapshot in added if said.code == 0 else ():
        checked = operator("backup", "verify", snapshot, "--level", "3")
        assert checked.code == 0, (said, checked, words)


def test_a_manager_that_lies(loaded: Operator, liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded.lab.world.redaction = False
    behind_http(liar, lambda port: port == loaded.lab.server.plain_port, monkeypatch)
    victim = Victim(loaded, liar)
    for number in range(TRIES):
        words = liar.chance.choice(ASKED_OF_MANAGERS) if number else ASKED_OF_MANAGERS[0]
        before = listed(loaded)
        loaded.forget_requests()
        said = victim(*words)
        if words[:2] == ("backup", "create"):
            sound_since(loaded, before, said, liar.told)
        if words[0] == "cluster" and words[1] == "stop":
            run = loaded.run_of(said)
            if said.code and run["playbook"] == "stop-cluster" and run["state"] not in ("done", "partly", "refused"):
                liar.begin()
                victim("playbook", "resume", run["id"])
            assert loaded.sent.count(STOP) < 2, (said, liar.told)
            restart(loaded)


ASKED_OF_MANAGERS = (
    ("cluster", "stop", "base", "--yes"), ("backup", "create"), ("backup", "create"), ("cluster", "list"),
    ("site", "status"), ("doctor",), ("restore", "plan", "--manager-only"), ("backup", "drift"),
    ("manager", "export", "--yes"), ("setting", "list", "--service", "hdfs"),
)  # fmt: skip


def restart(operator: Operator) -> None:
    """Begin anew: nothing is left over of a run, and the cluster runs."""
    for run in operator("playbook", "history", "-o", "json").json["runs"]:
        if run["state"] not in ("done", "partly", "refused", "dismissed"):
            operator("playbook", "dismiss", run["id"], "--reason", "lied to", "--yes")
    assert operator("cluster", "start", "base", "--yes").code == 0


def test_a_gateway_and_a_jobs_api_that_lie(loaded: Operator, liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    told = loaded.lab.status()["virtual_clusters"][0]
    ports = {int(told[name].split("/")[2].rpartition(":")[2]) for name in ("base_url", "auth_url")}
    behind_http(liar, lambda port: port in ports, monkeypatch)
    liar.secrets = (Path(told["password_file"]).read_text(),)  # what it is given; the manager's it never gets
    victim = Victim(loaded, liar)
    jobs = set(names_of_jobs(loaded))
    for number in range(TRIES):
        words = liar.chance.choice(ASKED_OF_VIRTUAL_CLUSTERS) if number else ASKED_OF_VIRTUAL_CLUSTERS[0]
        before = listed(loaded)
        said = victim(*words)
        if words[:2] == ("vc", "backup"):
            sound_since(loaded, before, said, liar.told)
        assert jobs - set(names_of_jobs(loaded)) <= {"vacuum"}, (words, said, liar.told)


def names_of_jobs(operator: Operator) -> Iterator[str]:
    yield from (job["name"] for job in operator("vc", "job", "list", "-o", "json").json["jobs"])


ASKED_OF_VIRTUAL_CLUSTERS = (
    ("vc", "backup", "--accept-empty"), ("vc", "job", "delete", "--name", "vacuum", "--yes"), ("vc", "status"),
    ("vc", "job", "list"), ("vc", "resource", "list"), ("vc", "run", "list"), ("vc", "restore", "--dry-run"),
    ("vc", "drift"),
)  # fmt: skip


def test_hosts_that_lie(loaded: Operator, liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded.lab.world.redaction = False
    behind_ssh(liar, monkeypatch)
    victim = Victim(loaded, liar)
    for number in range(max(TRIES // 2, 1)):
        before = listed(loaded)
        words = liar.chance.choice(ASKED_OF_HOSTS) if number else ASKED_OF_HOSTS[0]
        said = victim(*words)
        if words[0] == "backup":
            sound_since(loaded, before, said, liar.told)


ASKED_OF_HOSTS = (
    ("backup", "create"),
    ("host", "check", "--group", "os"),
    ("host", "check", "-o", "json"),
    ("doctor",),
)


@pytest.mark.parametrize("kind", [*KINDS][: size(1, 3)])
def test_a_store_that_lies(
    make: Callable[..., Operator],
    liar: Liar,
    kind: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    operator = make()
    operator.lab.world.redaction = False
    config, folder = Path(operator.config), operator.lab.folder
    if kind != "local":
        text = config.read_text().replace(f'store: "{folder}/backups"', STORES[kind](folder, request))
        config.write_text(text)
    config.write_text(
        config.read_text().replace("    backup:\n", "    backup:\n      keep: {last: 1}\n      minimum: 1\n")
    )
    assert [operator("backup", "create").code for _ in range(2)] == [0, 0]
    held = max(listed(operator))
    assert operator("backup", "hold", held, "--reason", "so").code == 0
    foreign = folder / "backups/others/20260101T000000.000Z/manifest.json"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("{}")
    behind_store(liar, KINDS[kind], monkeypatch)
    victim = Victim(operator, liar)
    for number in range(TRIES):
        words = liar.chance.choice(ASKED_OF_STORES) if number else ASKED_OF_STORES[0]
        words = tuple(word.replace("@HELD@", held) for word in words)
        before = listed(operator)
        said = victim(*words)
        if words[:2] == ("backup", "verify") and said.code == 0:
            heard = takewhile(lambda one: not one.startswith("stored"), liar.told)  # what came later moved no verdict
            assert not [lie for lie in heard if f"/{held}/" in lie and "names" not in lie], (said, liar.told)
        if words[:2] == ("backup", "create"):
            sound_since(operator, before, said, liar.told)
        assert held in listed(operator) and foreign.exists(), (words, said, liar.told)
    assert operator("backup", "verify", held, "--level", "3").code == 0


ASKED_OF_STORES: tuple[tuple[str, ...], ...] = (
    ("backup", "verify", "@HELD@", "--level", "3"), ("backup", "list"), ("backup", "prune", "--yes"),
    ("backup", "create"), ("restore", "plan", "--manager-only"), ("backup", "diff", "@HELD@", "latest"), ("doctor",),
    ("backup", "show", "@HELD@"), ("backup", "files", "@HELD@"), ("backup", "drift"),
    ("backup", "heal", "@HELD@", "--dry-run"),
)  # fmt: skip


@pytest.mark.parametrize("number", range(tries(1, 40)))
def test_a_restore_from_a_store_that_lies_sends_what_was_signed_or_nothing(
    make: Callable[..., Operator], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, liar = make(lost=True), Liar(f"{SEED} {number}", (PASSWORD,))
    behind_store(liar, LocalStore, monkeypatch)
    victim = Victim(operator, liar)
    operator.forget_requests()
    honest = liar.chance.choice((0, liar.chance.randrange(200)))  # some lie once they were believed
    said = victim("restore", "run", "--confirm", SITE, "--manager-only", honest=honest)
    assert operator.puts < 2, (said, liar.told)
    if said.code not in (0, 7) and operator.run_of(said)["state"] not in ("done", "refused"):
        ended = operator("playbook", "resume", "--yes", "--confirm", SITE)
        assert ended.code in (0, 1, 5, 7), (said, ended)
    assert operator.puts < 2, (said, liar.told)
    if operator.puts:
        assert operator("backup", "drift", "--exit-code").code == 0, (said, liar.told)
    shutil.rmtree(operator.lab.folder / "backups", ignore_errors=True)
