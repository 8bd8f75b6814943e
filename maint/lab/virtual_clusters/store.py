"""Objects, in memory to be asked and in a database to survive; the content of files, each once, by SHA-1."""

import hashlib
import json
import os
import secrets
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import msgspec

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
        with self._lock:
            rows = self._connection.execute("SELECT key, value FROM kept WHERE kind = ?", (kind,)).fetchall()
        return {key: json.loads(value) for key, value in rows}

    def put(self, kind: str, key: str, value: Doc) -> None:
        self._run("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", kind, key, json.dumps(value))

    def drop(self, kind: str, key: str) -> None:
        self._run("DELETE FROM kept WHERE kind = ? AND key = ?", kind, key)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _run(self, statement: str, *values: str) -> None:
        with self._lock:
            self._connection.execute(statement, values)


class ObjectStore(dict[str, Doc]):
    """The objects of one kind by name, kept by `put` and `drop` alone. What was changed in place is put again."""

    def __init__(self, database: Database, kind: str) -> None:
        super().__init__(database.read(kind))
        self._database, self._kind = database, kind

    def put(self, key: str, value: Doc) -> None:
        self[key] = value
        self._database.put(self._kind, key, value)

    def drop(self, key: str) -> bool:
        """Forget an object; return whether there was one."""
        if self.pop(key, None) is None:
            return False
        self._database.drop(self._kind, key)
        return True


_BETWEEN = "\0"
PIECE = 1 << 18


class Staged(msgspec.Struct, frozen=True):
    """Content that arrived whole and belongs to no resource yet."""

    path: Path
    signature: str
    size: int


class FileStore:
    """The files of one virtual cluster."""

    def __init__(self, folder: Path, database: Database) -> None:
        self._blobs = folder / "blobs"
        self.staging = folder / "staging"
        for made in (self._blobs, self.staging):
            made.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self.staging.iterdir():
            left.unlink()
        self._shelf = ObjectStore(database, "files")
        self._files: dict[str, dict[str, Doc]] = {}
        self._uses: Counter[str] = Counter()
        self._joint: dict[str, str] = {}
        for key in self._shelf:
            resource, _, path = key.partition(_BETWEEN)
            entry = self._shelf.get(key) or {}
            self._files.setdefault(resource, {})[path] = entry
            self._uses[entry["signature"]] += 1

    def stage(self, pieces: Iterable[bytes]) -> Staged:
        path = self.staging / secrets.token_hex(8)
        digest, size = hashlib.sha1(usedforsecurity=False), 0
        try:
            with path.open("wb") as stream:
                for piece in pieces:
                    stream.write(piece)
                    digest.update(piece)
                    size += len(piece)
        except BaseException:
            path.unlink()
            raise
        return Staged(path, digest.hexdigest(), size)

    def put(self, resource: str, path: str, staged: Staged, now: str) -> None:
        """Make staged content a file, in the place of an earlier one."""
        before = self.entry(resource, path)
        blob = self.blob(staged.signature)
        blob.parent.mkdir(exist_ok=True)
        staged.path.chmod(0o444)
        staged.path.replace(blob)
        entry = {"path": path, "signature": staged.signature, "sizeBytes": staged.size}
        entry |= {"created": before["created"] if before else now, "modified": now}
        self._uses[staged.signature] += 1
        self._files.setdefault(resource, {})[path] = entry
        self._joint.pop(resource, None)
        self._shelf.put(f"{resource}{_BETWEEN}{path}", entry)
        if before:
            self._release(before["signature"])

    def adopt(self, resource: str, entry: Doc, content: bytes) -> None:
        self.put(resource, entry["path"], self.stage([content]), entry["modified"])
        kept = {name: value for name, value in entry.items() if name != "contentBase64"}
        self._files[resource][entry["path"]] = kept
        self._shelf.put(f"{resource}{_BETWEEN}{entry['path']}", kept)

    def drop(self, resource: str, path: str) -> bool:
        """Take a file away; return whether there was one."""
        entry = self._files.get(resource, {}).pop(path, None)
        if entry is None:
            return False
        self._joint.pop(resource, None)
        self._shelf.drop(f"{resource}{_BETWEEN}{path}")
        self._release(entry["signature"])
        return True

    def drop_all(self, resource: str) -> None:
        for path in list(self._files.get(resource, {})):
            self.drop(resource, path)
        self._files.pop(resource, None)

    def entry(self, resource: str, path: str) -> Doc | None:
        """Return the entry of a file, None where there is none."""
        return self._files.get(resource, {}).get(path)

    def entries(self, resource: str) -> list[Doc]:
        """Return the files of a resource, by path without regard to case (J5.2)."""
        return sorted(self._files.get(resource, {}).values(), key=lambda entry: (entry["path"].lower(), entry["path"]))

    def open(self, entry: Doc) -> BinaryIO:
        """Return the content of a file; it can be read to its end even when the file goes meanwhile."""
        return self.blob(entry["signature"]).open("rb")

    def blob(self, signature: str) -> Path:
        """Return where content lies; never to be written to."""
        return self._blobs / signature[:2] / signature

    def signature(self, resource: str) -> str:
        """Return the signature of a resource: over its files in byte order of their paths; "" for none."""
        if resource not in self._joint:
            files = self._files.get(resource, {})
            joined = "".join(files[path]["signature"] for path in sorted(files, key=os.fsencode))
            digest = hashlib.sha1(joined.encode(), usedforsecurity=False).hexdigest()
            self._joint[resource] = digest if files else ""
        return self._joint[resource]

    def _release(self, signature: str) -> None:
        self._uses[signature] -= 1
        if self._uses[signature] <= 0:
            del self._uses[signature]
            self.blob(signature).unlink(missing_ok=True)
