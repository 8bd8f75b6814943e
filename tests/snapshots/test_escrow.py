"""Whether the private key of each recipient opens a snapshot is tried, and nothing is guessed."""

from typing import Any

import pytest
from msgspec.structs import replace

from maint.model.secret import Secret
from maint.snapshots.capture import take
from maint.snapshots.recipients import escrow


@pytest.fixture
def snapshot(place: Any, run: Any) -> Any:
    return run(take(place)).snapshot


def configure(place: Any, *recipients: str) -> None:
    backup = place.settings.backup.model_copy(update={"recipients": recipients})
    place.settings = place.settings.model_copy(update={"backup": backup})


def test_a_key_that_is_here_opens_it_and_comments_above_it_do_no_harm(place: Any, snapshot: Any) -> None:
    place.keys = [Secret(f"# created: today\n{place.identity.reveal()}\n")]
    (told,) = escrow(place, snapshot)
    assert (told.opens, told.recipient) == (True, snapshot.recipients[0])


def test_of_a_key_that_is_not_here_nothing_is_known(place: Any, snapshot: Any) -> None:
    place.keys = []
    (told,) = escrow(place, snapshot)
    assert (told.opens, "is not here" in told.words) == (None, True)


def test_who_became_a_recipient_later_cannot_open_it(place: Any, snapshot: Any) -> None:
    configure(place, *snapshot.recipients, place.seal.new_identity()[1])
    first, second = escrow(place, snapshot)
    assert (first.opens, second.opens, "became a recipient later" in second.words) == (True, False, True)


def test_a_manifest_that_names_a_recipient_who_cannot_open_it_is_found_out(place: Any, snapshot: Any) -> None:
    other, recipient = place.seal.new_identity()
    place.keys = [other]
    configure(place, recipient)
    (told,) = escrow(place, replace(snapshot, recipients=(recipient,)))
    assert (told.opens, "does not open" in told.words) == (False, True)


def test_where_nothing_is_sealed_or_no_backup_is_configured_nothing_is_told(place: Any, snapshot: Any) -> None:
    assert list(escrow(place, replace(snapshot, parts=()))) == []
    place.settings = place.settings.model_copy(update={"backup": None})
    assert list(escrow(place, snapshot)) == []
