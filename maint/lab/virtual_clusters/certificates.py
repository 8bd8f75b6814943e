"""What the names of a service show: their certificate, or before initialisation the ingress's own (J8)."""

import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from maint.lab import pki
from maint.lab.files import write_whole
from maint.lab.http.certificates import bad_pem, context_of

_INGRESS = "Kubernetes Ingress Controller Fake Certificate"


class Certificates:
    """Certificates by host name.

    Args:
        folder: where PEM files for the TLS library are put; `HOST.pem` there is shown for that host.
        names: what the lab's own certificate carries.
        ready: tells whether a host has its certificate.
        spoiled: tells which bad certificate is to be shown, EXPIRED or STRANGE (of another authority); "" for none.
    """

    def __init__(
        self,
        folder: Path,
        authority: pki.Authority,
        names: list[str],
        ready: Callable[[str], bool],
        spoiled: Callable[[], str],
    ) -> None:
        self._folder, self._authority, self._names = folder, authority, names
        self._ready, self._spoiled = ready, spoiled
        self._contexts: dict[str, ssl.SSLContext] = {}

    def write_own(self, now: datetime) -> tuple[Path, Path]:
        """Write the lab's own certificate and key for these names, and return both files."""
        certificate, key = self._folder / "tls.crt", self._folder / "tls.key"
        if not certificate.exists():
            pair = self._authority.server(self._names, now)
            write_whole(key, pair.key_pem, 0o600)
            write_whole(certificate, self._authority.chain_pem(pair))
        return certificate, key

    def context(self, now: datetime) -> ssl.SSLContext:
        """Return a context that shows each client the certificate of the name it asks for."""
        first = self._of("own", now)

        # The annotation of the standard library knows a second kind of connection that is not used here.
        def choose(connection: ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
            connection.context = self._chosen((name or "").lower(), now)

        first.sni_callback = choose  # type: ignore[assignment]
        return self._of(self._spoiled() or "own", now)

    def _chosen(self, name: str, now: datetime) -> ssl.SSLContext:
        if name and name not in pki.LOOPBACK and not self._ready(name):
            return self._of("fake", now)
        own = self._folder / f"{name}.pem"
        return self._load(own) if name and own.exists() else self._of("own", now)

    def _of(self, kind: str, now: datetime) -> ssl.SSLContext:
        if kind not in self._contexts:
            path = self._folder / f".{kind}.pem"
            if kind == "own":
                certificate, key = self.write_own(now)
                pem = key.read_bytes() + certificate.read_bytes()
            elif kind == "fake":
                pem = bad_pem(_INGRESS, self._authority, ["ingress.local"], now)
            else:
                pem = bad_pem(kind, self._authority, self._names, now)
            self._contexts[kind] = context_of(path, pem)
        return self._contexts[kind]

    def _load(self, path: Path) -> ssl.SSLContext:
        stamp = f"{path}@{path.stat().st_mtime_ns}"
        if stamp not in self._contexts:
            self._contexts[stamp] = context_of(path)
        return self._contexts[stamp]
