"""Keep snapshots on a host over SFTP, each file written once, whole or not at all."""

import errno
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import BinaryIO, cast
from urllib.parse import SplitResult, unquote

from maint.adapters.clock import SystemClock
from maint.adapters.ssh.connections import Connections, KeptConnection, Sources
from maint.adapters.ssh.sftp import BROKEN, MOST, READ_AT_ONCE, Facts, Session, Sessions, Unsupported, Upload
from maint.adapters.stores import Access, stored_files
from maint.config.paths import account
from maint.config.schema import HostSettings, SshSettings
from maint.errors import CannotReach, Invalid, StoreFailed
from maint.retry import briefly

_DEEPEST = 32  # folders within each other; what is stored lies in a few


def opened(parts: SplitResult, access: Access) -> "SftpStore":
    """Return the store at sftp://USER@HOST/PATH; Invalid where that names no host or no folder."""
    location, path = parts.geturl(), unquote(parts.path)
    root = path.removeprefix("/~/").lstrip("/") if path.startswith("/~/") else path
    if not parts.hostname or root.strip("/") in ("", "~"):
        raise Invalid(f"{location!r} names no host or no folder", hint="write sftp://USER@HOST/srv/maint")
    ssh = access.ssh or SshSettings(user=account())
    own = access.backup.sftp
    changes = {
        "user": unquote(parts.username) if parts.username else ssh.user,
        "key": own.key or ssh.key,
        "known_hosts": own.known_hosts or ssh.known_hosts,
        "jump": None,  # the way to the site's hosts; not to a backup host
        "sudo": False,
    }
    settings = ssh.model_copy(update=changes)
    sources = Sources(
        user="the user in the store's address" if parts.username else "ssh.user",
        key="backup.sftp.key" if own.key else "ssh.key",
        known=str(settings.trusted_files[0]),
    )
    connections = Connections(settings, sources=sources)
    host = HostSettings.model_construct(name=parts.hostname, address=parts.hostname, port=parts.port or 22)
    kept = KeptConnection(connections, connections.address(host))
    return SftpStore(Sessions(kept, settings.command_timeout), root, location, shared=access.shared)


