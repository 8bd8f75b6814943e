"""Labs with a restorable backup, operators at them, and the site of a snapshot."""

from tests.snapshots.conftest import place, run
from tests.steps.conftest import loaded, lost, make

__all__ = ["loaded", "lost", "make", "place", "run"]
