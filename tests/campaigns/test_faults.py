"""A disk that says no at any moment: a reader sees the old state or the new one, and the next run cleans up.

The fault sits below what writes files, where it calls the operating system. Of a backup and of a copy the n-th of those
calls fails, once or from then on, with ENOSPC or EIO; then the next one, until a run needs no further call. Of whole
commands each kind of call for each file that we keep fails so: journal, window, undo, marks, reports, metrics, records;
and of each write only a part is taken, as the operating system may.
"""

import errno
import itertools
import os
import random
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.errors import Invalid, StoreFailed, WorkFailed
from maint.model.snapshot import Trust
from maint.snapshots.capture import take
from maint.snapshots.catalogue import entries, folders
from maint.snapshots.manifest import MANIFEST
from maint.snapshots.replicate import replicate, with_store
from maint.snapshots.verify import verify
from tests.campaigns.size import FULL, SEED, size, tries
from tests.campaigns.test_flips import run
from tests.snapshots.conftest import EXAMPLE, Place
from tests.steps.operator import Operator, Said

CALLS = frozenset({"write", "fsync", "link", "unlink", "mkdir", "rename", "open", "stat"})
STRIDE = size(9, 1)  # calls between two that fail
KINDS = [(error, lasting) for error in (errno.ENOSPC, errno.EIO) for lasting in (False, True)]
LAYERS = ("maint.adapters.stores.local", "maint.files", "maint.publishing")


class Disk:
    """The operating system's file calls, counted; from the n-th on, or only then, they fail."""

    def __init__(self) -> None:
        self.calls = 0
        self.at = 0
        self.lasting = False
        self.error = errno.ENOSPC
        self.names = CALLS

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._counted(real) if name in self.names else real

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            self.calls += 1
            if self.at and (self.calls == self.at or (self.lasting and self.calls > self.at)):
                raise OSError(self.error, os.strerror(self.error))
            return real(*given, **named)

        return call

    def break_at(self, at: int, error: int, *, lasting: bool) -> None:
        self.calls, self.at, self.error, self.lasting = 0, at, error, lasting

    def repair(self) -> None:
        self.at = 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    for layer in LAYERS:
        monkeypatch.setattr(f"{layer}.os", disk)  # no real disk fails at the wanted moment
    yield disk
    disk.repair()


def sound(place: Any) -> list[str]:
    """Return the ids that a reader sees; each of them must be whole, and open."""
    found = [entry.id for entry in entries(place)]
    for snapshot in found:
        assert verify(place, snapshot, 3).result is Trust.VERIFIED
    return found


def left_over(place: Any, root: Path) -> list[str]:
    """Return what lies about and belongs to nothing."""
    staged = [str(path) for path in root.rglob(".staging-*")]
    return staged + [one for one, names in folders(place).items() if MANIFEST not in names]


class Begin:
    """Folders as they are now, put back before each point: the hundredth one costs what the first does."""

    def __init__(self, aside: Path, *folders: Path) -> None:
        self.kept = {folder: aside / str(number) for number, folder in enumerate(folders)}
        for folder, kept in self.kept.items():
            shutil.copytree(folder, kept, symlinks=True)

    def again(self) -> None:
        for folder, kept in self.kept.items():
            shutil.rmtree(folder)
            shutil.copytree(kept, folder, symlinks=True)


def moments(calls: int) -> list[tuple[int, int, bool]]:
    """Return which calls fail, and how: in a sample each in another way than the one before."""
    turns = itertools.cycle(KINDS)
    return [(at, *kind) for at in range(1, calls + 1, STRIDE) for kind in (KINDS if FULL else (next(turns),))]


def test_a_backup_whose_disk_fails_at_any_call_leaves_the_old_state_or_the_new(tmp_path: Path, disk: Disk) -> None:
    place: Any = Place(tmp_path, EXAMPLE.read_bytes())
    run(take(place))
    before, begin = sound(place), Begin(tmp_path / "begin", place.root, place.state)
    place.clock.sleep(60)
    disk.break_at(0, 0, lasting=False)
    run(take(place))
    tried, struck = moments(disk.calls), 0
    for at, error, lasting in tried:
        begin.again()
        place.clock.sleep(60)
        disk.break_at(at, error, lasting=lasting)
        try:
            new = run(take(place)).snapshot.id
        except (Invalid, WorkFailed):  # Invalid: a file of ours cannot be read
            new, struck = None, struck + 1
        disk.repair()
        after = sound(place)
        assert after[: len(before)] == before
        assert len(after) - len(before) in ((1,) if new else (0, 1)), (at, error, lasting)
        place.clock.sleep(60)
        run(take(place))
        assert sound(place)[: len(after)] == after
        assert left_over(place, place.root) == [], (at, error, lasting)
    assert struck > len(tried) // 4


