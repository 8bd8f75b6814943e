"""Labs with a restorable backup, and operators at them."""

from tests.steps.conftest import loaded, lost, make

__all__ = ["loaded", "lost", "make"]
