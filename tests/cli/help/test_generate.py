"""The manual page, schemas and completion, made from the product itself."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import typer

from maint import __version__
from maint.cli.app import COMMANDS, app
from maint.cli.help.generate import pages
from maint.cli.help.output_schemas import schema_of
from maint.config.paths import changelog
from tests.cli.test_outputs import fits
from tests.steps.operator import environment, maint


def test_the_manual_tells_every_command_and_exit_code_and_no_line_of_it_is_taken_for_a_request():
    page = maint("generate", "man").out
    day = changelog().partition(f"## {__version__} · ")[2][:10]
    assert page.startswith(f'.TH MAINT 1 "{day}" "maint {__version__}"'), "the same bytes on every day"
    assert [verb for verb in COMMANDS if f'.SS "{verb}"'.replace("-", r"\-") not in page] == []
    assert [code for code in (0, 1, 2, 3, 4, 5, 6, 7, 8, 70) if rf"\fB{code}\fR" not in page] == []
    known, lines = {".TH", ".SH", ".SS", ".TP", ".PP", ".B"}, page.splitlines()
    assert {line.split()[0] for line in lines if line.startswith(".")} <= known
    assert not any(line.startswith("'") for line in lines)


def test_every_command_has_a_page_and_all_are_sound_roff(tmp_path):
    pages = tmp_path / "man1"
    said, schema = maint("generate", "man", "--to", str(pages), "-o", "json"), schema_of("output", "generate man")
    assert (said.code, fits(said.json, schema, schema["$defs"])) == (0, True)
    names = {"maint.1", *(f"maint-{name.replace(' ', '-')}.1" for name in COMMANDS)}
    assert {path.name for path in pages.iterdir()} == names
    if groff := shutil.which("groff"):  # what `man --warnings` calls, once for all pages
        words = [groff, "-man", "-ww", "-Tutf8", "-P-c", *map(str, sorted(pages.iterdir()))]
        ran = subprocess.run(words, capture_output=True, text=True, check=True)
        assert ran.stderr == ""
        assert "maint backup list" in ran.stdout
    if mandoc := shutil.which("mandoc"):
        words = [mandoc, "-T", "lint", "-W", "warning", *map(str, sorted(pages.iterdir()))]
        assert subprocess.run(words, capture_output=True, text=True, check=False).stdout == ""
    if program := shutil.which("man"):
        words = [program, "--warnings", "-E", "UTF-8", "-l", str(pages / "maint-vc-run-list.1")]
        ran = subprocess.run(words, env=environment(MANWIDTH="80"), capture_output=True, text=True, check=True)
        assert ran.stderr == ""
        assert "maint vc run list [OPTIONS]" in ran.stdout


def test_a_page_tells_example_options_and_neighbours():
    page = pages(typer.main.get_command(app))["maint-host-check.1"]
    assert "maint host check" in page
    assert r"\-\-hosts\-in" in page
    assert "junit or nagios" in page  # what this command alone prints
    assert r"\fBmaint\-host\-trust\fR(1)" in page
    assert ".SH EXAMPLE" in page


def test_pages_are_not_written_into_a_file_and_that_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    said = maint("generate", "man", "--to", str(tmp_path / "file"), "-o", "json")
    assert (said.code, "Not a directory" in said.error["message"]) == (1, True)
    assert said.error["hint"] == "name another folder"


def test_the_schema_of_the_config_knows_every_key():
    schema = json.loads(maint("generate", "schema").out)
    assert set(schema["properties"]) == {"state", "report", "sites"}
    assert {"manager", "backup", "metrics"} <= set(schema["$defs"]["Site"]["properties"])
    assert schema["$defs"]["Site"]["additionalProperties"] is False


def test_a_failure_fits_the_schema():
    schema = schema_of("output")
    failed = json.loads(maint("help", "nothing", "-o", "json").err)
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


SITE = """
  {name}:
    manager: {{host: cm.example.internal, password: "env:PW"}}
    backup: {{store: /b, max_age: {age}, identity: "env:ID"}}
"""


def test_alert_rules_hold_each_site_against_its_own_age_unless_one_is_given(tmp_path):
    config = tmp_path / "maint.yaml"
    config.write_text("sites:" + SITE.format(name="a", age="26h") + SITE.format(name="b", age="50h"))
    verified, held = "maint_last_verified_backup_timestamp_seconds", "for: {}s\n"
    own = f"(maint_backup_max_age_seconds or {verified} * 0 + {{}})"
    for words, age, longest in (((), own, 180_000), (("--site", "a"), own, 93_600), (("--max-age", "2h"), "{}", 7200)):
        rules = maint("generate", "alerts", *words, "--config", str(config)).out
        assert f"{verified} > {age.format(longest)}\n" in rules and held.format(longest) in rules
    assert held.format(93_600) in maint("generate", "alerts", HOME=str(tmp_path)).out
