"""Playbooks drawn at random, run where hosts fail, mended and resumed, and killed: all goes as a model of its own says.

With MAINT_CAMPAIGN set, 600 playbooks are tried instead of a few, half of them killed, or MAINT_CAMPAIGN_TRIES of
each; MAINT_CAMPAIGN_SEED draws others. The id of a case is its seed and number: `-k "20261122-7]"` tries it alone.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.campaigns.forks import KILLED, carried_out
from tests.campaigns.playbooks import PLACE, SERVICE, SETTING, Draw, Files, Model
from tests.campaigns.size import SEED, tries
from tests.steps.conftest import FAST
from tests.steps.operator import Operator, Said

TRIES = tries(3, 300)
NUMBERS = pytest.mark.parametrize("number", range(TRIES), ids=lambda number: f"{SEED}-{number}")
STATES = {0: "done", 1: "failed", 7: "partly"}
UNSEEN = "nobody saw whether"  # what a run says of a command that was cut off, and that it may not do again
DEFAULT = "3"  # of the setting: a value that the server may not keep


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("playbooks") / "lab"
    with Lab(folder, Options(switches={**FAST, "command-seconds": "0.01"})) as lab:
        yield Operator(lab)


class Case:
    """One playbook at a lab in which nothing was run before."""

    def __init__(self, operator: Operator, folder: Path, chance: random.Random) -> None:
        self.operator, self.chance, self.folder = operator, chance, folder
        self.hosts = list(operator.lab.machines)[:4]
        self.places = {host: operator.lab.machines[host].root / PLACE.lstrip("/") for host in self.hosts}
        shutil.rmtree(operator.state / "runs", ignore_errors=True)
        draw = Draw(chance, self.hosts)
        self.bad, self.on = draw.bad, chance.random() < 0.6
        self.fails = bool(draw.bad)
        self._lay_out()
        self._stand_servers()
        self.book = Files(folder, self.hosts).write(draw.book, "drawn")
        self.model = Model(draw.book, self.hosts, self.bad, self.on, self.world)
        self.undisturbed = Model(draw.book, self.hosts, set(), True, self.world)
        self.undisturbed.answered = {*self.undisturbed.acts}

    def _lay_out(self) -> None:
        for host, place in self.places.items():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            (place / "log").touch()
            (place / "switch").write_text("on\n" if self.on else "off\n")
            for tag in [step for step, where in self.bad if where == host]:
                (place / f"bad-{tag}").touch()

    def _stand_servers(self) -> None:
        with self.operator.lab.world.lock:
            state = self.chance.choice(("STARTED", "STOPPED"))
            for role in self._service(SERVICE)["roles"]:
                self.operator.lab.world.role_states[role["name"]] = state
            items = self._service(SETTING["service"])["config"]["items"]
            items[:] = [one for one in items if one["name"] != SETTING["name"]]
            if self.chance.random() < 0.5:
                items.append({"name": SETTING["name"], "value": str(self.chance.randint(1, 4))})

    def _service(self, name: str) -> Any:
        services = self.operator.lab.world.find_cluster("base")["services"]  # type: ignore[index]  # it is there
        return next(one for one in services if one["name"] == name)

    @property
    def world(self) -> dict[str, str]:
        """Service and setting as they are."""
        world = self.operator.lab.world
        with world.lock:
            items = {one["name"]: one["value"] for one in self._service(SETTING["service"])["config"]["items"]}
            state = world.service_state(self._service(SERVICE))
            return {"service": state, "config": items.get(SETTING["name"], DEFAULT)}

    @property
    def logs(self) -> dict[str, list[str]]:
        """What was done on each host, in order."""
        return {host: (place / "log").read_text().splitlines() for host, place in self.places.items()}

    @property
    def runs(self) -> list[Any]:
        runs: list[Any] = self.operator("playbook", "history", "-o", "json").json["runs"]
        return runs

    def switch_on(self) -> None:
        """Let every `assert` hold from now on."""
        self.model.on = True
        for place in self.places.values():
            (place / "switch").write_text("on\n")

    def answer(self) -> bool:
        """Say yes to the first question of all that are open; return whether there is one."""
        said = self.operator("playbook", "approve", self.runs[-1]["id"], "-o", "json")
        self.model.answered |= {*self.model.asks[:1]}
        return said.code == 0

    def mend(self) -> None:
        """Let nothing fail any more."""
        self.switch_on()
        self.bad.clear()
        for place in self.places.values():
            for path in place.glob("bad-*"):
                path.unlink()

    def ended(self) -> tuple[str, int]:
        """Kill the run and what takes it up, mend what fails, and return how it ends and how often it was killed."""
        words, left, kills = ["playbook", "run", str(self.book), "--yes"], self.chance.choice((1, 2, 4)), 0
        for _ in range(30):
            at = self.chance.randint(1, self.chance.choice((10, 40, 120))) if left else None
            said, _ = carried_out(self.operator, words, at, self.folder / "answer")
            left, kills = max(left - 1, 0), kills + (said.code == KILLED)
            runs = self.runs
            assert len(runs) <= 1, runs
            if runs and runs[0]["state"] in ("done", "partly"):
                assert said.code == KILLED or STATES[said.code] == runs[0]["state"], (said, runs)
                return str(runs[0]["state"]), kills
            if runs and any(UNSEEN in str(line.get("detail")) for line in self.operator.journal()):
                return UNSEEN, kills
            if said.code != KILLED and not self.answer():
                assert said.code == 1 and self.fails, said
                self.mend()
            words = ["playbook", "resume", runs[0]["id"], "--yes"] if runs else words
        raise AssertionError(f"it fails though all is mended: {said.err}")

    def plan(self) -> None:
        """Look at the plan, which has an action for each act, and does nothing."""
        before = self.world
        planned = self.operator("playbook", "plan", str(self.book), "-o", "json")
        assert planned.code == 0, planned.err
        dry = self.operator("playbook", "run", str(self.book), "--dry-run", "-o", "json")
        assert dry.json["plan"] == planned.json["plan"], dry.err
        names = [(one["name"], one["phase"].replace("main", "steps")) for one in planned.json["plan"]["actions"]]
        assert [phase for _, phase in names] == [act.phase for act in self.model.acts], names
        assert all(act.step.tag in name for act, (name, _) in zip(self.model.acts, names, strict=True)), names
        assert self.world == before and not any(self.logs.values()), "a plan has acted"

    def compare(self, said: Said, attempts: int, code: int) -> None:
        """Hold hosts, servers, history and report against the model after an attempt."""
        told = (attempts, said.err)
        assert said.code == code, told
        assert self.logs == self.model.logs, told
        assert self.world == self.model.world, told
        run = self.runs[-1]
        state = "unfinished" if self.model.waits else STATES[code]
        assert (run["state"], len(run["attempts"])) == (state, attempts), (run, told)
        report = self.operator("playbook", "report", run["id"], "-o", "json").json["report"]
        begun = ("done", "unchanged", "skipped", "failed", "waiting")
        found = [(one["name"], one["outcome"]) for one in report["actions"] if one["outcome"] in begun]
        wanted = [(act.line, self.model.outcomes[act]) for act in self.model.acts if act in self.model.outcomes]
        assert [how for _, how in found] == [how for _, how in wanted], (found, wanted, told)

    def compare_logs(self, ended: str, kills: int) -> None:
        """Hold the logs of a killed run against those of an undisturbed one; what put things back may come beside."""
        logs, acts, told = self.logs, self.undisturbed.acts, (ended, kills)
        for act in acts:
            most = 1 + kills if act.step.way == "repeatable" else 1
            for host in act.hosts if act.phase == "steps" or act.step.way == "unless" else ():
                assert logs[host].count(act.line) <= most, (act.line, host, logs, told)
        mending = {act.line for act in acts if act.mends}
        asks = any(act.step.do == "approve" for act in acts)
        for host, wanted in self.undisturbed.logs.items():
            done = [line for line in dict.fromkeys(logs[host]) if line not in mending]
            assert {*done} <= {*wanted}, (host, told)
            if ended == "done":
                assert {*done} == {*wanted}, (host, told)
                assert self.fails or asks or [*dict.fromkeys(logs[host])] == wanted, (host, told)

    def compare_world(self) -> None:
        """Hold servers against those of an undisturbed run; what only steps for a failure have changed may stay so."""
        done = self.undisturbed.outcomes
        steps, final = ({act.target for act in done if act.phase == phase} for phase in ("steps", "finally"))
        sure = (steps - final - {""}) if self.fails else {*self.world}
        now, wanted = self.world, self.undisturbed.world
        assert {one: now[one] for one in sure} == {one: wanted[one] for one in sure}


@NUMBERS
def test_a_run_goes_as_its_playbook_says_and_so_does_what_takes_it_up(
    operator: Operator, tmp_path: Path, number: int
) -> None:
    case = Case(operator, tmp_path, random.Random(f"{SEED} {number}"))
    case.plan()
    said = operator("playbook", "run", str(case.book), "--yes", "-o", "json")
    for attempts in range(1, 7):
        code = case.model.attempt()
        case.compare(said, attempts, code)
        if code != 1:
            break
        assert case.answer() is bool(case.model.asks)
        if attempts > 1 or case.chance.random() < 0.7:
            case.mend()
        said = operator("playbook", "resume", "--yes", "-o", "json")


@NUMBERS
def test_killed_again_and_again_a_run_ends_as_an_undisturbed_one_and_does_each_thing_once(
    operator: Operator, tmp_path: Path, number: int
) -> None:
    case = Case(operator, tmp_path, random.Random(f"{SEED} {number} killed"))
    case.switch_on()
    if case.chance.random() < 0.5:
        case.mend()
        case.fails = False
    ended, kills = case.ended()
    assert case.undisturbed.attempt() == 0
    logs = case.logs
    case.compare_logs(ended, kills)
    if ended != UNSEEN:
        case.compare_world()
        operator("playbook", "resume", case.runs[-1]["id"], "--yes")
        assert (case.logs, case.runs[-1]["state"]) == (logs, ended)
