"""A virtual cluster's Kerberos secrets: their names, and whether jobs can log in with them (jobs API, 11.4, 12)."""

import base64
import re
import secrets
import time
from collections.abc import Mapping

from maint.lab.virtual_clusters import keytab as keytabs

Secret = Mapping[str, bytes]

_KEY = 32
_PRINCIPAL, _KEYTAB = "-krb5-principal", "-krb5-secret"


def names(user: str) -> tuple[str, str]:
    """Return the names of a user's secrets: of the principal, and of the keytab."""
    mapped = user.replace("_", "---")
    return f"{mapped}{_PRINCIPAL}", f"{mapped}{_KEYTAB}"


def users(found: Mapping[str, Secret]) -> dict[str, str]:
    """Return who has both secrets: user → principal; "" where the two do not fit each other."""
    known = {}
    for name in found:
        mapped = name.removesuffix(_PRINCIPAL)
        other = f"{mapped}{_KEYTAB}"
        if mapped != name and other in found:
            fits = principal_of(found[name].get(name, b""), found[other].get(other, b""))
            known[mapped.replace("---", "_")] = fits
    return known


def principal_of(text: bytes, keytab: bytes) -> str:
    """Return the principal that jobs can log in with, "" where the files do not fit: nothing checks them before."""
    principal = text.decode("utf-8", "replace").removesuffix("\n")
    name, _, realm = principal.partition("@")
    parts = [part.encode() for part in (*name.split("/"), realm)]
    fits = keytab.startswith(b"\x05\x02") and all(part and part in keytab for part in parts)
    return principal if fits and not re.search(r"\s", principal) else ""


def made_up(principal: str) -> bytes:
    """Return a keytab with a random key."""
    return keytabs.make(principal, secrets.token_bytes(_KEY), int(time.time()))


def encoded(data: Secret) -> dict[str, str]:
    """Return a secret as it is written down."""
    return {key: base64.b64encode(content).decode() for key, content in data.items()}


def decoded(data: Mapping[str, str]) -> Secret:
    """Return a secret as it was."""
    return {key: base64.b64decode(text) for key, text in data.items()}
