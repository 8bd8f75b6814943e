"""Run a program of the operator's on this machine: no shell, a limit in time, and nothing of it left behind."""

import os
import select
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

# What a program is given of our environment where it needs no more: nothing that could hold a secret.
_PLAIN = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR")

MOST = 1024 * 1024  # bytes that are kept of what a program prints
_BLOCK = 64 * 1024


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
    """Run a program, and kill it with all it started after `timeout` seconds (TimeoutError); raises OSError.

    Of what it prints the first `MOST` bytes are kept.
    """
    end = time.monotonic() + timeout
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
        out, err = _exchanged(process, given or b"", end)
        process.wait(max(end - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"did not end within {timeout:g} s") from None
    finally:
        _end(process)
    return Finished(process.returncode, out, err)


def _exchanged(process: subprocess.Popen[bytes], given: bytes, end: float) -> tuple[bytes, bytes]:
    """Hand a program its input while what it prints is taken; raises TimeoutExpired."""
    left, out, err = memoryview(given), bytearray(), bytearray()
    with selectors.DefaultSelector() as streams:
        for stream, kept in ((process.stdout, out), (process.stderr, err)):
            if stream is not None:
                streams.register(stream, selectors.EVENT_READ, kept)
        if process.stdin is not None:
            streams.register(process.stdin, selectors.EVENT_WRITE)
        while streams.get_map():
            ready = streams.select(max(end - time.monotonic(), 0.0))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, end)
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    left = _fed(key.fd, left)
                    if not left:
                        streams.unregister(process.stdin)
                        process.stdin.close()
                elif block := os.read(key.fd, _BLOCK):
                    key.data.extend(block[: MOST - len(key.data)])
                else:
                    streams.unregister(key.fileobj)
    return bytes(out), bytes(err)


def _fed(pipe: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(pipe, left[: select.PIPE_BUF]) :] if left else left
    except BrokenPipeError:  # it wants no more
        return left[:0]


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
