"""Objects of one kind: in memory to be asked, in a database to survive."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from maint.lab.manager.document import Doc


class Database:
    """The file that the shelves of one virtual cluster are kept in. Each change is in it before `put` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._lock = threading.Lock()
        # A killed process loses nothing; only a machine that dies may lose the last moments.
        self._run("PRAGMA journal_mode=WAL")
        self._run("PRAGMA synchronous=OFF")
        self._run("CREATE TABLE IF NOT EXISTS kept (kind TEXT, key TEXT, value TEXT, PRIMARY KEY (kind, key))")

    def read(self, kind: str) -> dict[str, Doc]:
        """Return all objects of a kind by their key."""
        with self._lock:
            rows = self._connection.execute("SELECT key, value FROM kept WHERE kind = ?", (kind,)).fetchall()
        return {key: json.loads(value) for key, value in rows}

    def put(self, kind: str, key: str, value: Doc) -> None:
        """Keep an object."""
        self._run("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", kind, key, json.dumps(value))

    def drop(self, kind: str, key: str) -> None:
        """Forget an object."""
        self._run("DELETE FROM kept WHERE kind = ? AND key = ?", kind, key)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def _run(self, statement: str, *values: str) -> None:
        with self._lock:
            self._connection.execute(statement, values)


class Shelf:
    """The objects of one kind by name. Whoever changes an object in place puts it again."""

    def __init__(self, database: Database, kind: str) -> None:
        self._database, self._kind = database, kind
        self._kept = database.read(kind)

    def __contains__(self, key: str) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def get(self, key: str) -> Doc | None:
        """Return an object, None where there is none."""
        return self._kept.get(key)

    def values(self) -> list[Doc]:
        """Return all objects."""
        return list(self._kept.values())

    def put(self, key: str, value: Doc) -> None:
        """Keep an object."""
        self._kept[key] = value
        self._database.put(self._kind, key, value)

    def drop(self, key: str) -> bool:
        """Forget an object; return whether there was one."""
        if self._kept.pop(key, None) is None:
            return False
        self._database.drop(self._kind, key)
        return True
