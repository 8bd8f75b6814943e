"""Run a program of the operator's with the event on its standard input, and no secret in its environment."""

import os
from pathlib import Path

from maint.adapters.notify.way import Say
from maint.config.notices import NoticeSettings
from maint.config.programs import plain_environment, run_program
from maint.errors import WorkFailed
from maint.model.notice import Notice


def run(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Run it; WorkFailed: it cannot be started, ended with another status than 0, or did not end in time."""
    if one.exec is None:
        return
    words = one.exec.command
    try:
        ended = run_program(
            words,
            environ=plain_environment(os.environ),
            folder=Path("/"),
            timeout=one.timeout,
            given=say.body("json", notice),
        )
    except TimeoutError as error:
        raise WorkFailed(
            f"{words[0]} {error}", hint="run it by hand as the user who runs maint: it may wait for an answer"
        ) from None
    except OSError as error:
        raise WorkFailed(
            f"{words[0]} cannot be started: {error.strerror}",
            hint="is it installed, and may the user who runs maint run it?",
        ) from None
    if ended.status:
        said = ended.err.decode(errors="replace").strip().splitlines()
        raise WorkFailed(
            f"{words[0]} ended with status {ended.status}",
            detail=said[-1:],
            hint="run it by hand as the user who runs maint",
        )
