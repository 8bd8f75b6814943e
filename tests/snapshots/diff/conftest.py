"""The site of the backup tests, and labs."""

from tests.snapshots.conftest import Place, deployment, place, place_of, run
from tests.steps.conftest import loaded, make

__all__ = ["Place", "deployment", "loaded", "make", "place", "place_of", "run"]
