"""A notice as it is told: in words, as JSON, and as chat tools want it."""

from maint.model.formatting import tell_times
from maint.model.notice import Notice
from maint.render import from_file

FORMATS = {"json": "notice.json.j2", "slack": "notice-slack.json.j2", "teams": "notice-teams.json.j2"}


def text_of(notice: Notice) -> str:
    """Return a notice in words, as in a mail."""
    return from_file("notice.txt.j2", {"notice": notice, "when": tell_times(notice.at)})


def body_of(format_: str, notice: Notice) -> bytes:
    """Return what is posted for a notice in one of `FORMATS`."""
    text = text_of(notice)
    below = text.removeprefix(notice.title).lstrip()  # where the title stands by itself
    values = {"notice": notice, "event": notice.to_json(), "text": text, "below": below}
    return from_file(FORMATS[format_], values).encode()
