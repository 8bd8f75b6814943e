"""`maint site report`: the pages of real sites, written by the command and after each run."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.config.yaml import load
from maint.lab.running import Lab
from tests.steps.conftest import copy
from tests.steps.operator import SITE, Operator, maint


@pytest.fixture(scope="module")
def operator(backed_up: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("report")
    with Lab(copy(backed_up, folder / "lab")) as lab:
        operator = Operator(lab)
        path = Path(operator.config)
        whole: Any = load(path.read_text(), "config").data
        away = {
            "manager": {"host": "cm2", "password": "prompt"},
            "backup": {"store": str(folder / "blocked"), "identity": "env:X"},
        }
        whole["sites"]["away"] = away
        (folder / "blocked").write_text("in the way")
        whole["sites"][SITE]["backup"]["copies"] = [str(folder / "copy")]
        whole["report"] = {"folder": str(folder / "pages")}
        path.write_text(json.dumps(whole))
        yield operator


def test_each_run_writes_the_pages_and_the_command_those_of_all(operator: Operator, tmp_path: Path) -> None:
    pages = Path(operator.config).parent.parent / "pages"
    said = maint("backup", "drill", "--site", SITE, "--allow-plain", "--config", operator.config)
    assert said.code == 0, said.err
    assert sorted(path.name for path in pages.iterdir()) == ["index.html", f"{SITE}.html"]
    page = (pages / f"{SITE}.html").read_text()
    newest = next(path.name for path in sorted((operator.lab.folder / "backups" / SITE).glob("2*")))
    assert f"<span>{newest}</span>" in page and "Back in (last drill)" in page
    assert "lacks 1 snapshot" in page
    assert "away" in (pages / "index.html").read_text()
    said = maint(
        "site", "report", "--to", str(tmp_path / "out"), "--site", "away", "-o", "json", "--config", operator.config
    )
    assert said.code == 0, said.err
    assert {Path(one).name for one in said.json["pages"]} == {"index.html", "away.html", f"{SITE}.html"}
    away = (tmp_path / "out/away.html").read_text()
    assert "nothing is known of its backups" in away
    assert "There is no way back" not in away and "No restore has been rehearsed" not in away
    assert ">away<" in (tmp_path / "out/index.html").read_text()


def test_of_several_sites_at_once_the_pages_are_written_once_when_all_have_ended(operator: Operator) -> None:
    pages = Path(operator.config).parent.parent / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    words = ("backup", "verify", "--level", "1", "--allow-plain", "--config", operator.config)
    assert maint(*words, "--site", SITE, MAINT_ONE_OF_MANY="1").code == 0
    assert not pages.exists()
    said = maint(*words, "--all", "-o", "json")
    assert {one["site"]: one["exit"] for one in said.json["sites"]}[SITE] == 0
    assert {"index.html", f"{SITE}.html"} <= {path.name for path in pages.iterdir()}
    written = (pages / "index.html").stat().st_mtime_ns
    maint("backup", "list", *words[4:], "--all")
    assert (pages / "index.html").stat().st_mtime_ns == written


def test_a_folder_is_asked_for_where_the_config_names_none(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text('sites: {one: {manager: {host: cm, password: "prompt"}}}\n')
    said = maint("site", "report", "--config", str(config))
    assert said.code == 2 and "--to FOLDER" in said.err


def test_a_folder_in_the_home_folder_is_found_there(operator: Operator, tmp_path: Path) -> None:
    said = operator("site", "report", "--to=~/pages", "--dry-run", HOME=str(tmp_path))
    assert (said.code, f"would write pages into {tmp_path}/pages") == (0, said.out.strip())
