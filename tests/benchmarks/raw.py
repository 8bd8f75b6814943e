"""The memory of the raw part alone: received over TLS, hashed, compressed, sealed and written, for 1 MB and 200 MB."""

import resource
import sys
import tempfile
from pathlib import Path

from maint.adapters.clock import SystemClock
from maint.adapters.manager.client import ManagerClient
from maint.adapters.seal import AgeSeal
from maint.config.schema import ManagerSettings
from maint.config.secrets import ReferencedSecrets
from maint.snapshots.parts import Tally
from tests.benchmarks.exports import Export
from tests.benchmarks.measure import run
from tests.benchmarks.place import serving


def main() -> None:
    most = {}
    for size in (1, 200):
        with tempfile.TemporaryDirectory(prefix="maint-bench-") as folder:
            export = Export(size).file(Path(tempfile.gettempdir()) / "maint-bench")
            with serving(Path(folder), export) as place:
                words = [sys.executable, "-m", "tests.benchmarks.raw", folder, place.url.rpartition(":")[2]]
                most[size] = int(run(words).out)
    more = (most[200] - most[1]) / 1024
    print(
        f"raw part alone: {most[1] // 1024} MB for 1 MB, {most[200] // 1024} MB for 200 MB: {more:.1f} MB more (≤ 12)"
    )


def _receive(folder: Path, port: int) -> None:
    """Receive and seal an export, and print the most memory that this process ever had, in kB."""
    settings = ManagerSettings(
        host="localhost", password=f"file:{folder}/password", plain_port=1, tls_port=port, ca=folder / "ca.pem"
    )
    manager = ManagerClient(settings, ReferencedSecrets(folder, {}), SystemClock(), warn=print)
    manager.log_in()
    seal = AgeSeal()
    _, recipient = seal.new_identity()
    with manager.deployment() as answer, (folder / "raw").open("wb") as target:
        seal.wrap(Tally(answer.read).read, target, [recipient])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    _receive(Path(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else main()
