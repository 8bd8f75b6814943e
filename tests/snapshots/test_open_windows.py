"""What signed records tell of redaction windows, and what they tell where a store does not answer."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.errors import WorkFailed
from maint.snapshots.open_windows import (
    Announced,
    OpenedFile,
    announce,
    announced,
    announced_here,
    close_announced,
    is_ours,
    settle,
    was_closed,
)

RUN, ANOTHER = "20261121T021500.123Z-4f3a", "20261121T021500.123Z-4f3b"
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
    announce(place, RUN, "2026-11-21T02:15:00.123Z", HOSTS)
    told = announced(place)
    (window,) = told.open
    assert (window.run, window.hosts, is_ours(place, window)) == (RUN, HOSTS, True)
    assert f"run {RUN}" in window.words
    assert [one for one in told.doubts if "could not be asked" in one]
    (problem,) = close_announced(place, RUN, window.opened_at)
    assert f"could not be told that the window of run {RUN} is closed" in problem
    assert announced(place).open == []


def test_a_window_of_which_no_store_takes_the_record_is_not_opened(place: Any, second: Path) -> None:
    block(place.root)
    block(second)
    with pytest.raises(WorkFailed):
        announce(place, RUN, "2026-11-21T02:15:00.123Z", HOSTS)
    place.settings = place.settings.model_copy(update={"backup": None})
    announce(place, RUN, "2026-11-21T02:15:00.123Z", HOSTS)
    assert (announced(place).open, close_announced(place, RUN, "")) == ([], [])
    assert announced_here(place) == Announced()


def test_that_the_hosts_were_looked_at_is_told_where_a_store_takes_it_and_where_one_does_not(
    place: Any, second: Path
) -> None:
    names = [f"prod/records/20261121T021500.123Z-window-{RUN}.json"]
    block(place.root)
    told = Announced(unread={one.location: names for one in (place.store, *place.copies)})
    (problem,) = settle(place, told)
    assert f"what was seen is not kept in {place.store.location}" in problem
    assert [one.name for one in (second / "prod/records").glob("*-looked-*.json")]


def test_that_a_window_was_closed_is_known_only_where_a_record_says_so(place: Any, second: Path) -> None:
    opened_at = "2026-11-21T02:15:00.123Z"
    announce(place, RUN, opened_at, HOSTS)
    assert not was_closed(place, RUN, opened_at)
    assert close_announced(place, RUN, opened_at) == []
    assert [was_closed(place, run, opened_at) for run in (RUN, ANOTHER)] == [True, False]
    block(place.root)
    assert not was_closed(place, RUN, opened_at)
