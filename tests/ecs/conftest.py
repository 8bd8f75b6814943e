"""Labs with a restorable backup and an ECS cluster, and looks at its hosts."""

from tests.steps.conftest import backed_up, loaded, make

__all__ = ["backed_up", "loaded", "make"]
