"""CeleryExecutor, Redis and two workers as machines of their own; one is killed in a redaction window (by hand, root).

    MAINT_TESTS_AIRFLOW=3.3.2 .venv/bin/python -m tests.campaigns.airflow_workers FOLDER [SITES]

needs `redis-server`, `unshare` and moto; Airflow is the one of the acceptance tests. Each worker has its own host name,
processes and state folder; the shared state and the backups lie in S3, the signing key is one.
"""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from maint.adapters.seal import AgeSeal
from maint.config.yaml import dump, load
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.acceptance.airflow.environment import VERSION, python_of
from tests.campaigns.two_machines import s3
from tests.steps.operator import Operator, maint

PYTHON = str(python_of(VERSION))
BROKER, API = 26391, 26392
SWITCHES = {"down-seconds": "0.2", "starting-seconds": "1", "command-seconds": "0.05"}
ACCESS = {"ACCESS": "some-id", "SECRET": "some-secret"}
LIMIT = 3000  # seconds for the whole
SERVER = "base-01.example.internal"
RETRY = 30  # seconds between tries, and between looks at a site that another run holds


def settings(folder: Path) -> dict[str, str]:
    """Return the environment of Airflow's parts."""
    redis = f"redis://127.0.0.1:{BROKER}"
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "MAINT_"))},
        **ACCESS,
        "PATH": f"{Path(PYTHON).parent}:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{API}/execution/",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__API__PORT": str(API),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "c2VjcmV0" * 11,
        "AIRFLOW__CELERY__BROKER_URL": f"{redis}/0",
        "AIRFLOW__CELERY__RESULT_BACKEND": f"{redis}/1",
        "AIRFLOW__CELERY__WORKER_CONCURRENCY": "4",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    }


def laid_out(stack: ExitStack, folder: Path, count: int) -> list[Lab]:
    """Bring labs and an S3 up, write one config for all, and make the keys that its sites share."""
    url, access = s3(stack, folder)
    (folder / "shared").write_text(AgeSeal().new_identity()[0].reveal())
    (folder / "shared").chmod(0o600)
    labs, sites = list[Lab](), dict[str, Any]()
    for number in range(count):
        lab = stack.enter_context(Lab(folder / f"lab{number:02}", Options(switches=SWITCHES)))
        whole: Any = load((lab.folder / "config.yaml").read_text(), "config.yaml").data
        name, site = f"site{number:02}", whole["sites"]["lab"]
        site.pop("virtual_clusters", None)
        site["backup"] |= {**access, "store": f"{url}/{name}/backups", "on_redacted": "window"}
        site["backup"] |= {"signing_key": f"file:{folder}/lab00/state/lab/keys/signing"}
        site |= {"shared_state": f"{url}/{name}/state", "shared_state_key": f"file:{folder}/shared"}
        sites[name] = site
        labs.append(lab)
    Operator(labs[0])("backup", "create")  # makes the signing key of all
    path = folder / "config.yaml"
    path.write_text(dump({"state": str(folder / "state"), "sites": sites}))
    path.chmod(0o600)
    return labs


def start(stack: ExitStack, folder: Path, name: str, *words: str, **more: str) -> "subprocess.Popen[bytes]":
    """Start a part in a process group of its own; it is ended with the campaign."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            words, env={**settings(folder), **more}, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    stack.callback(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
    return process


def until_it_listens() -> None:
    """Wait for the API server: a task that does not reach it has lost a try."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        with suppress(OSError):
            return socket.create_connection(("127.0.0.1", API), 5).close()
        time.sleep(0.5)
    raise SystemExit("Airflow's API server does not listen")


def worker(stack: ExitStack, folder: Path, name: str) -> "subprocess.Popen[bytes]":
    """Start a worker: its own host name, processes and state folder."""
    state = folder / f"state-{name}"
    state.mkdir(mode=0o700)
    run = f"hostname {name}; exec '{PYTHON}' -m airflow celery worker --celery-hostname {name} --skip-serve-logs"
    alone = ("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", run)
    return start(stack, folder, name, *alone, MAINT_STATE=str(state))


def restarts_of(lab: Lab) -> int:
    """Return how often a lab's manager was restarted; twice is a window."""
    return (lab.folder / "hosts" / SERVER / "commands.jsonl").read_text().count("systemctl restart")


