"""The site of the backup tests, and labs."""

from tests.backup.conftest import Place, deployment, place, place_of, run
from tests.steps.conftest import backed_up, loaded, make

__all__ = ["Place", "backed_up", "deployment", "loaded", "make", "place", "place_of", "run"]
