"""A time as reports tell it."""

from datetime import datetime

import msgspec

from maint.model.formatting import show_duration

_DAY, _HOUR, _MINUTE = 86_400.0, 3_600.0, 60.0  # seconds


class Moment(msgspec.Struct, frozen=True):
    """A time in the reader's words, with the exact one beside; a template writes it as HTML."""

    words: str
    exact: str = ""
    iso: str = ""

    def __html__(self) -> str:
        """Return it as HTML; all of it is ours."""
        day, _, rest = self.exact.partition(" ")
        known = f'<time datetime="{self.iso}">{self.words}</time> <small><span>{day}</span> {rest}</small>'
        return known if self.iso else self.words


def moment(at: datetime | None, now: datetime, *, whole_days: bool = False) -> Moment:
    """Return how long ago a time was, as exactly as people say it; beyond a day `whole_days` may do."""
    if at is None:
        return Moment("never")
    away = (now - at).total_seconds()
    for unit, beyond in (_DAY, _DAY if whole_days else 4 * _DAY), (_HOUR, _DAY), (_MINUTE, _MINUTE):
        if abs(away) > beyond:
            away = away // unit * unit
            break
    words = "now" if abs(away) < 1 else f"{show_duration(away)} ago" if away > 0 else f"in {show_duration(-away)}"
    return Moment(words, f"{at:%Y-%m-%d %H:%M} UTC", at.isoformat())
