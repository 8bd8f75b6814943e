"""Losing virtual clusters in a lab, and making them again as the vendor's UI does, with the lab's own commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from maint.lab import control
from tests.steps.operator import maint

NAME = "Default-VC-abc12345"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "lab"
    yield place
    control.down(place)


def addresses(folder: Path) -> list[str]:
    return [str(each["base_url"]) for each in control.status(folder)["virtual_clusters"]]


def test_what_is_lost_keeps_its_address_in_the_config_until_the_lab_comes_up_again(folder: Path) -> None:
    where, config = ("--folder", str(folder)), folder / "config.yaml"
    assert maint("lab", "up", *where).code == 0
    (old,) = addresses(folder)
    assert maint("lab", "break", "virtual-clusters", "lost", *where).code == 0
    assert addresses(folder) == []
    made = maint("lab", "up", "--virtual-cluster", NAME, *where)
    assert made.code == 0, made.err
    (new,) = addresses(folder)
    assert new != old and new in made.err
    assert old in config.read_text() and new not in config.read_text()
    assert maint("lab", "up", "--virtual-cluster", NAME, "--fresh", *where).code == 5
    assert maint("lab", "down", *where).code == 0
    assert maint("lab", "up", *where).code == 0
    assert new in config.read_text() and old not in config.read_text()
