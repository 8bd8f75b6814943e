"""A time as reports tell it."""

import msgspec


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
