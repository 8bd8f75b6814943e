"""What was tested gets to other machines: constraints, a bundle without a network, a container."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from importlib.metadata import distributions, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import maint as maint_itself
from maint.cli import packaging
from maint.cli.help.output_schemas import schema_of
from maint.errors import WorkFailed
from maint.render import from_file
from tests.cli.test_outputs import fits
from tests.house import constraints
from tests.house.source import ROOT
from tests.steps.operator import maint


def names(text: str) -> dict[str, str]:
    """Return the versions that lines pin."""
    return dict(line.split(" ")[0].split("==") for line in text.splitlines())


def needed(names: set[str]) -> set[str]:
    """Return distributions with all that they need here, and what those need."""
    todo, found = list(names), set[str]()
    while todo:
        if (name := todo.pop()) not in found:
            found.add(name)
            all_of_it = [Requirement(one) for one in requires(name) or ()]
            todo += [
                canonicalize_name(one.name) for one in all_of_it if not one.marker or one.marker.evaluate({"extra": ""})
            ]
    return found


def test_constraints_name_every_dependency_once_and_with_hashes_where_asked():
    plain, hashed = maint("generate", "constraints").out, maint("generate", "constraints", "--hashes").out
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = needed({Requirement(one).name.lower() for one in project["dependencies"]} | {"botocore"})
    assert len(wanted) > 20 and wanted - set(names(plain)) == set()
    assert names(plain) == names(hashed)
    assert "--hash" not in plain
    assert all(re.search(r"( --hash=sha256:[0-9a-f]{64})+$", line) for line in hashed.splitlines())


def test_constraints_are_what_these_tests_run_with():
    """Held where the suite installs from them; another machine may have resolved newer releases."""
    if "MAINT_TESTS_NEED_REAL_PARTS" not in os.environ:
        pytest.skip("only where the environment was installed from the constraints")
    here = {name: version(name) for name in names(packaging.tested()) if name != "typing-extensions"}
    assert here == {name: number for name, number in names(packaging.tested()).items() if name in here}


def test_each_dependency_is_bounded_by_its_oldest_and_its_newest_release_that_were_tried():
    """The oldest of all are installed by `.ci/run`; the newest is of the last line of releases that is admitted."""
    tested = names(packaging.tested())
    for one in map(Requirement, constraints.requirements()):
        first, last = sorted(one.specifier, key=lambda each: each.operator, reverse=True)
        assert (first.operator, last.operator) == (">=", "<"), one
        newest = Version(tested[one.name])
        assert newest in one.specifier and Version(last.version) <= Version(str(newest.major + 1)), one
        assert f"{one.name}=={first.version}" in constraints.oldest()
    assert "pip install -q -r .venv-oldest && .venv/bin/pytest" in (ROOT / ".ci/run").read_text()


def test_known_vulnerabilities_of_what_was_tested_are_looked_up_but_those_accepted_until_a_day(tmp_path):
    script = (ROOT / ".ci/run").read_text()
    suite, audit = script.split("/pip-audit --strict", 1)
    assert ".venv/bin/pytest" in suite and "-r .venv-constraints" in audit.splitlines()[0]
    (reading,) = re.findall(r"< <\((.+)\)$", script, re.MULTILINE)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci/advisories").write_text(
        "# ID DATE WHY\nCVE-2026-1 2999-01-01 not reached\nPYSEC-2020-2 2020-01-01 past\n"
    )
    said = subprocess.run(["bash", "-c", reading], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert said.stdout == "--ignore-vuln=CVE-2026-1\n"


def test_pip_takes_the_constraints(tmp_path):
    file = tmp_path / "constraints.txt"
    file.write_text(packaging.tested())
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


@pytest.mark.parametrize("step", [packaging.own_wheel, lambda folder: packaging._fetch(folder, "")])
def test_pip_may_take_so_long_and_no_longer_whatever_it_does(step, tmp_path, monkeypatch):
    monkeypatch.setattr(packaging, "_LIMIT", 0.01)
    with pytest.raises(WorkFailed, match=r"pip took longer than 0.01 s") as caught:
        step(tmp_path)
    assert "pip config list" in str(caught.value.hint)


def test_a_place_that_takes_no_bundle_is_told_before_anything_is_fetched(monkeypatch):
    monkeypatch.setattr(packaging, "_LIMIT", 0.01)  # with which every fetch fails
    said = maint("generate", "bundle", "--to", "/proc/nowhere/bundle.tar.gz")
    assert (said.code, "/proc/nowhere/bundle.tar.gz cannot be written" in said.err) == (1, True), said.err


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle, made as an operator makes it, unpacked."""
    folder = tmp_path_factory.mktemp("bundle")
    said = maint("generate", "bundle", "--to", str(folder / "bundle.tar.gz"), "-o", "json")
    if said.code and "MAINT_TESTS_NEED_REAL_PARTS" not in os.environ:
        pytest.skip("no package index is at hand")
    assert said.code == 0, said.err
    schema = schema_of("output", "generate bundle")
    assert fits(said.json, schema, schema["$defs"])
    assert said.json["sha256"] == hashlib.sha256((folder / "bundle.tar.gz").read_bytes()).hexdigest()
    with tarfile.open(folder / "bundle.tar.gz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # which 3.11.2 lacks
        archive.extractall(folder)
    (found,) = (path for path in folder.iterdir() if path.is_dir())
    return found


# Makes an environment as `python -m venv` does, but takes the pip of this one, which need not be unpacked for it.
PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] && [ $# = 3 ] || exec {python} "$@"
{python} -m venv --without-pip "$3"
printf '#!/bin/sh\\nexec {python} -m pip --python "%s" "$@"\\n' "$3/bin/python" > "$3/bin/pip"
chmod +x "$3/bin/pip"
"""


def test_a_bundle_installs_without_a_network(bundled: Path, tmp_path: Path):
    """In a network namespace of its own, where nothing can be reached, where the machine lets us have one."""
    alone = ["unshare", "-rn"] if subprocess.run(["unshare", "-rn", "true"], check=False).returncode == 0 else []
    (tmp_path / "python").write_text(PYTHON.format(python=sys.executable))
    (tmp_path / "python").chmod(0o755)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHON": str(tmp_path / "python"),
        "PIP_NO_INDEX": "1",
        "PIP_COMPILE": "0",
    }
    words = [*alone, "sh", str(bundled / "install.sh"), str(tmp_path / "opt")]
    ran = subprocess.run(words, env=env, cwd="/", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert f"maint {maint_itself.__version__}\ninstalled" in ran.stdout  # the script asks what it has installed
    (there,) = (tmp_path / "opt/lib").glob("python3*/site-packages")
    assert (there / "maint/cli/constraints.txt").read_text() == packaging.FILE.read_text()
    installed = {canonicalize_name(one.name): one.version for one in distributions(path=[str(there)])}
    assert installed == {**names(packaging.tested()), "maint": maint_itself.__version__}


def test_a_changed_wheel_is_not_installed(bundled: Path, tmp_path: Path):
    wheel = next((bundled / "wheels").glob("rich-*.whl"))
    before = wheel.read_bytes()
    try:
        wheel.write_bytes(before + b"x")
        words = ["sh", str(bundled / "install.sh"), str(tmp_path / "opt")]
        assert subprocess.run(words, capture_output=True, check=False).returncode != 0
        assert not (tmp_path / "opt").exists()
    finally:
        wheel.write_bytes(before)


def test_what_is_installed_makes_the_wheel_it_came_from_again(tmp_path: Path):
    """Files of an installation, packed twice, are equal bytes: nothing of the time or the place is in them."""
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels/a.whl").write_text("a")
    assert packaging.packed(tmp_path) == packaging.packed(tmp_path)


def test_the_script_of_a_bundle_is_sound_shell(tmp_path: Path):
    file = tmp_path / "install.sh"
    file.write_text(from_file("install.sh.j2", {"version": "1", "wheel": "maint-1-py3-none-any.whl"}))
    assert subprocess.run(["sh", "-n", str(file)], check=False).returncode == 0
    if program := shutil.which("shellcheck"):
        ran = subprocess.run([program, str(file)], capture_output=True, text=True, check=False)
        assert ran.stdout == ""


def test_the_containerfile_is_rootless_and_keeps_its_state_in_a_volume(tmp_path: Path):
    text = maint("generate", "container").out
    lines = text.splitlines()
    assert "USER 10001:10001" in lines
    assert 'VOLUME ["/var/lib/maint"]' in lines
    assert [line for line in lines if line.startswith(("ADD ", "RUN apt", "RUN curl"))] == []
    assert (
        maint("generate", "container", "--image", "registry.example/python:3.12").out.count("FROM registry.example")
        == 2
    )
    for strange in ("", "python:3.11\nRUN true", "python 3.11"):
        said = maint("generate", "container", "--image", strange)
        assert (said.code, said.out, "is not a name of an image" in said.err) == (2, "", True)
    if program := shutil.which("hadolint"):
        file = tmp_path / "Containerfile"
        file.write_text(text)
        ran = subprocess.run([program, str(file)], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (0, "")


def test_without_an_index_a_bundle_says_what_pip_said(tmp_path: Path, monkeypatch):
    (tmp_path / "pip.py").write_text("open('ran', 'w')")  # what lies in the working folder is not pip
    monkeypatch.chdir(tmp_path)
    said = maint("generate", "bundle", "--to", str(tmp_path / "b.tar.gz"), PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert (said.code, "pip could not fetch what was tested" in said.err) == (1, True), said.err
    assert [one.name for one in tmp_path.iterdir()] == ["pip.py"]


@pytest.mark.parametrize("size", ["4k", "300k"])  # what maint writes itself, and what pip writes
def test_a_full_disk_is_told_as_that_and_not_as_trouble_with_pip(tmp_path: Path, size: str, monkeypatch):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", tmp_path]).returncode:
        pytest.skip("this account may not mount a file system")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    try:
        said = maint("generate", "bundle", "--to", f"{tmp_path}.tar.gz", TMPDIR=str(tmp_path))
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)
    assert (said.code, "No space left on device" in said.err, "TMPDIR" in said.err) == (1, True, True)
    assert "pip could not" not in said.err, said.err


def test_the_script_of_a_bundle_refuses_what_was_changed_and_an_old_python(tmp_path: Path):
    script, sums = tmp_path / "install.sh", tmp_path / "SHA256SUMS"
    script.write_text(from_file("install.sh.j2", {"version": "1", "wheel": "maint-1-py3-none-any.whl"}))
    words = ["sh", str(script), str(tmp_path / "opt")]
    sums.write_text(f"{'0' * 64}  install.sh\n")
    ran = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    assert (ran.returncode != 0, "computed checksum did NOT match" in ran.stderr) == (True, True)
    sums.write_text(f"{hashlib.sha256(script.read_bytes()).hexdigest()}  install.sh\n")
    ran = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "PYTHON": "false"})
    assert (ran.returncode, "Python 3.11 or newer is needed" in ran.stderr) == (1, True)
    assert not (tmp_path / "opt").exists()


def test_a_relative_folder_counts_from_where_the_script_is_called(tmp_path: Path):
    """What stands for Python here only tells where the environment would be made."""
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    (unpacked / "install.sh").write_text(
        from_file("install.sh.j2", {"version": "1", "wheel": "maint-1-py3-none-any.whl"})
    )
    digest = hashlib.sha256((unpacked / "install.sh").read_bytes()).hexdigest()
    (unpacked / "SHA256SUMS").write_text(f"{digest}  install.sh\n")
    (tmp_path / "python").write_text('#!/bin/sh\n[ "$1" = -c ] || { echo "$3"; exit 1; }\n')
    (tmp_path / "python").chmod(0o755)
    env = {**os.environ, "PYTHON": str(tmp_path / "python")}
    words = ["sh", "unpacked/install.sh", "opt"]
    ran = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == str(tmp_path / "opt"), ran.stderr


def test_a_store_of_s3_without_its_library_names_the_extra(tmp_path: Path):
    (tmp_path / "botocore.py").write_text("raise ImportError\n")
    code = "import maint.adapters.stores.s3"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert "S3 stores need botocore, which is not installed" in ran.stderr
