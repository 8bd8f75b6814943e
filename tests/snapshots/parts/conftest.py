"""The site of the backup tests, and labs."""

from tests.snapshots.conftest import Place, place, run
from tests.steps.conftest import loaded, lost, make

__all__ = ["Place", "loaded", "lost", "make", "place", "run"]
