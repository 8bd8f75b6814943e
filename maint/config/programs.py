"""Run a program of the operator's on this machine: no shell, a limit in time, at which it goes with all it started.

It has ended once it and whoever holds its streams have; an agent that it leaves on purpose, with other streams, stays.
"""

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

import msgspec

# What a program is given of our environment where it needs no more: nothing that could hold a secret.
_PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")

LARGEST = 4_000_000  # bytes that a program may print
_BLOCK = 64 * 1024
_GONE = 5.0  # seconds for a program that was killed to be gone


class Finished(msgspec.Struct, frozen=True):
    """How a program ended."""

    status: int
    out: bytes
    err: bytes


def plain_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that programs are given which must see no secret."""
    return {name: environ[name] for name in _PLAIN if name in environ}


def run_program(
    words: Sequence[str],
    *,
    environ: Mapping[str, str],
    folder: Path,
    timeout: float,
    given: bytes | None = None,
    tail: int = 0,
) -> Finished:
    """Run a program; OSError, or TimeoutError after so many seconds: it and what it began are killed, if we may.

    Args:
        tail: keep only so many of the last bytes that it prints, however many; 0: all, and OSError for too many.
    """
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
        out, err = _talked(process, given, timeout, tail)
    finally:
        _end(process)
    return Finished(process.returncode, out, err)


def _talked(process: subprocess.Popen[bytes], given: bytes | None, timeout: float, tail: int) -> tuple[bytes, bytes]:
    until = time.monotonic() + timeout
    left, printed = memoryview(given or b""), {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for stream in printed:
            selector.register(cast(IO[bytes], stream), selectors.EVENT_READ)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            for key, _ in _ready(selector, until, timeout):
                stream = cast(IO[bytes], key.fileobj)
                if stream is process.stdin:
                    try:
                        left = left[os.write(key.fd, left[:_BLOCK]) :]
                    except BrokenPipeError:  # it does not read on; its status says how it went
                        left = left[:0]
                elif block := os.read(key.fd, _BLOCK):
                    printed[stream] += block
                    if tail:
                        del printed[stream][:-tail]
                    elif sum(map(len, printed.values())) > LARGEST:
                        raise OSError(errno.EFBIG, f"it printed more than {LARGEST} bytes, and was ended")
                    continue
                if stream is not process.stdin or not left:
                    selector.unregister(stream)
                    stream.close()
    try:
        process.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"did not end within {timeout:g} s") from None
    return bytes(printed[process.stdout]), bytes(printed[process.stderr])


def _ready(selector: selectors.BaseSelector, until: float, timeout: float) -> list[tuple[selectors.SelectorKey, int]]:
    if not (found := selector.select(max(until - time.monotonic(), 0))) and time.monotonic() >= until:
        raise TimeoutError(f"did not end within {timeout:g} s")
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        # Its number is still taken, even when it has ended and only a child of it holds the pipe.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # it may be another account's, as by sudo, which we cannot end
            process.wait(_GONE)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):  # what it did not read
                stream.close()
