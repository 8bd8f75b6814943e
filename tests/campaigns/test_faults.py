"""A disk that says no at any moment: a reader sees the old state or the new one, and the next run cleans up.

The fault sits below the store, where it calls the operating system: the n-th of those calls fails, once or from then
on, with ENOSPC or EIO; then the next one, until a run needs no further call.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from maint.adapters.stores.local import LocalStore
from maint.errors import StoreFailed, WorkFailed
from maint.model.snapshot import Trust
from maint.snapshots.capture import take
from maint.snapshots.catalogue import entries, folders
from maint.snapshots.manifest import MANIFEST
from maint.snapshots.replicate import replicate, with_store
from maint.snapshots.verify import verify
from tests.campaigns.size import size
from tests.campaigns.test_flips import run
from tests.snapshots.conftest import EXAMPLE, Place

CALLS = frozenset({"write", "fsync", "link", "unlink", "mkdir", "rename", "open", "stat"})
STRIDE = size(13, 1)  # calls between two that fail
LAYERS = ("maint.adapters.stores.local", "maint.files")


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


def moments(calls: int) -> Iterator[tuple[int, int, bool]]:
    for at in range(1, calls + 1, STRIDE):
        for error in (errno.ENOSPC, errno.EIO):
            for lasting in (False, True):
                yield at, error, lasting


def test_a_backup_whose_disk_fails_at_any_call_leaves_the_old_state_or_the_new(tmp_path: Path, disk: Disk) -> None:
    place: Any = Place(tmp_path, EXAMPLE.read_bytes())
    run(take(place))
    place.clock.sleep(60)
    disk.break_at(0, 0, lasting=False)
    run(take(place))
    calls, struck = disk.calls, 0
    for at, error, lasting in moments(calls):
        before = sound(place)
        place.clock.sleep(60)
        disk.break_at(at, error, lasting=lasting)
        try:
            new = run(take(place)).snapshot.id
        except WorkFailed:
            new, struck = None, struck + 1
        disk.repair()
        after = sound(place)
        assert after[: len(before)] == before
        assert len(after) - len(before) in ((1,) if new else (0, 1)), (at, error, lasting)
        place.clock.sleep(60)
        run(take(place))
        assert left_over(place, place.root) == [], (at, error, lasting)
        for snapshot in sound(place)[1:]:  # the next round begins small again
            for path in place.folder(snapshot).iterdir():
                path.unlink()
    assert struck > calls // STRIDE


def test_a_backup_in_which_one_write_fails_is_not_taken(tmp_path: Path, disk: Disk) -> None:
    place: Any = Place(tmp_path, EXAMPLE.read_bytes())
    disk.names = frozenset({"write"})
    disk.break_at(0, 0, lasting=False)
    run(take(place))
    for at in range(1, disk.calls + 1):
        place.clock.sleep(60)
        disk.break_at(at, errno.ENOSPC, lasting=False)
        with pytest.raises(WorkFailed, match="cannot write"):
            run(take(place))
    disk.repair()
    assert len(sound(place)) == 3  # signature and record of what a verification found come after a whole snapshot


def test_a_copy_whose_disk_fails_at_any_call_is_whole_or_absent_and_the_next_run_completes_it(
    tmp_path: Path, disk: Disk
) -> None:
    place: Any = Place(tmp_path, EXAMPLE.read_bytes())
    snapshot = run(take(place)).snapshot.id
    disk.break_at(0, 0, lasting=False)
    place.copies = [LocalStore(tmp_path / "measured")]
    run(replicate(place))
    for number, (at, error, lasting) in enumerate(moments(disk.calls)):
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
def test_whatever_a_disk_says_at_any_call_of_any_operation_is_a_failure_of_the_store(
    tmp_path: Path, disk: Disk, operation: str, answer: str
) -> None:
    disk.names = CALLS | {"fsync", "rmdir", "fwalk", "fstat"}
    work, at = OPERATIONS[operation], 0
    while True:
        store = LocalStore(tmp_path / str(at))
        write(store, "site/1/there")
        disk.break_at(at, 0, lasting=False)
        if not at:
            work(store)
            calls = disk.calls
        for lasting in (False, True) if at else ():
            disk.break_at(at, getattr(errno, answer), lasting=lasting)
            with suppress(StoreFailed, PROMISED.get(operation, StoreFailed)):
                work(store)
        disk.repair()
        at += 1
        if at > calls:
            break
