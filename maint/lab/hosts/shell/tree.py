"""A real folder seen as the file tree of a host: paths are resolved inside it, modes and owners kept in a side file."""

import contextlib
import errno
import io
import json
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

_LINKS_AT_MOST = 40
_CHOICES = "/sys/kernel/mm/transparent_hugepage/"


class Entry(msgspec.Struct, frozen=True):
    """What `lstat` or `stat` tells of one file."""

    path: str
    kind: int
    mode: int
    user: str
    group: str
    size: int
    mtime: float

    @property
    def is_folder(self) -> bool:
        return self.kind == stat.S_IFDIR

    @property
    def is_link(self) -> bool:
        return self.kind == stat.S_IFLNK

    @property
    def is_file(self) -> bool:
        return self.kind == stat.S_IFREG


class Owned(msgspec.Struct, frozen=True):
    """Mode bits (without the file type) and the names of user and group."""

    mode: int
    user: str = "root"
    group: str = "root"


class Ownership:
    """Modes and owners by canonical path; every change is appended to the side file, which the first one compacts."""

    def __init__(self, side_file: Path) -> None:
        self._file = side_file
        self._loose = False  # whether the side file holds lines that say nothing any more, or half a line
        self._waiting: list[str] | None = None
        self._file.parent.mkdir(parents=True, exist_ok=True)

    def get(self, path: str) -> Owned | None:
        """Return what was recorded for a path, or None."""
        return self._known.get(path)

    def set(self, path: str, owned: Owned) -> None:
        self._known[path] = owned
        self._append([path, owned.mode, owned.user, owned.group])

    def drop(self, path: str) -> None:
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

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Append what changes meanwhile in one go at the end."""
        self._waiting = []
        try:
            yield
        finally:
            rows, self._waiting = self._waiting, None
            self._write(rows)

    def _append(self, entry: list[str | int]) -> None:
        row = json.dumps(entry) + "\n"
        if self._waiting is None:
            self._write([row])
        else:
            self._waiting.append(row)

    def _write(self, rows: Iterable[str]) -> None:
        if self._loose:
            rows = [json.dumps([path, o.mode, o.user, o.group]) + "\n" for path, o in self._known.items()]
        with self._file.open("w" if self._loose else "a", encoding="utf-8") as out:
            out.writelines(rows)
        self._loose = False

    @cached_property
    def _known(self) -> dict[str, Owned]:
        known: dict[str, Owned] = {}
        if not self._file.exists():
            return known
        text = self._file.read_text(encoding="utf-8")
        lines = text.splitlines()
        try:
            rows = json.loads(f"[{','.join(lines)}]")
        except ValueError:
            rows = [row for line in lines for row in _row(line)]
        for path, *owned in rows:
            if owned:
                known[path] = Owned(*owned)
            else:
                known.pop(path, None)
        self._loose = len(lines) != len(known) or not text.endswith("\n")
        return known


def _row(line: str) -> list[Any]:
    try:
        return [json.loads(line)]
    except ValueError:
        return []  # the last line of a lab that was killed while it wrote


def failure(number: int, path: str) -> OSError:
    """Return the OSError of an errno for a path of the host."""
    return OSError(number, os.strerror(number), path)


def _kind(real: str) -> int:
    """Return what stands at a path of this machine, a link unfollowed; 0 where nothing does."""
    try:
        return stat.S_IFMT(os.lstat(real).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0


class _File(io.FileIO):
    """An open file of a host; writing fails while the disk is full."""

    def __init__(self, number: int, mode: str, path: str, full: Callable[[], bool]) -> None:
        super().__init__(number, mode)
        self._path, self._full = path, full

    def write(self, data: Any, /) -> int:  # Any: whatever has bytes
        if self._full():
            raise failure(errno.ENOSPC, self._path)
        return super().write(data)


class _Choice(_File):
    """A file of the kernel that shows its choices (`[always] never`): what is written becomes the chosen one."""

    def write(self, data: Any, /) -> int:  # Any: whatever has bytes
        self.seek(0)
        words = self.readall().replace(b"[", b"").replace(b"]", b"").split()
        if b"[" in data:  # the whole of it, as the lab lays it out
            chosen = bytes(data)
        elif bytes(data).strip() in words:
            chosen = b" ".join(b"[%b]" % word if word == data.strip() else word for word in words) + b"\n"
        else:
            raise failure(errno.EINVAL, self._path)
        self.seek(0)
        self.truncate()
        super().write(chosen)
        return len(data)


class Tree:
    """A host's files, by absolute paths of the host; with `full` writing fails with ENOSPC.

    Links, `..` and absolute link targets are followed here, one component at a time and under one lock, so that nothing
    ever leaves `root`; the kernel only sees paths without links.
    """

    def __init__(self, root: Path, full: Callable[[], bool] = lambda: False) -> None:
        (root / "dev").mkdir(parents=True, exist_ok=True)
        self.root = root.resolve()
        self._at = str(self.root)  # no Path: a script asks very often
        self._full = full
        self._lock = threading.RLock()
        self._owned = Ownership(self.root.with_name(f".{self.root.name}.owners.jsonl"))

    def canonical(self, path: str, *, follow: bool = True) -> str:
        """Return the path without links (`follow`: the last one too), `.` and `..`; the last part may be missing."""
        if "\0" in path:
            raise failure(errno.ENOENT, path)
        todo, done, links = path.split("/")[::-1], "", 0
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{self._at}{done}/{name}"
            kind = _kind(here)
            if kind == stat.S_IFLNK and (follow or bool(todo)):
                links += 1
                if links > _LINKS_AT_MOST:
                    raise failure(errno.ELOOP, path)
                target = os.readlink(here)  # noqa: PTH115 - a link's text, which Path would change
                todo.extend(target.split("/")[::-1])
                done = "" if target.startswith("/") else done
                continue
            if todo and kind and kind != stat.S_IFDIR:
                raise failure(errno.ENOTDIR, path)
            if not kind and any(part not in ("", ".") for part in todo):
                raise failure(errno.ENOENT, path)
            done = f"{done}/{name}"
        return done or "/"

    def _real(self, canonical: str) -> Path:
        return Path(self._at + canonical)

    def entry(self, path: str, *, follow: bool = True) -> Entry:
        with self._lock:
            canonical = self.canonical(path, follow=follow)
            if canonical == os.devnull:
                return Entry(canonical, stat.S_IFCHR, 0o666, "root", "root", 0, 0.0)
            try:
                info = os.lstat(self._at + canonical)
            except OSError as error:
                raise failure(error.errno or errno.ENOENT, path) from None
            kind = stat.S_IFMT(info.st_mode)
            usual = 0o777 if kind == stat.S_IFLNK else stat.S_IMODE(info.st_mode)
            owned = self._owned.get(canonical) or Owned(usual)
        who = owned.user, owned.group
        return Entry(canonical, kind, owned.mode, *who, info.st_size, info.st_mtime)

    def exists(self, path: str, *, follow: bool = True) -> bool:
        try:
            self.entry(path, follow=follow)
        except OSError:
            return False
        return True

    def names(self, path: str) -> list[str]:
        with self._lock:
            entry = self.entry(path)
            if not entry.is_folder:
                raise failure(errno.ENOTDIR, path)
            return sorted(os.listdir(self._at + entry.path))  # noqa: PTH208 - names, not paths

    def walk(self, path: str) -> Iterator[str]:
        """Yield a path and all below it, parents first; links are not followed."""
        yield path
        if self.exists(path, follow=False) and self.entry(path, follow=False).is_folder:
            for name in self.names(path):
                yield from self.walk(f"{path.rstrip('/')}/{name}")

    def open(self, path: str, flags: int, mode: int = 0o644) -> io.FileIO:
        """Open a regular file with flags of `os.open`, unbuffered; OSError as from the kernel, ENOSPC when full."""
        with self._lock:
            canonical = self.canonical(path, follow=not flags & os.O_EXCL)
            if canonical == os.devnull:
                return _File(os.open(os.devnull, flags), _python_mode(flags), path, lambda: False)
            kind = _kind(self._at + canonical)
            if kind == stat.S_IFDIR:
                raise failure(errno.EISDIR, path)
            fresh = not kind
            choice = canonical.startswith(_CHOICES) and not fresh and flags & os.O_ACCMODE == os.O_WRONLY
            flags = os.O_RDWR if choice else flags
            if fresh and flags & os.O_CREAT and self._full():
                raise failure(errno.ENOSPC, path)
            try:
                number = os.open(self._at + canonical, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
            except OSError as error:
                raise failure(error.errno or errno.EIO, path) from None
            if fresh:
                self._owned.set(canonical, Owned(mode))
        return (_Choice if choice else _File)(number, _python_mode(flags), path, self._full)

    @property
    def is_full(self) -> bool:
        return self._full()

    def read(self, path: str) -> bytes:
        with self.open(path, os.O_RDONLY) as file:
            return file.read()

    def write(
        self, path: str, content: bytes, mode: int | None = None, user: str = "root", group: str = "root"
    ) -> None:
        """Make or replace a file, and the folders above it; mode and owner stay as they were unless a mode is given."""
        with self._lock:
            self.make_folders(path.rsplit("/", 1)[0] or "/")
            if self._full():
                raise failure(errno.ENOSPC, path)
            with self.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
                file.write(content)
            if mode is not None:
                self.own(path, mode, user, group)

    @contextlib.contextmanager
    def furnishing(self) -> Iterator[None]:
        """Make many files: what is recorded of them is written once, at the end."""
        with self._lock, self._owned.at_once():
            yield

    def own(self, path: str, mode: int | None = None, user: str | None = None, group: str | None = None) -> None:
        """Record mode bits and owners; None leaves one as it was. Links are followed."""
        with self._lock:
            was = self.entry(path)
            self._owned.set(was.path, Owned(was.mode if mode is None else mode, user or was.user, group or was.group))

    def make_folder(self, path: str, mode: int = 0o755) -> None:
        """Make one folder; FileExistsError where something stands already."""
        with self._lock:
            canonical = self.canonical(path, follow=False)
            if _kind(self._at + canonical):
                raise failure(errno.EEXIST, path)
            if self._full():
                raise failure(errno.ENOSPC, path)
            with _renamed(path):
                os.mkdir(self._at + canonical, 0o700)  # noqa: PTH102 - no Path, see above
            self._owned.set(canonical, Owned(mode))

    def make_folders(self, path: str, mode: int = 0o755) -> None:
        """Make a folder and those above it where missing; one that stands is left as it is."""
        with self._lock:
            try:
                stands = self.entry(path)
            except OSError:
                self.make_folders(path.rstrip("/").rsplit("/", 1)[0] or "/")
                self.make_folder(path, mode)
                return
            if not stands.is_folder:
                raise failure(errno.EEXIST, path)

    def link(self, target: str, path: str) -> None:
        """Make a symbolic link; its text may be anything, it is resolved inside the tree whenever it is followed."""
        with self._lock, _renamed(path):
            self._real(self.canonical(path, follow=False)).symlink_to(target)

    def hard_link(self, target: str, path: str) -> None:
        with self._lock, _renamed(path):
            old, new = self.canonical(target, follow=False), self.canonical(path, follow=False)
            os.link(self._real(old), self._real(new), follow_symlinks=False)
            if owned := self._owned.get(old):
                self._owned.set(new, owned)

    def link_text(self, path: str) -> str:
        """Return what a symbolic link says; EINVAL where it is not one."""
        with self._lock, _renamed(path):
            return os.readlink(self._real(self.canonical(path, follow=False)))  # noqa: PTH115 - see above

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing a file; links themselves are moved."""
        with self._lock, _renamed(old):
            source, target = self.canonical(old, follow=False), self.canonical(new, follow=False)
            if "/" in (source, target):
                raise failure(errno.EBUSY, old)
            self._real(source).rename(self._real(target))
            if source != target:
                self._owned.move(source, target)

    def remove(self, path: str) -> None:
        with self._lock, _renamed(path):
            canonical = self.canonical(path, follow=False)
            self._real(canonical).unlink()
            self._owned.drop(canonical)

    def remove_folder(self, path: str, *, all_below: bool = False) -> None:
        """Remove a folder, which must be empty unless all below it goes too; links in it are not followed."""
        with self._lock, _renamed(path):
            canonical = self.canonical(path, follow=False)
            if canonical == "/":
                raise failure(errno.EBUSY, path)
            real = self._real(canonical)
            if all_below:
                shutil.rmtree(real)
            else:
                real.rmdir()
            self._owned.drop(canonical)

    def touch(self, path: str, when: float) -> None:
        """Set the time of last change (seconds since 1970)."""
        with self._lock, _renamed(path):
            os.utime(self._real(self.canonical(path)), (when, when), follow_symlinks=False)


def _python_mode(flags: int) -> str:
    kind = flags & os.O_ACCMODE
    if kind == os.O_RDONLY:
        return "rb"
    if flags & os.O_APPEND:
        return "ab" if kind == os.O_WRONLY else "ab+"
    return "wb" if kind == os.O_WRONLY else "rb+"


@contextlib.contextmanager
def _renamed(path: str) -> Iterator[None]:
    """Let failures name the host's path, never the real one."""
    try:
        yield
    except OSError as error:
        raise failure(error.errno or errno.EIO, path) from None
