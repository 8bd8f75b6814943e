"""Durations as people write them (`90s`, `30m`, `24h`, `7d`) and sizes as people read them."""

import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as `90s` or `1h30m` stands for.

    Raises:
        ValueError: the text is no duration.
    """
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text.strip():
        raise ValueError(f"{text!r} is no duration; write 90s, 30m, 24h or 7d")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


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


def show_size(count: int) -> str:
    """Return a number of bytes in the largest fitting unit, such as `54.3 kB`."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def show_count(count: int, noun: str) -> str:
    """Return how many there are of something, such as "1 job" and "2 jobs"; `noun` is the word for one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
