"""What is read piece by piece, wherever it comes from."""

from typing import Protocol


class Answer(Protocol):
    """A response body under way; `read` returns b'' at its true end and raises `CannotReach` when it was cut."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most so many bytes."""
