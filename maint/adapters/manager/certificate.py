"""Trust in the manager's certificate: the TLS rules, and in words why a chain was not accepted."""

import contextlib
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from maint.config.schema import ManagerSettings
from maint.errors import Invalid

_ANY_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME, which the ssl module has no name for

# OpenSSL's numbers (X509_V_ERR_…), which stay when its texts change.
_REASONS = {
    9: "the certificate is not valid yet",
    10: "the certificate has expired",
    18: "the certificate is self-signed and not in the CA file",
    19: "the chain ends in a root that is not in the CA file",
    20: "no certificate in the CA file has issued it",
    21: "no certificate in the CA file has issued it",
    62: "the certificate is for another host name",
    64: "the certificate is for another address",
}


class Presented(msgspec.Struct, frozen=True):
    """A certificate that a server showed, for people to look at."""

    subject: str
    issuer: str
    since: str
    until: str
    names: Sequence[str]

    def lines(self) -> tuple[str, ...]:
        """Return it in words, a line each."""
        return (
            f"presented: {self.subject}",
            f"issued by: {self.issuer}",
            f"valid: {self.since} to {self.until}",
            f"for: {', '.join(self.names) or 'no name at all'}",
        )


def rules(settings: ManagerSettings) -> ssl.SSLContext:
    """Return the TLS rules of a manager.

    Raises:
        Invalid: the CA file cannot be read or holds no certificate.
    """
    hint = "manager.ca must be a PEM file, such as cm-auto-global_cacerts.pem from a managed host"
    return blind() if settings.insecure else verifying(settings.ca, hint)


def verifying(ca: Path | None, hint: str) -> ssl.SSLContext:
    """Return TLS rules that believe a CA file, or the system's authorities where none is named.

    An intermediate certificate in the CA file is an anchor in its own right, as it is for curl.

    Args:
        ca: a PEM file.
        hint: what to do about one that cannot be used.

    Raises:
        Invalid: the CA file cannot be read or holds no certificate.
    """
    try:
        context = ssl.create_default_context(cafile=str(ca) if ca else None)
    except (OSError, ssl.SSLError) as error:
        raise Invalid(f"the CA file {ca} cannot be used: {error.strerror or error}", hint=hint) from None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # Python 3.13 sets it; authorities of older managers lack key ids, self-signed certificates lack extensions.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def blind() -> ssl.SSLContext:
    """Return TLS rules that accept anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def reason(error: ssl.SSLCertVerificationError, host: str) -> str:
    """Return in words why a chain was not accepted for a host."""
    words = _REASONS.get(error.verify_code, error.verify_message)
    return f"{words} than {host}" if error.verify_code in (62, 64) else words


def presented(host: str, port: int, timeout: float) -> Presented | None:
    """Return what a server shows, trusted or not; None when it shows nothing within the time-out (seconds).

    The standard library reads a certificate only once it is accepted: so it is fetched first, then
    taken for its own authority.
    """
    with contextlib.suppress(OSError, ValueError):
        raw = _handshake(host, port, timeout, blind()).get("raw", b"")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _ANY_TIME
        context.load_verify_locations(cadata=ssl.DER_cert_to_PEM_cert(raw))
        return _read(_handshake(host, port, timeout, context))
    return None


def _handshake(host: str, port: int, timeout: float, context: ssl.SSLContext) -> dict[str, Any]:  # Any: ssl's shape
    with (
        socket.create_connection((host, port), timeout) as plain,
        context.wrap_socket(plain, server_hostname=host) as tls,
    ):
        return {**(tls.getpeercert() or {}), "raw": tls.getpeercert(binary_form=True) or b""}


def _read(shown: dict[str, Any]) -> Presented:
    return Presented(
        subject=_name(shown.get("subject", ())),
        issuer=_name(shown.get("issuer", ())),
        since=str(shown.get("notBefore", "?")),
        until=str(shown.get("notAfter", "?")),
        names=[value for _, value in shown.get("subjectAltName", ())],
    )


def _name(parts: Sequence[Sequence[tuple[str, str]]]) -> str:
    return ", ".join(f"{key}={value}" for part in parts for key, value in part)


def hints(host: str, port: int, ca: Path | None, timeout: float) -> tuple[str, ...]:
    """Return what an operator needs to see: the CA file in use, and what the server presented."""
    used = f"trusted: {ca}" if ca else "trusted: the system's authorities (manager.ca names no file)"
    shown = presented(host, port, timeout)
    return (used, *(shown.lines() if shown else ()))
