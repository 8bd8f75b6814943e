"""Decide which names a stored file may have."""

from maint.errors import Invalid

STAGING = ".staging-"


def split_name(name: str) -> tuple[str, ...]:
    """Return the folders and the file name that a relative name such as `prod/1/manifest.json` consists of.

    Raises:
        Invalid: absolute, empty, with `.` or `..`, with NUL or a backslash, or a part that begins with a dot
            (such are the stores' own).
    """
    parts = tuple(name.split("/"))
    if any(not part or part.startswith(".") or "\0" in part or "\\" in part for part in parts):
        raise Invalid(f"{name!r} is no name for a stored file")
    return parts


def split_prefix(prefix: str) -> tuple[str, ...]:
    """Return the folders of a prefix; empty for the store itself."""
    return split_name(prefix) if prefix else ()
