"""Begin a command: until it is ready to end in order, Ctrl-C ends it at once and without a traceback."""

import signal


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # `boundary` listens once the command's modules are there
    from maint.cli.app import main as run

    run()
