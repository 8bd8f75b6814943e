"""Streams that are read piece by piece, as Protocols."""

from typing import Protocol

from maint.errors import CannotReach


class Cut(CannotReach):
    """A body ended before its end; from its start it may come whole."""

    late = False  # whether that is because nothing more came in time


class Answer(Protocol):
    """A response body under way; `read` returns b'' at its true end and raises `Cut` when it was cut."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes."""


class Sized(Answer, Protocol):
    """A body whose sender may say how long it is."""

    @property
    def length(self) -> int | None:
        """How many bytes there are in all, None where nobody says so."""
