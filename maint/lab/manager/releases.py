"""What a release announces and how old a document's shape is (contract section 1, recordings)."""

import re

from maint.lab.manager.document import Doc, clusters, release, users

# First release that announces an API version; the rows from 5.11 on are those of contract section 1.
_ANNOUNCES: tuple[tuple[tuple[int, ...], int], ...] = (
    ((4, 0), 1), ((4, 1), 2), ((4, 5), 3), ((4, 6), 4), ((4, 7), 5), ((5, 0), 6), ((5, 1), 7), ((5, 2), 8),
    ((5, 3), 9), ((5, 4), 10), ((5, 5), 11), ((5, 7), 12), ((5, 8), 13), ((5, 9), 14), ((5, 10), 15), ((5, 11), 16),
    ((5, 12), 17), ((5, 13), 18), ((5, 14), 19), ((6, 0, 0), 30), ((6, 1, 0), 31), ((6, 2, 0), 32), ((6, 3, 0), 33),
    ((7, 0, 3), 40), ((7, 1, 1), 41), ((7, 2, 6), 43), ((7, 4, 3), 44), ((7, 5, 4), 45), ((7, 6, 5), 49),
    ((7, 7, 0), 51), ((7, 11, 0), 54), ((7, 13, 0), 57),
)  # fmt: skip
DEFAULT_RELEASE = "7.6.5"


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a release such as 7.6.5."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def major(text: str) -> int:
    """Return the first number of a release; 7 where there is none."""
    return (numbers(text) or (7,))[0]


def announced(text: str) -> int:
    """Return N of the `vN` that a release announces."""
    wanted = numbers(text) or numbers(DEFAULT_RELEASE)
    known = [api for first, api in _ANNOUNCES if first <= wanted]
    return known[-1] if known else 1


def recorded_at(doc: Doc) -> int:
    """Return the API version at which a document was most likely read, told by its shape."""
    highest = announced(release(doc))
    if any("authRoles" in user for user in users(doc)) or "authRoles" in doc:
        return max(highest, 32)
    if "allHostsConfig" not in doc:
        return min(highest, 2)
    if not _flagged(doc):
        return min(highest, 13)
    if any("uuid" in cluster for cluster in clusters(doc)) or not clusters(doc):
        return min(highest, 19)
    return min(highest, 14)


def _flagged(doc: Doc) -> bool:
    listed = (doc.get("managerSettings") or {}).get("items") or []
    return any("sensitive" in item for item in listed)
