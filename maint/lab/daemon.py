"""Run a lab until it receives the order to stop: `python -m maint.lab.daemon FOLDER [passing]`."""

import hmac
import json
import os
import secrets
import shutil
import signal
import socketserver
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maint.files import write_whole
from maint.lab.control import CONTROL, OPTIONS, PASSING
from maint.lab.faults import UnknownFault
from maint.lab.manager.load import Options
from maint.lab.running import Lab
from maint.lab.switches import UnknownSwitch
from maint.lab.virtual_clusters.create import BadName
from maint.lab.virtual_clusters.info import found_again, lose
from maint.lab.virtual_clusters.service import Service

_LOOKS_AGAIN = 0.05  # seconds until the order to stop is seen
Words = dict[str, Any]  # Any: one order or its answer, as JSON


class Orders(socketserver.ThreadingTCPServer):
    """Takes orders on a loopback port from callers who can read the lab's folder; `stop` ends the daemon."""

    daemon_threads = True

    def __init__(self, lab: Lab, stop: Callable[[], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Order)
        self.lab, self.stop, self.token = lab, stop, secrets.token_hex(16)

    def obey(self, order: str, words: Words) -> Words:
        lab = self.lab
        orders: dict[str, Callable[[], Words | None]] = {
            "ping": lambda: {"up": True},
            "status": lab.status,
            "break": lambda: lab.break_(words["target"], words["fault"]),
            "repair": lambda: {"cleared": lab.repair(words["fault"], words.get("target", ""))},
            "switch": lambda: lab.switch(words["name"], words["value"]),
            "lose-database": lab.lose_database,
            "lose-vcs": lambda: lose(self._service()),
            "create-vc": lambda: self._create(words),
            "stop": lambda: None,
        }
        if order not in orders:
            return {"error": f"unknown order {order!r}"}
        return orders[order]() or {"done": order}

    def _create(self, words: Words) -> None:
        self._service().create(words["name"], initialised=bool(words.get("initialised")))

    def _service(self) -> Service:
        if self.lab.service is None:
            raise BadName(
                "this lab has no Data Engineering service, which a new one of a deployment with an ECS cluster has"
            )
        return self.lab.service


class _Order(socketserver.StreamRequestHandler):
    server: Orders

    def handle(self) -> None:
        words: Words = json.loads(self.rfile.readline())
        if not hmac.compare_digest(str(words.pop("token", "")), self.server.token):
            return
        order = str(words.pop("order", ""))
        try:
            answer = self.server.obey(order, words)
        except (UnknownFault, UnknownSwitch, BadName, KeyError) as error:
            answer = {"error": str(error)}
        self.wfile.write(json.dumps(answer).encode() + b"\n")
        self.wfile.flush()
        if order == "stop":
            self.server.stop()


def _watch(*gone: threading.Event) -> None:
    os.read(0, 1)  # nothing is ever written: it returns when nobody can any more
    for one in gone:
        one.set()


def main(folder: Path, *, passing: bool = False) -> None:
    """Run a lab in a folder until SIGTERM, SIGINT or the order to stop.

    Args:
        passing: or until nobody holds the standard input any more; then the folder goes, too.
    """
    words = json.loads((folder / OPTIONS).read_bytes())
    words["deployment"] = Path(words["deployment"]) if words["deployment"] else None
    ended, alone = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    if passing:
        threading.Thread(target=_watch, args=(alone, ended), daemon=True).start()
    found_again(folder / "vc")
    with Lab(folder, Options(**words)) as lab, Orders(lab, ended.set) as orders:
        threading.Thread(target=orders.serve_forever, args=(_LOOKS_AGAIN,), daemon=True).start()
        access = {"port": orders.server_address[1], "token": orders.token, "pid": os.getpid()}
        write_whole(folder / CONTROL, json.dumps(access).encode(), 0o600)
        ended.wait()
        orders.shutdown()
    if alone.is_set():
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), passing=PASSING in sys.argv[2:])
    except (OSError, ValueError) as failure:  # a port that another process has, a document that cannot be read
        sys.exit(" ".join(str(failure).split()))
    except Exception as failure:
        traceback.print_exc()
        sys.exit(f"the lab itself failed: {type(failure).__name__}: {failure}")
