"""The one error boundary: a foreseen failure is shown and becomes an exit code, a bug leaves a report."""

import errno
import math
import os
import platform
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

import maint
from maint.adapters.clock import looking_up, raise_again
from maint.cli.screen import COLORS, LOG_FORMATS, Screen
from maint.errors import (
    BUG,
    TEMPORARY_ROOM,
    Interrupted,
    MaintError,
    Stopped,
    UsageError,
    WorkFailed,
    is_of_a_library,
    mend_of,
    shortage,
)


class ExitCode(msgspec.Struct, frozen=True):
    """What an exit code means, whether anything was touched, and what to do next."""

    meaning: str
    touched: str
    then: str = ""


_RESUME = "`maint playbook resume`"
EXIT_CODES = {
    0: ExitCode("done, or nothing to do", "as the plan said"),
    1: ExitCode(
        "the work failed: a step, a check, a verification, a time limit; or it waits for something only you can do",
        "possibly; the journal knows",
        f"read the message; {_RESUME} where it says so",
    ),
    2: ExitCode("wrong usage, or a name that does not exist", "no", "`maint NOUN VERB --help`"),
    3: ExitCode(
        "config, playbook or secret reference invalid", "no", "correct the place that is named (file:line:column)"
    ),
    4: ExitCode(
        "cannot reach, cannot trust the TLS chain, or not let in",
        "no: a run that had begun to change something ends with 1",
        "`maint site status`",
    ),
    5: ExitCode(
        "refused: a guard, a stale plan, not confirmed; no backup there yet to choose",
        "no, or only what earlier steps did",
        "do what the hint says, then run it again",
    ),
    6: ExitCode(
        "another run holds the lock, or another machine the lease", "no", "the message names user, host and run; wait"
    ),
    7: ExitCode(
        "partly done", "yes", "the lines above it say what is left; a redacted backup ends so (`maint help redaction`)"
    ),
    8: ExitCode("there are differences, and --exit-code asked for it", "no", "look at what is listed"),
    BUG: ExitCode(
        "a bug in maint, or its installation is damaged",
        "possibly",
        f"the path of a crash report is printed; it holds no values of yours. Then {_RESUME}",
    ),
    129: ExitCode(
        "interrupted by SIGHUP, as when the terminal or its connection is lost; `nohup` goes on", "possibly", _RESUME
    ),
    130: ExitCode("interrupted by Ctrl-C", "possibly", _RESUME),
    143: ExitCode("interrupted by SIGTERM", "possibly", _RESUME),
}
OUTPUTS = ("table", "json", "yaml")


def guarded(screen: Callable[[], Screen], work: Callable[[], int | None], more_outputs: Sequence[str] = ()) -> int:
    """Run a command (None is exit code 0) and return its exit code; failures are shown on the screen."""
    shown = screen()
    try:
        with listening():
            _check(shown, (*OUTPUTS, *more_outputs))
            return work() or 0
    except MaintError as error:
        if _received[0]:  # it may come out as another failure, where a library took it for its own
            error.exit_code = 128 + _received[0]
        shown.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a library in Rust panics with what is no Exception
        failure = _stopped(error) or foreseen(error)
        shown.error(failure)
        return failure.exit_code


def _check(shown: Screen, known: Sequence[str]) -> None:
    if shown.output not in known:
        words = f"-o or MAINT_OUTPUT: this command has no output {shown.output!r}"
        raise UsageError(words, hint=f"-o {', '.join(known[:-1])} or {known[-1]}")
    if shown.log_format not in LOG_FORMATS:
        raise UsageError(f"--log-format {shown.log_format!r} is not known", hint=f"one of {', '.join(LOG_FORMATS)}")
    if shown.color not in COLORS:
        raise UsageError(f"--color or MAINT_COLOR: {shown.color!r} is not known", hint=f"one of {', '.join(COLORS)}")


_received = [0]  # the newest signal that asks this process to end; 0: none
_heard = [-math.inf]  # when that was, as `time.monotonic` has it
_deaf = [False]  # whether what is under way is only to be told
_HELD = 0.5  # seconds without a signal after which the next one is another: a held key repeats, and wrappers pass on


def insist() -> None:
    """Raise `Interrupted` where a signal came, also where what it raised was swallowed: nothing more must be begun."""
    if _received[0]:
        raise Interrupted(_received[0])


@contextmanager
def undisturbed() -> Iterator[None]:
    """Have signals only noted: what is done here takes a moment, and lost is what somebody must know."""
    _deaf[0] = True
    try:
        yield
    finally:
        _deaf[0] = False


