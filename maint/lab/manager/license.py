"""Licence files: a clear-signed text whose inner part is JSON (M9). The signature is not checked."""

import base64
import json
import re
import uuid
from datetime import UTC, datetime, timedelta

from maint.lab.manager.document import Doc

_SHAPE = re.compile(
    r"-----BEGIN PGP SIGNED MESSAGE-----\r?\n(?:[^\r\n]+\r?\n)*\r?\n(.*?)\r?\n-----BEGIN PGP SIGNATURE-----.*"
    r"-----END PGP SIGNATURE-----",
    re.DOTALL,
)


class BadLicense(ValueError):
    """The text is not a licence, or one that is not in date."""


def make_license(owner: str, days: int, now: datetime | None = None) -> bytes:
    """Return a well-formed licence; a negative number of days makes an expired one."""
    today = (now or datetime.now(UTC)).date()
    inner = {
        "version": 1,
        "name": owner,
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, owner)),
        "expirationDate": str(today + timedelta(days=days)),
        "startDate": str(min(today, today + timedelta(days=days)) - timedelta(days=1)),
        "features": ["CLOUDERA_MANAGER", "NAVIGATOR"],
    }
    armor = base64.b64encode(b"this licence was made by a laboratory and is signed by no one").decode()
    lines = [
        "-----BEGIN PGP SIGNED MESSAGE-----", "Hash: SHA256", "", json.dumps(inner, indent=2),
        "-----BEGIN PGP SIGNATURE-----", "", armor, "-----END PGP SIGNATURE-----", "",
    ]  # fmt: skip
    return "\n".join(lines).encode()


def read_license(content: bytes, now: datetime) -> Doc:
    """Return the inner part of a licence; `BadLicense` where it is malformed or out of date."""
    found = _SHAPE.search(content.decode("utf-8", "replace"))
    if not found:
        raise BadLicense("The file is not a valid license: no signed message in it.")
    try:
        inner = json.loads(re.sub(r"^- ", "", found[1], flags=re.MULTILINE))
        name, number, last = str(inner["name"]), str(inner["uuid"]), str(inner["expirationDate"])[:10]
        expires = datetime.fromisoformat(last).replace(tzinfo=UTC)
    except (ValueError, KeyError, TypeError) as error:
        raise BadLicense("The file is not a valid license: its content cannot be read.") from error
    if expires + timedelta(days=1) <= now:
        raise BadLicense(f"The license of {name} expired on {last}.")
    return {**inner, "name": name, "uuid": number, "expirationDate": last}
