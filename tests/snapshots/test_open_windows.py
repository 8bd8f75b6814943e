"""What signed records tell of redaction windows, and what they tell where a store does not answer."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.errors import WorkFailed
from maint.snapshots.open_windows import OpenedFile, announce, announced, close_announced, is_ours

HOSTS = {"cm": OpenedFile("absent", "0" * 64)}


@pytest.fixture
def second(place: Any, tmp_path: Path) -> Path:
    place.copies = [LocalStore(tmp_path / "second")]
    return tmp_path / "second"


def block(folder: Path) -> None:
    """Make a store impossible: a file stands where its folder should be."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("")


def test_a_window_is_told_by_the_first_store_that_takes_the_record_until_it_is_closed(place: Any, second: Path) -> None:
    block(place.root)
    announce(place, "run-1", "2026-11-21T02:15:00.123Z", HOSTS)
    told = announced(place)
    (window,) = told.open
    assert (window.run, window.hosts, is_ours(place, window)) == ("run-1", HOSTS, True)
    assert "run run-1" in window.words
    assert [one for one in told.doubts if "could not be asked" in one]
    (problem,) = close_announced(place, "run-1", window.opened_at)
    assert "still says that the window of run run-1 is open" in problem
    assert announced(place).open == []


def test_a_window_of_which_no_store_takes_the_record_is_not_opened(place: Any, second: Path) -> None:
    block(place.root)
    block(second)
    with pytest.raises(WorkFailed):
        announce(place, "run-1", "2026-11-21T02:15:00.123Z", HOSTS)
    place.settings = place.settings.model_copy(update={"backup": None})
    announce(place, "run-1", "2026-11-21T02:15:00.123Z", HOSTS)
    assert (announced(place).open, close_announced(place, "run-1", "")) == ([], [])
