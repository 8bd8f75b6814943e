"""Which licence a restore uploads: one rule, asked at the time of use."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from maint.errors import Invalid, Refused
from maint.model.manager import License
from maint.restore.select_snapshot import usable_license
from maint.snapshots.capture import take
from maint.snapshots.parts import LICENSE

Run = Callable[[Any], Any]
TODAY, PAST, NEXT = "2026-11-21", "2026-11-20", "2027-01-01"


def text(uuid: str, day: str) -> bytes:
    return f'{{"name": "x", "uuid": "{uuid}", "expirationDate": "{day}"}}'.encode()


@pytest.fixture
def offered(place: Any, run: Run, tmp_path: Path) -> Callable[..., Any]:
    """Give the manager, the config and a snapshot a licence each, by the days on which they expire."""

    def give(own: str = "", config: str = "", part: str = "") -> Any:
        path = tmp_path / "license.txt"
        path.write_bytes(text("part", part)) if part else path.unlink(missing_ok=True)
        place.manage(license=path)
        snapshot = run(take(place)).snapshot
        path.write_bytes(text("config", config)) if config else path.unlink(missing_ok=True)
        place.manager.license = lambda: License("x", "own", own) if own else None
        return snapshot

    return give


@pytest.mark.parametrize(
    ("own", "config", "part", "wanted"),
    [
        (NEXT, NEXT, NEXT, "own"),
        (PAST, NEXT, NEXT, "config"),
        ("", TODAY, NEXT, "config"),
        (PAST, PAST, NEXT, "part"),
        ("", "", NEXT, "part"),
        ("", NEXT, PAST, "config"),
    ],
)
def test_the_first_in_date_counts(
    place: Any, offered: Callable[..., Any], own: str, config: str, part: str, wanted: str
) -> None:
    found = usable_license(place, snapshot=offered(own, config, part))
    assert found.text.uuid == wanted
    assert (found.content is None) == (wanted == "own")


@pytest.mark.parametrize(
    ("days", "words"),
    [({"starts": f"{NEXT}T00:00:00.000Z"}, "is not valid before"), ({"deactivated": PAST}, "was deactivated on")],
)
def test_the_managers_own_counts_no_more_than_a_file_that_begins_or_ends_on_the_same_days(
    place: Any, offered: Callable[..., Any], days: dict[str, str], words: str
) -> None:
    snapshot = offered("", NEXT, "")
    place.manager.license = lambda: License("x", "own", "2028-01-01", **days)
    assert usable_license(place, snapshot=snapshot).text.uuid == "config"
    place.settings.manager.license.unlink()
    with pytest.raises(Refused, match="no licence in date") as caught:
        usable_license(place, snapshot=snapshot)
    assert f"the manager's own {words}" in caught.value.detail[0]


@pytest.mark.parametrize(("config", "wanted"), [(NEXT, "config"), ("", "part"), (PAST, "part")])
def test_a_trial_of_the_managers_keeps_no_real_licence_out(
    place: Any, offered: Callable[..., Any], config: str, wanted: str
) -> None:
    snapshot = offered("", config, NEXT)
    place.manager.license = lambda: License("Trial", "none", "")
    assert usable_license(place, snapshot=snapshot).text.uuid == wanted


def test_a_trial_counts_where_there_is_no_other_licence(place: Any, offered: Callable[..., Any]) -> None:
    snapshot = offered("", "", PAST)
    place.manager.license = lambda: License("Trial", "none", "")
    found = usable_license(place, snapshot=snapshot)
    assert (found.source, found.trial) == ("the manager", True)


def test_a_named_file_always_counts(place: Any, offered: Callable[..., Any], tmp_path: Path) -> None:
    snapshot, named = offered(NEXT, NEXT, NEXT), tmp_path / "named.txt"
    named.write_bytes(text("named", NEXT))
    assert usable_license(place, file=str(named), snapshot=snapshot).text.uuid == "named"
    named.write_bytes(text("named", PAST))
    with pytest.raises(Refused, match="out of date"):
        usable_license(place, file=str(named), snapshot=snapshot)
    with pytest.raises(Invalid, match="cannot be read"):
        usable_license(place, file=str(tmp_path / "none.txt"), snapshot=snapshot)


def test_where_none_is_in_date_each_is_named(place: Any, offered: Callable[..., Any]) -> None:
    with pytest.raises(Refused, match="no licence in date") as caught:
        usable_license(place, snapshot=offered(PAST, PAST, PAST))
    assert [line.rpartition(" ")[2] for line in caught.value.detail] == [PAST] * 3


def test_what_cannot_be_read_is_named_beside_what_is_out_of_date(place: Any, offered: Callable[..., Any]) -> None:
    snapshot = offered(PAST, NEXT, NEXT)
    place.settings.manager.license.write_text("no licence at all")
    (place.folder(snapshot.id) / LICENSE).write_bytes(b"rotten")
    with pytest.raises(Refused, match="no licence in date") as caught:
        usable_license(place, snapshot=snapshot)
    own, config, part = caught.value.detail
    assert PAST in own
    assert f"{place.settings.manager.license}: it is not a licence file" in config or "not a licence file" in config
    assert f"the licence in snapshot {snapshot.id}: " in part and "is not what was stored" in part
