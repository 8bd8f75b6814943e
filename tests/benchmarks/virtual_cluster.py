"""Backing up a virtual cluster of 2,000 jobs and 500 resources, against cdepy, and against curl, zstd and age."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from maint.lab import control
from maint.lab.manager.load import Options
from tests.benchmarks.clusters import Size, client_of, content, fill
from tests.benchmarks.measure import Cost, compared, heading, report, run
from tests.benchmarks.place import MAINT

SIZE = Size(
    jobs=int(os.environ.get("JOBS", "2000")),
    resources=int(os.environ.get("RESOURCES", "500")),
    bytes=int(os.environ.get("BYTES", str(2 * 10**9))),
)
ROUNDS = int(os.environ.get("ROUNDS", "3"))
_SWITCHES = {"vc-unknown-keys": "keep", "vc-env-seconds": "0.2", "vc-dag-seconds": "0.5"}
_NAMES = """
import importlib.util, socket, sys, types
for name in ("numpy", "pandas"):  # imported by cdepy, and never used
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
real = socket.getaddrinfo
def getaddrinfo(host, *more, **named):
    return real("127.0.0.1" if str(host).endswith(".apps.example.internal") else host, *more, **named)
socket.getaddrinfo = getaddrinfo
"""
_CDEPY = """
import json, os, sys
from cdepy import cdeconnection, cdemanager
url, password_file, listed, folder = sys.argv[1:]
connection = cdeconnection.CdeConnection(url, "etl_user", open(password_file).read())
connection.setToken()
manager = cdemanager.CdeClusterManager(connection)
wanted = json.load(open(listed))
kept = {"jobs": [json.loads(manager.describeJob(name)) for name in wanted["jobs"]]}
kept["resources"] = [json.loads(manager.describeResource(name)) for name in wanted["resources"]]
json.dump(kept, open(os.path.join(folder, "kept.json"), "w"))
for number, (resource, path) in enumerate(wanted["files"]):
    with open(os.path.join(folder, str(number)), "w") as file:
        file.write(manager.downloadFileFromResource(resource, path))
"""
_ONE = r"""
token=$(cat {token})
number=$1 url=$2
curl -sSf {name} --cacert {ca} -H "Authorization: Bearer $token" "$url" |
    tee >(sha1sum > {out}/$number.sha1) | zstd -q -3 | age -r {recipient} -o {out}/$number.zst.age
