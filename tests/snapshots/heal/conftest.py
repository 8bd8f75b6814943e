"""The site of the backup tests, and labs."""

from tests.snapshots.conftest import Place, deployment, password_of, place, place_of, run
from tests.steps.conftest import loaded, lost, make

__all__ = ["Place", "deployment", "loaded", "lost", "make", "password_of", "place", "place_of", "run"]
