"""The site of the backup tests."""

from tests.backup.conftest import Place, place, run

__all__ = ["Place", "place", "run"]
