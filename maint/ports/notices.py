"""Telling somebody outside, and running programs of the operator's on this machine."""

from collections.abc import Collection, Sequence
from typing import Protocol

from maint.model.notice import Notice, Told


class Programs(Protocol):
    """Programs of the operator's on this machine, which are given no secret."""

    def run(self, words: Sequence[str], given: bytes, timeout: float) -> None:
        """Run one with its standard input, for at most so many seconds; WorkFailed: it did not end with 0."""


class Notices(Protocol):
    """Those who are told, as configured."""

    def tell(self, notices: Sequence[Notice], names: Collection[str] | None = None) -> Sequence[Told]:
        """Tell, each within its limit and all within a minute; never raises.

        Args:
            notices: what may be told, the most telling first: each way takes the first that it is for.
            names: only these of the configured notices; None: all.
        """
