"""Tell what two unread lists or elements plainly have in common, so that only the rest has to be read."""

from maint.deployment.records import Unparsed, named_once, split
from maint.deployment.tree import Items, UnreadItems

_BEGIN, _BETWEEN, _END = b"[ {\n", b"}, {\n", b"} ]"


def unlike(before: UnreadItems, after: UnreadItems) -> tuple[Items, Items] | None:
    """Return what each of two closed lists has that the other has not; None where their names do not tell.

    Names tell where every element has one of its own: then elements that say the same are the same ones.
    """
    mine, theirs = _by_name(before), _by_name(after)
    if mine is None or theirs is None:
        return None
    for name, element in list(theirs.items()):
        twin = mine.get(name)
        if twin and (twin.content == element.content or alike(twin.content, element.content)):
            del mine[name], theirs[name]
    left, right = before.unread(mine.values()), after.unread(theirs.values())
    if before.own is None and not after.leaned_on:
        after.own, before.leaned_on = right, True
    return left, right


def _by_name(items: UnreadItems) -> dict[str, Unparsed] | None:
    elements = split(items.whole)
    found = {element.name: element for element in elements or ()}
    return found if elements and len(found) == len(elements) else None


def alike(one: bytes, other: bytes) -> bool:
    """Tell whether two elements in the server's own style are plainly the same but for the order of their settings.

    A line break never stands inside a text. So where an element holds one list only, `}, {` at the end of a line ends
    a setting and begins another. Two elements with the same settings in any order say the same, unless a name stands
    there twice, for then the order tells which is which.
    """
    begin, end = one.find(b"["), one.rfind(b"]")
    if len(one) != len(other) or not one.startswith(_BEGIN, begin) or not one.endswith(_END, begin, end + 1):
        return False
    if one.find(b"[", begin + 1) >= 0 or not (other.startswith(one[:begin]) and other.endswith(one[end:])):
        return False
    settings, others = (content[begin + len(_BEGIN) : end + 1 - len(_END)].split(_BETWEEN) for content in (one, other))
    settings.sort()
    others.sort()
    return settings == others and named_once(one)
