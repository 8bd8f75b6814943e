"""Labs for campaigns: those of the step tests."""

from tests.steps.conftest import backed_up, loaded, lost, make

__all__ = ["backed_up", "loaded", "lost", "make"]
