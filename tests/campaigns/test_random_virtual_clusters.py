"""Random virtual clusters: backed up, lost wholly or in part, restored in each way; what commands delete, undone.

Commands are killed at random calls up to three times, and resumed; somebody else works there meanwhile. With
MAINT_CAMPAIGN set, 2,000 clusters are tried each way, or MAINT_CAMPAIGN_TRIES; MAINT_CAMPAIGN_SEED chooses others.
A case is run again alone with its seed, as many tries, and `-k` with its number: `-k 'restore and [17]'`.
"""

import logging
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.steps.virtual_clusters import restorer, safety_net
from tests.campaigns.clusters import Ground, Maker, Shown, renamed
from tests.campaigns.size import FULL, SEED, tries
from tests.campaigns.test_crashes import ENDED, KILLED, carried_out, runs
from tests.steps.operator import Said

TRIES = tries(2, 2000)
SHOWN = 1500  # characters of what a command said
CALLS = (100, 400, 1000)  # among which it is killed: requests, and writes of files, each before and after
LOG = logging.getLogger(__name__)  # what pytest shows of a case that fails
POLICIES = ("refuse", "skip", "rename", "replace", "replace")


@pytest.fixture(autouse=True)
def read_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that reads files of DAGs within a second, as the lab does, shows what they started in two."""
    for module in (restorer, safety_net):
        monkeypatch.setattr(module, "PARSED", 2.0)
        monkeypatch.setattr(module, "PARSING", 4.0)


@pytest.fixture
def ground(number: int, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    """A lab with a virtual cluster for one case."""
    made = Ground(tmp_path / "lab", random.Random(f"{SEED} {request.node.originalname} {number}"))
    LOG.warning("MAINT_CAMPAIGN_SEED=%s, case %s, %s", SEED, number, made.switches)
    yield made
    made.stop()


@pytest.fixture
def maker(ground: Ground) -> Maker:
    """Who has filled it."""
    made = Maker(ground)
    made.fill()
    return made


def told(ground: Ground, *words: str) -> Said:
    """Carry a command out in this process."""
    said = ground.operator(*words)
    LOG.warning("%s → %s %s", words, said.code, said.err[-SHOWN:])
    return said


def to_its_end(ground: Ground, *words: str, meanwhile: Callable[[], None] = lambda: None) -> Said:
    """Carry a command out, killed up to three times at random and resumed; `meanwhile` is done before each resumption.

    What was killed once it had ended said what its journal holds.
    """
    operator, chance, known = ground.operator, ground.chance, {one["id"] for one in runs(ground.operator)}
    agreed = ("--yes", "--confirm", ground.name)
    again = (*words, *agreed)
    for _ in range(chance.choice((0, 0, 1, 2, 3))):
        at = chance.randint(1, chance.choice(CALLS))
        said, _ = carried_out(operator, [*again], at, ground.folder / "answer")
        LOG.warning("%s, to be killed at call %s → %s %s", again, at, said.code, said.err[-SHOWN:])
        if said.code != KILLED:
            return said
        for one in [one for one in runs(operator) if one["id"] not in known]:
            if one["state"] in ENDED:
                journal = (operator.state / "runs" / f"{one['id']}.jsonl").read_text()
                return Said({"done": 0, "partly": 7}.get(one["state"], 5), "", journal)
            meanwhile()
            again = ("playbook", "resume", one["id"], *agreed)
    return told(ground, *again)


def started(ground: Ground, since: int, awake: set[str], said: Said) -> bool:
    """Tell whether a job ran by itself that was not awake before; each such run is told."""
    begun = {number for number, job in ground.begun(since).items() if job not in awake}
    assert {number for number in begun if f"--id {number}`" not in said.err} == set(), (ground.begun(since), said)
    return bool(begun)


# -- backed up, lost, restored


def lose(ground: Ground) -> None:
    """Delete all, or at random delete, change and add."""
    chance, client, there = ground.chance, ground.client, ground.shown()
    way = chance.choice(("all", "deleted", "changed", "both", "both"))
    for name in sorted(there.jobs):
        if way == "all" or (way != "changed" and chance.random() < 0.5):
            client.delete_job(name)
    refused = ground.switches["vc-delete-mounted"] == "refuse"
    for name in sorted(there.resources):
        if way == "all" or (way != "changed" and not refused and chance.random() < 0.4):
            client.delete_resource(name)
    if way not in ("changed", "both"):
        return
    there = ground.shown()
    for name in sorted(there.resources):
        if there.resources[name]["type"] == "files" and chance.random() < 0.4:
            paths = sorted(there.files[name])
            change = chance.choice(("delete", "replace", "add") if paths else ("add",))
            if change == "delete":
                client.delete_file(name, chance.choice(paths))
            else:
                ground.upload(name, chance.choice(paths) if change == "replace" else "theirs", b"theirs\n")
    for name in sorted(there.jobs):
        if there.jobs[name]["type"] == "spark" and chance.random() < 0.3:
            client.delete_job(name)
            client.create_job({"name": name, "type": "spark", "spark": {"file": "https://theirs"}})
    if chance.random() < 0.5:
        schedule: dict[str, Any] = {"enabled": True, "cronExpression": "0 3 * * *", "start": "2041-01-01"}
        client.create_resource({"name": "stranger", "type": "files"})
        ground.upload("stranger", "s", b"s")
        mounts = [{"resourceName": "stranger"}]
        client.create_job(
            {"name": "theirs", "type": "spark", "spark": {"file": "s"}, "mounts": mounts, "schedule": schedule}
        )


def drift(ground: Ground, snapshot: str) -> set[tuple[str, str]]:
    """Return what differs from a snapshot, each by what it is and its name."""
    said = told(ground, "vc", "drift", "--snapshot", snapshot, "--exit-code", "-o", "json")
    found = {(one["what"], one["name"]) for one in said.json["differences"]}
    assert said.code == (8 if found else 0)
    return found


def without(found: set[tuple[str, str]], names: set[str]) -> set[tuple[str, str]]:
    """Return what differs but for the jobs and resources with these names."""
    return {(what, name) for what, name in found if name.split("/")[0] not in names}


class Intruder:
    """Makes something, while a restore is down, that this would make, or adds to what it has made."""

    def __init__(self, ground: Ground, before: Shown, lost: Shown, likely: float) -> None:
        self.ground, self.before, self.lost, self.likely = ground, before, lost, likely
        self.made: set[str] = set()

    def __call__(self) -> None:
        chance = self.ground.chance
        if self.made or chance.random() > self.likely:
            return
        there = self.ground.shown()
        absent = self.before.names - self.before.hidden - there.names
        jobs, resources = (
            sorted(absent.intersection(self.before.jobs)),
            sorted(absent.intersection(self.before.resources)),
        )
        own = sorted(
            name
            for name in there.names.intersection(self.before.resources).difference(self.lost.names)
            if there.resources[name]["type"] == "files"
        )
        found = [(kind, names) for kind, names in (("job", jobs), ("resource", resources), ("file", own)) if names]
        for kind, names in [chance.choice(found)] if found else []:
            name = chance.choice(names)
            if kind == "job":
                self.ground.client.create_job({"name": name, "type": "spark", "spark": {"file": "intruder"}})
            if kind == "resource":
                self.ground.client.create_resource({"name": name, "type": "files"})
            if kind in ("resource", "file"):
                self.ground.upload(name, "intruder", b"theirs")
            self.made = {name}

    def is_left_alone(self, after: Shown) -> None:
        """See to it that what it made is there."""
        for name in self.made:
            found = after.jobs[name]["spark"]["file"] if name in after.jobs else [*after.files[name]]
            assert "intruder" in found, (name, found)


class Restore:
    """A restore, as far as what is there tells of it."""

    def __init__(self, policy: str, before: Shown, lost: Shown, after: Shown) -> None:
        self.policy, self.before, self.lost, self.after = policy, before, lost, after
        self.taken = before.names & lost.names
        self.new = {name: f"{name[:62]}-2" for name in self.taken} if policy == "rename" else {}
        self.back = before.names - before.hidden - (self.taken if policy == "skip" else set())

    def gaps(self) -> set[str]:
        """Return what is not back as it was, byte for byte, with its schedule paused."""
        found = set()
        for name in self.back:
            new, before, after = self.new.get(name, name), self.before, self.after
            definition = before.jobs.get(name) or before.resources[name]
            now = after.jobs.get(new) or after.resources.get(new)
            same = now == {**renamed(definition, self.new), "name": new}
            if not same or before.files.get(name) != after.files.get(new) or new in after.awake:
                found.add(name)
        return found

    def others(self) -> set[tuple[str, str]]:
        """Return what differs of that which the restore was not to touch."""
        names = self.lost.names - (self.taken if self.policy == "replace" else set())
        return self.after.holding(names).differences(self.lost.holding(names))


@pytest.mark.timeout(120 if not FULL else 0)
@pytest.mark.parametrize("number", range(TRIES))
def test_what_a_restore_brings_back_is_as_it_was_and_what_is_somebody_elses_stays(
    number: int, ground: Ground, maker: Maker
) -> None:
    chance, all_read = ground.chance, ground.switches["vc-requirements-download"] == "allow"
    if settled := chance.random() < 0.7:  # else the server has not read the files of DAGs when they are taken
        maker.settle()
        ground.shown()
    assert told(ground, "vc", "backup", "--yes", "--accept-empty").code in ((0,) if all_read else (0, 7))
    snapshot, before = ground.operator("backup", "list", "-o", "json").json["snapshots"][-1]["id"], ground.shown()
    assert drift(ground, snapshot) == set() or not settled
    lose(ground)
    lost = ground.shown()
    unseen = before.hidden | lost.hidden
    assert without(drift(ground, snapshot) ^ lost.differences(before), unseen) == set() or not settled

    policy, accepted = chance.choice(POLICIES), not settled or chance.random() < 0.5
    words = ["vc", "restore", "--on-conflict", policy, "--snapshot", snapshot]
    words += ["--accept-dag-race"] if accepted else []
    foretold = told(ground, *words, "--dry-run")
    assert (foretold.code in (0, 5), ground.shown(), told_twice(foretold)) == (True, lost, set())
    last, intruder = ground.last_run, Intruder(ground, before, lost, 0.3 if policy != "rename" else 0)
    ground.operator.forget_requests()
    said = to_its_end(ground, *words, meanwhile=intruder)
    after = ground.shown()
    restore = Restore(policy, before, lost, after)
    if intruder.made:
        assert said.code == 1 or (said.code == 5 and not all_read)
        assert restore.others() == set()
        intruder.is_left_alone(after)
        return
    uploads = [line for line in ground.operator.done if line.startswith("PUT ")]
    assert sorted(uploads) == sorted({*uploads})
    if said.code == 5:
        assert after == lost
        assert policy == "rename" or (policy == "refuse" and restore.taken) or not all_read
        return
    assert (foretold.code, restore.others()) == (0, set())
    assert policy != "refuse" or not restore.taken - unseen
    ran, gaps = started(ground, last, lost.awake, said), restore.gaps()
    changed = policy == "skip" and before.files.get("dags") != lost.files.get("dags", before.files.get("dags"))
    gaps -= {name for name in gaps if changed and before.jobs.get(name, {}).get("type") == "airflow"}
    assert gaps <= (set() if accepted else maker.racing) or not all_read
    assert {name for name in gaps if not named(said, name, restore.new.get(name, name))} == set()
    racing = maker.racing - (lost.names if policy == "skip" else set())
    doubtful = changed or not all_read or (racing and not accepted)  # which may be as it was all the same
    assert said.code == (7 if gaps or ran else 0) or (doubtful and said.code == 7)
    if settled and said.code == 0 and policy in ("refuse", "replace"):
        schedules_go_on(ground, restore, snapshot)
        if policy == "replace":
            what_was_replaced_comes_back(ground, restore)


def told_twice(plan: Said) -> set[str]:
    """Return of what a plan tells in two ways what becomes of it."""
    lists = re.findall(r"(?:kept as they are|REPLACED|LEFT OUT[^:;]*|renamed): ([^;\n]*)", plan.out)
    names = [one.split(" ")[0] for found in lists for one in found.split(", ")]
    return {one for one in names if names.count(one) > 1}


def named(said: Said, *names: str) -> bool:
    """Whether a command told that something, by one of its names, is not as it was."""
    one = "|".join(map(re.escape, names))
    words = rf"\b(DAG|job|environment|resource) ({one}) (is|has|could)|\b({one})/requirements.txt: "
    return re.search(words, said.err) is not None


def schedules_go_on(ground: Ground, restore: Restore, snapshot: str) -> None:
    """Let schedules go on: all is then as it was when the snapshot was taken."""
    said = told(ground, "playbook", "run", "resume-schedules", "--yes")
    assert said.code == 0
    restore.after = ground.shown()
    restore.after.awake -= restore.lost.awake - restore.before.names
    assert restore.after.holding(restore.back).differences(restore.before.holding(restore.back)) == set()
    strangers = restore.lost.names - restore.before.names
    assert without(drift(ground, snapshot), restore.before.hidden | strangers) == set()


def what_was_replaced_comes_back(ground: Ground, restore: Restore) -> None:
    """Restore the safety snapshot, where one was taken."""
    listed = ground.operator("backup", "list", "-o", "json").json["snapshots"]
    for one in [one["id"] for one in listed if one["purpose"] == "safety"]:
        words = ("vc", "restore", "--on-conflict", "replace", "--accept-dag-race", "--snapshot", one)
        said = told(ground, *words, "--yes", "--confirm", ground.name)
        assert said.code in (0, 7)
        after, lost = ground.shown().holding(restore.taken), restore.lost.holding(restore.taken)
        after.awake = lost.awake
        assert {name for _, name in after.differences(lost) if not named(said, name)} == set()


# -- deleted or replaced, and undone


def striking(ground: Ground, there: Shown) -> list[str]:
    """Return the words of a command that deletes or replaces something of what is there."""
    chance, folder = ground.chance, ground.folder / "new"
    folder.mkdir()
    files = sorted((name, path) for name, paths in there.files.items() for path in paths)
    plain = [(name, path) for name, path in files if "/" not in path and there.resources[name]["type"] == "files"]
    users = sorted((job, mount["resourceName"]) for job, one in there.jobs.items() for mount in one.get("mounts", ()))
    ways: dict[str, list[str]] = {}
    if there.jobs:
        ways["job"] = ["vc", "job", "delete", "--name", chance.choice(sorted(there.jobs))]
    if there.resources:
        ways["resource"] = ["vc", "resource", "delete", "--name", chance.choice(sorted(there.resources))]
    if files:
        name, path = chance.choice(files)
        ways["file"] = ["vc", "resource", "delete-file", "--name", name, "--resource-path", path]
    if plain:
        name, path = chance.choice(plain)
        (folder / path).write_bytes(b"new\n")
        ways["upload"] = ["vc", "resource", "upload", "--name", name, "--local-path", str(folder / path)]
    if users:
        job, name = chance.choice(users)
        (folder / "application.py").write_bytes(b"print('new')\n")
        given = {"job": job, "resource": name, "files": str(folder / "application.py")}
        ways["recreation"] = ["playbook", "run", "recreate-job"]
        ways["recreation"] += [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
    return ways[chance.choice(sorted(ways))]


@pytest.mark.timeout(120 if not FULL else 0)
@pytest.mark.parametrize("number", range(TRIES))
def test_what_a_command_deletes_or_replaces_comes_back_by_its_undo(number: int, ground: Ground, maker: Maker) -> None:
    maker.settle()
    before = ground.shown()
    words = striking(ground, before)
    said = told(ground, *words, "--yes")
    after = ground.shown()
    if said.code in (1, 5):  # it is put back, or was refused
        assert after.awake <= before.awake
        after.awake = before.awake
        assert after.differences(before) == set()
        return
    assert (said.code in (0, 7), after != before) == (True, True)
    run = runs(ground.operator)[-1]["id"]
    if words[:3] == ["vc", "resource", "delete"] and ground.chance.random() < 0.3:
        ground.client.create_resource({"name": words[4], "type": "files", "retentionPolicy": "theirs"})
        ground.upload(words[4], "theirs", b"theirs")
    last = ground.last_run
    back = to_its_end(ground, "vc", "undo", run)
    assert back.code == 0
    started(ground, last, set(), back)
    after = ground.shown()
    assert after.awake <= before.awake
    after.awake = before.awake
    assert after.differences(before) == set()
