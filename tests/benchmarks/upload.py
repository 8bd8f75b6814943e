"""Sending a stored deployment to the manager, against age, zstd and curl."""

import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.exports import PASSWORD, Export
from tests.benchmarks.measure import Cost, compared, heading, report, run, shell
from tests.benchmarks.place import Place, serving


def main() -> None:
    heading()
    for size in (20, 200):
        with tempfile.TemporaryDirectory(prefix="maint-bench-") as folder:
            export = Export(size).file(Path(tempfile.gettempdir()) / "maint-bench")
            with serving(Path(folder), export) as place:
                place.maint("backup", "create")
                stored = place.deployment(place.newest())
                url = f"{place.url}/api/v49/cm/deployment?deleteCurrentDeployment=true"
                pipeline = (
                    f"age -d -i {place.identity} {stored} | zstd -dq | curl -sS --cacert {place.authority}"
                    f" -u admin:{PASSWORD} -H 'Content-Type: application/json' -T - '{url}' >/dev/null"
                )
                ours, theirs = compared(
                    lambda: _ours(place, stored, export),  # noqa: B023  # called at once
                    lambda: shell(pipeline),  # noqa: B023
                )
                report(f"upload, {size} MB", ours, theirs, wall=1.0)


def _ours(place: Place, stored: Path, export: Path) -> Cost:
    command = [sys.executable, "-m", "tests.benchmarks.upload", str(place.folder), place.url, str(stored)]
    cost = run([*command, str(export.stat().st_size)])
    return Cost(float(cost.out.split()[-1]), cost.cpu, cost.memory, cost.out)


def _send(folder: Path, url: str, stored: Path, size: int) -> None:
    """Send as a restore does, and print how long that took."""
    from maint.adapters.clock import SystemClock
    from maint.adapters.manager.client import ManagerClient
    from maint.adapters.seal import AgeSeal
    from maint.config.schema import ManagerSettings
    from maint.config.secrets import ReferencedSecrets
    from maint.model.secret import Secret
    from maint.ports import Body

    port = int(url.rpartition(":")[2])
    settings = ManagerSettings(
        host="localhost", password=f"file:{folder}/password", plain_port=1, tls_port=port, ca=folder / "ca.pem"
    )
    manager = ManagerClient(settings, ReferencedSecrets(folder, {}), SystemClock(), warn=print)
    manager.log_in()
    began = time.perf_counter()
    identity = Secret((folder / "identity").read_text())
    with stored.open("rb") as file, AgeSeal().unwrap(file, [identity]) as stream:
        answer = manager.put_deployment(Body(stream.read, size), api=49, delete_current=True, timeout=600)
    while answer.read(1 << 18):
        pass
    print(time.perf_counter() - began)


if __name__ == "__main__":
    _send(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])) if len(sys.argv) > 4 else main()
