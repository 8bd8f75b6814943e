"""The management API over requests."""

from maint.adapters.manager.client import ManagerClient
from maint.adapters.manager.transport import Timeouts

__all__ = ["ManagerClient", "Timeouts"]