def test_a_backup_in_which_one_write_fails_is_not_taken(tmp_path: Path, disk: Disk) -> None:
    place: Any = Place(tmp_path, EXAMPLE.read_bytes())
    run(take(place))  # which makes the keys, too
    disk.names = frozenset({"write"})
    disk.break_at(0, 0, lasting=False)
    place.clock.sleep(60)
    run(take(place))
    calls, told = disk.calls, []
    for at in range(1, calls + 1):
        place.clock.sleep(60)
        disk.break_at(at, errno.ENOSPC, lasting=False)
        try:
            run(take(place))
        except WorkFailed as failure:
            assert "cannot write" in failure.message or "cannot be written" in failure.message
            told.append(at)
    disk.repair()
    assert told == [*range(1, calls - 1)]  # the last two are what the state folder remembers of it, and finds again
    assert len(sound(place)) == 6  # signature and record of what a verification found come after a whole snapshot


def test_a_part_that_stands_although_its_writing_failed_is_removed_by_the_next_backup(
    tmp_path: Path, disk: Disk
) -> None:
    place: Any = Place(tmp_path, EXAMPLE.read_bytes())
    disk.names = frozenset({"unlink"})
    disk.break_at(1, errno.EIO, lasting=True)
    with pytest.raises(WorkFailed):
        run(take(place))
    disk.repair()
    assert left_over(place, place.root)
    place.clock.sleep(60)
    run(take(place))
    assert left_over(place, place.root) == []


def test_a_copy_whose_disk_fails_at_any_call_is_whole_or_absent_and_the_next_run_completes_it(
    tmp_path: Path, disk: Disk
) -> None:
    place: Any = Place(tmp_path, EXAMPLE.read_bytes())
    snapshot = run(take(place)).snapshot.id
    begin = Begin(tmp_path / "begin", place.root, place.state)
    disk.break_at(0, 0, lasting=False)
    place.copies = [LocalStore(tmp_path / "measured")]
    run(replicate(place))
    for number, (at, error, lasting) in enumerate(moments(disk.calls)):
        begin.again()
        root = tmp_path / f"copy{number}"
        place.copies = [LocalStore(root)]
        copy: Any = with_store(place, place.copies[0])
        disk.break_at(at, error, lasting=lasting)
        try:
            run(replicate(place))
        except WorkFailed as failure:  # the first store's own disk is the same one
            assert failure.message
        disk.repair()
        assert set(sound(copy)) <= {snapshot}
        assert sound(place) == [snapshot]
        place.clock.sleep(60)
        assert run(replicate(place)) == []
        assert sound(copy) == [snapshot]
        assert left_over(copy, root) == []


UNNAMED = "a new file"  # which has no name before it is whole
# All else is written by the lab's servers, which have a disk of their own.
OURS = ("state/", "backups/", "second/", "metrics/")


