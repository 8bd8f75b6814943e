"""What the TLS port shows: the host's own keystore, or a certificate that a fault puts in its place."""

import ssl
from datetime import datetime
from pathlib import Path

from maint.lab import pki
from maint.lab.faults import FaultBox
from maint.lab.files import write_whole
from maint.lab.manager import jks

_FAULTS = ("expired-certificate", "wrong-host-certificate", "unknown-ca-certificate")


class Showing:
    """Certificates for the TLS port.

    Args:
        folder: where PEM files for the TLS library are put.
        names: host names and addresses that good certificates carry.
        now: when the lab was started; bad certificates are dated from it.
    """

    def __init__(self, folder: Path, authority: pki.Authority, names: list[str], now: datetime) -> None:
        self._folder, self._authority, self._names, self._now = folder, authority, names, now
        self._contexts: dict[str, ssl.SSLContext] = {}

    def load(self, keystore: Path, password: str) -> str:
        """Take the key and chain of a keystore; return why not, "" when it went well."""
        if not keystore.exists():
            return f"{keystore.name} does not exist"
        try:
            entries = [entry for entry in jks.read(keystore.read_bytes(), password) if entry.protected_key]
            if not entries:
                return f"{keystore.name} holds no key"
            key = pki.pem_of_key(jks.unprotect(entries[0].protected_key, password))
        except jks.BadKeystore as error:
            return str(error)
        chain = b"".join(pki.pem_of_certificate(certificate) for certificate in entries[0].chain)
        self._contexts["own"] = self._context("own", key, chain)
        return ""

    def context(self, faults: FaultBox) -> ssl.SSLContext:
        """Return what the next client gets to see."""
        set_now = [name for name, _ in faults.active if name in _FAULTS]
        kind = set_now[-1] if set_now else "own"
        if kind not in self._contexts:
            self._contexts[kind] = self._bad(kind)
        return self._contexts[kind]

    def _bad(self, kind: str) -> ssl.SSLContext:
        authority = self._authority
        if kind == "unknown-ca-certificate":
            authority = pki.Authority.create(self._now, "Somebody Else's")
        names = ["elsewhere.invalid"] if kind == "wrong-host-certificate" else self._names
        make = authority.expired if kind == "expired-certificate" else authority.server
        pair = make(names, self._now)
        return self._context(kind, pair.key_pem, authority.chain_pem(pair))

    def _context(self, name: str, key: bytes, chain: bytes) -> ssl.SSLContext:
        path = self._folder / f"{name}.pem"
        write_whole(path, key + chain, 0o600)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context
