"""Read a licence file, a clear-signed text with JSON inside: whose it is, whether it is in date (contract 9)."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from maint.errors import Invalid
from maint.model.snapshot import Finding

_DAY = timedelta(days=1)


class LicenseText(msgspec.Struct, frozen=True):
    """What a licence file says of itself; its signature is the vendor's affair.

    Attributes:
        expiration: as it is written.
        starts, ends: its first and its last day, None where none can be read.
        deactivated: the day on which it ceases to do anything, likewise.
    """

    owner: str
    uuid: str
    expiration: str
    starts: datetime | None
    ends: datetime | None
    deactivated: datetime | None = None

    def objection(self, now: datetime) -> str:
        """Why it is not in date, "" where it is; without days it counts as in date, since the manager decides."""
        if self.starts is not None and self.starts > now:
            return f"is not valid before {self.starts:%Y-%m-%d}"
        if self.deactivated is not None and self.deactivated + _DAY <= now:
            return f"was deactivated on {self.deactivated:%Y-%m-%d}"
        if self.ends is not None and self.ends + _DAY <= now:
            return f"expired on {self.ends:%Y-%m-%d}"
        return ""


def parse(content: bytes, source: str) -> LicenseText:
    """Read a licence file.

    Raises:
        Invalid: it holds no licence.
    """
    fields = _inner(content)
    if fields is None or not {"name", "uuid", "expirationDate"} <= fields.keys():
        raise Invalid(
            f"{source} is no licence file",
            detail=["a licence is a clear-signed text with name, uuid and expirationDate in JSON"],
            hint="use the file as the vendor sent it",
        )
    return _text(fields)


def check(content: bytes, now: datetime) -> Finding:
    """Judge a licence file: is it one, and is it in date?"""
    fields = _inner(content)
    if fields is None:
        return Finding("license", False, "the licence file holds no readable licence")
    found = _text(fields)
    if objection := found.objection(now):
        return Finding("license", False, f"the licence {objection}")
    if found.ends is None:
        return Finding("license", None, "the licence file names no day on which it expires")
    return Finding("license", True, f"the licence is valid until {found.ends:%Y-%m-%d}")


def _text(fields: Mapping[str, object]) -> LicenseText:
    expiration = str(fields.get("expirationDate", ""))
    owner, uuid = str(fields.get("name", "")), str(fields.get("uuid", ""))
    days = (_day(fields.get("startDate")), _day(expiration), _day(fields.get("deactivationDate")))
    return LicenseText(owner, uuid, expiration, *days)


def _inner(content: bytes) -> Mapping[str, object] | None:
    text = content.decode(errors="replace")
    start = text.find("{")
    try:
        fields, _ = json.JSONDecoder().raw_decode(text, start) if start >= 0 else (None, 0)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _day(value: object) -> datetime | None:
    """Read the day at the beginning of a date, in either way in which they are written."""
    for form in ("%Y-%m-%d", "%m/%d/%Y"):
        try:
            return datetime.strptime(str(value)[:10], form).replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