class FilesOfOurs(Disk):
    """The calls, by what they are and by the file below a folder; from the first that is chosen on, or only it, fails.

    Of a write that fails so, half has been written before. Without an error a write takes a part, and says so.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.names = (CALLS - {"stat"}) | {"pwrite", "ftruncate"}
        self.folder, self.seen, self.chosen, self.struck = str(folder), Counter[str](), "", False

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            one = self._place(real.__name__, given, named)
            if one is None:
                return real(*given, **named)
            self.seen[one] += 1
            if one.endswith(UNNAMED):  # the how manieth in its folder is all that tells which it is
                one = f"{one} {self.seen[one]}"
                self.seen[one] += 1
            if (one == self.chosen and not self.struck) or (self.struck and self.lasting):
                self.struck = True
                taken = real(given[0], given[1][: (len(given[1]) + 1) // 2]) if real is os.write else None
                if self.error:
                    raise OSError(self.error, os.strerror(self.error))
                if taken is not None:
                    return taken
            return real(*given, **named)

        return call

    def choose(self, one: str, error: int, *, lasting: bool) -> None:
        self.chosen, self.error, self.lasting, self.struck = one, error, lasting, False
        self.seen.clear()

    def repair(self) -> None:
        self.chosen, self.lasting = "", False

    def _place(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> str | None:
        ends = name in ("rename", "link")
        if name == "open" and not given[1] & (os.O_WRONLY | os.O_RDWR):
            return None
        path, at = given[1 if ends else 0], named.get("dst_dir_fd" if ends else "dir_fd")
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        elif at is not None:
            path = Path(f"/proc/self/fd/{at}").readlink() / path
        if not str(path).startswith(f"{self.folder}/"):
            return None
        below = str(path)[len(self.folder) + 1 :]
        if not below.startswith(OURS):
            return None
        below = re.sub(r"#\d+ \(deleted\)$", UNNAMED, below)
        return f"{name} {re.sub('[0-9]{8}T[0-9.]+Z(-[0-9a-f]+)?|[0-9a-f]{12,}', '*', below)}"


# What is written by it is kept in files of each kind; `@` is another value each time, `%` the folder of metrics.
WRITING = {
    "a backup through a window": "backup create --open-window --yes",
    "a job that can be undone": "vc job update --name daily-vacuum --cron-expression '@ 5 * * *' --yes",
    "a setting": "setting set dfs_replication @ --service hdfs --yes",
    "a verification": "backup verify",
    "a hold": "backup hold latest --reason @",
    "a list made anew": "backup list --rebuild",
    "pages": "site report --to %/pages",
    "facts of hosts": "host check --check os.thp --save-facts %/facts.json --report %/hosts.html",
}


@pytest.mark.parametrize("what", WRITING)
def test_where_a_file_of_ours_cannot_be_written_a_command_says_so_and_leaves_nothing_open(
    loaded: Operator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    disk, config, options = FilesOfOurs(loaded.lab.folder), Path(loaded.config), loaded.options.read_bytes()
    more = "    metrics: metrics/maint.prom\n    backup:\n      copies: [second]\n"
    config.write_text(config.read_text().replace("    backup:\n", more))
    for layer in (*LAYERS, "maint.engine.journal", "maint.engine.lock", Path.unlink.__module__):
        monkeypatch.setattr(f"{layer}.os", disk)
    turns = itertools.chain((2,), itertools.cycle(range(3, 20)))  # the first one stays in what is put back
    (loaded.lab.folder / "metrics").mkdir()

    def typed() -> Said:
        line = WRITING[what].replace("@", str(next(turns))).replace("%", f"{loaded.lab.folder}/metrics")
        return loaded(*shlex.split(line))

    assert typed().code == 0
    there = [folder for name in OURS if (folder := loaded.lab.folder / name).exists()]
    begin = Begin(tmp_path / "begin", *there)  # keys are made once
    disk.choose("", 0, lasting=False)
    assert typed().code == 0
    seen = [one for one in disk.seen if not one.endswith(UNNAMED)]
    calls = [(one, *kind) for one in seen for kind in KINDS]
    calls += [(one, 0, True) for one in seen if one.startswith("write ")]
    for one, error, lasting in random.Random(f"{SEED} {what}").sample(calls, min(tries(2, len(calls)), len(calls))):
        begin.again()
        disk.choose(one, error, lasting=lasting)
        said = typed()
        disk.repair()
        tried = (one, error, lasting, said)
        assert disk.struck, tried
        assert said.code in (0, 1, 3, 5, 7) and "bug in maint" not in said.err, tried
        assert said.code in (0, 7) or (error and "hint:" in said.err), tried
        again = typed()
        assert (again.code, loaded.window, loaded.options.read_bytes()) == (0, False, options), (tried, again)


ANSWERS = ("ENOENT", "EEXIST", "ENOTDIR", "EISDIR", "EACCES", "EIO", "EROFS", "ESTALE", "ELOOP", "EMFILE")
OPERATIONS: dict[str, Callable[[LocalStore], object]] = {
    "names": lambda store: list(store.names()),
    "size": lambda store: store.size("site/1/there"),
    "written": lambda store: store.written("site/1/there"),
    "open": lambda store: read(store, "site/1/there"),
    "create": lambda store: write(store, "site/2/new"),
    "remove": lambda store: store.remove("site/1/there"),
    "sweep": lambda store: store.sweep(),
}
PROMISED = {"open": FileNotFoundError, "create": FileExistsError}


def read(store: LocalStore, name: str) -> bytes:
    with store.open(name) as file:
        return file.read()


def write(store: LocalStore, name: str) -> None:
    with store.create(name) as file:
        file.write(b"content")


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_whatever_a_disk_says_at_any_call_of_any_operation_is_a_failure_of_the_store_or_does_no_harm(
    tmp_path: Path, disk: Disk, operation: str, answer: str
) -> None:
    disk.names = CALLS | {"fsync", "rmdir", "fwalk", "fstat"}
    work, at = OPERATIONS[operation], 0
    while True:
        store = LocalStore(tmp_path / str(at))
        write(store, "site/1/there")
        disk.break_at(at, 0, lasting=False)
        if not at:
            whole = work(store)
            calls = disk.calls
        for lasting in (False, True) if at else ():
            disk.break_at(at, getattr(errno, answer), lasting=lasting)
            with suppress(StoreFailed, PROMISED.get(operation, StoreFailed)):
                found = work(store)
                disk.repair()
                assert operation != "create" or read(store, "site/2/new") == b"content"
                if answer != "ENOENT":  # by which a disk says that there is nothing
                    assert operation == "written" or found == whole, (at, lasting, found)
                    assert operation != "remove" or store.size("site/1/there") is None, (at, lasting)
        disk.repair()
        at += 1
        if at > calls:
            break
