"""How far a run and what it moves are: bytes, rate and time left as words, as fields, and as a bar on a terminal."""

import io
import time
from collections import deque
from threading import RLock

from maint.model.formatting import show_duration, show_size
from maint.model.json import Json

_WINDOW = 30.0  # seconds over which a rate is told
_SAMPLE = 1.0  # seconds between two samples of it
_STEPS, _BYTES = 12, 24  # columns of a bar


class Transfer:
    """Bytes of one thing on their way; `of` so many in all, None where that is not known."""

    def __init__(self, what: str, of: int | None, now: float) -> None:
        self.what, self.of, self.bytes, self.told = what, of, 0, now
        self.began = now
        self._samples = deque([(now, 0)])

    def add(self, count: int, now: float) -> None:
        """Count more bytes."""
        self.bytes += count
        if now - self._samples[-1][0] >= _SAMPLE:
            self._samples.append((now, self.bytes))
            while now - self._samples[0][0] > _WINDOW and len(self._samples) > 2:
                self._samples.popleft()

    def rate(self, now: float) -> float:
        """Return the bytes a second of late."""
        since, before = self._samples[0]
        return (self.bytes - before) / max(now - since, 0.001)

    def left(self, now: float) -> float | None:
        """Return the seconds left, None where nobody can know."""
        rate = self.rate(now)
        return max(self.of - self.bytes, 0) / rate if self.of is not None and rate > 0 else None

    def words(self, now: float) -> str:
        """Return how far it is, for people."""
        of = f" of {show_size(self.of)}" if self.of is not None else ""
        left = self.left(now)
        rest = f", {show_duration(left)} left" if left is not None else ""
        return f"{show_size(self.bytes)}{of}, {show_size(int(self.rate(now)))}/s{rest}"

    def fields(self, now: float) -> dict[str, Json]:
        """Return how far it is, for programs."""
        left = self.left(now)
        return {
            "transfer": self.what,
            "bytes": self.bytes,
            "of": self.of,
            "bytes_per_second": round(self.rate(now)),
            "seconds_left": None if left is None else round(left, 1),
        }


class Meter:
    """All that is on its way; safe for threads."""

    def __init__(self) -> None:
        self._mutex = RLock()
        self._under_way: dict[str, Transfer] = {}

    def moved(self, what: str, count: int, of: int | None, pause: float) -> tuple[Transfer, float] | None:
        """Count bytes; return what is to be told and the time, None where it was told less than `pause` seconds ago."""
        with self._mutex:
            now, known = time.monotonic(), self._under_way.get(what)
            if known is None or known.of != of or (of is not None and known.bytes >= of):
                known = self._under_way[what] = Transfer(what, of, now)
            known.add(count, now)
            if now - known.told < pause:
                return None
            known.told = now
            return known, now

    def forget(self) -> None:
        """Begin anew: the step has ended."""
        with self._mutex:
            self._under_way.clear()


def steps_bar(done: int, of: int, *, colored: bool) -> str:
    """Return a bar of the steps done of all."""
    return _bar(done, of, _STEPS, colored=colored)


def transfer_bar(one: Transfer, *, colored: bool) -> str:
    """Return a bar of the bytes moved of all, "" where it is not known how many those are."""
    return _bar(one.bytes, one.of, _BYTES, colored=colored) if one.of else ""


def _bar(done: int, of: int, width: int, *, colored: bool) -> str:
    from rich.console import Console  # a tenth of a second, and only who watches needs it
    from rich.progress_bar import ProgressBar

    console = Console(
        file=io.StringIO(), force_terminal=True, color_system="standard" if colored else None, width=width + 1
    )
    with console.capture() as captured:
        console.print(
            ProgressBar(of, min(done, of), width, style="bright_black", complete_style="cyan", finished_style="cyan"),
            end="",
        )
    return captured.get().rstrip("\n") if colored else captured.get().rstrip("\n").ljust(width)