def kill_in_window(folder: Path, process: "subprocess.Popen[bytes]", labs: list[Lab]) -> list[str]:
    """Kill a worker with all its processes once it has a window open; return the sites whose windows it left."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        begun = [path.parent.name for path in (folder / "state-w1").glob("*/window.json")]
        if any(restarts_of(labs[int(name.removeprefix("site"))]) for name in begun):
            process.kill()  # --kill-child: all that runs in its namespace dies with it
            process.wait()
            if left := [name for name in begun if (folder / "state-w1" / name / "window.json").exists()]:
                return left
            raise SystemExit("it was killed a moment too late; once more")
        time.sleep(0.01)
    raise SystemExit("no window was seen")


def states(folder: Path) -> Counter[str]:
    """Return how many tasks are in which state."""
    with sqlite3.connect(folder / "airflow.db") as database:
        found = database.execute("select task_id, state from task_instance").fetchall()
    return Counter(f"{task} {state}" for task, state in found)


def ended(folder: Path, name: str) -> dict[str, str]:
    """Return how the act that closes the window ended in each run that a worker's state folder knows of a site."""
    told = {}
    for path in (folder / name).glob("runs/*.jsonl"):
        head, *rest = map(json.loads, path.read_text().splitlines())
        kinds = [action["kind"] for action in head["plan"]["actions"]]
        acts = [line for line in rest if "index" in line and kinds[line["index"]] == "window.close"]
        told[path.stem] = next((line["outcome"] for line in reversed(acts) if "outcome" in line), "not tried")
    return told


def verdict(folder: Path, labs: list[Lab], left: list[str]) -> dict[str, object]:
    """Return what became of the sites."""
    restarts, open_, proven, several = Counter[int](), list[str](), 0, list[str]()
    for number, lab in enumerate(labs):
        name = f"site{number:02}"
        words = ("--config", str(folder / "config.yaml"), "--site", name, "-o", "json", "--allow-plain")
        listed = maint("backup", "list", *words, **ACCESS, MAINT_STATE=str(folder / "state-w2")).json["snapshots"]
        proven += bool(listed and listed[-1].get("proven"))
        several += [name] if len([one for one in listed if one["restorable"]]) > 1 else []
        open_ += [name] if "redaction=false" in Operator(lab).options.read_text() else []
        restarts[restarts_of(lab)] += 1
    return {
        "sites": len(labs),
        "proven": proven,
        "backed_up_twice": several,
        "redaction_off": open_,
        "sites by restarts of their manager": restarts,
        "closing, by run": {
            site: {worker: ended(folder / f"state-{worker}", site) for worker in ("w1", "w2")} for site in left
        },
    }


def main(folder: Path, count: int) -> None:
    """Carry the campaign out, and print its verdict."""
    folder.mkdir(parents=True)
    (folder / "dags").mkdir()
    with ExitStack() as stack:
        labs = laid_out(stack, folder, count)
        program = str(Path(sys.executable).parent / "maint")
        never = f"{datetime.now(UTC) + timedelta(days=3):%a}"
        said = maint(
            "generate", "airflow", "--program", program, "--config", str(folder / "config.yaml"), "--drill", never
        )
        sooner = f'"retry_delay": timedelta(seconds={RETRY}), "poke_interval": {RETRY},'
        text, found = re.subn(r'"retry_delay": timedelta\(minutes=10\),', sooner, said.out)
        assert found == 1
        (folder / "dags" / "estate.py").write_text(text)
        start(stack, folder, "redis", "redis-server", "--port", str(BROKER), "--bind", "127.0.0.1", "--save", "")
        for words in (("db", "migrate"), ("pools", "set", "maint", "8", "maint")):
            subprocess.run(
                [PYTHON, "-m", "airflow", *words], env=settings(folder), cwd=folder, check=True, capture_output=True
            )
        for part in ("api-server", "scheduler", "dag-processor"):
            start(stack, folder, part, PYTHON, "-m", "airflow", part)
        until_it_listens()
        first, _ = worker(stack, folder, "w1"), worker(stack, folder, "w2")
        begun = time.monotonic()
        left = kill_in_window(folder, first, labs)
        sys.stderr.write(f"killed after {time.monotonic() - begun:.0f} s; windows left open: {left}\n")
        while time.monotonic() - begun < LIMIT and not any(
            one in states(folder) for one in ("estate success", "estate failed")
        ):
            time.sleep(2)
        told = {
            "left": left,
            "seconds": round(time.monotonic() - begun),
            "tasks": states(folder),
            **verdict(folder, labs, left),
        }
        sys.stdout.write(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else 40)
