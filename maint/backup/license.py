"""Look into a licence file: is it in date? (contract section 9)"""

import json
from datetime import UTC, datetime

from maint.model.snapshot import Finding


def check(content: bytes, now: datetime) -> Finding:
    """Judge a licence file, a clear-signed text whose inner part is JSON; its signature is the vendor's affair."""
    fields = _inner(content)
    if fields is None:
        return Finding("license", False, "the licence file holds no readable licence")
    starts, ends = _day(fields.get("startDate")), _day(fields.get("expirationDate"))
    if ends is None:
        return Finding("license", None, "the licence file names no day on which it expires")
    if starts is not None and starts > now:
        return Finding("license", False, f"the licence is not valid before {starts:%Y-%m-%d}")
    if ends.replace(hour=23, minute=59, second=59) < now:
        return Finding("license", False, f"the licence expired on {ends:%Y-%m-%d}")
    return Finding("license", True, f"the licence is valid until {ends:%Y-%m-%d}")


def _inner(content: bytes) -> dict[str, object] | None:
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
