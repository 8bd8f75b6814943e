"""What a fleet of hosts answers, one noun a host."""

from enum import StrEnum

import msgspec


class Standing(StrEnum):
    """How a presented host key stands to what is recorded."""

    KNOWN = "known"
    UNKNOWN = "unknown"  # nothing is recorded for this host
    CHANGED = "changed"  # other keys are recorded for this host
    REVOKED = "revoked"


class Reply(msgspec.Struct, frozen=True):
    """What a host answered to its script.

    Attributes:
        host: its name in the inventory.
        out: what it printed, as far as it came.
        status: exit status of the shell, None where it was not seen.
        reason: why the answer is not whole, None where it is.
        hint: what to do about that.
        sent: when the script left, seconds since 1970 by our clock; 0 where it never did.
        received: when the answer ended.
        seconds: from the first packet to the last.
        login_seconds: how much of that passed before the script could be sent.
    """

    host: str
    out: bytes = b""
    status: int | None = None
    reason: str | None = None
    hint: str | None = None
    sent: float = 0.0
    received: float = 0.0
    seconds: float = 0.0
    login_seconds: float = 0.0


class Presented(msgspec.Struct, frozen=True):
    """The key that a host presents.

    Attributes:
        host: its name in the inventory.
        recorded_as: what known_hosts calls it.
        type: such as ssh-ed25519; "" where it presents none.
        key: base64, as known_hosts has it.
        fingerprint: SHA256:…, as OpenSSH shows it.
        standing: how it stands to what is recorded.
        reason: why it could not be seen, None where it was.
    """

    host: str
    recorded_as: str
    type: str = ""
    key: str = ""
    fingerprint: str = ""
    standing: Standing = Standing.UNKNOWN
    reason: str | None = None
