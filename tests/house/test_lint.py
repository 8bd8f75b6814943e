"""The type checker and the linter find nothing, and what no test runs can be loaded."""

import subprocess
import sys
from importlib import import_module

import pytest

from tests.house.source import ROOT


def test_every_function_is_typed_and_the_types_agree() -> None:
    ended = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_the_linter_finds_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "maint", "tests"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "tests" / "benchmarks").glob("*.py")))
def test_every_benchmark_can_be_loaded(name: str) -> None:
    import_module(f"tests.benchmarks.{name}")  # which no test runs
