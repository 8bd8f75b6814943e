"""Records of hosts: what one replied, which host key it presented, what a check found out about it."""

from enum import StrEnum

import msgspec


class Standing(StrEnum):
    """How a presented host key stands to what is recorded."""

    KNOWN = "known"
    UNKNOWN = "unknown"  # nothing is recorded for this host
    CHANGED = "changed"  # other keys are recorded for this host
    REVOKED = "revoked"


GIVEN_UP = frozenset({"emergency_ro", "shutdown"})  # options of an ext4 that had an error, beside newer kernels' `rw`
LATE = "give --timeout more"  # what a reply says is to be done where the time for all hosts was too short


class HostReply(msgspec.Struct, frozen=True):
    """What a host answered to its script."""

    host: str
    out: bytes = b""  # what it printed, as far as it came
    status: int | None = None  # of the shell, None where it was not seen
    reason: str | None = None  # why the answer is not whole, None where it is
    hint: str | None = None  # what to do about that
    sent: float = 0.0  # when the script left, seconds since 1970 by our clock; 0 where it never did
    received: float = 0.0  # when the answer ended
    seconds: float = 0.0  # from the first packet to the last
    login_seconds: float = 0.0  # how much of that passed before the script could be sent


class Presented(msgspec.Struct, frozen=True):
    """The key that a host presents."""

    host: str
    recorded_as: str  # what known_hosts calls it
    type: str = ""  # such as ssh-ed25519; "" where it presents none
    key: str = ""  # base64, as known_hosts has it
    fingerprint: str = ""  # SHA256:…, as OpenSSH shows it
    standing: Standing = Standing.UNKNOWN  # how it stands to what is recorded
    reason: str | None = None  # why it could not be seen, None where it was


class Severity(StrEnum):
    """How bad it is when a check's rule is broken."""

    FAIL = "fail"
    WARN = "warn"
    INFORM = "inform"


class State(StrEnum):
    """How a check ended; the order is that of importance."""

    FAIL = "fail"
    ERROR = "error"  # could not tell
    WARN = "warn"
    SKIP = "skip"
    PASS = "pass"


class Finding(msgspec.Struct, frozen=True):
    """One check on one host."""

    check: str
    severity: Severity  # how bad it is when the rule is broken
    state: State
    observed: str  # what was seen, or why nothing was
    expected: str
    source: str  # where the rule comes from
    remedy: str  # how to mend it
    host: str  # "" for a check of the site as a whole


class Contact(msgspec.Struct, frozen=True):
    """Whether a host gave its whole answer, and why not."""

    name: str
    reached: bool
    reason: str = ""
