"""Two machines with networks, host names and clocks of their own on one store: one is killed, frozen or cut off.

    .venv/bin/python -m tests.campaigns.two_machines FOLDER [--store s3|sftp] [--rounds 12] [--seed N]

by hand, as root; needs `ip`, `unshare`, libfaketime, and moto or sshd; `MAINT_TESTS_S3` names another S3 server on
loopback (`tests/campaigns/ceph`). Each round has a site and two machines of its own, 90 s apart, and backs the site up
through the window; all go on at once, a quarter of an hour together: a lease lapses as it does outside. A third of the
rounds each: kill -9; SIGSTOP, then SIGCONT after 70 to 400 s; the network away for as long. Half have a `--run-key`,
under which the other machine resumes.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from maint.adapters.seal import AgeSeal
from maint.config.yaml import dump, load
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.adapters.conftest import serve_sshd
from tests.s3_server import s3_server
from tests.steps.operator import Operator, environment

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
AHEAD = timedelta(seconds=90)  # of the machine `other`
LIMIT = 900  # seconds
SWITCHES = {"starting-seconds": "3"}  # so that there is time to strike while the window is open
BACKUP = ("backup", "create", "--yes")


def s3(stack: ExitStack, folder: Path) -> tuple[str, dict[str, Any]]:
    """Start an S3 with a bucket; return its URL, and what a site needs to reach it."""
    access = {"access_key": "env:ACCESS", "secret_key": "env:SECRET"}
    if elsewhere := os.environ.get("MAINT_TESTS_S3"):
        return f"s3://backups/{os.urandom(4).hex()}", {"s3": {"endpoint": elsewhere, **access}}
    return "s3://state", {"s3": {"endpoint": stack.enter_context(s3_server("state")), **access}}


def sftp(stack: ExitStack, folder: Path) -> tuple[str, dict[str, Any]]:
    """Start OpenSSH's sshd; return the URL of a folder, and what a site needs to reach it."""
    (folder / "sshd").mkdir()
    served = stack.enter_context(contextmanager(serve_sshd)(folder / "sshd"))
    (folder / "known").write_text(served.known_as())
    where = f"sftp://{served.user}@127.0.0.1:{served.port}{folder}/far"
    return where, {"sftp": {"key": str(served.key), "known_hosts": str(folder / "known")}}


def machine(stack: ExitStack, number: int, host: str) -> None:
    """Make the network of a machine, where loopback leads to this one: there labs and stores are."""
    name, near = named(number, host), f"10.213.{2 * number + (host == 'other')}"
    stack.callback(subprocess.run, ["ip", "netns", "del", name])
    for line in (
        f"ip netns add {name}",
        f"ip link add {name} type veth peer name eth0 netns {name}",
        f"ip addr add {near}.1/30 dev {name}",
        f"ip link set {name} up",
        f"ip -n {name} addr add {near}.2/30 dev eth0",
        f"ip -n {name} link set eth0 up",
        f"sysctl -qw net.ipv4.conf.{name}.route_localnet=1",
        f"ip netns exec {name} sysctl -qw net.ipv4.conf.eth0.route_localnet=1",
        f"ip -n {name} route add 127.0.0.1/32 via {near}.1 dev eth0 src {near}.2",
    ):
        subprocess.run(line.split(), check=True)


def named(number: int, host: str) -> str:
    """Return the name of a machine's network, and of its wire on this side."""
    return f"maint{number}{host}"


def config_of(lab: Lab, signing: Path, url: str, access: dict[str, Any]) -> None:
    """Write the config that both machines use; the state folder is each one's own."""
    whole: Any = load((lab.folder / "config.yaml").read_text(), "config.yaml").data
    site, name = whole["sites"]["lab"], lab.folder.name
    site.pop("virtual_clusters", None)
    site["backup"] |= {**access, "store": f"{url}/{name}/backups", "on_redacted": "window"}
    site["backup"] |= {"signing_key": f"file:{signing}"}
    site |= {"shared_state": f"{url}/{name}/state", "shared_state_key": f"file:{lab.folder.parent}/shared"}
    path = lab.folder / "both.yaml"
    path.write_text(dump(whole))
    path.chmod(0o600)


def start(lab: Lab, host: str, *words: str) -> "subprocess.Popen[bytes]":
    """Begin a command on a machine; what it says goes to a file."""
    own = {"MAINT_STATE": str(lab.folder / host), "ACCESS": "some-id", "SECRET": "some-secret"}
    if host == "other":
        own |= {"LD_PRELOAD": FAKETIME, "FAKETIME": f"+{AHEAD.seconds}s"}
    called = [sys.executable, "-m", "maint", *words, "--allow-plain", "--config", str(lab.folder / "both.yaml")]
    alone = ["ip", "netns", "exec", named(int(lab.folder.name[-2:]), host), "unshare", "--uts"]
    alone += ["sh", "-c", f'hostname {host}; exec "$@"', "sh", *called]
    with (lab.folder / f"{host}.log").open("ab") as log, (lab.folder / f"{host}.out").open("wb") as out:
        return subprocess.Popen(alone, env=environment(**own), stdout=out, stderr=log, start_new_session=True)


def lines(lab: Lab, host: str) -> dict[str, list[bytes]]:
    """Return the lines of the journals in the state folder of a machine, by run."""
    return {path.stem: path.read_bytes().splitlines() for path in (lab.folder / host).glob("lab/runs/*.jsonl")}


