"""Servers that tests script."""

from pytest_httpserver import HTTPServer

_LOOKS_AGAIN = 0.01  # seconds


class ScriptedServer(HTTPServer):
    """As the library has it, but told to stop it does so at once, not within half a second."""

    def thread_target(self) -> None:
        """Serve until told to stop."""
        assert self.server is not None
        self.server.serve_forever(poll_interval=_LOOKS_AGAIN)
