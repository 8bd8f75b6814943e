"""Every module of the vendor's collection does its work against the lab, in an environment of its own.

`MAINT_TESTS_COLLECTION` names a folder with the collection (`ansible-galaxy collection install cloudera.cluster -p
FOLDER`) and an environment, `FOLDER/venv`, that has `ansible-core` and `cm-client`.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from maint.lab.manager.load import Options
from tests.acceptance.collection.cases import CASES, NOT_RUN
from tests.lab.conftest import Client, MakeLab, example, laid_out, make_lab

__all__ = ["example", "laid_out", "make_lab"]

FOLDER = Path(os.environ.get("MAINT_TESTS_COLLECTION") or "/nowhere")
MODULES = FOLDER / "ansible_collections/cloudera/cluster/plugins/modules"
pytestmark = pytest.mark.skipif(
    not MODULES.is_dir(), reason="MAINT_TESTS_COLLECTION names no folder with the collection cloudera.cluster"
)
FRESH = ("cm_license", "cm_trial_license")  # what needs a manager without a licence


def run(client: Client, module: str, arguments: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """Run a module as `ansible` does."""
    manager = client.lab.status()["manager"]
    name, password = client.account
    ca = str(client.lab.folder / "ca/bundle.pem")
    given = {"url": f"{client.base}/api/v45", "username": name, "password": password, "ssl_ca_cert": ca} | arguments
    if given["url"] is None:
        given |= {"host": "127.0.0.1", "port": int(manager["plain"].rsplit(":", 1)[1])}
    if given.get("license"):
        given["license"] = str(client.lab.folder / "license.txt")
    words = {name: value for name, value in given.items() if value is not None}
    home = client.lab.folder / "ansible"
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ANSIBLE_COLLECTIONS_PATH": str(FOLDER),
        "LC_ALL": "C.UTF-8",
    }
    environ["ANSIBLE_PYTHON_INTERPRETER"] = str(FOLDER / "venv/bin/python")
    command = [str(FOLDER / "venv/bin/ansible"), "localhost", "-c", "local", "-m", f"cloudera.cluster.{module}"]
    return subprocess.run(
        [*command, "-a", json.dumps(words)], env=environ, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("module", CASES)
def test_a_module_does_its_work(make_lab: MakeLab, module: str) -> None:
    if not (MODULES / f"{module}.py").exists():
        pytest.skip("this version of the collection has no such module")
    client = make_lab(Options(fresh=module in FRESH), redaction_default="off")
    if module not in FRESH:
        assert client.upload_license().status_code == 200
    for arguments, word in CASES[module]:
        done = run(client, module, arguments)
        log = client.lab.log.path.read_text().splitlines()
        missing = [line for line in log if "not simulated" in line]
        assert done.returncode == 0, (arguments, missing, done.stdout[-3000:], done.stderr[-3000:])
        assert not missing
        assert word in done.stdout, (arguments, done.stdout[-3000:])


def test_every_module_of_the_folder_is_run_or_has_its_reason() -> None:
    found = {path.stem for path in MODULES.glob("*.py")} - {"__init__"}
    assert found <= {*CASES, *NOT_RUN}
