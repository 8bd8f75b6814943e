"""Whether a backup begins on a disk that has no room for it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maint.errors import Refused
from maint.snapshots import capture
from maint.snapshots.capture import largest, refuse_full, shut


def free(monkeypatch: pytest.MonkeyPatch, bytes_: int | OSError) -> None:
    def usage(folder: Any) -> Any:
        if isinstance(bytes_, OSError):
            raise bytes_
        return SimpleNamespace(free=bytes_)

    monkeypatch.setattr(capture.shutil, "disk_usage", usage)


def test_a_disk_without_room_is_refused_by_its_folder(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    free(monkeypatch, 1)
    with pytest.raises(Refused) as caught:
        refuse_full(place)
    assert any(str(place.root) in words for words in caught.value.detail)
    assert caught.value.hint


def test_a_disk_that_cannot_be_looked_into_keeps_nobody_from_a_backup(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(monkeypatch, OSError(5, "Input/output error"))
    refuse_full(place)


def test_a_store_that_is_away_tells_no_size(place: Any) -> None:
    place.root.rename(place.root.with_name("away"))
    place.root.write_text("a file where the folder should be")
    assert largest(place) == 0


def test_a_folder_that_goes_while_it_is_looked_at_is_not_said_to_be_closed(tmp_path: Path) -> None:
    assert shut(tmp_path / "gone") == ""
