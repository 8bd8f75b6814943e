"""An operator at a manager whose database is gone, and a forger with the site's own keys."""

from tests.steps.conftest import lost, make

__all__ = ["lost", "make"]
