"""What one setting takes, planned and run by `maint setting set`, beside the bare requests by curl, against a lab.

python -m tests.benchmarks.setting
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import yaml

from maint.lab.http.server import read_requests
from maint.lab.running import Lab
from tests.benchmarks.measure import Cost, compared, heading, report, run, shell

BAR = 3.0
NAME, SERVICE = "dfs_replication", "hdfs"


def main() -> None:
    """Measure both in turns, and print one row."""
    with tempfile.TemporaryDirectory() as name, Lab(Path(name) / "lab") as lab:
        values = iter(range(2, 1000))
        env = {**os.environ, "MAINT_CONFIG": str(lab.folder / "config.yaml")}
        words = [sys.executable, "-m", "maint", "setting", "set", NAME]

        def ours() -> Cost:
            return run([*words, str(next(values)), "--service", SERVICE, "--yes", "--quiet"], env=env)

        begun = len(read_requests(lab.log.path))
        ours()
        asked = [(str(one["method"]), str(one["path"])) for one in read_requests(lab.log.path)[begun:]]
        site = yaml.safe_load((lab.folder / "config.yaml").read_text())["sites"]["lab"]["manager"]
        password = site["password"].removeprefix("file:")
        curl = f"curl -sSf -o /dev/null --cacert {site['ca']} -u {site['username']}:$(cat {password})"
        address = f"https://127.0.0.1:{site['tls_port']}"

        def theirs() -> Cost:
            body = json.dumps({"items": [{"name": NAME, "value": str(next(values))}]})
            more = {"PUT": f"-X PUT -H 'Content-Type: application/json' -d '{body}'"}
            return shell("; ".join(f"{curl} {more.get(verb, '')} '{address}{path}'" for verb, path in asked))

        heading()
        mine, other = compared(ours, theirs)
        report(f"`setting set`, {len(asked)} requests", mine, other, wall=BAR)


if __name__ == "__main__":
    main()
