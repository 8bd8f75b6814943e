"""The management API of one site: all reads and all changes behind one constructor."""

from collections.abc import Callable

from maint.adapters.manager.calls import Calls
from maint.adapters.manager.transport import Timeouts
from maint.adapters.manager.writes import Writes
from maint.config.schema import ManagerSettings
from maint.ports import Clock, Secrets


class ManagerClient(Writes):
    """Talks to a manager; implements `ports.Manager`.

    Args:
        settings: where it is and who we are.
        secrets: resolves the passwords' references, when they are first needed.
        clock: for pauses and deadlines.
        warn: told, in words, every time a connection is built whose certificate is not verified.
        timeouts: how long to wait for what.
        pause: seconds before a read is asked again after a stray 401.
    """

    def __init__(
        self,
        settings: ManagerSettings,
        secrets: Secrets,
        clock: Clock,
        *,
        warn: Callable[[str], None],
        timeouts: Timeouts | None = None,
        pause: float = 2.0,
    ) -> None:
        calls = Calls(settings, secrets, clock, warn=warn, timeouts=timeouts or Timeouts(), pause=pause)
        super().__init__(calls)