"""


class Bench:
    """A lab with a full virtual cluster, and three ways to back it up."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lab = folder, folder / "lab"
        status = control.up(self.lab, Options(ssh=False, switches=_SWITCHES))
        self.config = str(self.lab / "config.yaml")
        self.told: dict[str, Any] = status["virtual_clusters"][0]
        (folder / "sitecustomize.py").write_text(_NAMES)
        (folder / "story.py").write_text(_CDEPY)

    def look(self) -> None:
        """Write down what there is, for those who cannot list more than 100."""
        client = client_of(self.told, self.folder)
        resources = [found for one in client.resources() if (found := client.resource(one.name)) is not None]
        wanted = {
            "jobs": [job.name for job in client.jobs()],
            "resources": [one.name for one in resources],
            "files": [(one.name, file.path) for one in resources for file in one.files],
        }
        (self.folder / "wanted.json").write_text(json.dumps(wanted))
        base = self.told["base_url"]
        lines = [
            f"{number} {base}/resources/{quote(name, safe='')}/{quote(path)}"
            for number, (name, path) in enumerate(wanted["files"])
        ]
        (self.folder / "urls").write_text("\n".join(lines) + "\n")
        client.close()

    def maint(self, *words: str) -> Cost:
        """Run a command of maint."""
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"MAINT_COLOR": "never", "PYTHONPYCACHEPREFIX": str(self.folder / "compiled")}
        return run([*MAINT, *words, "--config", self.config, "--yes"], env=env)

    def backup(self) -> Cost:
        """Back it up into an empty store."""
        shutil.rmtree(self.lab / "backups", ignore_errors=True)
        return self._settled(lambda: self.maint("vc", "backup", "--vc", self.told["name"]))

    def cdepy(self) -> Cost:
        """Fetch all of it with cdepy, one call after another."""
        out = self._fresh()
        words = [self.told["base_url"], self.told["password_file"], str(self.folder / "wanted.json"), str(out)]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(self.folder), "REQUESTS_CA_BUNDLE": self.told["ca"]}
        return self._settled(lambda: run([sys.executable, str(self.folder / "story.py"), *words], env=env))

    def shell(self) -> Cost:
        """Fetch, hash, compress and encrypt the files with stock tools, eight at once, until they are on disk."""
        out, parts = self._fresh(), urlsplit(self.told["base_url"])
        token = self.folder / "token"
        auth, password = self.told["auth_url"], Path(self.told["password_file"]).read_text()
        name = f"--connect-to ::127.0.0.1:{parts.port}"
        words = [
            "curl",
            "-sSf",
            *name.split(),
            "--cacert",
            self.told["ca"],
            "-u",
            f"{self.told['username']}:{password}",
        ]
        got = subprocess.run(
            [*words, f"{auth}/gateway/authtkn/knoxtoken/api/v1/token"], check=True, capture_output=True, text=True
        )
        token.touch(mode=0o600)
        token.write_text(json.loads(got.stdout)["access_token"])
        one = _ONE.format(token=token, name=name, ca=self.told["ca"], out=out, recipient=self._recipient())
        (self.folder / "one.sh").write_text(one)
        script = f"xargs -P 8 -n 2 bash {self.folder / 'one.sh'} < {self.folder / 'urls'}; sync -f {out}"
        return self._settled(lambda: run(["bash", "-c", script]))

    def requests(self) -> list[str]:
        """Return all that was asked so far, as "METHOD path"."""
        lines = (self.lab / "requests.jsonl").read_text().splitlines()
        return [f"{one['method']} {one['path']}" for one in map(json.loads, lines)]

    def _recipient(self) -> str:
        text = Path(self.config).read_text()
        return next(word.strip('- "') for word in text.splitlines() if '"age1' in word)

    def _fresh(self) -> Path:
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        return out

    def _settled(self, work: Callable[[], Cost]) -> Cost:
        """Measure with a disk that has nothing left to write from before."""
        os.sync()
        return work()


def flat(bench: Bench) -> None:
    """Say how much memory a backup takes for one file of 1 MB, and of 1 GB."""
    for name, size in (("small-file", 10**6), ("large-file", 10**9)):
        told = control.create_vc(bench.lab, name, initialised=True)
        client = client_of(told, bench.folder)
        client.create_resource({"name": "made", "type": "files", "hidden": False})
        client.upload("made", "one.bin", content(1, size))
        client.close()
        text = Path(bench.config).read_text()
        if f'"{name}"' not in text:
            sys.exit(f"the lab's config does not name {name}")
        cost = bench.maint("vc", "backup", "--vc", name)
        print(f"| one file of {size / 1e6:.0f} MB | {cost.wall:.2f} s, {cost.cpu:.2f} s, {cost.memory / 1e6:.0f} MB |")


def unchanged(bench: Bench) -> None:
    """Say what a comparison asks, and another backup, when nothing has changed since the one before."""
    for words in (("drift", "--exit-code"), ("backup",)):
        before = len(bench.requests())
        cost = bench.maint("vc", *words, "--vc", bench.told["name"])
        asked = bench.requests()[before:]
        files = sum(one.startswith("GET /dex/api/v1/resources/") and one.count("/") > 5 for one in asked)
        print(f"| vc {words[0]}, nothing changed: {cost.wall:.2f} s, {len(asked)} requests, {files} files downloaded |")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="maint-bench-") as folder:
        bench = Bench(Path(folder))
        try:
            client = client_of(bench.told, bench.folder)
            fill(client, SIZE)
            client.close()
            bench.look()
            bench.maint("vc", "status")  # compiles
            heading()
            ours, theirs = compared(bench.backup, bench.shell)
            what = f"backup of {SIZE.jobs} jobs, {SIZE.resources} resources, {SIZE.bytes / 1e9:g} GB"
            report(f"{what}, against curl, zstd, age", ours, theirs, wall=0.9)
            unchanged(bench)
            if not os.environ.get("NO_CDEPY"):
                report(f"{what}, against cdepy", ours, bench.cdepy(), wall=0.5)
            flat(bench)
        finally:
            control.down(bench.lab)


if __name__ == "__main__":
    main()
