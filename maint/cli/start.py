"""Begin a command: what must hold before anything else of ours is imported."""

import os
import resource
import signal


def main() -> None:
    """Run the command line."""
    # Until `boundary` listens, and it is ready to end in order, Ctrl-C ends a command at once and without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the secrets of the platform
    if "_MAINT_COMPLETE" in os.environ:  # a shell asks at every Tab, so nothing else is loaded
        from maint.cli.completion.answer import main as run
    else:
        from maint.cli.app import main as run

    run()
