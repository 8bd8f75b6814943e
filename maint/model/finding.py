"""The record of what one check found out about one host: state, severity, observed, expected, remedy."""

from enum import StrEnum

import msgspec


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
