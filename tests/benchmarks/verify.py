"""Verification to level 3, against age, zstd and jq reading the same bytes."""

import tempfile
from pathlib import Path

from tests.benchmarks.exports import Export
from tests.benchmarks.measure import compared, heading, report, shell
from tests.benchmarks.place import serving


def main() -> None:
    heading()
    for size in (1, 20, 200):
        with tempfile.TemporaryDirectory(prefix="maint-bench-") as folder:
            export = Export(size).file(Path(tempfile.gettempdir()) / "maint-bench")
            with serving(Path(folder), export) as place:
                place.maint("backup", "create")
                snapshot = place.newest()
                pipeline = f"age -d -i {place.identity} {place.deployment(snapshot)} | zstd -dq | jq -e . >/dev/null"
                ours, theirs = compared(
                    lambda: place.maint("backup", "verify", snapshot, "--level", "3"),  # noqa: B023  # called at once
                    lambda: shell(pipeline),  # noqa: B023
                )
                report(f"verify level 3, {size} MB", ours, theirs, wall=0.5, memory=0.1)


if __name__ == "__main__":
    main()
