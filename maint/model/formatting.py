"""Values as people write and read them: durations, sizes, times, names that were meant, places in a document."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from maint.errors import UnknownName

_DURATION = r"(?a)(\d+(?:\.\d+)?)(ms|s|m|h|d)"
_STAMP = r"(?a)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.]\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_SEVERAL = r"(?<![aeiou])y$"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DIGITS = 19  # of a number that servers count with
LONGEST = 36500 * 86400.0  # seconds of a duration: no date that is counted from now lies beyond the calendar


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as `90s` or `1h30m` stands for; else ValueError."""
    parts = re.findall(_DURATION, text)
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError(f"{text!r} is not a duration; write 90s, 30m, 24h or 7d")
    found = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if found > LONGEST:
        raise ValueError(f"{text!r} is too long; it is at most 36500d")
    return found


def duration_of(value: object) -> float:
    """Return the seconds of a duration as it stands in a file, text or number; ValueError says what one looks like."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a duration such as 90s, 30m, 24h or 7d, or a number of seconds")
    found = parse_duration(value) if isinstance(value, str) else value
    if not 0 <= found <= LONGEST:  # before it is made a float, which cannot hold every number
        raise ValueError("must be a duration of zero or more, and at most 36500d")
    return float(found)


def show_duration(seconds: float) -> str:
    """Return a duration in at most two units, such as `1h 30m`."""
    whole = round(seconds)
    if whole < 1:
        return f"{seconds:.1f}s"
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def show_time(time: datetime) -> str:
    """Return a time as every file and output of ours carries it, such as `2026-11-21T02:15:00.123Z`."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def whole_number(text: str) -> int | None:
    """Return the number that a text of decimal digits stands for, None where it is no such text, or endless."""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def parse_time(text: object) -> datetime | None:
    """Return a time as `show_time` wrote it, None where it is not one."""
    try:
        time = datetime.fromisoformat(str(text)) if text else None
    except ValueError:
        return None
    return time if time is None or time.tzinfo else None


def tell_time(time: datetime) -> str:
    """Return a time as people are told it, such as `2026-11-21 02:15 UTC`."""
    return f"{time.astimezone(UTC).isoformat(' ', 'minutes')[:16]} UTC"


def tell_times(text: str) -> str:
    """Return a text in which files and servers have put times as people are told them."""
    return re.sub(_STAMP, _told, text)


def _told(found: re.Match[str]) -> str:
    """Return a time as people are told it, and what is not one, such as February 30th, as it stands."""
    try:
        return tell_time(datetime.fromisoformat(found[0]))
    except (ValueError, OverflowError):
        return found[0]


def show_size(count: int) -> str:
    """Return a number of bytes in the largest fitting unit, such as `54.3 kB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def show_count(count: int | str, noun: str) -> str:
    """Return how many there are of something, such as "1 job", "2 jobs" and "2 entries"; `noun` is the word for one."""
    return f"{count} {noun if str(count) == '1' else re.sub(_SEVERAL, 'ie', noun) + 's'}"


def show_counts(**counts: int) -> str:
    """Return how many there are of several things, each by the word for one: "1 job, 2 files"."""
    return ", ".join(show_count(count, noun) for noun, count in counts.items())


def show_some(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return names for a sentence: the first of them, and how many more there are."""
    return between.join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def show_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return the first lines, and how many more there are."""
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]


def show_ends(text: str, most: int) -> str:
    """Return a text of at most so many characters: of a longer one the words that it begins and ends with."""
    if len(text) <= most:
        return text
    last = most // 3
    begin, end = text[: most - last - 3], text[-last:]
    if len(whole := begin.rpartition(" ")[0]) > len(begin) // 2:
        begin = whole
    if len(whole := end.partition(" ")[2]) > last // 2:
        end = whole
    return f"{begin} … {end}"


def fold(names: Iterable[str]) -> str:
    """Return names with runs of numbers folded, in order, separated by blanks."""
    # The last number of a name's first part counts. Numbers fold with others of the same number of digits, so that a
    # range never names a host that is not there.
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


_MOST_DIGITS = 18  # of a number in a name; more than that is not a count of hosts


def _family(name: str) -> tuple[tuple[str, str, int] | None, int]:
    short, dot, domain = name.partition(".")
    found = re.fullmatch(r"(.*?)(\d+)(\D*)", short)
    if found is None or (dot and not short) or len(found[2]) > _MOST_DIGITS:
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


KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and indexes that lead to a part of a document."""


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like the given one, or None where none is like it.

    A host's short name means the host, whatever else is spelled like it.
    """
    import difflib  # few misspell anything, and each command loads this module

    spelled = {item.lower(): item for item in known}
    full = [item for item in spelled if word and item.startswith(f"{word.lower()}.")]
    if len(full) == 1:
        return spelled[full[0]]
    close = difflib.get_close_matches(word.lower(), spelled, n=1, cutoff=0.6)
    return spelled[close[0]] if close else None


def meant(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return the hint for a word that is not known: the one that is most like it, or what to do otherwise."""
    guess = did_you_mean(word, list(known))
    return f"did you mean {guess!r}?" if guess else otherwise


def unknown(words: str, name: str, known: Iterable[str], otherwise: str) -> UnknownName:
    """Return the failure for a name that is not known, with what there is."""
    known = sorted(known)
    detail = f"there is {show_some(known, 12) or 'none'}"
    return UnknownName(words, name, detail=[detail], hint=meant(name, known, otherwise))


def dotted(path: KeyPath) -> str:
    """Return a path as people write it, such as `sites.prod.hosts[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
