"""Labs with a restorable backup and an ECS cluster, and looks at its hosts."""

from tests.steps.conftest import loaded, make

__all__ = ["loaded", "make"]
