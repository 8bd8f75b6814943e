"""Processes of spark runs: started in a cage where that is allowed, ended with everything they started."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from maint.lab.virtual_clusters import sandbox
from maint.lab.virtual_clusters.application import Application, CannotRun

_CAGE = str(Path(sandbox.__file__))
_POLL = 0.05  # seconds
_GRACE = 2.0  # seconds between asking a process to end and ending it


def caging_works(folder: Path) -> bool:
    """Return whether this system allows private mount namespaces.

    Args:
        folder: any folder; nothing stays in it.
    """
    words = [sys.executable, "-I", _CAGE, sandbox.PROBE, str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def execute(
    application: Application, place: Path, outputs: tuple[Path, Path], killed: threading.Event, *, caged: bool
) -> int:
    """Run an application to its end and return its exit status, negative where a signal ended it.

    Args:
        place: the run's folder, with `mount` and `work`.
        outputs: where its standard output and error go.
        killed: ends it when set.
        caged: whether it sees its files at /app/mount.

    Raises:
        CannotRun: the system forbids the cage after all.
    """
    work = place / "work"
    words = [sys.executable, "-I", _CAGE, str(place / "root"), str(place / "mount"), str(work)] if caged else []
    for output in outputs:
        output.parent.mkdir(parents=True, exist_ok=True)
    with outputs[0].open("ab") as standard, outputs[1].open("ab") as errors:
        process = subprocess.Popen(
            [*words, *application.command], cwd=work, env=application.environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=standard, stderr=errors,
        )  # fmt: skip
    try:
        while process.poll() is None and not killed.wait(_POLL):
            pass
    finally:
        _end(process)
    if process.returncode == sandbox.REFUSED and caged:
        raise CannotRun(outputs[1].read_text(errors="replace").strip())
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and whatever it started."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
