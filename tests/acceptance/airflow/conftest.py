"""The Python that has Airflow, and maint as a package that may be laid beside it."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.airflow.environment import ROOT, VERSION, pip, python_of


@pytest.fixture(scope="session")
def python() -> str:
    """The Python of an environment with Airflow and without maint."""
    return str(python_of(VERSION))


@pytest.fixture(scope="session")
def package(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with maint as it would be installed; on PYTHONPATH it is beside Airflow."""
    folder = tmp_path_factory.mktemp("beside") / "site"
    pip(Path(python), "--no-deps", "--target", str(folder), str(ROOT))
    assert subprocess.run([python, "-I", "-c", "import maint"], capture_output=True).returncode != 0
    return folder
