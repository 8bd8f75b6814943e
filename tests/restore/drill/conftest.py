"""Labs with backups."""

from tests.steps.conftest import loaded, lost, make

__all__ = ["loaded", "lost", "make"]
