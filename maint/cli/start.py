"""Begin a command, and end it: both quickly, for a short command spends most of its time on what it imports."""

import gc
import signal

_NEW_OBJECTS = 50_000  # between two looks for garbage; a command imports twice as many, and keeps them all


def main() -> None:
    """Run the command line."""
    # Until `boundary` listens, and it is ready to end in order, Ctrl-C ends a command at once and without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(_NEW_OBJECTS)
    try:
        from maint.cli.app import main as run

        run()
    finally:
        gc.freeze()  # what ends with the process is not looked through once more on the way out
