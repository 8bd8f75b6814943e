"""With a lab down every command that reaches nothing says how it is brought up, and nothing counts as well."""

import pytest

from tests.steps.operator import Operator

UP = "maint lab up --folder "


@pytest.fixture
def down(make) -> Operator:
    """An operator whose lab is down."""
    operator = make()
    operator.lab.stop()
    return operator


def test_what_reaches_nothing_names_the_command_that_brings_the_lab_up(down):
    status = down("site", "status", "-o", "json")
    assert (status.code, UP in status.error["hint"]) == (4, True)
    assert "systemctl" not in status.error["hint"]
    backup = down("backup", "create", "-o", "json")
    assert UP in backup.error["hint"] and "maint playbook resume" in backup.error["hint"]
    lines = {one["label"]: one for one in down("doctor", "-o", "json").json["checks"]}
    assert UP in lines["manager"]["hint"]


def test_nothing_passes_where_nothing_was_reached(down):
    said = down("host", "check", "-o", "json", "-v")
    found = {one["check"]: one for one in said.json["findings"]}
    assert said.code == 7
    assert [name for name, one in found.items() if one["state"] == "pass"] == []
    assert found["ecs.domain.length"]["observed"].startswith("nothing was reached; by the config alone: ")
    for name in ("cde.ozone", "cm.agent.heartbeat"):
        assert "cloudera-scm-server" in found[name]["remedy"], name
    assert f"hint: the lab is down: `{UP}" in said.err


def test_a_lab_that_is_up_is_not_called_down(loaded):
    loaded.lab.server.stop()
    said = loaded("site", "status", "-o", "json")
    assert (said.code, "systemctl status cloudera-scm-server" in said.error["hint"]) == (4, True)


def test_what_was_skipped_is_said_to_be_shown_by_v(loaded):
    assert "`-v` shows what was skipped" in loaded("host", "check", "--check", "ecs.plan", "--check", "os.tz").out


def test_the_plan_of_a_restore_says_what_stays_and_what_is_replaced(loaded):
    said = loaded("restore", "plan")
    assert said.code == 0, said.err
    assert "it takes the place of what is there now: base, ecs-01" in said.out
    assert "is lost" not in said.out
    assert "answers, and holds 8 jobs, 4 resources: where that is still so, nothing in it is changed" in said.out
    (jobs,) = [line for line in said.out.splitlines() if "Its resources and jobs are back" in line]
    assert jobs.endswith("[only where it turns out to be needed]")


def test_times_have_one_form_and_the_report_is_proper_markdown(loaded):
    assert loaded("backup", "create", "--open-window", "--yes").code == 0
    history = loaded("playbook", "history", "-o", "json").json["runs"]
    stamps = [one[key] for one in history for key in ("started", "finished")]
    assert [stamp for stamp in stamps if not (stamp.endswith("Z") and len(stamp) == 24)] == []
    report = sorted((loaded.state / "reports").glob("*.md"))[-1].read_text()
    assert "+00:00" not in report
    assert "\n\n## What was done\n\n|" in report


def test_a_store_without_snapshots_is_no_success(make):
    operator = make()
    (operator.lab.folder / "backups").rename(operator.lab.folder / "elsewhere")
    lines = {one["label"]: one for one in operator("doctor", "-o", "json").json["checks"]}
    assert (lines["snapshots"]["state"], lines["snapshots"]["words"]) == ("skip", "the store holds none yet")
