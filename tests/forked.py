"""Commands in processes of their own that are forked from one which has imported what they need, once for all of them.

They are real processes, for real signals; a start of Python takes longer than the work of most. Where arguments,
environments or the start itself are the matter, `Operator.start` begins one by itself.
"""

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import IO

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tests.engine.test_cut_pushes", "tests.acting"])


class Command:
    """A command at work, as `subprocess.Popen` has one: its words are text, its standard input is empty or a file.

    With a `terminal`, the path of one, it is at work on that alone, in a session of its own.
    """

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        *,
        folder: str | None = None,
        terminal: str = "",
        stdin: str = os.devnull,
    ) -> None:
        out, writes_out = FORKED.Pipe(duplex=False)
        err, writes_err = FORKED.Pipe(duplex=False)
        given = (tuple(words), dict(env), folder or str(Path.cwd()), writes_out, writes_err, terminal, stdin)
        self._process = FORKED.Process(target=_carry_out, args=given, daemon=True)
        self._process.start()
        writes_out.close()
        writes_err.close()
        self.stdout, self.stderr = _reading(out), _reading(err)
        self.pid = self._process.pid or 0

    def poll(self) -> int | None:
        """Return how it ended, below zero by a signal; None while it is at work."""
        return self._process.exitcode

    @property
    def returncode(self) -> int | None:
        """The same."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends, and return how."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("maint", timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait until it ends, and return what it said."""
        said: dict[IO[str], str] = {}

        def read(stream: IO[str]) -> None:
            said[stream] = stream.read()

        readers = [threading.Thread(target=read, args=(one,), daemon=True) for one in (self.stdout, self.stderr)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
        self.wait(timeout)
        self.stdout.close()
        self.stderr.close()
        return said[self.stdout], said[self.stderr]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ends meanwhile, and another process reaps it
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.wait()
        self.stdout.close()
        self.stderr.close()


def _reading(pipe: Connection) -> IO[str]:
    with pipe:
        return os.fdopen(os.dup(pipe.fileno()), encoding="utf-8", errors="replace")


def _carry_out(
    words: Sequence[str],
    env: Mapping[str, str],
    folder: str,
    out: Connection,
    err: Connection,
    terminal: str,
    stdin: str,
) -> None:
    """Be the command: with its arguments, environment, folder and streams, and nothing of whoever forked it."""
    if terminal:
        os.setsid()
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # what began in the background ignores it
    given = os.open(terminal or stdin, os.O_RDWR)  # as the first one of a session, it takes its signals
    for number, stream in enumerate((given, given, given) if terminal else (given, out.fileno(), err.fileno())):
        os.dup2(stream, number)
    os.close(given)
    out.close()
    err.close()
    sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb"), "utf-8", "backslashreplace", line_buffering=True)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.argv = ["maint", *words]
    from maint.cli.start import main

    main()
