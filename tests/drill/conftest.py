"""Labs with backups."""

from tests.steps.conftest import backed_up, loaded, lost, make

__all__ = ["backed_up", "loaded", "lost", "make"]
