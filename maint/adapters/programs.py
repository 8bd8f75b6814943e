"""Run the operator's programs on this machine; none is given anything that could hold a secret."""

import os
from collections.abc import Sequence
from pathlib import Path

from maint.config.programs import plain_environment, run_program
from maint.errors import WorkFailed
from maint.model.secret import scrub

_TAIL = 64 * 1024  # bytes of what a program prints, for the lines that are shown where it fails


class LocalPrograms:
    """`ports.Programs`."""

    def run(self, words: Sequence[str], given: bytes, timeout: float, folder: Path = Path("/")) -> None:
        """Run a program with its standard input, for at most so many seconds; WorkFailed: it did not end with 0."""
        environ = plain_environment(os.environ)
        try:
            ended = run_program(words, environ=environ, folder=folder, timeout=timeout, given=given, tail=_TAIL)
        except TimeoutError as error:
            hint = "run it by hand as the user who runs maint: it may wait for an answer"
            raise WorkFailed(f"{words[0]} {error}", hint=hint) from None
        except OSError as error:
            hint = "name a program by its whole path, which the user who runs maint may run"
            raise WorkFailed(f"{words[0]} cannot be started: {error.strerror}", hint=hint) from None
        if ended.status:
            said = scrub((ended.err or ended.out).decode(errors="replace")).strip().splitlines()
            hint = "run it by hand as the user who runs maint, with what it reads on its standard input"
            raise WorkFailed(f"{words[0]} ended with status {ended.status}", detail=said[-3:], hint=hint)
