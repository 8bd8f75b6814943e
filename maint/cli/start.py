"""Begin a command: what must hold before anything else of ours is imported."""

import resource
import signal


def main() -> None:
    """Run the command line."""
    # Until `boundary` listens, and it is ready to end in order, Ctrl-C ends a command at once and without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the secrets of the platform
    from maint.cli.app import main as run

    run()
