"""The site of the backup tests, and labs."""

from tests.backup.conftest import Place, place, run
from tests.steps.conftest import backed_up, loaded, lost, make

__all__ = ["Place", "backed_up", "loaded", "lost", "make", "place", "run"]
