"""Who ran what, from where, how often stopped and taken up; and forgetting what is old and not needed."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import maint as product
from maint.adapters.seal import AgeSeal
from maint.adapters.undo_store import SealedUndo
from maint.config.paths import actor
from maint.engine import history, past_runs
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.model.manager import Place
from maint.ports import Site
from maint.steps.services.change_setting import KeptSetting, expire, keep, kept_settings
from tests.steps.conftest import FAST
from tests.steps.operator import Operator

HEAD = "name: {name}\nsummary: X.\nparameters:\n  go: {{type: string, default: /nowhere}}\nsteps:\n"
ASK = "  - {name: Ask, do: approve, with: {question: go on}}\n"


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Operator:
    """An operator at a lab that is down, with three runs: one done after a wait, one failed, one dismissed."""
    folder = tmp_path_factory.mktemp("lab")
    with Lab(folder / "lab", Options(switches=FAST)) as lab:
        pass
    found = Operator(lab)
    first = run(found, folder, "first", ASK)
    assert found("playbook", "approve", first).code == 0
    assert found("playbook", "resume", first).code == 0
    second = run(found, folder, "second", ASK + "  - {name: No, do: assert, with: {that: 'false'}}\n")
    assert found("playbook", "approve", second).code == 0
    assert found("playbook", "resume", second).code == 1
    third = run(found, folder, "third", ASK)
    assert "waits for a person until 2" in found("playbook", "history").out
    assert found("playbook", "approve", third).code == 0
    assert f"UTC; approved by {actor()}" in found("playbook", "history").out
    assert found("playbook", "dismiss", third, "--reason", "not wanted").code == 0
    return found


def run(operator: Operator, folder: Path, name: str, steps: str) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(HEAD.format(name=name) + steps)
    said = operator("playbook", "run", str(path))
    assert said.code == 1, said.err
    return str(operator.run_of(said)["id"])


def listed(operator: Operator, *words: str) -> list[str]:
    said = operator("playbook", "history", "-o", "json", *words)
    assert said.code == 0, said.err
    return [one["playbook"] for one in said.json["runs"]]


def test_each_run_says_who_with_which_version_and_each_attempt(operator: Operator) -> None:
    first = operator("playbook", "history", "-o", "json").json["runs"][0]
    assert (first["by"], first["version"], first["state"]) == (actor(), product.__version__, "done")
    assert [(one["by"], one["state"]) for one in first["attempts"]] == [(actor(), "unfinished"), (actor(), "done")]
    out = operator("playbook", "history").out
    assert "taken up 1 time" in out
    assert f"dismissed by {actor()}: not wanted" in out


def test_a_run_that_was_given_up_is_not_called_the_last_one(operator: Operator) -> None:
    runs = operator("playbook", "history", "-o", "json").json["runs"]
    (given_up,) = [one["id"] for one in runs if one["state"] == "dismissed"]
    said = operator("playbook", "resume", given_up, "-o", "json")
    assert (said.code, said.error["message"].startswith(f"run {given_up} is dismissed")) == (5, True)
    assert ["not wanted" in line for line in said.error["detail"]] == [True]


def test_the_report_says_who_took_the_run_up_each_attempt_and_the_time_of_each_step(operator: Operator) -> None:
    run_id = operator("playbook", "history", "-o", "json").json["runs"][0]["id"]
    text = (operator.state / "reports" / f"{run_id}.md").read_text()
    assert f"| taken up by | {actor()}" in text
    assert f"| maint | {product.__version__} |" in text
    said = operator("playbook", "report", run_id, "-o", "json").json["report"]
    assert [one["state"] for one in said["attempts"]] == ["unfinished", "done"]
    assert said["actions"][0]["at"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--playbook", "first"), ["first"]),
        (("--outcome", "failed"), ["second"]),
        (("--outcome", "failed", "--outcome", "dismissed"), ["second", "third"]),
        (("--user", actor()), ["first", "second", "third"]),
        (("--user", actor().partition("@")[0]), ["first", "second", "third"]),
        (("--user", "nobody-here"), []),
        (("--since", "1h"), ["first", "second", "third"]),
        (("--since", "2999-01-01"), []),
    ],
)
def test_runs_are_found_by_playbook_outcome_time_and_person(
    operator: Operator, words: tuple[str, ...], found: list[str]
) -> None:
    assert listed(operator, *words) == found


@pytest.mark.parametrize(
    "words", [("--outcome", "good"), ("--since", "soon"), ("--since", "0001-01-01"), ("--keep", "3"), ("--age", "3d")]
)
def test_what_makes_no_sense_is_wrong_usage(operator: Operator, words: tuple[str, ...]) -> None:
    assert operator("playbook", "history", *words).code == 2


def test_a_run_that_waits_in_a_step_of_a_plugin_that_is_gone_is_still_listed(operator: Operator) -> None:
    first = operator("playbook", "history", "-o", "json").json["runs"][0]["id"]
    other = operator.state / "runs" / "20010101T000000.000Z-0001.jsonl"
    text = re.sub(r', "sum": "[^"]*"', "", (operator.state / "runs" / f"{first}.jsonl").read_text())
    text = text.replace('"format": 2', '"format": 1').replace('"kind": "approve"', '"kind": "acme.ask"')
    asked = text.replace(first, other.stem).splitlines(keepends=True)
    end = next(at for at, line in enumerate(asked) if '"what": "resumed"' in line)
    other.write_text("".join(asked[:end]))
    said = operator("playbook", "history", "-o", "json")
    other.unlink()
    assert (said.code, said.json["runs"][0]["state"]) == (0, "unfinished")


def test_young_runs_stay_however_few_are_to_be_kept(operator: Operator) -> None:
    said = operator("playbook", "history", "--prune", "--keep", "0", "--age", "1s", "--yes")
    assert (said.code, "there is no run to forget: the newest 0 stay, and what is younger than 30d" in said.err) == (
        0,
        True,
    )
    assert len(listed(operator)) == 3


def kept_by(operator: Operator, run_id: str, changed: datetime) -> None:
    """Let a run have changed a setting at a time."""
    undo = SealedUndo(operator.state, AgeSeal())
    site = SimpleNamespace(state=operator.state, undo=undo, clock=SimpleNamespace(now=lambda: changed))
    place = Place(cluster="base", service="hdfs")
    keep(cast(Site, site), run_id, KeptSetting(place, "dfs_replication", "0" * 32, "3", "2", "x", False), "3")


def test_a_run_whose_settings_can_be_put_back_stays_until_then_and_is_named(operator: Operator) -> None:
    first = past_runs.history(operator.state)[0].id
    began = datetime.now(UTC)
    kept_by(operator, first, began + timedelta(days=20))
    found = history.prunable(operator.state, began + timedelta(days=40), last=0, age=86400)
    day = f"{began + timedelta(days=50):%Y-%m-%d}"
    assert found.kept == {first: f"`maint playbook undo {first}` puts its settings back until {day}"}
    assert first not in [past.id for past in found.runs]
    expire(operator.state, SealedUndo(operator.state, AgeSeal()), began + timedelta(days=40))
    assert kept_settings(operator.state, first)
    for days in (900, 45, 52):  # what one reading of the clock says, and the next one denies, counts for nothing
        assert kept_settings(operator.state, first)
        expire(operator.state, SealedUndo(operator.state, AgeSeal()), began + timedelta(days=days))
    late = began + timedelta(days=60)
    assert first in history.prunable(operator.state, late, last=0, age=86400).kept
    expire(operator.state, SealedUndo(operator.state, AgeSeal()), late)
    assert first in [past.id for past in history.prunable(operator.state, late, last=0, age=86400).runs]
    assert not kept_settings(operator.state, first)
    assert operator.kept == []


def test_old_runs_go_with_all_that_lies_beside_them_but_what_may_be_taken_up_stays(operator: Operator) -> None:
    runs = past_runs.history(operator.state)
    later = [past for past in runs if past.plan.source != "second"]
    now = datetime.now(UTC) + timedelta(days=100)
    assert history.prunable(operator.state, now, last=100, age=0).runs == []
    assert history.prunable(operator.state, now, last=0, age=200 * 86400).runs == []
    old = history.prunable(operator.state, now, last=0, age=86400).runs
    assert [past.id for past in old] == [past.id for past in later]
    history.forget(operator.state, old)
    assert listed(operator) == ["second"]
    left = {
        path.name.partition(".")[0] for folder in ("runs", "reports") for path in (operator.state / folder).iterdir()
    }
    assert left == {runs[1].id.partition(".")[0]}


def test_a_run_that_left_something_out_is_partly_done_wherever_it_is_told(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", Options(switches=FAST)) as lab:
        found = Operator(lab)
        said = found("backup", "create", "-o", "json")
        assert (said.code, [one["partly"] for one in said.json["actions"]]) == (7, [True])  # the manager redacts
        ran = found("playbook", "history", "-o", "json").json["runs"][0]
        assert (ran["state"], [one["state"] for one in ran["attempts"]]) == ("partly", ["partly"])
        assert [listed(found, "--outcome", state) for state in ("partly", "done")] == [["export"], []]
        assert " partly " in found("playbook", "history").out
        report = Path(found("playbook", "report").out.splitlines()[0]).read_text()
        assert "partly" in report.splitlines()[0] and ": done" not in report
        said = found("playbook", "resume")
        assert (said.code, "no run of this site stopped before its end" in said.err) == (0, True)


def test_a_run_is_not_given_up_without_a_reason(operator: Operator) -> None:
    said = operator("playbook", "dismiss", "--reason", " ", "-o", "json")
    assert (said.code, said.error["message"]) == (3, "a reason is needed")


def test_a_playbook_that_never_ran_is_said_to_have_no_runs(operator: Operator) -> None:
    said = operator("playbook", "history", "--playbook", "frist")
    assert (said.code, "no run of 'frist' is kept; " in said.err) == (0, True)
    for known in listed(operator):
        assert "is kept" not in operator("playbook", "history", "--playbook", known).err


@pytest.mark.parametrize("words", [["--user", "nobody"], ["--since", "2099-01-01"], ["--outcome", "interrupted"]])
def test_where_no_run_fits_it_is_said_what_runs_there_are(operator: Operator, words: list[str]) -> None:
    said = operator("playbook", "history", *words)
    assert (said.code, said.err.startswith("no run fits; there are runs of ")) == (0, True), said.err
    assert all(known in said.err for known in [*listed(operator), actor()])
    assert operator("playbook", "history", *words, "-o", "json").json["runs"] == []


def test_a_site_without_runs_says_so(tmp_path: Path) -> None:
    with Lab(tmp_path / "lab") as lab:
        said = Operator(lab)("playbook", "history")
        assert (said.code, said.err) == (0, "this site has no runs yet\n")
