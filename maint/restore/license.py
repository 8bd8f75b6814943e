"""A licence file: a clear-signed text whose inner part is JSON (contract section 9)."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from maint.backup.parts import LICENSE, read_part
from maint.errors import Invalid
from maint.ports import Sight
from maint.restore.choose import chosen


@dataclass(frozen=True, slots=True)
class LicenseText:
    """What a licence file says of itself."""

    owner: str
    uuid: str
    expiration: str


def parse(content: bytes, source: str) -> LicenseText:
    """Read the JSON inside a licence file; its signature is the manager's business.

    Raises:
        Invalid: there is no such JSON in it.
    """
    text = content.decode("utf-8", errors="replace")
    start, end = text.find("{"), text.find("-----BEGIN PGP SIGNATURE")
    body = text[start : end if end > start else None]
    try:
        value, _ = json.JSONDecoder().raw_decode(body)
        return LicenseText(str(value["name"]), str(value["uuid"]), str(value["expirationDate"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Invalid(
            f"{source} is no licence file",
            detail=["a licence is a clear-signed text with name, uuid and expirationDate in JSON"],
            hint="use the file as the vendor sent it",
        ) from error


def expired(license_: LicenseText, now: datetime) -> bool:
    """Whether the licence is out of date; an unreadable date counts as in date, since the manager decides."""
    text = license_.expiration.replace("Z", "+00:00")
    for reader in (datetime.fromisoformat, lambda words: datetime.strptime(words, "%m/%d/%Y")):
        try:
            end = reader(text)
        except ValueError:
            continue
        return (end if end.tzinfo else end.replace(tzinfo=UTC)) < now
    return False


def content_of(sight: Sight, *, file: str, snapshot: str | None) -> tuple[bytes, str]:
    """Return a licence and where it comes from: the named file, else the config's, else the snapshot's part.

    Args:
        sight: the site.
        file: a path; empty for none.
        snapshot: a snapshot's id, empty for the newest restorable one; None where no snapshot is meant.

    Raises:
        Invalid: there is none, or it cannot be read.
    """
    path = Path(file) if file else sight.settings.manager.license
    if path is not None:
        try:
            return path.read_bytes(), str(path)
        except OSError as error:
            raise Invalid(
                f"the licence {path} cannot be read: {error.strerror}", hint="check `manager.license`"
            ) from error
    if snapshot is not None:
        found = chosen(sight, snapshot)
        if any(part.name == LICENSE for part in found.parts):
            return read_part(sight, found, LICENSE), f"snapshot {found.id}"
    raise Invalid(
        "there is no licence to upload",
        hint="set `manager.license` in the config, or name a file: `maint manager license FILE`",
    )
