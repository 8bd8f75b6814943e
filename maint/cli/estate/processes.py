"""The processes that work for one site each: started, bounded, signalled, and read when they have ended."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from threading import Lock, Thread, Timer
from typing import IO

import msgspec

from maint.errors import WorkFailed, shortage
from maint.model.json import Json

_OF_ONE = ("MAINT_SITE", "MAINT_OUTPUT")  # said to each process in so many words
ONE_OF_MANY = "MAINT_ONE_OF_MANY"  # said to each process: who began it does what is done once for all
_PROGRAM = (sys.executable, "-P", "-m", "maint")  # -P: never what lies in the working folder
_LINES = 10_000  # of what a process says beside its result, the last ones are kept
_LAST_LINES = 5.0  # seconds for them to arrive once the process has ended


class SiteCall(msgspec.Struct, frozen=True):
    """What is done for one site: the words of the command, and its limit in seconds."""

    site: str
    words: tuple[str, ...]
    limit: float


class ProcessEnd(msgspec.Struct, frozen=True):
    """How a site's process ended; `error` is its error object, `result` what it printed."""

    site: str
    exit: int
    error: Mapping[str, Json] | None = None
    result: Json = None
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0


class Processes:
    """Processes of sites; safe for threads.

    Args:
        grace: seconds beyond its limit in which a process puts things back before it is asked to end, and again from
            there, or from a signal that is passed on, until it is killed.
        program: what is called; words follow.
        heard: is told each event of a site as it comes, where the processes write such; from threads.
    """

    def __init__(
        self,
        grace: float,
        *,
        program: Sequence[str] = _PROGRAM,
        heard: Callable[[str, Mapping[str, Json]], None] | None = None,
    ) -> None:
        self._heard = heard
        self._grace = grace
        self._program = program
        self._live = set["subprocess.Popen[bytes]"]()
        self._lock = Lock()
        self._stopped: int | None = None

    def carry_out(self, call: SiteCall) -> ProcessEnd:
        """Carry a call out and wait for its end; after a signal none begins any more.

        One that cannot begin, such as where there may be no further process, ends so: the others go on.
        """
        begun = time.monotonic()
        with ExitStack() as stack:
            try:
                out, words = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
                process = self._start(call, out, words)
            except OSError as error:
                return _not_begun(call.site, error)
            if process is None:
                number = self._stopped or signal.SIGTERM
                return ProcessEnd(
                    call.site, 128 + number, _error("not begun: the others were interrupted", 128 + number)
                )
            kept = deque[bytes](maxlen=_LINES)
            listener = self._listened(process, call.site, kept)
            try:
                in_time = self._waited(process, call.limit)
                if listener is not None:  # what a grandchild might still say is not waited for
                    listener.join(_LAST_LINES)
            finally:
                with self._lock:
                    self._live.discard(process)
            took = time.monotonic() - begun
            said = _text(words) if listener is None else _decoded(b"".join(kept))
            asked = self._stopped is not None and process.returncode == -self._stopped
            found = _read(call, process.returncode, _text(out), said, took, in_time=in_time)
            # It had not begun to listen to signals, so that it could say nothing itself.
            return msgspec.structs.replace(found, error=_error("interrupted", found.exit)) if asked else found

    def forward(self, number: int) -> None:
        """Send a signal to all processes, begin no further ones, and kill those that outlast the grace."""
        with self._lock:
            self._stopped = number
            for process in self._live:
                process.send_signal(number)
        timer = Timer(self._grace, self._kill)
        timer.daemon = True
        timer.start()

    def _start(self, call: SiteCall, out: IO[bytes], words: IO[bytes]) -> "subprocess.Popen[bytes] | None":
        environ = {key: value for key, value in os.environ.items() if key not in _OF_ONE} | {ONE_OF_MANY: "1"}
        with self._lock:
            if self._stopped is not None:
                return None
            # A session of its own: Ctrl-C reaches it once, through us, and all that it started can be ended with it.
            process = subprocess.Popen(
                [*self._program, *call.words], stdin=subprocess.DEVNULL, stdout=out, env=environ,
                stderr=words if self._heard is None else subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
            self._live.add(process)
            return process

    def _listened(self, process: "subprocess.Popen[bytes]", site: str, kept: deque[bytes]) -> Thread | None:
        """Pass on what a process says while it says it, and keep it."""
        if (heard := self._heard) is None or (said := process.stderr) is None:
            return None

        def listen() -> None:
            with said:
                for line in said:
                    with self._lock:
                        if process not in self._live:  # the answer has been read
                            return
                        kept.append(line)
                    if isinstance(found := _json(_decoded(line)), Mapping):
                        heard(site, found)

        thread = Thread(target=listen, daemon=True)
        thread.start()
        return thread

    def _waited(self, process: "subprocess.Popen[bytes]", limit: float) -> bool:
        """Wait for the end of a process; False where it had to be ended."""
        for patience, number in ((limit + self._grace, signal.SIGTERM), (self._grace, signal.SIGKILL)):
            try:
                process.wait(patience)
                return number is signal.SIGTERM
            except subprocess.TimeoutExpired:
                _signal_group(process, number)
        process.wait()
        return False

    def _kill(self) -> None:
        with self._lock:
            for process in self._live:
                _signal_group(process, signal.SIGKILL)


def _not_begun(site: str, error: OSError) -> ProcessEnd:
    hint = f"fewer at once: --at-once 1; or alone: --site {site}"
    failure = shortage(error) or WorkFailed(f"it could not be begun: {error.strerror or error}", hint=hint)
    return ProcessEnd(site, failure.exit_code, _error(failure.message, failure.exit_code, failure.hint))


def _signal_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return _decoded(file.read())


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _read(call: SiteCall, code: int, out: str, words: str, took: float, *, in_time: bool) -> ProcessEnd:
    told = [found for line in words.splitlines() if isinstance(found := _json(line), Mapping)]
    warnings = tuple(str(one["warning"]) for one in told if "warning" in one)
    errors = [one["error"] for one in told if isinstance(one.get("error"), Mapping)]
    error = errors[-1] if errors else None
    status = code if code >= 0 else 128 - code
    if not in_time:
        status = WorkFailed.exit_code
        error = _error("it went on beyond its limit, and was ended", status, f"maint doctor --site {call.site}")
    elif code < 0:
        error = _error(f"it was ended by {_signal(-code)}", status, f"maint doctor --site {call.site}")
    elif error is None and status and _json(out) is None:  # cut off, too, where there is no room for it
        last = (words.strip().splitlines() or ["it said nothing"])[-1]
        error = _error(str(told[-1]["message"]) if told and "message" in told[-1] else last, status)
    assert error is None or isinstance(error, Mapping)
    return ProcessEnd(call.site, status, error, _json(out), warnings, took)


def _json(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def _signal(number: int) -> str:
    known = {*signal.Signals}
    return signal.Signals(number).name if number in known else f"signal {number}"


def _error(message: str, code: int, hint: str | None = None) -> dict[str, Json]:
    return {"message": message, "detail": [], "hint": hint, "exit": code}