@contextmanager
def listening() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into a failure that ends the run in order, and that Python cannot lose.

    Afterwards each ends the process at once: nothing is left to put back, and a terminal may never take the last words.
    """
    _received[0], _heard[0] = 0, -math.inf
    working = True

    def interrupt(number: int, _frame: FrameType | None) -> None:
        before, _heard[0], _received[0] = _heard[0], time.monotonic(), number
        if number == signal.SIGHUP:
            _let_go_of_lost_terminals()
        if _deaf[0] or _heard[0] - before < _HELD:  # it would stop what the one before has begun to put back
            return
        if not working:
            os._exit(128 + number)
        raise Interrupted(number)  # the run under way adds how to take it up again

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # which is what `nohup` asks for
            signal.signal(number, interrupt)
    if not isinstance(sys.unraisablehook, _Unraisable):
        sys.unraisablehook = _Unraisable(sys.unraisablehook)
    try:
        with looking_up():
            yield
    finally:
        working = False


class _Unraisable:
    """Python's hook for what was raised where it must ignore it: finalizers, callbacks of weak references."""

    def __init__(self, before: Callable[["sys.UnraisableHookArgs"], object]) -> None:
        self._before = before

    def __call__(self, unraisable: "sys.UnraisableHookArgs", /) -> None:
        if isinstance(unraisable.exc_value, Stopped):
            _heard[0] = -math.inf
            raise_again(unraisable.exc_value)
        else:
            self._before(unraisable)


def _let_go_of_lost_terminals() -> None:
    """Write into the void where the terminal has gone: closing a window must not fail for want of someone to tell."""
    for handle in (1, 2):
        try:
            os.write(handle, b"")
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), handle)


def _stopped(error: BaseException) -> MaintError | None:
    """Return what asked to end where Python or a library made another failure of it, None where this is a bug."""
    elsewhere = is_of_a_library(error)  # one in C or Rust does not even keep what it was raised from
    if _received[0] and (elsewhere or not all(isinstance(one, Exception) for one in (error, error.__cause__) if one)):
        return Interrupted(_received[0])
    if isinstance(error.__cause__, Stopped):  # up to Python 3.11 what is raised while a class is made: RuntimeError
        return error.__cause__
    return error.__context__ if elsewhere and isinstance(error.__context__, Stopped) else None


def foreseen(error: BaseException) -> MaintError:
    """Return a failure as it is shown: what nobody has foreseen as a bug whose crash report is written."""
    if isinstance(error, MaintError):
        return error
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return UsageError("a name is too long for a file", hint="look at the paths that were given")
    return _without_room(error) or shortage(error) or _closed(error) or _adrift(error) or _bug(error)


def _closed(error: BaseException) -> MaintError | None:
    """Return the failure of a path that this account, or its disk, gives nobody, None where this is something else."""
    if not (isinstance(error, OSError) and isinstance(error.filename, str)):
        return None
    if not (hint := mend_of(error)) and error.errno not in (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ESTALE):
        return None
    hint = hint or "name another path, or run it as an account that may look there"
    return WorkFailed(f"{error.filename} cannot be used: {error.strerror}", hint=hint)


def _adrift(error: BaseException) -> MaintError | None:
    """Return the failure of who types in a folder that was deleted, None where this is something else."""
    if isinstance(error, FileNotFoundError) and error.filename is None:
        try:
            Path.cwd()
        except FileNotFoundError:
            return UsageError(
                "the folder in which this was typed is gone", hint="cd into one that is there, then again"
            )
    return None


def _without_room(error: BaseException) -> MaintError | None:
    """Return the failure of a machine on which nothing temporary can be made, None where this is something else."""
    frames = traceback.extract_tb(error.__traceback__)
    if not (isinstance(error, OSError) and frames and frames[-1].filename == tempfile.__file__):
        return None
    words = f"nothing temporary can be made: {error.strerror or error}"
    return WorkFailed(words, hint=TEMPORARY_ROOM)


def _bug(error: BaseException) -> MaintError:
    """Write a crash report without any values, and return the failure that names it, or holds it."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f"maint {maint.__version__}, Python {platform.python_version()}, {platform.system()}",
        type(error).__name__,
    ]
    lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    detail = [f"{frames[-1].filename}:{frames[-1].lineno}"] if frames else []
    try:
        handle, path = tempfile.mkstemp(prefix="maint-crash-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        hint = f"the report {path} holds no values of yours; send it with what you did"
    except OSError as full:
        detail, hint = lines, f"no report could be written ({full.strerror}): send these lines with what you did"
    message = f"this is a bug in maint: {type(error).__name__}"
    if isinstance(error, ImportError | SyntaxError):  # whose words name a module or a file, nothing of the operator's
        message = f"a part of maint cannot be loaded: {error}"
        hint = f"its installation is damaged or incomplete: install it anew; where that mends nothing, {hint}"
    failure = MaintError(message, detail=detail, hint=hint)
    failure.exit_code = BUG
    return failure
