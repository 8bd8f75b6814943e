"""The product as it is installed: built, put into an empty environment, run from another folder."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import maint
from tests.house.source import PACKAGE, ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel and the sdist, built without a network."""
    target = tmp_path_factory.mktemp("dist")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), str(ROOT)]
    subprocess.run(words, check=True, capture_output=True, cwd=target)
    return target


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """Return the wheel."""
    (found,) = built.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def run(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return a function that runs the installed `maint` from another folder, with an empty home."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place / "env", with_pip=False)
    python = place / "env/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True, capture_output=True)
    # Our dependencies come from where these tests run; a path in a .pth brings no editable install along.
    (site,) = (place / "env").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    home = place / "home"
    home.mkdir()

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        environ = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        command = [str(place / "env/bin/maint"), *words]
        return subprocess.run(command, cwd=home, env=environ, capture_output=True, text=True, check=True)

    yield call
    assert list(home.iterdir()) == [], "a command that only tells something wrote into the home folder"


def test_the_installed_product_is_not_the_checkout(run: Run) -> None:
    shipped = run("playbook", "show", "probe", "-o", "json").stdout
    assert '"name": "probe"' in shipped
    assert str(ROOT) not in shipped


def test_it_tells_its_version(run: Run) -> None:
    assert run("--version").stdout == f"maint {maint.__version__}\n"


def test_it_lists_and_checks_its_playbooks_without_a_config(run: Run) -> None:
    listed = run("playbook", "list").stdout
    assert [path.stem for path in (ROOT / "playbooks").glob("*.yaml") if path.stem not in listed] == []
    assert "disaster-recovery: no mistakes" in run("playbook", "lint").stderr


def test_it_shows_its_help(run: Run) -> None:
    topics = run("help").stdout.split()
    assert [path.stem for path in (PACKAGE / "help").glob("*.md") if path.stem not in (*topics, "README")] == []
    assert run("help", "restore").stdout.startswith("# Restore")
    assert json.loads(run("help", "changelog", "-o", "json").stdout)["text"] == (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_holds_playbooks_templates_and_help_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("playbooks", "templates"):
        wanted = {f"maint/_bundled/{folder}/{path.name}" for path in (ROOT / folder).iterdir() if path.is_file()}
        assert wanted <= names
    assert {f"maint/help/{path.name}" for path in (PACKAGE / "help").glob("*.md")} <= names
    assert {"maint/lab/data/deployment-example.json", "maint/py.typed"} <= names
    assert {name.split("/")[0] for name in names} == {"maint", f"maint-{maint.__version__}.dist-info"}
    assert [name for name in names if name.rpartition("/")[2].startswith(("test_", "conftest"))] == []


def test_the_wheel_is_the_same_bytes_whenever_and_wherever_it_is_built(wheel: Path, tmp_path: Path) -> None:
    """The one was built from the sdist, the other from the checkout: other places, other times of files."""
    words = [sys.executable, "-c", "import sys, hatchling.build as it; it.build_wheel(sys.argv[1])", str(tmp_path)]
    environ = {**os.environ, "TZ": "Pacific/Auckland"}
    subprocess.run(words, check=True, capture_output=True, cwd=ROOT, env=environ, umask=0o077)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()
    environ["SOURCE_DATE_EPOCH"] = "1700000000"
    subprocess.run(words, check=True, capture_output=True, cwd=ROOT, env=environ)
    assert (tmp_path / wheel.name).read_bytes() != wheel.read_bytes()  # its times are those that are asked for


def test_the_sdist_holds_all_that_a_build_and_the_tests_need(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("playbooks", "templates"):
        assert {f"{folder}/{item.name}" for item in (ROOT / folder).iterdir() if item.is_file()} <= names
    assert {"pyproject.toml", "README.md", "tests/house/test_wheel.py", "maint/cli/app.py"} <= names
