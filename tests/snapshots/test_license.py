"""Licence files: one reader for all who ask."""

from datetime import UTC, datetime

import pytest

from maint.errors import Invalid
from maint.snapshots.extra_parts import license_finding, parse_license

NOW = datetime(2026, 11, 21, 23, 59, tzinfo=UTC)


def licence(**fields: str) -> bytes:
    inner = ", ".join(f'"{key}" : "{value}"' for key, value in fields.items())
    return f"-----BEGIN PGP SIGNED MESSAGE-----\n\n{{ {inner} }}\n-----BEGIN PGP SIGNATURE-----\n{{x\n".encode()


@pytest.mark.parametrize("day", ["2026-11-21", "11/21/2026", "2026-11-21T00:00:00.000Z"])
def test_a_licence_counts_until_the_end_of_its_last_day_however_it_is_written(day: str) -> None:
    content = licence(name="x", uuid="u", expirationDate=day)
    assert license_finding(content, NOW).passed is True
    assert parse_license(content, "it").objection(NOW) == ""
    later = datetime(2026, 11, 22, tzinfo=UTC)
    assert license_finding(content, later).passed is False
    assert "expired on" in parse_license(content, "it").objection(later)


def test_one_that_has_not_begun_or_names_no_day_is_told() -> None:
    early = licence(name="x", uuid="u", expirationDate="2030-01-01", startDate="2027-01-01")
    assert license_finding(early, NOW).passed is False
    assert "not valid before" in parse_license(early, "it").objection(NOW)
    ended = licence(name="x", uuid="u", expirationDate="2030-01-01", deactivationDate="2026-01-01")
    assert "deactivated" in license_finding(ended, NOW).words
    assert license_finding(licence(name="x", uuid="u"), NOW).passed is None


@pytest.mark.parametrize("content", [b"", b"no licence", b"{ broken", b"[1]", licence(name="x")])
def test_what_is_no_licence_is_refused(content: bytes) -> None:
    with pytest.raises(Invalid, match="it is not a licence file"):
        parse_license(content, "it")


def test_a_part_that_is_no_licence_is_told() -> None:
    found = license_finding(b"-----BEGIN PGP SIGNED MESSAGE-----\n\nnothing\n", NOW)
    assert (found.passed, found.words) == (False, "the licence file holds no readable licence")
