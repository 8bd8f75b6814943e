"""Export the deployment (contract section 7)."""

from collections.abc import Iterator
from contextlib import contextmanager

from maint.adapters.manager.commands import Commands
from maint.adapters.manager.stream import Streamed
from maint.adapters.manager.transport import Call
from maint.ports import Answer


class Exports(Commands):
    """The one call that streams."""

    @contextmanager
    def deployment(self, *, redacted: bool = False) -> Iterator[Answer]:
        """Stream `GET /cm/deployment` at the pinned version; with `redacted`, its `export_redacted` view."""
        root = self._calls.root(self._calls.settings.api.deployment)
        path = f"{root}/cm/deployment?view={'export_redacted' if redacted else 'export'}"
        answer = self._calls.ask(Call("GET", path, read=self._calls.timeouts.export))
        if answer.status_code != 200:
            self._calls.whole(answer, f"GET {root}/cm/deployment")
        stream = Streamed(answer, "the export")
        try:
            yield stream
        finally:
            stream.close()
