"""CeleryExecutor, Redis and two workers as machines of their own; one is killed in a redaction window (by hand, root).

    AIRFLOW=airflow/bin/python .venv/bin/python -m tests.campaigns.airflow_workers FOLDER [SITES]

needs an Airflow 3 with the Celery provider (celery < 5.7), `redis-server` and `unshare`. Each worker has its own host
name, processes and state folder; stores and signing keys are shared.
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from maint.config.yaml import dump, load
from maint.lab.http.request_log import read_requests
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from tests.steps.operator import Operator, maint

PYTHON = str(Path(os.environ.get("AIRFLOW", "python")).absolute())
BROKER, API = 26391, 26392
SWITCHES = {"down-seconds": "0.2", "starting-seconds": "1", "command-seconds": "0.05"}
DAG = "maint_estate"
LIMIT = 3000  # seconds for the whole


def settings(folder: Path) -> dict[str, str]:
    """Return the environment of Airflow's parts."""
    redis = f"redis://127.0.0.1:{BROKER}"
    return {
        **{key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "MAINT_"))},
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
    """Bring labs up, write one config for all, and make the keys that its sites share."""
    labs, sites = [], {}
    for number in range(count):
        lab = stack.enter_context(Lab(folder / f"lab{number:02}", Options(switches=SWITCHES)))
        site = dict(load((lab.folder / "config.yaml").read_text(), "config.yaml").data["sites"]["lab"])
        site.pop("virtual_clusters", None)
        shared = {
            name: f"file:{folder}/lab00/state/lab/keys/{name.split('_')[0]}"
            for name in ("signing_key", "fingerprint_key")
        }
        site["backup"] = {**site["backup"], "on_redacted": "window", **shared}
        sites[f"site{number:02}"] = site
        labs.append(lab)
    maint("backup", "create", "--config", str(labs[0].folder / "config.yaml"), "--allow-plain")
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


def worker(stack: ExitStack, folder: Path, name: str) -> "subprocess.Popen[bytes]":
    """Start a worker: its own host name, processes and state folder."""
    state = folder / f"state-{name}"
    state.mkdir(mode=0o700)
    run = f"hostname {name}; exec '{PYTHON}' -m airflow celery worker --celery-hostname {name} --skip-serve-logs"
    alone = ("unshare", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", run)
    return start(stack, folder, name, *alone, MAINT_STATE=str(state))


def kill_in_window(folder: Path, process: "subprocess.Popen[bytes]") -> list[str]:
    """Kill a worker with all its processes once it has a window open; return the sites whose windows it left."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if any((folder / "state-w1").glob("*/window.json")):
            process.kill()  # --kill-child: all that runs in its namespace dies with it
            process.wait()
            if left := [path.parent.name for path in (folder / "state-w1").glob("*/window.json")]:
                return left
            raise SystemExit("it was killed a moment too late; once more")
        time.sleep(0.01)
    raise SystemExit("no window was seen")


def states(folder: Path) -> Counter[str]:
    """Return how many tasks are in which state."""
    with sqlite3.connect(folder / "airflow.db") as database:
        found = database.execute("select task_id, state from task_instance").fetchall()
    return Counter(f"{task} {state}" for task, state in found)


def verdict(folder: Path, labs: list[Lab]) -> dict[str, object]:
    """Return what became of the sites."""
    restarts, open_, proven, several = [], [], 0, []
    for number, lab in enumerate(labs):
        words = ("--config", str(folder / "config.yaml"), "--site", f"site{number:02}", "-o", "json", "--allow-plain")
        listed = maint("backup", "list", *words, MAINT_STATE=str(folder / "state-w2")).json["snapshots"]
        proven += bool(listed and listed[-1].get("proven"))
        several += [f"site{number:02}"] if len([one for one in listed if one["restorable"]]) > 1 else []
        open_ += [f"site{number:02}"] if "redaction=false" in Operator(lab).options.read_text() else []
        sent = [f"{line['method']} {line['path']}" for line in read_requests(lab.log.path)]
        restarts.append(sum(line.startswith(("PUT", "POST", "DELETE")) for line in sent))
    return {
        "sites": len(labs),
        "proven": proven,
        "backed_up_twice": several,
        "redaction_off": open_,
        "sent": max(restarts),
    }


def main(folder: Path, count: int) -> None:
    """Carry the campaign out, and print its verdict."""
    folder.mkdir(parents=True)
    (folder / "dags").mkdir()
    with ExitStack() as stack:
        labs = laid_out(stack, folder, count)
        program = str(Path(sys.executable).parent / "maint")
        said = maint(
            "generate", "airflow", "--program", program, "--config", str(folder / "config.yaml"), "--drill", "Mon"
        )
        text = said.out.replace("timedelta(minutes=5)", "timedelta(seconds=15)")
        (folder / "dags" / "estate.py").write_text(
            re.sub(r'"retry_exponential_backoff": True', '"retry_exponential_backoff": False', text)
        )
        start(stack, folder, "redis", "redis-server", "--port", str(BROKER), "--bind", "127.0.0.1", "--save", "")
        for words in (("db", "migrate"), ("pools", "set", "maint", "8", "maint")):
            subprocess.run(
                [PYTHON, "-m", "airflow", *words], env=settings(folder), cwd=folder, check=True, capture_output=True
            )
        for part in ("api-server", "scheduler", "dag-processor"):
            start(stack, folder, part, PYTHON, "-m", "airflow", part)
        first, _ = worker(stack, folder, "w1"), worker(stack, folder, "w2")
        begun = time.monotonic()
        left = kill_in_window(folder, first)
        sys.stderr.write(f"killed after {time.monotonic() - begun:.0f} s; windows left open: {left}\n")
        while time.monotonic() - begun < LIMIT and not any(
            one in states(folder) for one in ("estate success", "estate failed")
        ):
            time.sleep(2)
        told = {
            "left": left,
            "seconds": round(time.monotonic() - begun),
            "tasks": states(folder),
            **verdict(folder, labs),
        }
        sys.stdout.write(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else 40)
