"""An operator at a manager whose database is gone, and a forger with the site's own keys."""

from tests.steps.conftest import backed_up, lost, make

__all__ = ["backed_up", "lost", "make"]
