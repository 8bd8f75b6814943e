"""Many lab sites at once against one after another where managers wait, and the lease on S3.

python -m tests.benchmarks.estate [--sites 100] [--wait 10] [--only sites|lease]
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from maint.adapters.clock import SystemClock
from maint.adapters.stores import Access, open_store
from maint.adapters.stores.local import LocalStore
from maint.config.schema import BackupSettings, SshSettings
from maint.config.stores import S3Settings
from maint.config.yaml import dump, load
from maint.engine.lease import Lease
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.model.secret import Secret
from maint.ports import Store
from tests.benchmarks.measure import Cost, proportional, run
from tests.s3_server import s3_server

MAINT = (sys.executable, "-c", "import sys; from maint.cli.start import main; sys.exit(main())")
BAR, SLOWEST = 0.35, 0.15  # of one after another; seconds
AT_ONCE = 8


def labs(stack: ExitStack, folder: Path, count: int, wait: float) -> Path:
    """Bring labs up whose managers let an export wait; return the config of all."""
    sites: dict[str, Any] = {}
    for number in range(count):
        options = Options(ssh=False, switches={"get-seconds": str(wait)})
        lab = stack.enter_context(Lab(folder / f"lab{number:03}", options))
        site = dict(load((lab.folder / "config.yaml").read_text(), "config.yaml").data["sites"]["lab"])
        site.pop("virtual_clusters", None)
        site["backup"] = {**site["backup"], "on_redacted": "accept"}
        sites[f"site{number:03}"] = site
    path = folder / "config.yaml"
    path.write_text(dump({"state": str(folder / "state"), "sites": sites}))
    return path


def backup(config: Path, *words: str) -> Cost:
    """Take backups, and measure the command with all that it starts."""
    common = ("--config", str(config), "--allow-plain", "-o", "json", "--yes")
    return run([*MAINT, "backup", "create", *words, *common], memory=proportional)


def compare(config: Path, count: int) -> None:
    """Print what all sites take at once and one after another, and the memory against that of one."""
    one = backup(config, "--site", "site000")
    together = backup(config, "--all", "--at-once", str(AT_ONCE))
    alone = backup(config, "--all", "--at-once", "1")
    print(
        f"{count} sites, {AT_ONCE} at once: {together.wall:.0f} s, {together.cpu:.0f} s of the processor,"
        f" {together.memory / 1e6:.0f} MB; one after another {alone.wall:.0f} s: {together.wall / alone.wall:.2f}"
        f" (≤ {BAR}); memory {together.memory / one.memory:.1f} times one's {one.memory / 1e6:.0f} MB (≤ {AT_ONCE}),"
        " pages that processes share counted once"
    )


def taken(store: Store) -> float:
    """Return the seconds that taking a lease and giving it back take."""
    begun = time.perf_counter()
    lease = Lease(store, "prod", SystemClock(), "somebody", "a benchmark")
    list(lease.take())
    lease.give_back()
    return time.perf_counter() - begun


class _Values:
    def resolve(self, reference: str) -> Secret:
        return Secret(reference)


def lease(folder: Path) -> None:
    """Print what a lease costs on an S3 on this machine, and in a folder."""
    with s3_server("bucket") as endpoint:
        s3 = S3Settings.model_construct(endpoint=endpoint, access_key="some-id", secret_key="some-secret")
        how = Access(BackupSettings.model_construct(s3=s3), SshSettings(), _Values())  # type: ignore[arg-type]
        for store in (open_store("s3://bucket/state", how), LocalStore(folder / "shared")):
            taken(store)
            times = sorted(taken(store) for _ in range(15))
            middle, best = statistics.median(times) * 1000, times[0] * 1000
            print(f"lease in {store.location}: {middle:.0f} ms, at best {best:.0f} (≤ {SLOWEST * 1000:.0f})")


def main() -> None:
    """Measure what is asked for."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--sites", type=int, default=100)
    asked.add_argument("--wait", type=float, default=10.0)
    asked.add_argument("--only", choices=("sites", "lease"))
    given = asked.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="maint-estate-"))
    try:
        if given.only in (None, "lease"):
            lease(folder)
        if given.only != "lease":
            with ExitStack() as stack:
                config = labs(stack, folder, given.sites, given.wait)
                compare(config, given.sites)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
