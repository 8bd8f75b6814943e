"""Run a program of the operator's on this machine: no shell, a limit in time, and nothing of it left behind."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

# What a program is given of our environment where it needs no more: nothing that could hold a secret.
_PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")


class Finished(msgspec.Struct, frozen=True):
    """How a program ended."""

    status: int
    out: bytes
    err: bytes


def plain_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that programs are given which must see no secret."""
    return {name: environ[name] for name in _PLAIN if name in environ}


def run_program(
    words: Sequence[str], *, environ: Mapping[str, str], folder: Path, timeout: float, given: bytes | None = None
) -> Finished:
    """Run a program, and kill it with all it started after `timeout` seconds (TimeoutError); raises OSError."""
    process = subprocess.Popen(
        words,
        env=dict(environ),
        cwd=folder,
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(given, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"did not end within {timeout:g} s") from None
    finally:
        _end(process)
    return Finished(process.returncode, out, err)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        # Its number is still taken, even when it has ended and only a child of it holds the pipe.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):  # what it did not read
                stream.close()
