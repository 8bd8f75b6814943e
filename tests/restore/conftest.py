"""Labs with a restorable backup, and operators at them."""

from tests.steps.conftest import backed_up, loaded, lost, make

__all__ = ["backed_up", "loaded", "lost", "make"]
