"""The record of every request that a server of the lab was sent."""

import json
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class RequestLog:
    """The record of every request: one JSON line each, written before its answer leaves (M16.10)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def add(self, port: int, method: str, path: str, status: int, remark: str = "") -> None:
        """Note a request; status 0 is for no answer, the remark says what became of it."""
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": stamp, "port": port, "method": method, "path": path, "status": status}
        text = json.dumps(line | ({"remark": remark} if remark else {}))
        with self._lock, self.path.open("a") as stream:
            stream.write(text + "\n")


def read_requests(path: Path) -> list[dict[str, Any]]:  # Any: what JSON can spell
    """Return the requests so far; a line that is being written does not count yet."""
    whole, _, _ = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
    return [json.loads(line) for line in whole.splitlines()]


def request_counts(path: Path) -> dict[str, int]:
    """Return how often each "METHOD path" was asked, the query left out."""
    lines = read_requests(path)
    return dict(Counter(f"{line['method']} {line['path'].split('?')[0]}" for line in lines))
