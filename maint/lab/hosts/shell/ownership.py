"""Remember modes and owners of a tree's files in a side file, since the lab does not run as root."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Owned:
    """Mode bits (without the file type) and the names of user and group."""

    mode: int
    user: str = "root"
    group: str = "root"


class Ownership:
    """Modes and owners by canonical path; every change is appended to the side file, which is compacted when read."""

    def __init__(self, side_file: Path) -> None:
        self._file = side_file
        self._known: dict[str, Owned] = {}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._load()

    def get(self, path: str) -> Owned | None:
        """Return what was recorded for a path, or None."""
        return self._known.get(path)

    def set(self, path: str, owned: Owned) -> None:
        """Record mode and owner of a path."""
        self._known[path] = owned
        self._append([path, owned.mode, owned.user, owned.group])

    def drop(self, path: str) -> None:
        """Forget a path and whatever lies below it."""
        for known in self._below(path):
            del self._known[known]
            self._append([known])

    def move(self, old: str, new: str) -> None:
        """Follow a rename of a path and whatever lies below it."""
        self.drop(new)
        for known in self._below(old):
            self.set(new + known[len(old) :], self._known[known])
        self.drop(old)

    def _below(self, path: str) -> list[str]:
        return [known for known in self._known if known == path or known.startswith(path.rstrip("/") + "/")]

    def _append(self, entry: list[str | int]) -> None:
        with self._file.open("a", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")

    def _load(self) -> None:
        if not self._file.exists():
            return
        for line in self._file.read_text(encoding="utf-8").splitlines():
            self._replay(line)
        rows = [json.dumps([path, o.mode, o.user, o.group]) for path, o in self._known.items()]
        self._file.write_text("".join(row + "\n" for row in rows), encoding="utf-8")

    def _replay(self, line: str) -> None:
        try:
            path, *owned = json.loads(line)
        except ValueError:
            return  # the last line of a lab that was killed while it wrote
        if owned:
            self._known[path] = Owned(*owned)
        else:
            self._known.pop(path, None)
