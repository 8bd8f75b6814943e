"""The one error boundary: a foreseen failure is shown and becomes an exit code, a bug leaves a report."""

import os
import platform
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from types import FrameType

import maint
from maint.cli.screen import Screen
from maint.errors import Interrupted, MaintError, UsageError

BUG = 70


def guarded(screen: Callable[[], Screen], work: Callable[[], int | None]) -> int:
    """Run a command and return its exit code.

    Args:
        screen: where failures are shown.
        work: the command; None is exit code 0.
    """
    _listen()
    shown = screen()
    try:
        if shown.output not in ("table", "json", "yaml", "junit", "nagios", "text"):
            raise UsageError(f"there is no output {shown.output!r}", hint="-o table, json or yaml")
        return work() or 0
    except MaintError as error:
        shown.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush into
        return 0
    except Exception as error:
        shown.error(_bug(error))
        return BUG


def _listen() -> None:
    """Turn SIGINT and SIGTERM into a failure that ends the run in order."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number, hint="`maint playbook resume` takes an unfinished run up again")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def _bug(error: Exception) -> MaintError:
    """Write a crash report without any values, and return the failure that names it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f"maint {maint.__version__}, Python {platform.python_version()}, {platform.system()}",
        type(error).__name__,
    ]
    lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    handle, path = tempfile.mkstemp(prefix="maint-crash-", suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write("\n".join(lines) + "\n")
    failure = MaintError(
        f"this is a bug in maint: {type(error).__name__}",
        detail=[f"{frames[-1].filename}:{frames[-1].lineno}"] if frames else [],
        hint=f"the report {path} holds no values of yours; send it with what you did",
    )
    failure.exit_code = BUG
    return failure