class SftpStore:
    """`ports.Store` in a folder of another host, made at the first write: folders 0700, files 0600.

    A file gets its name by the plain rename of the protocol, which never replaces; OpenSSH does it with a hard link,
    so that of two writers one wins. It is fsynced where the server offers it; no SFTP server offers it for folders.

    Args:
        shared: whether of two machines exactly one may create a file: by nothing but a hard link, then, StoreFailed
            where the server offers none, or its file system has none.
    """

    def __init__(self, sessions: Sessions, root: str, location: str, *, shared: bool = False) -> None:
        self._sessions = sessions
        self._shared = shared
        self._root = root.rstrip("/") or "/"
        self._location = location
        self._made: set[str] = set()  # folders that are there
        self._brought: list[str] = []  # those of them that were not, the outer before the inner

    @property
    def location(self) -> str:
        return self._location

    def names(self, prefix: str = "") -> Iterator[str]:
        found = [name for name, _ in self._walk(stored_files.split_prefix(prefix)) if not stored_files.is_staging(name)]
        yield from sorted(found)

    def size(self, name: str) -> int | None:
        path = self._path(stored_files.split_name(name))
        with self._failing(f"cannot look at {name}"), self._sessions.session() as session:
            return _size(session, path)

    def written(self, name: str) -> datetime | None:
        """Return when a file was written, by that host's clock; None where there is none."""
        path = self._path(stored_files.split_name(name))
        with self._failing(f"cannot look at {name}"), self._sessions.session() as session:
            facts = session.facts(path)
        if facts is None or not stat.S_ISREG(facts.st_mode or 0):
            return None
        return datetime.fromtimestamp(facts.st_mtime or 0, UTC)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        path, words = self._path(stored_files.split_name(name)), f"cannot read {name}"
        with ExitStack() as stack:
            with self._failing(words):
                session = stack.enter_context(self._sessions.session())
                file = None if _size(session, path) is None else session.open(path)
            if file is not None:
                yield stored_files.reader(file.read, partial(self._failing, words), READ_AT_ONCE)
                with self._failing(words):
                    file.close()
        if file is None:
            raise FileNotFoundError(f"no file {name} in {self._location}")

    @contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Write a new file, committed when the block ends well, else gone; FileExistsError where there is one."""
        *folders, _ = stored_files.split_name(name)
        path, words = self._path(stored_files.split_name(name)), f"cannot write {name}"
        staging = f"{self._path(folders)}/{stored_files.staging_name()}"
        try:
            with ExitStack() as stack:
                with self._failing(words):
                    session = stack.enter_context(self._sessions.session())
                    self._make(session, self._path(folders))
                    _refuse_taken(session, path)
                    upload = Upload(session, staging)
                yield cast(BinaryIO, stored_files.Writer(upload.write, partial(self._failing, words)))
                with self._failing(words):
                    upload.finish()
            self._commit(staging, path, words)
        except BaseException:
            self._forget(staging)
            raise

    def remove(self, name: str) -> None:
        """Remove a file; no complaint where there is none. With a trial go empty folders that were made for it."""
        path = self._path(stored_files.split_name(name))
        with self._failing(f"cannot remove {name}"), self._sessions.session() as session:
            session.remove(path)
            while stored_files.is_trial(name) and self._brought:
                self._made.discard(folder := self._brought.pop())
                with suppress(OSError):  # it holds something by now
                    session.client.rmdir(folder)

    def sweep(self, prefix: str = "") -> int:
        """Remove what dead writers and trials left; return how many."""
        walked = [*self._walk(stored_files.split_prefix(prefix))]
        found = [(name, datetime.fromtimestamp(facts.st_mtime or 0, UTC)) for name, facts in walked]
        now, swept = stored_files.passed(touched for _, touched in found), 0
        for name, touched in found:
            passing = stored_files.is_staging(name) or stored_files.is_trial(name)
            if passing and stored_files.is_left_over(name.rpartition("/")[2], touched, now):
                with self._failing(f"cannot remove {name}"), self._sessions.session() as session:
                    session.remove(f"{self._root}/{name}")
                swept += 1
        return swept

    def close(self) -> None:
        self._sessions.close()

    def _path(self, parts: Sequence[str]) -> str:
        return "/".join([self._root.rstrip("/"), *parts]) or "/"

    def _walk(self, folders: Sequence[str]) -> Iterator[tuple[str, Facts]]:
        with self._failing("cannot list"), self._sessions.session() as session:
            todo, seen = ["/".join(folders)], 0
            while todo:
                where = todo.pop()
                with self._failing(f"cannot list {where}".rstrip()):
                    found = session.list(f"{self._root}/{where}".rstrip("/") or "/")
                    if not found:  # as servers answer below a file, too
                        _refuse_file(session, self._root)
                seen += len(found)
                if seen > MOST or where.count("/") > _DEEPEST:
                    raise StoreFailed(
                        f"cannot list in {self._location}",
                        detail=[f"it has more than {MOST} files and folders, or folders without end"],
                        hint="look for a folder that leads into itself, or is not the store's; or use a copy (--store)",
                    )
                for facts in found:
                    last, mode = facts.filename, facts.st_mode or 0
                    name = f"{where}/{last}" if where else last
                    if stat.S_ISDIR(mode) and not last.startswith("."):
                        todo.append(name)
                    elif stat.S_ISREG(mode) and (stored_files.is_staging(name) or not last.startswith(".")):
                        yield name, facts

    def _make(self, session: Session, folder: str) -> None:
        if folder in self._made or folder in ("", "/", "."):
            return
        if not _is_folder(session, folder):
            self._make(session, folder.rpartition("/")[0])
            try:
                session.client.mkdir(folder, 0o700)
                self._brought.append(folder)
            except OSError:
                # Another writer may have been quicker.
                if not _is_folder(session, folder):
                    _refuse_file(session, folder)
                    raise
        self._made.add(folder)

    def _commit(self, staging: str, path: str, words: str) -> None:
        linked = False
        try:
            with self._sessions.session() as session:
                if self._shared:
                    session.link(staging, path)
                    linked = True
                    session.remove(staging)
                else:
                    session.client.rename(staging, path)
        except (*BROKEN, CannotReach) as error:
            if linked:  # it has its name; what stays of the other one goes with a sweep
                return
            # The name may be taken, or the answer may have been lost: only looking tells.
            with self._failing(words), self._sessions.session() as session:
                ours, there = _size(session, staging), _size(session, path)
                if there is not None and ours is not None:
                    raise FileExistsError(f"there is a file {path} already") from None
                if there is None and self._shared and isinstance(error, (Unsupported, PermissionError)):
                    raise stored_files.no_hard_links(self._location) from None
                if there is None:
                    raise error

    def _forget(self, staging: str) -> None:
        # Best effort on the way out of a failure: the failure itself must be reported, and a sweep comes later.
        with briefly(SystemClock()), suppress(*BROKEN, CannotReach), self._sessions.session() as session:
            session.remove(staging)

    @contextmanager
    def _failing(self, what: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, FileExistsError) as error:
            if isinstance(error.args[0] if error.args else None, int):
                raise _failure(what, self._location, error) from None
            raise
        except CannotReach as error:
            said = [error.message, *error.detail]
            raise StoreFailed(f"{what} in {self._location}", detail=said, hint=error.hint) from None
        except BROKEN as error:
            raise _failure(what, self._location, error) from None


def _failure(what: str, location: str, error: Exception) -> StoreFailed:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, TimeoutError):
        words = "the server does not answer any more"
    hint = "look at the account's rights, and at the room on that host"
    if isinstance(error, NotADirectoryError):
        hint = "name a folder in the store's address, or move that file away on that host"
    return StoreFailed(f"{what} in {location}", detail=[words or "the connection was lost"], hint=hint)


def _size(session: Session, path: str) -> int | None:
    facts = session.facts(path)
    return facts.st_size or 0 if facts is not None and stat.S_ISREG(facts.st_mode or 0) else None


def _refuse_file(session: Session, folder: str) -> None:
    facts = session.facts(folder, follow=True)
    if facts is not None and not stat.S_ISDIR(facts.st_mode or 0):
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder there")


def _is_folder(session: Session, path: str) -> bool:
    facts = session.facts(path, follow=True)
    return facts is not None and stat.S_ISDIR(facts.st_mode or 0)


def _refuse_taken(session: Session, path: str) -> None:
    # Only spares the writer its work; what decides is the commit.
    if session.facts(path) is not None:
        raise FileExistsError(f"there is a file {path} already")
