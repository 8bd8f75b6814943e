"""A certificate that the config names, judged by OpenSSL's own rules: a client and a server shake hands in memory."""

import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from maint.errors import Refused
from maint.files import write_all
from maint.model.certificate import first_of, pem
from maint.model.secret import SecretBytes

_REASONS = {9: "is not valid yet", 10: "has expired", 62: "is not for {host}"}  # OpenSSL's numbers, which stay
HINT = "mend `tls: {cert: …, key: …}` of the virtual cluster in the config"


def prove_pair(path: Path, chain: bytes, key: SecretBytes, names: Sequence[str], ca: Path | None) -> bool:
    """Refuse a certificate that is not fit for all the names, and return whether a CA accepts it.

    Args:
        path: where the chain was read, for messages.
        names: what it must cover; none: nobody knows them yet.
        ca: PEM bundle; None: any will do.
    """
    server = _serving(chain, key, str(path))
    for name in names or [""]:  # where no name is known yet, its dates are judged all the same
        _check(server, first_of(chain), name, f"the certificate {path}")
    return not names or ca is None or _accepted(server, str(ca), names[0])


def _serving(chain: bytes, key: SecretBytes, path: str) -> ssl.SSLContext:
    """Return a server that shows the certificate; both only ever lie in memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    handle = os.memfd_create("maint-pair")
    try:
        write_all(handle, chain.rstrip() + b"\n" + key.reveal())
        # A key under a password asks for it on the terminal unless an answer is at hand.
        context.load_cert_chain(f"/proc/self/fd/{handle}", password=b"")
    except (ssl.SSLError, ValueError, OSError) as error:
        # The second is said where the certificate is for a key of another kind, such as RSA and not EC.
        other = any(word in str(error) for word in ("MISMATCH", "NO_CERTIFICATE_ASSIGNED"))
        unfit = "cannot be used: both must be whole and in PEM form, the key without a password"
        problem = "do not fit each other" if other else unfit
        raise Refused(f"the certificate {path} and its key {problem}", hint=HINT) from None
    finally:
        os.close(handle)
    return context


def _check(server: ssl.SSLContext, der: bytes, host: str, what: str) -> None:
    """Shake hands as a client of that name would, who trusts this very certificate."""
    try:
        _handshake(server, host, cadata=pem(der))
    except ssl.SSLCertVerificationError as error:
        words = _REASONS.get(error.verify_code, error.verify_message).format(host=host)
        raise Refused(f"{what} {words}", hint=HINT) from None
    except ssl.SSLError as error:
        raise Refused(f"{what} cannot be used: {error.reason}", hint=HINT) from None


def _accepted(server: ssl.SSLContext, ca: str, host: str) -> bool:
    with suppress(OSError):  # of which SSLError is one
        _handshake(server, host, cafile=ca)
        return True
    return False


def _handshake(server: ssl.SSLContext, host: str, **trusted: str) -> None:
    """Let a client that trusts a certificate and a server shake hands in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the utility's self-signed certificates lack extensions (11.3)
    client.load_verify_locations(**trusted)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client.check_hostname = bool(host)
    near = client.wrap_bio(back, there, server_hostname=host or None)
    far = server.wrap_bio(there, back, server_side=True)
    waiting = [near, far]
    while waiting:
        for side in list(waiting):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
                waiting.remove(side)
