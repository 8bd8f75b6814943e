"""A command loads what it uses and nothing else: most of a short command's time is spent on importing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
from maint.cli.app import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=open(sys.argv[-1], "w"))
"""
CONFIG = """
sites:
  prod:
    manager: {{host: 127.0.0.1, plain_port: 1, tls_port: 2, password: "env:PASSWORD"}}
    ssh: {{key: {folder}/key, known_hosts: {folder}/known_hosts, connect_timeout: 1s}}
    hosts: [{{name: one, address: 127.0.0.1, port: 1}}]
    backup: {{store: {folder}/store, identity: "env:IDENTITY"}}
"""
NETWORK = {"requests", "urllib3", "paramiko", "fabric", "botocore"}
SCHEMAS = {"pydantic", "maint.config.schema", "maint.config.error_messages"}
PLANS = {"maint.steps.registry", "maint.engine.load", "maint.engine.session", "jinja2", "maint.lab"}
STRANGERS = {
    "maint.steps.restore.deployment",
    "maint.steps.virtual_clusters.init",
    "maint.steps.ecs.clean",
    "maint.steps.restore.manager_files",
}
SEALED = {"pyrage", "zstandard", "cryptography"}
# Command → what it has no use for.
STARTS = {
    "--version": {*NETWORK, *SCHEMAS, *PLANS, "yaml", "cryptography", "rich", "maint.cli.backup.commands"},
    "--help": {*NETWORK, *SCHEMAS, *PLANS, "yaml", "cryptography", "rich", "maint.cli.backup.diff"},
    "backup list": {*NETWORK, *PLANS, "rich", "maint.cli.restore.commands"},
    "backup diff one other": {
        *NETWORK,
        *PLANS,
        "rich",
        "maint.cli.hosts.commands",
        "maint.snapshots.capture",
    },
    "backup verify one": {*NETWORK, *PLANS, "rich", "maint.cli.hosts.commands", "maint.snapshots.capture"},
    "backup create": {"paramiko", "fabric", "botocore", "rich", "maint.lab", "maint.snapshots.prune", *STRANGERS},
    "site list": {*NETWORK, *PLANS, *SEALED, "rich", "ijson", "maint.snapshots"},
    "playbook plan probe": {*NETWORK, *SEALED, "rich", "maint.lab", "maint.snapshots.prune", *STRANGERS},
    "host check": {"botocore", "maint.steps.registry", "rich", "maint.lab"},
    "host check --list": {*NETWORK, "maint.steps.registry", "maint.lab", "yaml", "rich"},
}


def ended_with(command: str, folder: Path) -> set[str]:
    """Run a command in a process of its own; return the modules that it ended with."""
    config, found = folder / "config.yaml", folder / "modules"
    config.write_text(CONFIG.format(folder=folder))
    (folder / "known_hosts").touch()
    environ = {**os.environ, "MAINT_CONFIG": str(config), "PASSWORD": "x", "IDENTITY": "x", "HOME": str(folder)}
    program = PROGRAM.replace("sys.argv[-1]", repr(str(found)))
    words = [sys.executable, "-c", program, *command.split()]
    subprocess.run(words, env=environ, capture_output=True, check=True, timeout=60)
    return set(json.loads(found.read_text()))


@pytest.mark.parametrize("command", list(STARTS))
def test_a_command_imports_nothing_that_it_has_no_use_for(command: str, tmp_path: Path) -> None:
    loaded = ended_with(command, tmp_path)
    assert "maint.cli.app" in loaded
    assert STARTS[command] & loaded == set()


def test_a_noun_brings_no_other_noun_with_it(tmp_path: Path) -> None:
    from maint.cli.app import ALONE, NOUNS

    loaded = ended_with("backup list", tmp_path)
    assert loaded & {*NOUNS.values(), *ALONE.values()} == {"maint.cli.backup.commands"}


def test_a_signature_is_checked_without_the_formats_of_other_keys(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from maint.adapters.sign import load_or_make_signer as signer\n"
        "made = signer(None, pathlib.Path(sys.argv[1]), [])\n"
        "made.verify(b'x', made.sign(b'x'))\n"
        "print('cryptography.hazmat.primitives.serialization' in sys.modules)"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    said = [subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)]
    assert said == ["True", "False"]  # it takes them to make the key, the first time, and never again


def test_what_ends_with_a_command_is_not_looked_through_once_more() -> None:
    program = (
        "import atexit, gc, sys; sys.argv = ['maint', 'version']\n"
        "atexit.register(lambda: print('frozen:', gc.get_freeze_count() > 10_000))\n"
        "from maint.cli.start import main; main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "frozen: True" in ended.stdout
