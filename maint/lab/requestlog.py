"""The record of every request: JSON lines, and counts by method and path (contract section 16.10)."""

import json
import threading
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class RequestLog:
    """Appends one line a request, before its answer leaves."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def add(self, port: int, method: str, path: str, status: int, remark: str = "") -> None:
        """Write down a request.

        Args:
            status: what it was answered; 0 when its body never arrived whole.
            remark: what became of the answer, "" for nothing special.
        """
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": stamp, "port": port, "method": method, "path": path, "status": status}
        text = json.dumps(line | ({"remark": remark} if remark else {}))
        with self._lock, self.path.open("a") as stream:
            stream.write(text + "\n")


def read(path: Path) -> list[dict[str, Any]]:  # Any: what JSON can spell
    """Return the requests so far; a line that is being written does not count yet."""
    whole, _, _ = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
    return [json.loads(line) for line in whole.splitlines()]


def counts(path: Path) -> dict[str, int]:
    """Return how often each "METHOD path" was asked, the query left out."""
    lines = read(path)
    return dict(Counter(f"{line['method']} {line['path'].split('?')[0]}" for line in lines))
