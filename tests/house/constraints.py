"""Write down what was tested: the exact versions of this environment, with the hashes of their wheels.

    python -m tests.house.constraints            # rewrites maint/cli/constraints.txt
    python -m tests.house.constraints --oldest   # prints the oldest release of each dependency that is admitted

Wheels of every Python that the package admits are looked up for Linux on x86-64, and for what is pure Python for all.
"""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from maint.cli.packaging import FILE
from tests.house.source import ROOT

PYTHONS = ("3.11", "3.12", "3.13")
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64")
HEAD = "# What was tested, on Linux x86-64; written by `python -m tests.house.constraints`.\n"


def resolved(python: str, wanted: list[str]) -> dict[str, tuple[str, str]]:
    """Return what pip would install for a Python: name → its version and the SHA-256 of its wheel."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    words += ["--only-binary=:all:", "--python-version", python, "--target", "/nonexistent"]
    words += [part for platform in PLATFORMS for part in ("--platform", platform)]
    told = subprocess.run([*words, *wanted], capture_output=True, text=True, check=True, cwd=ROOT)
    found = {}
    for one in json.loads(told.stdout)["install"]:
        hashes = one["download_info"]["archive_info"]["hashes"]
        found[one["metadata"]["name"].lower().replace("_", "-")] = (one["metadata"]["version"], hashes["sha256"])
    return found


def requirements() -> list[str]:
    """Return the requirements of the package and of its store in S3."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["s3"]]


def oldest() -> list[str]:
    """Return the requirements with the oldest release that each admits."""
    return [re.sub(">=([^,]+).*", r"==\1", one) for one in requirements()]


def pinned(requirement: str) -> str:
    """Return a requirement with the version that is installed here."""
    name = requirement.split(">")[0].split("=")[0].split("[")[0].strip()
    return f"{name}=={version(name)}"


def main() -> None:
    """Resolve, hold against this environment, and write the file."""
    lines: dict[str, tuple[str, set[str]]] = {}
    for python in PYTHONS:
        for name, (number, digest) in resolved(python, [pinned(one) for one in requirements()]).items():
            known = lines.setdefault(name, (number, set()))
            assert known[0] == number, f"{name}: {known[0]} and {number}"
            known[1].add(digest)
    for name, (number, _) in lines.items():
        try:
            assert version(name) == number, f"{name}: {version(name)} is tested, {number} would be installed"
        except PackageNotFoundError:
            sys.stderr.write(f"{name} is for other Pythons than this one\n")
    text = [f"{name}=={number} " + " ".join(f"--hash=sha256:{one}" for one in sorted(hashes))
            for name, (number, hashes) in sorted(lines.items())]  # fmt: skip
    Path(FILE).write_text(HEAD + "\n".join(text) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--oldest"]:
        sys.stdout.write("\n".join(oldest()) + "\n")
    else:
        main()
