"""An environment with Airflow, made once and kept in the user's cache: `MAINT_TESTS_AIRFLOW` says which version."""

import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path

import pytest

VERSION = os.environ.get("MAINT_TESTS_AIRFLOW", "")
wanted = pytest.mark.skipif(not VERSION, reason="MAINT_TESTS_AIRFLOW names no version of Airflow, such as 3.3.2")

ROOT = Path(__file__).parents[3]
CONSTRAINTS = "https://raw.githubusercontent.com/apache/airflow/constraints-{version}/constraints-{python}.txt"
NAMED = os.environ.get("MAINT_TESTS_AIRFLOW_CONSTRAINTS", "")  # a file or URL instead
CELERY = "celery[redis]<5.7"  # for the campaign; its provider does not understand 5.7
CLOUDERA = "cloudera-airflow-provider==2.4.0"


def python_of(version: str) -> Path:
    """Return the Python of an environment with an Airflow, its providers and what maint needs, but no maint.

    It is made where there is none, half of one, or one of other packages; another process that makes it is waited for.

    Raises:
        subprocess.CalledProcessError: it cannot be made; pip has said why.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "maint-tests"
    of = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache / f"airflow-{version}-py{of}"
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    first = [f"apache-airflow[celery]=={version}", CELERY, CLOUDERA]
    then = [f"apache-airflow=={version}", *needed]
    contents = "\n".join([*first, NAMED, *then])
    cache.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole, python = folder / "whole", folder / "bin" / "python"
        if not whole.exists() or whole.read_text() != contents:
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            pip(python, *first, *constraints(version, of, folder))
            pip(python, *then)
            whole.write_text(contents)
    return python


def constraints(version: str, python: str, folder: Path) -> list[str]:
    """Return pip's words for the versions that Airflow was released with; none where they cannot be had."""
    if NAMED:
        return ["-c", NAMED]
    path = folder / "constraints.txt"
    try:
        with urllib.request.urlopen(CONSTRAINTS.format(version=version, python=python), timeout=20) as answer:
            path.write_bytes(answer.read())
    except OSError as error:
        sys.stderr.write(
            f"Airflow's constraints cannot be had ({error}): the newest of what it needs is taken;"
            " MAINT_TESTS_AIRFLOW_CONSTRAINTS can name a file or URL that has them\n"
        )
        return []
    return ["-c", str(path)]


def pip(python: Path, *words: str) -> None:
    """Install packages; what constrains the environment of these tests is not for that one."""
    outside = {key: value for key, value in os.environ.items() if key not in ("PIP_CONSTRAINT", "PYTHONPATH")}
    subprocess.run([python, "-m", "pip", "install", "-q", *words], env=outside, check=True)
