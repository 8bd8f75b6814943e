"""Labs for campaigns: those of the step tests."""

from tests.steps.conftest import loaded, lost, make

__all__ = ["loaded", "lost", "make"]
