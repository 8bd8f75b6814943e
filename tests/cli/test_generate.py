"""The manual page, schemas and completion, made from the product itself."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from maint.cli.app import COMMANDS
from maint.cli.help.output_schemas import schema_of
from tests.steps.operator import environment, maint


def test_the_manual_tells_every_command_and_exit_code():
    page = maint("generate", "man").out
    assert page.startswith(".TH MAINT 1")
    assert [verb for verb in COMMANDS if f'.SS "{verb}"'.replace("-", r"\-") not in page] == []
    assert [code for code in (0, 1, 2, 3, 4, 5, 6, 7, 8, 70) if rf"\fB{code}\fR" not in page] == []


def test_the_manual_is_sound_roff(tmp_path):
    program = shutil.which("man")
    if program is None:
        pytest.skip("man is at hand in few test environments")
    file = tmp_path / "maint.1"
    file.write_text(maint("generate", "man").out)
    words = [program, "--warnings", "-E", "UTF-8", "-l", str(file)]
    ran = subprocess.run(words, env=environment(MANWIDTH="80"), capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    assert "maint backup prune" in ran.stdout or "backup prune" in ran.stdout


def test_no_line_of_the_manual_is_taken_for_a_request():
    known = {".TH", ".SH", ".SS", ".TP", ".PP", ".B"}
    lines = maint("generate", "man").out.splitlines()
    assert {line.split()[0] for line in lines if line.startswith(".")} <= known
    assert not any(line.startswith("'") for line in lines)


def test_the_schema_of_the_config_knows_every_key():
    schema = json.loads(maint("generate", "schema").out)
    assert set(schema["properties"]) == {"state", "report", "sites"}
    assert {"manager", "backup", "metrics"} <= set(schema["$defs"]["Site"]["properties"])
    assert schema["$defs"]["Site"]["additionalProperties"] is False


def fits(value, schema, definitions):
    """Whether a value fits a schema, as far as our schemas of output go."""
    if "$ref" in schema:
        return fits(value, definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if "anyOf" in schema:
        return any(fits(value, one, definitions) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return value in schema.get("enum", [schema.get("const")])
    kinds = {"string": str, "boolean": bool, "number": (int, float), "integer": int, "null": type(None)}
    kinds |= {"object": dict, "array": list}
    types = schema.get("type", list(kinds))
    if not isinstance(value, tuple(kinds[one] for one in ([types] if isinstance(types, str) else types))):
        return False
    if isinstance(value, list):
        return all(fits(one, schema.get("items", {}), definitions) for one in value)
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        lacking = set(schema.get("required", ())) - set(value)
        return not lacking and all(fits(one, inner.get(key, {}), definitions) for key, one in value.items())
    return True


@pytest.mark.parametrize(
    "words",
    [
        ("backup", "list"),
        ("backup", "verify"),
        ("playbook", "list"),
        ("playbook", "history"),
        ("backup", "prune", "--dry-run"),
        ("site", "list"),
        ("doctor",),
        ("version",),
    ],
    ids=" ".join,
)
def test_what_is_printed_fits_the_schema(loaded, words):
    path = loaded.lab.folder / "config.yaml"
    path.write_text(path.read_text().replace("    backup:\n", "    backup:\n      keep: {last: 1}\n"))
    schema = schema_of("output")
    printed = loaded(*words, "-o", "json").json
    assert set(printed) <= set(schema["properties"])
    assert fits(printed, schema, schema["$defs"])


def test_a_failure_fits_the_schema(loaded):
    schema = schema_of("output")
    failed = json.loads(loaded("backup", "show", "nothing", "-o", "json").err)
    assert fits(failed, schema, schema["$defs"])
    assert not fits({"schema": "maint/1", "error": {"message": "x"}}, schema, schema["$defs"])


@pytest.mark.parametrize("what", ["schema", "completion"])
def test_what_is_not_there_is_wrong_usage(what):
    assert maint("generate", what, "nothing").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_sound(shell, tmp_path):
    script = maint("generate", "completion", shell).out
    assert "_MAINT_COMPLETE" in script
    if program := shutil.which(shell):
        file = tmp_path / "script"
        file.write_text(script)
        ran = subprocess.run([program, "-n", str(file)], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")


def test_help_stays_light():
    """The groups of commands bring nothing with them that takes long to load."""
    heavy = ("pydantic", "requests", "fabric", "jinja2", "yaml", "maint.config.schema", "maint.snapshots.catalogue")
    code = f"import sys, maint.cli.app; print([one for one in {heavy!r} if one in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
