"""What was tested gets to other machines: constraints."""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import version

import pytest

from maint.cli.supply.constraints import tested
from tests.house.source import ROOT
from tests.steps.operator import maint


def names(text: str) -> dict[str, str]:
    """Return the versions that lines pin."""
    return dict(line.split(" ")[0].split("==") for line in text.splitlines())


def test_constraints_name_every_dependency_once_and_with_hashes_where_asked():
    plain, hashed = maint("generate", "constraints").out, maint("generate", "constraints", "--hashes").out
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {one.split(">")[0] for one in project["dependencies"]} | {"botocore"}
    assert wanted <= set(names(plain))
    assert names(plain) == names(hashed)
    assert "--hash" not in plain
    assert all("--hash=sha256:" in line for line in hashed.splitlines())


def test_constraints_are_what_these_tests_run_with():
    """Held where the suite installs from them; another machine may have resolved newer releases."""
    if "MAINT_TESTS_NEED_REAL_PARTS" not in os.environ:
        pytest.skip("only where the environment was installed from the constraints")
    here = {name: version(name) for name in names(tested()) if name != "typing-extensions"}
    assert here == {name: number for name, number in names(tested()).items() if name in here}


def test_pip_takes_the_constraints(tmp_path):
    file = tmp_path / "constraints.txt"
    file.write_text(tested())
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--no-index",
        "--no-deps",
        "-q",
        "-c",
        str(file),
        "rich",
    ]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr  # installed here in a version that is allowed
    file.write_text("rich==0.0.1\n")
    assert subprocess.run(words, capture_output=True, check=False).returncode != 0
