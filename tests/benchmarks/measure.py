"""Run commands and say what they took: wall time, processor time, the most memory of all processes at once."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROUNDS = int(os.environ.get("ROUNDS", "5"))
_PAUSE = 0.01  # seconds between two looks at the memory


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took: seconds, seconds of processor time, bytes; and what it wrote to its two outputs."""

    wall: float
    cpu: float
    memory: int
    out: str = ""


def _as_installed(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which compiled modules are kept, as an installation keeps them, whatever ours says."""
    kept = {name: value for name, value in env.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {"PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "maint-bench" / "compiled"), **kept}


def resident(pid: int) -> int:
    """Return the bytes of memory that a process has; pages that it shares count in full."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):  # it has ended
        return 0


def proportional(pid: int) -> int:
    """Return the same, with its part of the pages that it shares; looking takes a hundred times as long."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def run(
    command: Sequence[str],
    *,
    env: dict[str, str] | None = None,
    accept: Sequence[int] = (0,),
    memory: Callable[[int], int] = resident,
) -> Cost:
    """Run a command to its end and measure it with all its children.

    Raises:
        SystemExit: it ended in another way than is accepted; its words are shown.
    """
    env = _as_installed(env or os.environ)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    watch = _Watch(process.pid, memory)
    out = process.communicate()[0]
    wall = time.perf_counter() - began
    most = watch.end()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode not in accept:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{out}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, most, out)


def shell(script: str) -> Cost:
    """Run a bash script, as a user would type it."""
    return run(["bash", "-c", f"set -o pipefail; {script}"], accept=(0, 1))


def compared(*works: Callable[[], Cost]) -> tuple[Cost, ...]:
    """Return the medians of each, taken in turns, so that whatever else the machine does meets all alike."""
    turns = [[work() for work in works] for _ in range(ROUNDS)]
    return tuple(_medians(costs) for costs in zip(*turns, strict=True))


def report(what: str, ours: Cost, theirs: Cost, *, wall: float, memory: float | None = None) -> None:
    """Print one row: both sides, the ratios, and the bars that they are held against."""
    print(f"| {what} | {_spell(ours)} | {_spell(theirs)} | {_ratio(ours.wall, theirs.wall, wall)} |", end="")
    print(f" {_ratio(ours.memory, theirs.memory, memory)} |", flush=True)


def heading() -> None:
    """Print the head of the table and the machine."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    print(f"{os.cpu_count()} cores, {model.partition(':')[2].strip()}, Python {sys.version.split()[0]}")
    print("| work | maint: wall, processor, memory | instead | wall, bar | memory, bar |")
    print("|---|---|---|---|---|", flush=True)


def _medians(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        round(statistics.median(cost.memory for cost in costs)),
        costs[-1].out,
    )


def _spell(cost: Cost) -> str:
    return f"{cost.wall:.2f} s, {cost.cpu:.2f} s, {cost.memory / 1e6:.0f} MB"


def _ratio(ours: float, theirs: float, bar: float | None) -> str:
    return f"{ours / theirs:.3f}" + ("" if bar is None else f" (≤ {bar})")


class _Watch:
    """Looks at the memory of a process and its descendants again and again."""

    def __init__(self, root: int, memory: Callable[[int], int]) -> None:
        self._root = root
        self._memory = memory
        self._pause = _PAUSE if memory is resident else 10 * _PAUSE
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def end(self) -> int:
        """Stop looking; return the most bytes seen."""
        self._over.set()
        self._thread.join()
        return self._peak

    def _look(self) -> None:
        while not self._over.wait(self._pause):
            self._peak = max(self._peak, sum(map(self._memory, _family(self._root))))


def _family(root: int) -> list[int]:
    found = [root]
    for pid in found:
        with suppress(OSError):  # it has ended
            for thread in Path(f"/proc/{pid}/task").iterdir():  # a child is its thread's
                found += [int(child) for child in (thread / "children").read_text().split()]
    return found