def spans(lab: Lab, host: str, foreign: set[bytes]) -> list[tuple[datetime, datetime]]:
    """Return from when to when a machine worked at each run, by true time; a window may be closed at any time."""
    found = []
    for head, *rest in lines(lab, host).values():
        actions = json.loads(head)["plan"]["actions"]
        own = [json.loads(line) for line in rest if line not in foreign]
        acts = [one for one in own if one["what"] == "intent" or one.get("outcome") == "done"]
        ahead = AHEAD if host == "other" else timedelta()
        times = [
            datetime.fromisoformat(one["time"]) - ahead
            for one in acts
            if actions[one["index"]]["kind"] != "window.close"
        ]
        found += [(min(times), max(times))] if times else []
    return found


def strike(lab: Lab, first: "subprocess.Popen[bytes]", how: str, back: bool = False) -> None:
    """Kill or freeze the first machine, or cut it off; or bring it back."""
    if how == "cut off":
        wire = named(int(lab.folder.name[-2:]), "one")
        subprocess.run(["ip", "link", "set", wire, "up" if back else "down"], check=True)
    else:
        os.killpg(first.pid, signal.SIGKILL if how == "killed" else signal.SIGCONT if back else signal.SIGSTOP)


def struck(lab: Lab, chance: random.Random, keyed: bool, how: str) -> tuple["subprocess.Popen[bytes]", list[str], int]:
    """Strike a backup of the first machine at a random instant; return it, its `--run-key`, how many were before."""
    taken, key = 0, list[str]()
    while True:
        begun = time.monotonic()
        if start(lab, "one", *BACKUP).wait(LIMIT):
            raise SystemExit(f"{lab.folder.name}: an undisturbed backup failed")
        span, taken = time.monotonic() - begun, taken + 1
        key = ["--run-key", f"night {taken}"] if keyed else []
        process = start(lab, "one", *BACKUP, *key)
        try:
            taken += process.wait(chance.uniform(0.4, 1.0) * span) == 0  # it was faster
        except subprocess.TimeoutExpired:
            strike(lab, process, how)
            return process, key, taken


def carried_out(lab: Lab, number: int, chance: random.Random) -> dict[str, object]:
    """Strike the first machine, let the second take over, and return what became of it."""
    how = ("killed", "frozen", "cut off")[number % 3]
    first, key, before = struck(lab, chance, number % 2 > 0, how)
    begun = time.monotonic()
    known = {line for run in lines(lab, "one").values() for line in run}
    told: dict[str, object] = {"site": lab.folder.name, "how": how, "key": key[1:]}
    told["in_window"] = any((lab.folder / "one").glob("*/window.json"))
    back = threading.Timer(round(chance.uniform(70, 400)), strike, (lab, first, how, True))
    if how != "killed":
        told["away"] = back.interval
        back.start()
    codes = [start(lab, "other", *BACKUP, *key).wait(LIMIT)]
    while codes[-1] == 6 and time.monotonic() - begun < LIMIT:
        time.sleep(3)
        codes.append(start(lab, "other", *BACKUP, *key).wait(LIMIT))
    told |= {"other": codes[-1], "tries": len(codes), "seconds": round(time.monotonic() - begun)}
    told["first"] = first.wait(LIMIT)
    if how != "killed":
        back.join()
    return told | {"wrong": wrongs(lab, known, before, told)}


def wrongs(lab: Lab, known: set[bytes], before: int, told: dict[str, object]) -> list[str]:
    """Return what is not as it must be after a round, and add to what is told."""
    found = ["the other machine failed"] if told["other"] else []
    options = Operator(lab).options
    found += ["the window is open"] if options.exists() and "redaction=false" in options.read_text() else []
    learned = {line for run in lines(lab, "other").values() for line in run} - known
    mine, others = spans(lab, "one", learned), spans(lab, "other", known)
    met = [(one, other) for one in mine for other in others if one[0] < other[1] and other[0] < one[1]]
    found += [f"two at work: {met}"] if met else []
    start(lab, "other", "backup", "list", "-o", "json").wait(LIMIT)
    listed = json.loads((lab.folder / "other.out").read_text())["snapshots"]
    told["taken"] = len(listed) - before
    found += [f"{one['id']}: {one['problem']}" for one in listed if one.get("problem")]
    if told["taken"] not in ([1] if told["key"] else [1, 2]) or not all(one["restorable"] for one in listed):
        found.append(f"the backups are {[one['id'] for one in listed]}")
    for one in listed:
        if start(lab, "other", "backup", "verify", one["id"]).wait(LIMIT):
            found.append(f"{one['id']} does not verify")
    if start(lab, "one", *BACKUP).wait(LIMIT) or any(lab.folder.glob("*/lab/window.json")):
        found.append("the first machine does not go on")
    return found


def main() -> None:
    """Carry all rounds out, print what became of each, and fail where anything is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", choices=("s3", "sftp"), default="s3")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=20261122)
    asked = parser.parse_args()
    folder, chance = asked.folder.absolute(), random.Random(asked.seed)
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        url, access = (sftp if asked.store == "sftp" else s3)(stack, folder)
        (folder / "shared").write_text(AgeSeal().new_identity()[0].reveal())
        (folder / "shared").chmod(0o600)
        labs = [
            stack.enter_context(Lab(folder / f"round{number:02}", Options(switches=SWITCHES)))
            for number in range(asked.rounds)
        ]
        Operator(labs[0])("backup", "create")  # makes the signing key of all
        for number, lab in enumerate(labs):
            for host in ("one", "other"):
                machine(stack, number, host)
            config_of(lab, labs[0].folder / "state" / "lab" / "keys" / "signing", url, access)
        with ThreadPoolExecutor(asked.rounds) as pool:
            chances = [random.Random(chance.random()) for _ in labs]
            rounds = list(pool.map(carried_out, labs, range(asked.rounds), chances))
    for told in rounds:
        sys.stdout.write(json.dumps(told) + "\n")
    if any(told["wrong"] for told in rounds):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
