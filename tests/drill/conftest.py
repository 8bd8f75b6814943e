"""Labs with backups."""

from tests.backup.conftest import deployment
from tests.steps.conftest import backed_up, loaded, lost, make

__all__ = ["backed_up", "deployment", "loaded", "lost", "make"]
