"""Run a program of the operator's with the event on its standard input."""

from maint.adapters.notify.way import Say
from maint.adapters.programs import LocalPrograms
from maint.config.notices import NoticeSettings
from maint.model.notice import Notice


def run(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Run it; WorkFailed: it cannot be started, ended with another status than 0, or did not end in time."""
    if one.exec is not None:
        LocalPrograms().run(one.exec.command, say.body("json", notice), one.timeout)
