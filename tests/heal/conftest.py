"""The site of the backup tests, and labs."""

from tests.backup.conftest import Place, deployment, password_of, place, place_of, run
from tests.steps.conftest import backed_up, loaded, lost, make

__all__ = ["Place", "backed_up", "deployment", "loaded", "lost", "make", "password_of", "place", "place_of", "run"]
