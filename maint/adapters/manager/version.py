"""The API version that a server tells (contract section 3)."""

import re

from maint.errors import WorkFailed

_VERSION = re.compile(r"v([1-9][0-9]*)", re.ASCII)


def parse(text: str) -> int:
    """Return N of `vN`, whatever blanks, line ends and quotes surround it.

    Raises:
        WorkFailed: the text is something else.
    """
    found = _VERSION.fullmatch(text.strip(' \t\r\n"\ufeff'))
    if found is None or len(found[1]) > 4:
        raise WorkFailed(
            f"GET /api/version: {text.strip()[:40]!r} is no version such as v49",
            hint="is this port really the manager's?",
        )
    return int(found[1])
