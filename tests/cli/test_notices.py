"""Who is told of what: by real HTTP, a real mail server and a real program, after whatever worked on a site."""

import json
import sys
from pathlib import Path

from tests.steps.conftest import PASSWORD
from tests.steps.operator import Operator

TOLD = """
import json, os, sys
with open({path!r}, "a") as file:
    file.write(json.dumps({{**json.load(sys.stdin), "environment": dict(os.environ)}}) + "\\n")
"""


def configured(operator: Operator, text: str) -> None:
    """Add keys to the site."""
    path = operator.lab.folder / "config.yaml"
    path.write_text(path.read_text().rstrip() + "\n" + text)


def listening(operator: Operator, name: str = "pager", more: str = "on: [failure, success, stale, recovered]") -> Path:
    """Have a program told; return the file of what it was told, a line each."""
    told, program = operator.lab.folder / f"{name}.jsonl", operator.lab.folder / f"{name}.py"
    program.write_text(TOLD.format(path=str(told)))
    command = json.dumps([sys.executable, str(program)])
    configured(operator, f"    notify:\n      - {{name: {name}, {more}, exec: {{command: {command}}}}}\n")
    return told


def events(told: Path) -> list[tuple[str, str, int]]:
    """Return what was told: event, verb and exit code."""
    lines = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    return [(line["event"], line["verb"], line["exit"]) for line in lines]


def test_a_failure_is_told_then_what_recovered_then_each_success(loaded: Operator) -> None:
    told = listening(loaded)
    loaded.lab.break_("export", "cut-body")
    failed = loaded("backup", "create")
    loaded.lab.repair()
    assert failed.code not in (0, 7)
    assert loaded("backup", "verify", "--level", "1").code == 0
    assert loaded("backup", "create", "--open-window", "--yes").code == 0
    assert events(told) == [
        ("failure", "backup create", failed.code),
        ("success", "backup verify", 0),
        ("recovered", "backup create", 0),
    ]
    first = json.loads(told.read_text().splitlines()[0])
    assert first["words"].startswith("backup create failed: ")
    assert first["run"] == loaded("playbook", "history", "-o", "json").json["runs"][-2]["id"]
    assert first["seconds"] >= 0
    assert PASSWORD not in told.read_text()


def test_a_program_that_is_told_inherits_no_secret(loaded: Operator) -> None:
    told = listening(loaded)
    assert loaded("backup", "verify", "--level", "1", AWS_SECRET_ACCESS_KEY="s3cr3t-of-the-store").code == 0
    (line,) = told.read_text().splitlines()
    assert "s3cr3t-of-the-store" not in line
    assert set(json.loads(line)["environment"]) <= {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
    }
