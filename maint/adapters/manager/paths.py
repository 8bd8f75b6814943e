"""Percent-encoded paths: a name from the API stands in one segment, whatever it holds (contract section 2.3)."""

from urllib.parse import quote

from maint.errors import UsageError


def segment(name: str) -> str:
    """Return a name as one path segment: a blank becomes %20, a slash %2F.

    Raises:
        UsageError: it is empty, `.` or `..`, which every client and server would read as another path.
    """
    if name in ("", ".", ".."):
        raise UsageError(f"{name!r} cannot be the name of anything in the manager")
    return quote(name, safe="")
