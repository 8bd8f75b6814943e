"""Flags before and after the verb, outputs, and what needs no configuration."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import maint as package
from maint.config.yaml import load
from maint.lab.running import Lab
from tests.cli.conftest import with_few_hosts
from tests.steps.conftest import copy
from tests.steps.operator import Operator, environment, maint

SIGNER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAYfuQv//shKDBwwszxMy7/rEeDeMZCLGxDmuE/4hYTg"
READS = [
    ("site", "list"),
    ("site", "status"),
    ("cluster", "list"),
    ("manager", "version"),
    ("playbook", "list"),
    ("playbook", "show", "stop-cluster"),
    ("playbook", "lint"),
    ("playbook", "plan", "stop-cluster", "--set", "cluster=base"),
    ("playbook", "run", "probe"),
    ("playbook", "history"),
    ("playbook", "report"),
    ("backup", "list"),
    ("backup", "verify"),
    ("restore", "plan"),
    ("config", "show"),
    ("config", "show", "--origin"),
    ("config", "validate"),
    ("config", "path"),
    ("lab", "break", "--list"),
    ("help",),
    ("version",),
    ("cluster", "stop", "base", "--dry-run"),
]


@pytest.fixture(scope="module")
def folder(backed_up, tmp_path_factory):
    """A lab for all tests of this module, which only read."""
    place = copy(backed_up, tmp_path_factory.mktemp("reading") / "lab")
    with Lab(place) as lab:
        yield with_few_hosts(Operator(lab))


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_json_and_yaml_say_the_same_under_one_schema(folder, words):
    told = folder(*words, "-o", "json")
    assert told.code == 0, told.err
    assert told.json["schema"] == "maint/1"
    spelled = folder(*words, "-o", "yaml")
    assert spelled.code == 0, spelled.err
    assert set(load(spelled.out, "out").data) == set(told.json)


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_data_goes_to_stdout_without_colour_and_nothing_secret_among_it(folder, words):
    said = folder(*words)
    assert said.code == 0, said.err
    assert "\x1b[" not in said.out + said.err
    assert (folder.lab.folder / "password").read_text() not in said.out + said.err


def test_flags_may_stand_before_the_noun_and_after_the_verb(folder):
    after = maint("cluster", "list", "-o", "json", "--config", folder.config, "--site", "lab")
    before = maint("-o", "json", "--config", folder.config, "--site", "lab", "cluster", "list")
    between = maint("--config", folder.config, "cluster", "list", "--output", "json")
    assert before.code == 0, before.err
    assert before.json == after.json == between.json


def test_a_flag_after_the_verb_wins(folder):
    assert maint("-o", "table", "--config", "/nowhere", "cluster", "list", "-o", "json", "--config", folder.config).json


def test_flags_of_one_command_do_not_reach_the_next(folder):
    assert maint("-o", "json", "--config", folder.config, "cluster", "list").json
    assert maint("--config", folder.config, "cluster", "list").out.startswith("NAME")


def test_the_output_may_come_from_the_environment(folder):
    assert folder("cluster", "list", MAINT_OUTPUT="json").json["schema"] == "maint/1"


def test_a_misspelt_variable_is_warned_of_once(folder):
    said = folder("cluster", "list", MAINT_SIET="prod")
    assert (said.code, said.err.count("did you mean MAINT_SITE?")) == (0, 1), said.err


def test_quiet_leaves_only_data_and_errors(folder):
    assert folder("playbook", "lint", "-q").err == ""
    assert folder("playbook", "run", "probe", "-q").err == ""


def test_a_wrong_output_is_wrong_usage(folder):
    said = folder("cluster", "list", "-o", "xml")
    assert (said.code, "xml" in said.err) == (2, True)


@pytest.mark.parametrize("json", [("-o", "json"), ("-qojson",), ("--output=json",), ("--log-format", "json")])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("cluster", "fly"), "No such command 'fly'"),
        (("fly",), "No such command 'fly'"),
        (("config", "set", "x", "1"), "No such command 'set'. Did you mean `maint setting set`?"),
        (("restart",), "No such command 'restart'. Did you mean `maint service restart`?"),
        (("cluster", "list", "--fly"), "No such option: --fly"),
        (("cluster", "stop"), "Missing argument 'NAME'"),
        (("cluster", "stop", ""), "it is empty"),
        (("backup", "verify", "--level", "9"), "'9' is not a whole number"),
        (("cluster",), ""),
        (("--color", "never"), ""),
    ],
)
def test_wrong_usage_is_exit_2_and_json_where_that_was_asked_for_wherever_it_stood(folder, words, message, json):
    said = folder(*words)
    assert (said.code, said.out, message in said.err, said.err.startswith("error: ")) == (2, "", True, True), said.err
    assert "hint: `maint " in said.err, said.err
    said = folder(*words, *json)
    assert (said.code, said.out, message in said.error["message"]) == (2, "", True), said.err
    assert (said.error["exit"], "--help`" in said.error["hint"]) == (2, True)


@pytest.mark.parametrize(
    ("words", "one", "other"),
    [
        (("playbook", "plan", "stop-cluster", "--set"), "cluster=base", "cluster=ecs-01"),
        (("playbook", "resume", "--set"), "applied=yes", "applied=no"),
        (("lab", "up", "--switch"), "redirect=301", "redirect=302"),
        (("vc", "job", "run", "--name", "any", "--variable"), "day=monday", "day=friday"),
        (("backup", "list", "--store", "s3://any", "--signed-by", SIGNER, "--s3"), "ca=one", "ca=other"),
    ],
)
def test_a_name_that_is_given_two_values_is_wrong_usage_and_neither_is_shown(folder, words, one, other):
    said = folder(*words, one, words[-1], other, "-o", "json")
    told = f"{words[-1]} {one.partition('=')[0]}=… is given twice"
    assert (said.code, said.error["message"], said.error["hint"]) == (2, told, "leave out the one that is not meant")
    assert "is given twice" not in folder(*words, one, words[-1], one, "--dry-run").err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("cluster", "stop", "base", "--max-age"), "maint cluster stop"),
        (("--site", "lab", "vc", "job", "create", "--name"), "maint vc job create"),
        (("backup", "create", "--dry-run=yes"), "maint backup create"),
        (("--timeout",), "maint"),
    ],
)
def test_an_option_that_lacks_its_value_sends_to_the_help_of_its_command(words, command):
    said = maint(*words, "-o", "json")
    said = said if said.code else maint("-o", "json", *words)
    assert (said.code, said.error["hint"]) == (2, f"`{command} --help`")


@pytest.mark.parametrize("words", ["cluster", "cluster stop", "vc job", "backup list"])
def test_who_asks_help_for_a_command_is_told_what_shows_it(words):
    said = maint("help", *words.split(), "-o", "json")
    assert (said.code, f"`maint {words} --help`" in said.error["hint"]) == (2, True)
    assert maint(*words.split(), "--help").code == 0


def test_what_names_nothing_is_sent_to_the_help_of_its_own_command(folder):
    for words in (("setting", "list"), ("setting", "unset", "x"), ("restore", "config")):
        said = folder(*words, "-o", "json")
        assert (said.code, said.error["hint"]) == (2, f"`maint {' '.join(words[:2])} --help` shows what it takes")


@pytest.mark.parametrize("words", [(), ("cluster",)])
def test_a_noun_without_a_verb_shows_its_help(words):
    said = maint(*words)
    assert (said.code, said.out, said.err.startswith("Usage: maint"), "Commands:" in said.err) == (2, "", True, True)


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        (("vc", "run", "kill", "--id", "abc"), "'abc' is not a whole number, 0 or more"),
        (("backup", "verify", "--level", "9"), "'9' is not a whole number, 1 to 4"),
        (("lab", "up", "--tls-port", "-1"), "'-1' is not a whole number, 0 to 65535"),
    ],
)
def test_a_number_that_is_none_or_out_of_range_is_told_in_our_own_words(folder, words, limits):
    said = folder(*words)
    assert (said.code, limits in said.err, f"'{words[-2]}'" in said.err) == (2, True, True), said.err


@pytest.mark.parametrize(
    "words",
    [("--help",), ("--version",), ("version",), ("help",), ("playbook", "list"), ("playbook", "lint")],
    ids=" ".join,
)
def test_some_commands_need_no_configuration(tmp_path, words):
    said = maint(*words, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path))
    assert said.code == 0, said.err
    assert said.out + said.err


def test_the_installed_program_shows_its_version_from_any_folder(tmp_path):
    words = [sys.executable, "-m", "maint.cli.app", "--version"]
    script = Path(sys.executable).parent / "maint"
    if script.exists():
        words = [str(script), "--version"]
    ended = subprocess.run(words, cwd=tmp_path, env=environment(HOME=str(tmp_path)), capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, f"maint {package.__version__}\n")


def test_only_commands_for_several_sites_have_options_under_that_heading():
    for words in ("backup rekey", "playbook schedule", "generate airflow"):
        assert "Several sites" not in maint(*words.split(), "--help").out
    assert "Several sites:\n  --all " in maint("backup", "create", "--help").out


def test_what_a_command_alone_can_print_stands_in_its_help():
    for words, outputs in {("host", "check"): "junit or nagios", ("cluster", "list"): "json or yaml"}.items():
        assert f"{outputs}." in " ".join(maint(*words, "--help").out.split()), words


def test_every_command_shows_its_help_with_the_common_flags_for_help_and_for_h(folder):
    for words in READS:
        noun = [word for word in words if not word.startswith("-")][:2]
        noun = noun[:1] if noun[0] in ("help", "version") else noun
        said = maint(*noun, "--help")
        assert (said.code, maint(*noun, "-h")) == (0, said)
        assert "--dry-run" in said.out and "--confirm" in said.out, noun


def test_config_init_writes_once_and_never_over_a_file(tmp_path):
    target = tmp_path / "made" / "config.yaml"
    assert maint("config", "init", str(target)).code == 0
    assert target.stat().st_mode & 0o777 == 0o600
    assert maint("config", "init", str(target)).code == 5


def test_config_init_writes_where_the_next_command_reads(tmp_path):
    by_variable, by_flag = str(tmp_path / "variable.yaml"), str(tmp_path / "flag.yaml")
    assert maint("config", "init", MAINT_CONFIG=by_variable).out == f"{by_variable}\n"
    assert maint("config", "init", "--config", by_flag, MAINT_CONFIG=by_variable).out == f"{by_flag}\n"
    assert maint("config", "path", MAINT_CONFIG=by_variable).out == f"{by_variable}\n"


def test_json_of_a_failed_run_is_on_stdout_and_its_error_on_stderr(folder):
    folder.lab.break_("clusters", "error-500")
    try:
        said = folder("cluster", "list", "-o", "json")
    finally:
        folder.lab.repair()
    assert said.code == 1
    assert said.out == ""
    assert json.loads(said.err)["schema"] == "maint/1"
    assert set(said.error) == {"message", "detail", "hint", "exit"}
    assert said.error["exit"] == 1
