"""Fold host names into ranges: `wn[01-20].example.internal`."""

import re
from collections.abc import Iterable


def fold(names: Iterable[str]) -> str:
    """Return names with runs of numbers folded, in order, separated by blanks.

    The last number of a name's first part is the one that counts. Numbers fold with others of the same number of
    digits, so that a range never names a host that is not there.
    """
    families: dict[tuple[str, str, int], list[int]] = {}
    order: list[tuple[str, str, int] | str] = []
    for name in dict.fromkeys(names):
        family, number = _family(name)
        if family is None:
            order.append(name)
            continue
        if family not in families:
            order.append(family)
        families.setdefault(family, []).append(number)
    return " ".join(item if isinstance(item, str) else _spelled(item, sorted(families[item])) for item in order)


def _family(name: str) -> tuple[tuple[str, str, int] | None, int]:
    short, dot, domain = name.partition(".")
    found = re.fullmatch(r"(.*?)(\d+)(\D*)", short)
    if found is None or (dot and not short):
        return None, 0
    before, digits, after = found.groups()
    if not before and not after and re.fullmatch(r"[\d.]+", domain):  # an address
        return None, 0
    return (before, after + dot + domain, len(digits)), int(digits)


def _spelled(family: tuple[str, str, int], numbers: list[int]) -> str:
    before, after, width = family
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = ",".join(_run(run, width) for run in runs)
    return f"{before}{shown}{after}" if len(numbers) == 1 else f"{before}[{shown}]{after}"


def _run(run: list[int], width: int) -> str:
    first, last = f"{run[0]:0{width}}", f"{run[-1]:0{width}}"
    return first if len(run) == 1 else f"{first}-{last}"
