"""What became of a deployment whose answer is lost: a restart that was seen says it, or a person, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from maint.config import yaml
from maint.lab.create import SITE
from maint.lab.http.messages import ApiError
from maint.lab.manager import put_deployment
from maint.steps.manager import server
from maint.steps.restore import deployment
from tests.steps.operator import Operator


def test_a_host_that_did_not_say_what_runs_there_proves_no_restart_and_what_a_person_answers_is_done_without_one(
    lost: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deployment, "PATIENCE", 0.1)
    lost.lab.break_("restore", "connection-dropped")
    lost.forget_requests()
    with monkeypatch.context() as mute:
        mute.setattr(server, "_SHOW", "exit 1")
        assert lost.restore().code == 1
    lost.lab.break_("restore", "put-answer-lost")
    monkeypatch.setattr(deployment.Replaced, "there", lambda *_: False)  # a look proves nothing
    said = lost("playbook", "resume")
    assert (said.code, lost.puts) == (1, 2), said.err
    before, found, _ = said.err.partition("sending it again")
    assert found and "restarting" in before, said.err
    config = Path(lost.config)
    text = config.read_text()
    document: Any = yaml.load(text, "config").data
    del document["sites"][SITE]["ssh"]
    config.write_text(json.dumps(document))
    asked = lost("playbook", "resume")
    assert (asked.code, "--set applied=" in asked.err, lost.puts) == (5, True, 2), asked.err
    config.write_text(text)
    said = lost("playbook", "resume", "--set", "applied=yes")
    assert (said.code, lost.puts) == (0, 2), said.err
    before, found, _ = said.err.partition("it was applied although its answer was lost")
    assert found and "restarting" not in before, said.err


def test_a_server_of_which_its_host_said_nothing_before_is_not_taken_for_restarted(
    loaded: Operator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text("name: own\nsummary: O.\nsteps:\n  - {name: R, do: server.restart}\n")
    with monkeypatch.context() as mute:
        mute.setattr(server, "_SHOW", "exit 1")
        mute.setattr(server, "UNIT", "no-such-unit")
        assert loaded("playbook", "run", str(tmp_path / "own.yaml"), "--yes").code == 1
    said = loaded("playbook", "resume")
    assert (said.code, "restarted already" in said.err) == (0, False), said.err


def test_an_error_that_is_answered_with_200_is_no_restore_and_is_told(
    lost: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise ApiError(200, "Cannot lock the database.")

    monkeypatch.setattr(deployment, "PATIENCE", 0.1)
    lost.forget_requests()
    with monkeypatch.context() as patched:
        patched.setattr(put_deployment, "_check_whole", denied)
        said = lost.restore()
    assert (said.code, lost.puts) == (1, 1), said.err
    assert "Cannot lock the database." in said.err and "it was not applied so far" in said.err
    resumed = lost("playbook", "resume")
    assert (resumed.code, lost.puts) == (0, 2), resumed.err
    assert lost("cluster", "list", "-o", "json").json["clusters"][0]["name"] == "base"
