"""What HTTP Basic says: an account's name and its password."""

import base64
import binascii


def login(header: str) -> tuple[str, str]:
    """Return name and password of an `Authorization` header, empty where it holds none."""
    kind, _, encoded = header.partition(" ")
    if kind.lower() != "basic":
        return "", ""
    try:
        name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password
