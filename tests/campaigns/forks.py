"""Forks of a process in which a lab's threads run, and commands in them that are killed."""

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from maint.adapters.http.transport import Transport
from maint.adapters.ssh.shell import FabricShell
from tests.steps.operator import Operator, Said

KILLED = -signal.SIGKILL
CALLS: list[tuple[Any, str]] = [
    (Transport, "_send"), (FabricShell, "_run"), (FabricShell, "write_file"),
    (os, "fsync"), (os, "rename"), (os, "replace"), (os, "link"), (os, "unlink"), (os, "mkdir"),
]  # fmt: skip

_QUIET = 0.03  # seconds without a thread that begins or ends
_LONGEST = 5.0  # seconds that are waited for that


def fork() -> int:
    """Fork, and return what `os.fork` does, once the threads that served the last command have ended.

    A lock of OpenSSL that one of them holds at that moment would stay taken in the child, which would wait for ever.
    """
    seen, since = 0, 0.0
    end = time.monotonic() + _LONGEST
    while (now := time.monotonic()) < end and not (seen == threading.active_count() and now - since >= _QUIET):
        if seen != threading.active_count():
            seen, since = threading.active_count(), now
        time.sleep(_QUIET / 10)
    return os.fork()


def counted(strike: Callable[[], None]) -> None:
    """Have `strike` called before and after each of the calls."""
    for place, name in CALLS:
        real = getattr(place, name)

        @wraps(real)
        def struck(*given: Any, _real: Callable[..., Any] = real, **more: Any) -> Any:
            strike()
            try:
                return _real(*given, **more)
            finally:
                strike()

        setattr(place, name, struck)


def carried_out(operator: Operator, words: Sequence[str], at: float | None, answer: Path) -> tuple[Said, int]:
    """Carry a command out in a child that dies at its n-th call, after a time (`float`), or not.

    Return what it said, and how many calls it made.
    """
    answer.unlink(missing_ok=True)
    child = fork()
    if not child:
        seen = [0]

        def strike() -> None:
            seen[0] += 1
            if seen[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            counted(strike)
            said = operator(*words)
            whole = answer.with_suffix(".new")
            whole.write_text(json.dumps([said.code, said.out, said.err, seen[0]]))
            whole.rename(answer)
        except BaseException:
            answer.write_text(json.dumps([70, "", traceback.format_exc(), seen[0]]))
        finally:
            os._exit(0)
    try:
        if isinstance(at, float):
            end = time.monotonic() + at
            while time.monotonic() < end and not answer.exists():
                time.sleep(0.001)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except BaseException:  # whoever interrupts this leaves no child behind
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    if not answer.exists():
        return Said(KILLED, "", ""), 0
    code, out, err, calls = json.loads(answer.read_text())
    assert "bug in maint" not in err and "Traceback" not in err, (words, at, err)
    return Said(code, out, err), calls
