"""The catalogue pages of 100 sites with 100 snapshots each: time, memory and size, the first time and once more."""

import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from maint.cli.site.page_facts import KEPT
from maint.config.yaml import dump
from maint.files import keep_record
from maint.report.site_facts import (
    Change,
    Copy,
    Day,
    HostChecks,
    HostResult,
    PageFacts,
    ReportedDrill,
    ReportedRun,
    Shot,
)
from tests.benchmarks.measure import run

SITES, SHOTS, DAYS, HOSTS = 100, 100, 14, 20
NOW = datetime.now(UTC)
DAY = timedelta(days=1)


def facts(name: str) -> PageFacts:
    """Return what is told of a site: a snapshot a day, drills, changes, checks of its hosts."""
    times = [NOW - number * DAY - timedelta(minutes=int(name[1:])) for number in range(SHOTS, 0, -1)]
    shots = [
        Shot(
            f"{at:%Y%m%dT%H%M%S}.000Z-ab12", at, "audit-only" if n % 9 == 0 else "restorable", 5_000_000 + 1000 * n,
            n % 9 != 0, "verified, level 3", goes=NOW + DAY if n == 0 else None,
        )
        for n, at in enumerate(times)
    ]  # fmt: skip
    hosts = [f"host-{number}" for number in range(HOSTS)]
    results = [HostResult(f"os.check{n}", "warn" if n < 3 else "pass", hosts, "1", "mend it") for n in range(60)]
    changes = [Change("base", "hdfs", f"group-{n}", "dfs_data_dir", "/data/1", "/data/2") for n in range(10)]
    return PageFacts(
        name, f"{name}.example.internal", NOW, {"region": "eu"}, shots=shots,
        drills=[ReportedDrill(at, shots[0].id, True, 60.0 + n, "read back as sent") for n, at in enumerate(times[::7])],
        days=[Day(before.id, after.id, after.taken_at, changes)
              for before, after in zip(shots[-DAYS - 1 :], shots[-DAYS:], strict=False)],
        changed=[(at, n % 17) for n, at in enumerate(times)],
        copies=[Copy("s3://backups/maint", SHOTS, 0, times[-1])],
        runs=[ReportedRun(one.id, "export", "done", one.taken_at, "ops@box", False) for one in shots[-20:]],
        checks=HostChecks(NOW, results, dict.fromkeys(hosts, "")),
    )  # fmt: skip


def main() -> None:
    """Write the pages twice, as a command does, and report."""
    folder = Path(tempfile.mkdtemp(prefix="maint-pages-"))
    site = {"manager": {"host": "cm", "password": "prompt"}, "backup": {"store": "/nowhere", "identity": "env:X"}}
    names = [f"s{number:03}" for number in range(SITES)]
    (folder / "config.yaml").write_text(dump({"state": str(folder), "sites": dict.fromkeys(names, site)}))
    for name in names:
        (folder / name).mkdir()
        keep_record(folder / name / KEPT, facts(name))
    words = ["site", "report", "--to", str(folder / "pages"), "--config", str(folder / "config.yaml")]
    try:
        for what in ("the first time", "nothing has changed", "one site has changed"):
            if what == "one site has changed":
                keep_record(folder / names[0] / KEPT, facts("s777"))
            cost = run([sys.executable, "-m", "maint", *words])
            pages = list((folder / "pages").iterdir())
            print(
                f"{what}: {cost.wall:.1f} s, {cost.cpu:.1f} s of the processor,"
                f" {cost.memory / 1e6:.0f} MB, {len(pages)} pages,"
                f" the largest of {max(one.stat().st_size for one in pages) / 1000:.0f} kB"
            )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
