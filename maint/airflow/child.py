"""`maint` as a child process, asked to end and never killed; what its exit code means for the Airflow task."""

import errno
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import IO, Any

_KEPT = 200  # lines of standard error
_MOST = 4_000_000  # characters of standard output
_NO_PROGRAM = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENOEXEC, errno.ELOOP)  # at each try


class Child:
    """One command that runs.

    It has a session of its own: Airflow kills a task's whole process group a few seconds after its SIGTERM, and closing
    a redaction window takes longer.

    Args:
        words: the program and its arguments.
        more: variables beside those of this process. Airflow's own, which hold its passwords, are left out, and for a
            program outside its environment where its Python finds packages.
        tell: receives each line of its standard error.

    One that cannot be run ends with 127, as in a shell, or 1 where another try may do, and says why.
    """

    def __init__(self, words: Sequence[str], more: Mapping[str, str], tell: Callable[[str], None]) -> None:
        outside = words[0] != sys.executable
        left = ("AIRFLOW_", "_AIRFLOW_", "__AIRFLOW_", *(("PYTHONPATH", "PYTHONHOME") if outside else ()))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(left)}
        self._tell = tell
        self.lines: deque[str] = deque(maxlen=_KEPT)
        self._out: list[str] = []
        self._asked = False
        self._process: subprocess.Popen[str] | None = None
        self._never = 0  # the exit code of one that cannot be run
        self._readers: list[threading.Thread] = []
        try:
            self._process = subprocess.Popen(
                list(words),
                env={**kept, **more},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            self._never = 127 if error.errno in _NO_PROGRAM else 1
            self.lines.append(f"{words[0]} cannot be run: {error.strerror}")
            tell(self.lines[-1])
            return
        # Waited for in a thread: a caller that a signal interrupts while it waits for a process cannot wait again.
        threading.Thread(target=self._process.wait, daemon=True).start()
        pipes = ((self._listen, self._process.stderr), (self._collect, self._process.stdout))
        self._readers += [threading.Thread(target=target, args=(pipe,), daemon=True) for target, pipe in pipes]
        for thread in self._readers:
            thread.start()

    def wait(self) -> int:
        """Wait for its end, and return its exit code; below zero: ended by that signal."""
        self._has_ended(math.inf)
        for thread in self._readers:
            thread.join(10)  # something that it started may hold the pipes open
        code = self._code
        assert code is not None  # it has ended
        return code

    def stop(self, grace: float) -> bool:
        """Ask it once to end in order, as SIGTERM does, and wait so many seconds; return whether it has ended."""
        if self._process is not None and not self._asked:
            self._asked = True  # asked again, it would begin anew to close what it is closing
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
        return self._has_ended(grace)

    def _has_ended(self, seconds: float) -> bool:
        # Looked at, not joined: a thread that an interrupted `join` had waited for counts as ended up to Python 3.12.
        end = time.monotonic() + seconds
        while self._code is None and time.monotonic() < end:
            time.sleep(0.05)
        return self._code is not None

    @property
    def _code(self) -> int | None:
        return self._never if self._process is None else self._process.returncode

    @property
    def result(self) -> Any:  # Any: as JSON has it
        """What it printed, read as JSON; None where it printed none, or too much for a database."""
        text = "".join(self._out)
        try:
            return json.loads(text) if len(text) <= _MOST else None
        except (ValueError, RecursionError):
            return None

    def _listen(self, pipe: IO[str]) -> None:
        for line in pipe:
            self.lines.append(line)
            self._tell(line)

    def _collect(self, pipe: IO[str]) -> None:
        size = 0
        for line in pipe:
            size += len(line)
            if size <= _MOST + len(line):
                self._out.append(line)


def report_in(result: object) -> str:
    """Return the report that a run wrote, as text; "" where it wrote none, or on another machine."""
    report = result.get("report") if isinstance(result, dict) else None
    path = report.get("md") if isinstance(report, dict) else None
    try:
        return Path(path).read_text("utf-8", "replace") if isinstance(path, str) else ""
    except OSError:
        return ""


class TaskOutcome(Enum):
    """What becomes of a task."""

    DONE = "success"
    NEVER = "failed, and tried no more: another try would end the same way"
    PARTLY = "failed with what is left, and tried no more: what could be done is done"
    HELD = "waiting: another run holds the site; that takes no try"
    AGAIN = "tried again while tries are left; the next one goes on with the same run"


# Whatever is not named here is tried again: a code of the shell's, or a child that was killed (below zero).
_BY_EXIT = {
    0: TaskOutcome.DONE,
    2: TaskOutcome.NEVER,  # wrong usage
    3: TaskOutcome.NEVER,  # config or playbook invalid
    5: TaskOutcome.NEVER,  # refused
    6: TaskOutcome.HELD,
    7: TaskOutcome.PARTLY,
    8: TaskOutcome.PARTLY,  # --exit-code: there are differences
    70: TaskOutcome.NEVER,  # a bug in maint
    127: TaskOutcome.NEVER,  # there is no such program
}


def outcome_of(code: int) -> TaskOutcome:
    """Return what becomes of a task whose command ended with a code; below zero: by that signal."""
    return _BY_EXIT.get(code, TaskOutcome.AGAIN)


def reason(code: int, lines: Iterable[str], result: object = None) -> str:
    """Return why a command failed: its error object, else what a check found broken, else its last line."""
    why = last = ""
    for line in lines:
        last = line.strip() or last
        try:
            error = json.loads(line)["error"]
            told = [error["message"], *error["detail"], *([f"hint: {error['hint']}"] if error["hint"] else [])]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        why = "; ".join(map(str, told))
    how = f"exit {code}" if code >= 0 else f"signal {-code}"
    return f"maint: {why or _broken(result) or last or 'it said nothing'} ({how})"


def _broken(result: object) -> str:
    found = result.get("findings") if isinstance(result, dict) else None
    try:
        failed = [one for one in found or () if one["state"] == "fail"]
        return "; ".join(f"{one['check']} ({', '.join(one['hosts']) or 'site'}): {one['observed']}" for one in failed)
    except (KeyError, TypeError):
        return ""


def last_verified(code: int, result: object) -> dict[str, Any] | None:
    """Return the newest verified backup of what `backup list` printed; None: there is none, or none can be seen now.

    Raises:
        ValueError: it ended well, and printed something else: it is no `maint`, or says more than is kept.
    """
    found = result.get("last_verified") if isinstance(result, dict) else None
    if isinstance(found, dict) and {"id", "age"} <= found.keys():
        return found
    if code == 0 and (found is not None or not isinstance(result, dict) or "last_verified" not in result):
        raise ValueError("`backup list` ended well and printed no list of backups: is `program` the path of a maint?")
    return None


def words_of(command: Sequence[str]) -> list[str]:
    """Return a command word by word, a number as its digits; ValueError for one text, which is a row of letters."""
    if isinstance(command, str):
        raise ValueError(f"`command` is one text, and has to be a list of words, such as {command.split()}")
    return [str(word) for word in command]


def as_log_line(line: str) -> tuple[str, bool]:
    """Return a line of standard error as the log has it, and whether it warns."""
    try:
        found = json.loads(line)
        if "warning" in found:
            return str(found["warning"]), True
        return str(found["error"]["message"]), True
    except (ValueError, KeyError, TypeError, RecursionError):
        return line.rstrip(), False
