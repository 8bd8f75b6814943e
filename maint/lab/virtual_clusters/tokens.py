"""Access tokens of the gateway: signed, dated, good until they expire (contract on the jobs API, section 2.1)."""

import base64
import binascii
import hashlib
import hmac
import json
import uuid
from datetime import datetime

from maint.lab.manager.document import Doc

WORKLOAD, ACCESS = "workload", "access"


class Mint:
    """Makes and checks tokens.

    Args:
        secret: what they are signed with.
        issuer: the gateway's address, for people.
    """

    def __init__(self, secret: bytes, issuer: str) -> None:
        self._secret, self._issuer = secret, issuer

    def make(self, user: str, kind: str, until: datetime) -> str:
        """Return a token: a JSON web token in three parts."""
        claims = {"sub": user, "iss": self._issuer, "use": kind, "exp": int(until.timestamp()), "jti": uuid.uuid4().hex}
        # To the second is too coarse for tokens that live two seconds.
        body = f"{_spell({'alg': 'HS256', 'typ': 'JWT'})}.{_spell(claims | {'until': until.timestamp()})}"
        return f"{body}.{self._signature(body)}"

    def user(self, token: str, kind: str, now: datetime) -> str:
        """Return whose token it is, "" where it is none, or no longer one."""
        body, _, signature = token.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(body).encode()):
            return ""
        claims = _claims(body)
        if claims.get("use") != kind or claims.get("until", 0) <= now.timestamp():
            return ""
        return str(claims["sub"])

    def _signature(self, body: str) -> str:
        return _plain(hmac.new(self._secret, body.encode(), hashlib.sha256).digest())


def _claims(body: str) -> Doc:
    try:
        encoded = body.split(".")[1]
        claims: Doc = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (IndexError, ValueError, binascii.Error):
        return {}
    return claims


def _spell(part: Doc) -> str:
    return _plain(json.dumps(part, separators=(",", ":")).encode())


def _plain(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
