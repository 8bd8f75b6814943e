"""Two exports two days apart, and two in another order, against `diff` of what `jq -S` prints.

The comparison is measured twice: as a command, with its start, and as work done inside a process that runs already.
"""

import sys
import tempfile
import time
from pathlib import Path

from maint.deployment.normalize import LONGEST, Outline
from maint.deployment.reader import blocks
from maint.deployment.secrets import Fingerprint, SecretIndex
from maint.snapshots.diff import Side, held_against
from tests.benchmarks.exports import Export
from tests.benchmarks.measure import Cost, compared, heading, report, run, shell
from tests.benchmarks.place import serving

SIZE = 20  # MB


def main() -> None:
    heading()
    folder = Path(tempfile.gettempdir()) / "maint-bench"
    before = Export(SIZE)
    rows = (("two days apart", before.days_later(), 0.45), ("permuted", before.shuffled(), 0.1))
    for what, after, wall in rows:
        _row(what, before.file(folder), after.file(folder), wall)


def _row(what: str, before: Path, after: Path, wall: float) -> None:
    with tempfile.TemporaryDirectory(prefix="maint-bench-") as folder:
        ids = []
        for export in (before, after):
            with serving(Path(folder), export) as place:
                place.maint("backup", "create")
                ids.append(place.newest())
        # The second serving made a new identity and a new authority; the snapshots are compared by their copies.
        inside, command, other = compared(
            lambda: _inside(before, after),
            lambda: place.maint("backup", "diff", *ids, "--redacted"),
            lambda: shell(f"diff <(jq -S . {before}) <(jq -S . {after}) >/dev/null"),
        )
    report(f"diff inside a process, {SIZE} MB, {what}", inside, other, wall=wall)
    report(f"backup diff, {SIZE} MB, {what}", command, other, wall=wall)


def _inside(before: Path, after: Path) -> Cost:
    cost = run([sys.executable, "-m", "tests.benchmarks.diff", str(before), str(after)])
    return Cost(float(cost.out.split()[-1]), cost.cpu, cost.memory, cost.out)


def side(path: Path, fingerprint: Fingerprint) -> Side:
    """Return a file as one of the sides that are compared."""
    known = SecretIndex()
    with path.open("rb") as file:
        found = Outline(blocks(file.read), known.noting(fingerprint), LONGEST)
    return Side(path.name, "raw", found, ("7.6.5", "v49"), known)


def _compare(before: Path, after: Path) -> None:
    """Compare two files, and print how many differences there are and how long that took."""
    began = time.perf_counter()
    fingerprint = Fingerprint(b"k" * 32)
    found = held_against(side(before, fingerprint), side(after, fingerprint), fingerprint)
    print(len(found.differences), time.perf_counter() - began)


if __name__ == "__main__":
    _compare(Path(sys.argv[1]), Path(sys.argv[2])) if len(sys.argv) > 2 else main()
