"""Licence files: one reader for all who ask."""

from datetime import UTC, datetime

import pytest

from maint.errors import Invalid
from maint.snapshots.license import check, parse

NOW = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


def licence(**fields: str) -> bytes:
    inner = ", ".join(f'"{key}" : "{value}"' for key, value in fields.items())
    return f"-----BEGIN PGP SIGNED MESSAGE-----\n\n{{ {inner} }}\n-----BEGIN PGP SIGNATURE-----\n{{x\n".encode()


@pytest.mark.parametrize("day", ["2026-11-21", "11/21/2026", "2026-11-21T00:00:00.000Z"])
def test_a_licence_counts_until_the_end_of_its_last_day_however_it_is_written(day: str) -> None:
    content = licence(name="x", uuid="u", expirationDate=day)
    assert check(content, NOW).passed is True
    assert parse(content, "it").objection(NOW) == ""
    later = datetime(2026, 11, 22, tzinfo=UTC)
    assert check(content, later).passed is False
    assert "expired on" in parse(content, "it").objection(later)


def test_one_that_has_not_begun_or_names_no_day_is_told() -> None:
    early = licence(name="x", uuid="u", expirationDate="2030-01-01", startDate="2027-01-01")
    assert check(early, NOW).passed is False
    assert "not valid before" in parse(early, "it").objection(NOW)
    ended = licence(name="x", uuid="u", expirationDate="2030-01-01", deactivationDate="2026-01-01")
    assert "deactivated" in check(ended, NOW).words
    assert check(licence(name="x", uuid="u"), NOW).passed is None


@pytest.mark.parametrize("content", [b"", b"no licence", b"{ broken", b"[1]", licence(name="x")])
def test_what_is_no_licence_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="it is no licence file"):
        parse(content, "it")
