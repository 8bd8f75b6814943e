"""Labs for the command line: those of the step tests."""

from tests.steps.conftest import loaded, lost, make

__all__ = ["loaded", "lost", "make"]
