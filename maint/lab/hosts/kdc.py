"""The lab's Kerberos realm: principals with their keys and versions, and whether a keytab gets a ticket."""

import json
import secrets
import threading
import time
from dataclasses import replace
from pathlib import Path

from maint.lab.files import write_whole
from maint.lab.virtual_clusters import keytab as keytabs
from maint.lab.virtual_clusters.keytab import AES128, AES256, RC4, Entry

_BYTES = {AES256: 32, AES128: 16}
_NEW = 2  # the version of a principal's first keys: one set when it was made, one when its keytab was written
_UNKNOWN = "Client '{}' not found in Kerberos database"
_NO_KIND = "Pre-authentication failed: No key table entry found for {}"
_WRONG = "Preauthentication failed"


class Realm:
    """The database of the realm's key distribution centre, in one file.

    Args:
        path: the file; made with the first principal.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def keytab(self, principal: str) -> bytes:
        """Return a keytab with the keys that a principal has now; one that there is not yet is made."""
        with self._lock:
            known = self._known()
            if principal not in known:
                keys = {str(kind): secrets.token_hex(size) for kind, size in _BYTES.items()}
                known[principal] = {"version": _NEW, "keys": keys}
                write_whole(self._path, json.dumps(known, indent=1).encode(), 0o600)
            return keytabs.written(_present(principal, known))

    def login(self, principal: str, keytab: bytes | None) -> str:
        """Return why a keytab gets no ticket, in the words of MIT's kinit; "" where it gets one.

        Args:
            principal: for whom.
            keytab: one that holds keys of the principal; None asks only whether there is such a principal.
        """
        with self._lock:
            known = self._known()
        if principal not in known:
            return _UNKNOWN.format(principal)
        own = [entry for entry in keytabs.read(keytab or keytabs.HEAD) if entry.principal == principal]
        for present in _present(principal, known):
            offered = [entry for entry in own if entry.kind == present.kind]
            if offered:  # of each kind the newest is tried, and no other
                newest = max(offered, key=lambda entry: entry.version)
                return "" if newest.key == present.key else _WRONG
        return "" if keytab is None else _NO_KIND.format(principal)

    def _known(self) -> dict[str, dict[str, object]]:
        if not self._path.exists():
            return {}
        known: dict[str, dict[str, object]] = json.loads(self._path.read_bytes())
        return known


def _present(principal: str, known: dict[str, dict[str, object]]) -> list[Entry]:
    told = known[principal]
    keys = told["keys"]
    if not isinstance(keys, dict):
        raise TypeError("the realm's file is damaged")
    version, now = int(str(told["version"])), int(time.time())
    return [Entry(principal, version, int(kind), bytes.fromhex(key), now) for kind, key in keys.items()]


def with_wrong_principal(keytab: bytes) -> bytes:
    """Return a keytab of a principal that the realm does not have, as one that was made for another host."""
    entries = keytabs.read(keytab)
    names = [entry.principal.partition("@") for entry in entries]
    strangers = [f"{name.partition('/')[0]}/elsewhere.invalid@{realm}" for name, _, realm in names]
    return keytabs.written([replace(e, principal=other) for e, other in zip(entries, strangers, strict=True)])


def with_rc4_alone(keytab: bytes) -> bytes:
    """Return a keytab with an RC4 key alone, as an old script makes it."""
    first = keytabs.read(keytab)[0]
    return keytabs.written([replace(first, kind=RC4, key=secrets.token_bytes(16))])


def with_old_keys(keytab: bytes) -> bytes:
    """Return the keytab as it was before somebody made new keys."""
    entries = keytabs.read(keytab)
    return keytabs.written([replace(e, version=e.version - 1, key=secrets.token_bytes(len(e.key))) for e in entries])


def cut_off(keytab: bytes) -> bytes:
    """Return a keytab that ends in the middle of its first key."""
    return keytab[: 2 + (len(keytabs.written(keytabs.read(keytab)[:1])) - 2) // 2]
