"""Two machines with host names and clocks of their own (90 s apart) on one S3: one is killed or frozen in a window.

    .venv/bin/python -m tests.campaigns.two_machines FOLDER kill|freeze

by hand, as root; needs `unshare`, libfaketime and moto. It takes seven minutes: a lease lapses as it does outside.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from maint.adapters.seal import AgeSeal
from maint.config.yaml import dump, load
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.ports import free_port
from tests.steps.operator import Operator, environment

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
LIMIT = 900  # seconds
SWITCHES = {"starting-seconds": "3"}  # so that there is time to strike while the window is open


def object_store(stack: ExitStack) -> str:
    """Start an S3 with a bucket; return its address."""
    address = f"http://127.0.0.1:{free_port()}"
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", address.rpartition(":")[2]]
    stack.callback(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).kill)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(urllib.request.Request(f"{address}/state", method="PUT"), timeout=5).close()
            return address
        except OSError:
            time.sleep(0.1)
    raise SystemExit("moto does not answer")


def config_of(folder: Path, lab: Lab, address: str) -> Path:
    """Write the config that both machines use; the state folder is each one's own."""
    whole: Any = load((lab.folder / "config.yaml").read_text(), "config.yaml").data
    site = whole["sites"]["lab"]
    site.pop("virtual_clusters", None)
    key = folder / "key"
    key.write_text(AgeSeal().new_identity()[0].reveal())
    key.chmod(0o600)
    keys = lab.folder / "state" / "lab" / "keys"
    s3 = {"endpoint": address, "access_key": "env:ACCESS", "secret_key": "env:ACCESS"}
    site["backup"] |= {"s3": s3, "signing_key": f"file:{keys}/signing", "on_redacted": "window"}
    site |= {"shared_state": "s3://state/sites", "shared_state_key": f"file:{key}"}
    path = folder / "config.yaml"
    path.write_text(dump(whole))
    path.chmod(0o600)
    return path


def start(folder: Path, config: Path, host: str, ahead: str) -> "subprocess.Popen[bytes]":
    """Begin a backup through the window on a machine whose clock is so far ahead; its words go to a file."""
    words = [sys.executable, "-m", "maint", "backup", "create", "--yes", "--allow-plain", "--config", str(config)]
    alone = ["unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"', "sh", *words]
    own = {"MAINT_STATE": str(folder / host), "ACCESS": "some-id"}
    if ahead:
        own |= {"LD_PRELOAD": FAKETIME, "FAKETIME": ahead}
    with (folder / f"{host}.log").open("ab") as log:
        return subprocess.Popen(alone, env=environment(**own), stdout=log, stderr=log)


def main(folder: Path, how: str) -> None:
    """Strike the first machine in its window, let the second take over, and print what became of it."""
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        address = object_store(stack)
        lab = stack.enter_context(Lab(folder / "lab", Options(switches=SWITCHES)))
        operator = Operator(lab)
        operator("backup", "create")  # makes the signing key
        config = config_of(folder, lab, address)
        first = start(folder, config, "one", "")
        stack.callback(first.kill)
        end = time.monotonic() + 120
        while not any((folder / "one").glob("*/window.json")):
            if first.poll() is not None or time.monotonic() > end:
                raise SystemExit("no window was seen")
            time.sleep(0.05)
        os.kill(first.pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        begun, tried, code = time.monotonic(), 0, 6
        while code == 6 and time.monotonic() - begun < LIMIT:
            code, tried = start(folder, config, "other", "+90s").wait(LIMIT), tried + 1
            time.sleep(3)
        told: dict[str, object] = {"other": code, "tries": tried, "seconds": round(time.monotonic() - begun)}
        if how == "freeze":
            os.kill(first.pid, signal.SIGCONT)
            told["first"] = first.wait(300)
        options = operator.options
        told["redaction_off"] = options.exists() and "redaction=false" in options.read_text()
        listed = operator("backup", "list", "-o", "json").json["snapshots"]
        told["restorable"] = sum(one["restorable"] for one in listed)
        told["words"] = [line for line in (folder / "other.log").read_text().splitlines() if "lease" in line][-3:]
        sys.stdout.write(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), sys.argv[2])
